"""Gradients clipped on their way into the leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import explaining, explaining_nan, saying
from autograder.judge import Draw, Student

from . import lab
from .head_gradients import Batch, Pair, each_gradient
from .several_tensors import expect_each

ZERO = (
    "A gradient may be all 0. Its norm is 0 too, and a division by it ends in nan or in an error "
    "here: such a gradient is not too long, and stays as it is."
)
RULE = (
    "Each gradient of each backward, of w and of b for itself, is to be multiplied by the smaller "
    "of 1 and limit / norm, and then added."
)
TORCHS_OWN = 3e-4
"""Where a norm is about 0.01: `clip_grad_norm_` adds 1e-6 to it, and so may an answer."""


@lab.question(
    "clip_in_hooks",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "`t.register_hook(f)` calls f with each gradient on its way into t. What does f's return "
        "value do?",
        "Return the gradient times min(1, limit / norm): what the hook returns takes the place of "
        "what came. It runs before the sum in .grad, once in each backward.",
        "p.register_hook(lambda g: g * (limit / g.norm()).clamp(max=1))",
    ),
)
def clip_in_hooks(student: Student, draw: Draw) -> None:
    """Each gradient clipped to a norm of at most `limit` before it is added to .grad.

    w (V, D) and b (V,) that require gradients, batches: (x (N, D), target (N,)) for one backward
    each, limit -> (w.grad, b.grad) after all of them.
    """
    # One loud feature, so that single elements exceed the limit too.
    loud = torch.tensor([30.0] + [1.0] * 15)
    for n in (3, *(draw.integer(2, 4) for _ in draw.cases(1))):
        w, b = draw.tensor(9, 16, requires_grad=True), draw.tensor(9, requires_grad=True)
        batches = [(draw.tensor(6, 16) * loud, draw.integers(6, low=0, high=8)) for _ in range(n)]
        for limit in _limits(w, b, batches):
            _ask(student, w, b, batches, limit)
    # The first gradient of w is 0, the next is short; of b each is longer than 0.1, none than 100.
    scales = (0.0, 0.001, 1.0, 0.05)
    batches = [(k * draw.tensor(6, 16) * loud, draw.integers(6, low=0, high=8)) for k in scales]
    norms = [float(dw.norm()) for dw, _ in each_gradient(w, b, batches)]
    for norm in (min(filter(None, norms)), max(norms)):  # a bit longer, and no element of it
        _ask(student, w, b, batches[1:], 0.95 * norm, tolerance=TORCHS_OWN)
    for limit in (0.1, 1, 1e4):
        _ask(student, w, b, batches, limit)


def _ask(
    student: Student,
    w: Tensor,
    b: Tensor,
    batches: Batch,
    limit: float,
    *,
    tolerance: float = 1e-5,
) -> None:
    each_pair = each_gradient(w, b, batches)
    of_zero = ZERO if any(not g.any() for pair in each_pair for g in pair) else ""
    with explaining({"ZeroDivisionError": of_zero} if of_zero else {}):
        got = student.call("clip_in_hooks", _fresh(w), _fresh(b), batches, limit)
    clipped = [[_clip(g, limit) for g in pair] for pair in each_pair]
    summed = [torch.stack(c).sum(0) for c in zip(*clipped, strict=True)]
    with saying(RULE), explaining_nan(got, of_zero):
        expect_each(got, summed, "dw db", tolerance=tolerance)


def _fresh(t: Tensor) -> Tensor:
    return t.detach().clone().requires_grad_()


def _limits(w: Tensor, b: Tensor, batches: Batch) -> list[float]:
    """A limit that no gradient exceeds, though those of the weight are longer than 1; one that the
    weight's exceed and the bias's do not; one that all do."""
    norms = [(float(dw.norm()), float(db.norm())) for dw, db in each_gradient(w, b, batches)]
    between = (min(dw for dw, _ in norms) * max(db for _, db in norms)) ** 0.5
    return [2 * max(map(max, norms)), between, 0.5 * min(map(min, norms))]


def _clip(g: Tensor, limit: float) -> Tensor:
    norm = float(g.norm())
    return g * (limit / norm) if norm > limit else g


def _summed(grads: Sequence[Pair]) -> Pair:
    return torch.stack([w for w, _ in grads]).sum(0), torch.stack([b for _, b in grads]).sum(0)


clip_in_hooks.wrong(
    "hook_returns_nothing",
    "Nothing was clipped. Did the hook return the new gradient, and was it registered with "
    "register_hook? A hook that returns None leaves the gradient as it was.",
    clip_in_hooks=lambda w, b, batches, limit: _summed(each_gradient(w, b, batches)),
)


@clip_in_hooks.wrong(
    "clipped_at_the_end",
    "It is the sum that was clipped, once. Each batch has a backward of its own, and a hook on the "
    "tensor sees each gradient before it is added.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    dw, db = _summed(each_gradient(w, b, batches))
    return _clip(dw, limit), _clip(db, limit)


@clip_in_hooks.wrong(
    "after_accumulation",
    "What is summed so far is clipped after each addition, as a post-accumulate hook does with "
    ".grad: gradients that came earlier are clipped again and again.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    dw, db = torch.zeros_like(w), torch.zeros_like(b)
    for more_w, more_b in each_gradient(w, b, batches):
        dw, db = _clip(dw.detach() + more_w, limit), _clip(db.detach() + more_b, limit)
    return dw, db


@clip_in_hooks.wrong(
    "always_scaled",
    "Short gradients were stretched to the limit. Clipping only ever shortens: the factor is at "
    "most 1.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    grads = each_gradient(w, b, batches)
    return _summed([(dw * limit / dw.norm(), db * limit / db.norm()) for dw, db in grads])


@clip_in_hooks.wrong(
    "one_norm_for_both",
    "Weight and bias were clipped by their common norm. A hook sees one gradient, and each of the "
    "two has its own norm here.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    clipped = []
    for dw, db in each_gradient(w, b, batches):
        factor = min(1.0, limit / float((dw.norm() ** 2 + db.norm() ** 2) ** 0.5))
        clipped.append((dw * factor, db * factor))
    return _summed(clipped)


@clip_in_hooks.wrong(
    "element_by_element",
    "Each element was clamped by itself, which bends the direction. Clipping by norm scales the "
    "whole gradient by one number.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    grads = each_gradient(w, b, batches)
    return _summed([(dw.clamp(-limit, limit), db.clamp(-limit, limit)) for dw, db in grads])


@clip_in_hooks.wrong(
    "weight_only",
    "The bias came longer than the limit here. Each of the two tensors needs a hook of its own, "
    "with one limit for both.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    return _summed([(_clip(dw, limit), db) for dw, db in each_gradient(w, b, batches)])


@clip_in_hooks.wrong(
    "together_at_the_end",
    "It is the sums that were clipped, and by their common norm. A hook on each tensor sees each "
    "gradient before it is added, and knows only its own norm.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    dw, db = _summed(each_gradient(w, b, batches))
    factor = min(1.0, limit / float((dw.norm() ** 2 + db.norm() ** 2) ** 0.5))
    return dw * factor, db * factor


@clip_in_hooks.wrong(
    "row_by_row",
    "Each row was clipped by its own norm. The norm of a gradient runs over all its elements: "
    "g.norm().",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    def by_rows(g: Tensor) -> Tensor:
        factor: Tensor = (limit / g.norm(dim=-1, keepdim=True)).clamp(max=1)
        return g * factor

    return _summed([(by_rows(dw), by_rows(db)) for dw, db in each_gradient(w, b, batches)])


@clip_in_hooks.wrong(
    "grad_clipped_in_the_hook",
    "What is clipped is what the backwards before have summed, as by a hook that clips `.grad`. "
    "The new gradient comes after that, and unclipped. It is the hook's argument: return it "
    "clipped.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    (dw, db), *later = each_gradient(w, b, batches)
    for more_w, more_b in later:
        dw, db = _clip(dw, limit) + more_w, _clip(db, limit) + more_b
    return dw, db


def _by_size(w: Tensor, b: Tensor, batches: Batch, limit: float, size: Any) -> Pair:
    """Clipped by another measure of a gradient's size than its norm."""
    scaled = [
        [g * min(1.0, limit / float(size(g))) for g in pair]
        for pair in each_gradient(w, b, batches)
    ]
    return _summed([(dw, db) for dw, db in scaled])


ROOT_FORGOTTEN = (
    "The square of the norm was compared with the limit. The norm is the root of g.pow(2).sum(): "
    "g.norm()."
)
clip_in_hooks.wrong(
    "by_the_square",
    ROOT_FORGOTTEN,
    clip_in_hooks=lambda w, b, batches, limit: _by_size(
        w, b, batches, limit, lambda g: g.square().sum()
    ),
)
clip_in_hooks.wrong(
    "by_the_sum_of_amounts",
    "This norm is the sum of the amounts. The norm is the root of the sum of squares: g.norm().",
    clip_in_hooks=lambda w, b, batches, limit: _by_size(
        w, b, batches, limit, lambda g: g.abs().sum()
    ),
)
clip_in_hooks.wrong(
    "by_the_largest_element",
    "The largest element was compared with the limit. The norm runs over all elements: g.norm().",
    clip_in_hooks=lambda w, b, batches, limit: _by_size(
        w, b, batches, limit, lambda g: g.abs().max()
    ),
)
clip_in_hooks.wrong(
    "by_the_root_of_the_mean",
    "This norm is the root of the mean of the squares. The norm is the root of their sum: "
    "g.norm().",
    clip_in_hooks=lambda w, b, batches, limit: _by_size(
        w, b, batches, limit, lambda g: g.norm() / g.numel() ** 0.5
    ),
)


@clip_in_hooks.wrong("compared_by_the_square", ROOT_FORGOTTEN)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    def by_square(g: Tensor) -> Tensor:
        return g * (limit / float(g.norm())) if float(g.square().sum()) > limit else g

    return _summed([(by_square(dw), by_square(db)) for dw, db in each_gradient(w, b, batches)])


@clip_in_hooks.wrong(
    "to_norm_one",
    "What is too long was scaled to norm 1. The limit is how long it may be: limit / norm.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    def to_one(g: Tensor) -> Tensor:
        return g / g.norm() if float(g.norm()) > limit else g

    return _summed([(to_one(dw), to_one(db)) for dw, db in each_gradient(w, b, batches)])


@clip_in_hooks.wrong(
    "short_ones_dropped",
    "Gradients within the limit have become 0. They stay as they are: return g.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    def long_only(g: Tensor) -> Tensor:
        return _clip(g, limit) if float(g.norm()) > limit else torch.zeros_like(g)

    return _summed([(long_only(dw), long_only(db)) for dw, db in each_gradient(w, b, batches)])


@clip_in_hooks.wrong(
    "first_batch_only",
    "Only the first gradient of each tensor was clipped. A hook stays until its handle is removed, "
    "and sees each gradient of each backward.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    (dw, db), *later = each_gradient(w, b, batches)
    return _summed([(_clip(dw, limit), _clip(db, limit)), *later])


@clip_in_hooks.wrong(
    "bias_only",
    "The weight was not clipped. Each of the two tensors needs a hook of its own.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    return _summed([(dw, _clip(db, limit)) for dw, db in each_gradient(w, b, batches)])


@clip_in_hooks.wrong(
    "clamped_from_above",
    "Each element was cut at the limit by itself, and those far below 0 not at all. Clipping by "
    "norm scales the whole gradient by one number.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    grads = each_gradient(w, b, batches)
    return _summed([(dw.clamp(max=limit), db.clamp(max=limit)) for dw, db in grads])


@clip_in_hooks.wrong(
    "together_after_each_addition",
    "This clips both .grad by their common norm after each backward: gradients that came earlier "
    "are clipped again and again. A hook sees one gradient, before it is added.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    held = [torch.zeros_like(w), torch.zeros_like(b)]
    for pair in each_gradient(w, b, batches):
        held = [(h + g).detach() for h, g in zip(held, pair, strict=True)]
        size = float(sum(h.square().sum() for h in held) ** 0.5)
        held = [h * min(1.0, limit / size) for h in held]
    return held[0], held[1]


@clip_in_hooks.wrong(
    "stretched",
    "Long gradients stay as they are, and short ones are stretched, as with clamp(min=1). The "
    "factor is at most 1.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    def stretched(g: Tensor) -> Tensor:
        return g * max(1.0, limit / float(g.norm()))

    return _summed([(stretched(dw), stretched(db)) for dw, db in each_gradient(w, b, batches)])


@clip_in_hooks.wrong(
    "upside_down",
    "The factor is upside down: limit / norm, at most 1.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    def upside_down(g: Tensor) -> Tensor:
        return g * min(1.0, float(g.norm()) / limit)

    return _summed([(upside_down(dw), upside_down(db)) for dw, db in each_gradient(w, b, batches)])


@clip_in_hooks.wrong(
    "long_ones_dropped",
    "Gradients beyond the limit have become 0. They are scaled down to the limit: g * limit / "
    "norm.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    def long_ones_dropped(g: Tensor) -> Tensor:
        return g * float(g.norm() <= limit)

    return _summed(
        [(long_ones_dropped(dw), long_ones_dropped(db)) for dw, db in each_gradient(w, b, batches)]
    )


@clip_in_hooks.wrong(
    "column_by_column",
    "Each column was clipped by its own norm. The norm of a gradient runs over all its elements: "
    "g.norm().",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    def column_by_column(g: Tensor) -> Tensor:
        norms: Tensor = g.norm(dim=0, keepdim=True)
        return g * (limit / norms).clamp(max=1)

    return _summed(
        [(column_by_column(dw), column_by_column(db)) for dw, db in each_gradient(w, b, batches)]
    )


@clip_in_hooks.wrong(
    "limit_taken_for_one",
    "This clips to norm 1, whatever `limit` is: the gradient was divided by its norm where that is "
    "more than 1. The factor is min(1, limit / norm).",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    def limit_taken_for_one(g: Tensor) -> Tensor:
        return g / max(1.0, float(g.norm()))

    return _summed(
        [
            (limit_taken_for_one(dw), limit_taken_for_one(db))
            for dw, db in each_gradient(w, b, batches)
        ]
    )


@clip_in_hooks.wrong(
    "compared_with_one",
    "The norm was compared with 1, the limit of the example. A gradient is too long where its norm "
    "is more than `limit`.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    def compared_with_one(g: Tensor) -> Tensor:
        return g * (limit / g.norm()) if float(g.norm()) > 1 else g

    grads = each_gradient(w, b, batches)
    return _summed([(compared_with_one(dw), compared_with_one(db)) for dw, db in grads])


@clip_in_hooks.wrong(
    "limit_over_one_or_norm",
    "Every gradient was multiplied by limit / max(1, norm), so what lies within the limit changed "
    "too. The factor is min(1, limit / norm): compare the norm with the limit, and not with 1.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    def over_one(g: Tensor) -> Tensor:
        return limit * g / max(1.0, float(g.norm()))

    return _summed([(over_one(dw), over_one(db)) for dw, db in each_gradient(w, b, batches)])


clip_in_hooks.wrong(
    "by_the_largest_stretch",
    "The norm of a matrix is another one here: how far the matrix can stretch a vector, as "
    "torch.linalg.norm(g, 2) asks. The norm over all elements is g.norm().",
    clip_in_hooks=lambda w, b, batches, limit: _by_size(
        w, b, batches, limit, lambda g: torch.linalg.norm(g, 2)
    ),
)


@clip_in_hooks.wrong(
    "limit_shared_out",
    "The limit was divided by the number of batches. Each gradient of each backward may be as "
    "long as `limit`.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    def limit_shared_out(g: Tensor) -> Tensor:
        return _clip(g, limit / len(batches))

    return _summed(
        [(limit_shared_out(dw), limit_shared_out(db)) for dw, db in each_gradient(w, b, batches)]
    )


@clip_in_hooks.wrong(
    "by_the_root_of_the_norm",
    "The root of the norm was compared with the limit. g.norm() has its root already.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    def by_the_root_of_the_norm(g: Tensor) -> Tensor:
        return g * min(1.0, limit / float(g.norm() ** 0.5))

    return _summed(
        [
            (by_the_root_of_the_norm(dw), by_the_root_of_the_norm(db))
            for dw, db in each_gradient(w, b, batches)
        ]
    )


@clip_in_hooks.wrong(
    "last_backward_only",
    "Only the last backward's gradient is left. They add up in `.grad`, which is neither emptied "
    "nor overwritten between them.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    dw, db = each_gradient(w, b, batches)[-1]
    return _clip(dw, limit), _clip(db, limit)


@clip_in_hooks.wrong(
    "logits_clipped",
    "It is the gradient of the logits that was clipped. What is to be clipped are the gradients of "
    "w and b: w.register_hook, b.register_hook.",
)
def _(w: Tensor, b: Tensor, batches: Batch, limit: float) -> Pair:
    pairs = []
    for x, target in batches:
        z = F.linear(x, w, b).detach().requires_grad_()
        (dz,) = torch.autograd.grad(F.cross_entropy(z, target), z)
        dz = _clip(dz, limit)
        pairs.append((dz.T @ x, dz.sum(0)))
    return _summed(pairs)


@clip_in_hooks.cost
def _(student: Student, draw: Draw) -> str:
    w, b = draw.tensor(600, 64, requires_grad=True), draw.tensor(600, requires_grad=True)
    batches = [(draw.tensor(8, 64), draw.integers(8, low=0, high=599)) for _ in range(2)]
    dw, db = student.call("clip_in_hooks", w, b, batches, 0.5)
    read = 2 * (dw.nbytes + db.nbytes)
    return f"{read:,} bytes of gradients read once more for their norms, while they were passing by"
