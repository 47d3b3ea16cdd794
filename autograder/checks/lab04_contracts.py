"""Lab 04, contracts: what is asked, what is true, what goes wrong.

Where the lesson is what to save, a question takes the two halves of a Function: the first says what
it saves, this side counts the bytes, and the second gets that and nothing else. Every truth comes
from the installed torch (its gradients, its nodes, its generator) or from a slow definition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

import onelayer
from autograder.judge import (
    Draw,
    Lab,
    Question,
    Student,
    Wrong,
    WrongAnswer,
    describe,
    expect_close,
    expect_equal,
    same_memory,
)

lab = Lab("04_contracts", "Contracts")

Needs = tuple[bool, bool, bool]
Maybe = Tensor | None
Answers = tuple[Maybe, Maybe, Maybe]


def _expect_answers(
    got: Any, want: Sequence[Maybe], names: str, *, tolerance: float = 1e-5
) -> None:
    """One answer for each input: None where None is wanted, else close; the first wrong by name."""
    each = names.split()
    if not isinstance(got, (list, tuple)) or len(got) != len(want):
        raise Wrong(expected=f"{len(want)} answers: {', '.join(each)}", got=describe(got))
    for name, mine, torchs in zip(each, got, want, strict=True):
        if torchs is None and mine is not None:
            raise Wrong(expected=f"None for {name}: nobody needs it", got=describe(mine))
        if torchs is not None:
            _expect_named(name, mine, torchs, tolerance)


def _expect_named(name: str, mine: Any, torchs: Tensor, tolerance: float = 1e-5) -> None:
    try:
        expect_close(mine, torchs, tolerance=tolerance)
    except Wrong as wrong:
        where = f"in {name} {wrong.where}".strip()
        raise Wrong(expected=wrong.expected, got=wrong.got, where=where) from None


def _parts(got: Any, names: str) -> Sequence[Any]:
    """`got`, if it has as many parts as there are names."""
    each = names.split(", ")
    if not isinstance(got, (list, tuple)) or len(got) != len(each):
        raise Wrong(expected=f"({names})", got=describe(got))
    return got


def _tensors(got: Any) -> list[Tensor]:
    """`got`, if it is a list of tensors."""
    if not isinstance(got, (list, tuple)) or not all(isinstance(t, Tensor) for t in got):
        raise Wrong(expected="a list of tensors to save", got=describe(got))
    return list(got)


def _new_bytes(saved: Sequence[Tensor], arguments: Sequence[Tensor]) -> int:
    """Bytes of the distinct storages of `saved`, without those that the arguments lie in."""
    known = {t.untyped_storage().data_ptr() for t in arguments}
    new = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in saved}
    return sum(nbytes for address, nbytes in new.items() if address not in known)


def _expect_few_bytes(
    saved: Sequence[Tensor], arguments: Sequence[Tensor], allowed: int, why: str
) -> None:
    nbytes = _new_bytes(saved, arguments)
    if nbytes > allowed:
        listed = "; ".join(describe(t) for t in saved)
        raise Wrong(
            expected=f"at most {allowed:,} bytes beside the arguments",
            got=f"{nbytes:,} bytes",
            where=f"in what was saved: {listed}",
            why=f"{why} (A tensor counts with its whole storage, unless an argument lies there.)",
        )


def _halves(
    question: Question, name: str, sentence: str, **functions: Callable[..., Any]
) -> WrongAnswer:
    """Lists a wrong answer that consists of two functions."""
    known = WrongAnswer(name, sentence, functions)
    question.wrong_answers.append(known)
    return known


# ---- 4.1 a linear Function

LEARNING: tuple[Needs, ...] = (
    (True, True, True),
    (False, True, True),
    (True, False, False),
    (False, False, True),
    (True, True, False),
)


@lab.question(
    "linear_fn",
    points=4,
    minutes=12,
    difficulty=2,
    hints=(
        "Write the three gradients down first. Which of x and w does each of them read?",
        "dx = dy @ w reads w, dw = dy.T @ x reads x, db reads neither. So x is saved for dw, and w "
        "for dx: `ctx.needs_input_grad` says who is needed, and None may be saved too.",
        "ctx.save_for_backward(x if w_needed else None, w if x_needed else None)",
    ),
    witnessed=True,  # what the node saved is told by the student's process
)
def linear_fn(student: Student, draw: Draw) -> None:
    """A torch.autograd.Function for y = x @ w.T + b that honours needs_input_grad.

    x (N, D), w (V, D), b (V,) or None, dy (N, V) -> (y, the tensors that its node saved, its
    backward's answers (dx, dw, db), with None for each that nobody needs).
    """
    always = [(needs, True) for needs in LEARNING] + [((True, True, False), False)]
    drawn = [(draw.choice(LEARNING), draw.choice((True, False))) for _ in draw.cases(3)]
    for needs, with_bias in always + drawn:
        with_bias = with_bias or not any(needs[:2])
        n, v, d = draw.integer(2, 9), draw.integer(10, 19), draw.integer(20, 29)
        x = draw.tensor(n, d, requires_grad=needs[0])
        w = draw.tensor(v, d, requires_grad=needs[1])
        b = draw.tensor(v, requires_grad=needs[2]) if with_bias else None
        dy = draw.tensor(n, v)
        y, saved, answers = _parts(student.call("linear_fn", x, w, b, dy), "y, saved, answers")
        _expect_named("y", y, F.linear(x, w, b).detach())
        _expect_answers(answers, _torchs_linear(x, w, b, dy), "dx dw db")
        _expect_saved(_tensors(saved), x, w, b)


def _torchs_linear(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> Answers:
    inputs = [x, w, b]
    learning = [t for t in inputs if t is not None and t.requires_grad]
    found = iter(torch.autograd.grad(F.linear(x, w, b), learning, dy))
    dx, dw, db = (next(found) if t is not None and t.requires_grad else None for t in inputs)
    return dx, dw, db


def _expect_saved(saved: list[Tensor], x: Tensor, w: Tensor, b: Maybe) -> None:
    """The node must have saved what torch's own node of this call saved."""
    node = F.linear(x, w, b).grad_fn
    torchs = [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
    want = _names([t for t in torchs if isinstance(t, Tensor)], x, w)
    got = _names(saved, x, w)
    if got == want:
        return
    why = "Something was saved that no needed gradient reads."
    if "a copy" in got:
        why = "What was saved is a new tensor: save the input itself, and no byte is copied."
    elif not want <= got:
        why = (
            "The node has not saved what its backward read, so it was kept elsewhere: torch knows "
            "nothing of it, checks no version and frees nothing."
        )
    raise Wrong(expected=_listed(want), got=_listed(got), where="in what the node saved", why=why)


def _names(tensors: Sequence[Tensor], x: Tensor, w: Tensor) -> set[str]:
    return {"x" if same_memory(t, x) else "w" if same_memory(t, w) else "a copy" for t in tensors}


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _linear_saved(x: Tensor, w: Tensor) -> list[Tensor]:
    return [t for t, reader in ((x, w), (w, x)) if reader.requires_grad]


def _plain(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> tuple[Tensor, list[Tensor], Answers]:
    return F.linear(x, w, b).detach(), _linear_saved(x, w), _torchs_linear(x, w, b, dy)


LinearAnswer = tuple[Tensor, list[Tensor], Sequence[Maybe]]


@linear_fn.wrong(
    "everybody_answered",
    "A gradient was computed that nobody asked for: a product thrown away. needs_input_grad says "
    "who needs one; the others get None.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, _, _ = _plain(x, w, b, dy)
    x, w = x.detach(), w.detach()
    return y, [x, w], (dy @ w, dy.T @ x, None if b is None else dy.sum(0))


@linear_fn.wrong(
    "everything_saved",
    "The answers are right, but both inputs were saved each time. Where w is frozen nobody reads x "
    "again, and in a deep net x is the memory.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, _, answers = _plain(x, w, b, dy)
    return y, [x, w], answers


@linear_fn.wrong(
    "kept_as_attributes",
    "The node saved nothing, and backward worked all the same: the tensors hang on ctx as "
    "attributes. torch then checks no version, and an edit in place gives a wrong gradient without "
    "a word. Use save_for_backward.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, _, answers = _plain(x, w, b, dy)
    return y, [], answers


@linear_fn.wrong(
    "own_need",
    "Your backward found None where it read a tensor. Was x saved because x needs a gradient, and "
    "w because w does? It is the other way round: dx reads w, and dw reads x.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, _, (_, _, db) = _plain(x, w, b, dy)
    own: list[Any] = [t.detach() if t.requires_grad else None for t in (x, w)]
    dx = dy @ own[1] if x.requires_grad else None
    dw = dy.T @ own[0] if w.requires_grad else None
    return y, [t for t in own if t is not None], (dx, dw, db)


@linear_fn.wrong(
    "transposed_copy_saved",
    "The weight was copied before it was saved. Saving costs nothing only if it is the input "
    "itself, or a view of it.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, _, answers = _plain(x, w, b, dy)
    kept = [x] if w.requires_grad else []
    return y, kept + ([w.detach().T.contiguous()] if x.requires_grad else []), answers


@linear_fn.wrong(
    "weight_transposed",
    "This is dW transposed: a gradient has the shape of its tensor, (V, D).",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, (dx, dw, db) = _plain(x, w, b, dy)
    return y, saved, (dx, None if dw is None else x.detach().T @ dy, db)


@linear_fn.wrong(
    "bias_has_no_answer",
    "Without a bias there are only two answers here. forward had three inputs, so backward gives "
    "three answers, in their order: None for b.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, answers = _plain(x, w, b, dy)
    return y, saved, answers if b is not None else answers[:2]


@linear_fn.wrong(
    "bias_not_summed",
    "db has a row for each token. All rows read the one bias, and paths add up.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, (dx, dw, db) = _plain(x, w, b, dy)
    return y, saved, (dx, dw, None if db is None else dy)


@linear_fn.cost
def _(student: Student, draw: Draw) -> str:
    layer, n = onelayer.head(), 32
    w, b = layer.weight, layer.bias
    x, dy = draw.tensor(n, w.shape[1]), draw.tensor(n, w.shape[0])
    first = sum(t.nbytes for t in student.call("linear_fn", x, w, b, dy)[1])
    inner = sum(t.nbytes for t in student.call("linear_fn", x.requires_grad_(), w, b, dy)[1])
    flops = 2 * n * w.numel()
    return (
        f"the head at batch {n} saves {first:,} bytes and computes {flops:,} FLOP where x needs no "
        f"gradient, {inner:,} bytes and {2 * flops:,} FLOP where it does; none of them is copied"
    )


# ---- 4.2 the head and its loss, fused

Batch = tuple[Tensor, Tensor, Tensor, Tensor]


@lab.question(
    "head_loss",
    points=5,
    minutes=20,
    difficulty=4,
    hints=(
        "softmax(z) = exp(z - logsumexp(z)). Which of the two on the right is large, and which of "
        "them can you compute again from what lies in memory anyway?",
        "Save x, w, b, target and lse = z.logsumexp(dim=1). Backward computes z again and takes "
        "exp(z - lse): that is softmax. From there it is lab 3.3, then 3.2; multiply by dloss.",
        "dz = (F.linear(x, w, b) - lse[:, None]).exp()",
    ),
)
def head_loss(student: Student, draw: Draw) -> None:
    """The head and its mean cross-entropy as the two halves of a Function that saves no logits.

    head_loss_forward: x (N, D), w (V, D), b (V,), target (N,) -> (loss, list of tensors to save).
    head_loss_backward: that list, dloss (a tensor of shape ()), needs (three bools) -> (dx, dw,
    db), with None for each that nobody needs.
    """
    always: list[tuple[float, Needs, float]] = [
        (1.0, (True, True, True), 1.0),
        (1.0, (False, True, True), 0.5),
        (150.0, (True, True, True), 1.0),
        (1.0, (True, False, False), -2.0),
    ]
    drawn = [(2.0, draw.choice(LEARNING), draw.choice((0.25, 3.0))) for _ in draw.cases(2)]
    for scale, needs, dloss in always + drawn:
        batches = _two_batches(draw, scale)
        # Both forwards come before the first backward, as in any net that uses the loss twice.
        kept = [_ask_loss(student, batch, scale) for batch in batches]
        for batch, saved in zip(batches, kept, strict=True):
            seed = torch.tensor(dloss)
            got = student.call("head_loss_backward", saved, seed, needs)
            want = _torchs_loss_gradients(batch, seed, needs)
            _expect_answers(got, want, "dx dw db", tolerance=_room(scale))


def _two_batches(draw: Draw, scale: float) -> list[Batch]:
    """Two batches of the same shapes; logits of about `scale`."""
    n, v, d = draw.integer(4, 9), draw.integer(20, 40), draw.integer(10, 16)
    w, b = draw.tensor(v, d) * (scale / math.sqrt(d)), draw.tensor(v)
    return [(draw.tensor(n, d), w, b, draw.integers(n, low=0, high=v - 1)) for _ in range(2)]


def _room(scale: float) -> float:
    """Logits of some hundreds keep five digits in float32, and exp turns them into factors."""
    return 1e-3 if scale > 10 else 1e-4


def _ask_loss(student: Student, batch: Batch, scale: float) -> list[Tensor]:
    """Asks the first half -> what it saved."""
    x, w, b, target = batch
    loss, kept = _parts(student.call("head_loss_forward", *batch), "loss, saved")
    _expect_named("the loss", loss, F.cross_entropy(F.linear(x, w, b), target), _room(scale))
    saved = _tensors(kept)
    why = "Too much was saved: the logits, and all that is as large, can be computed again."
    _expect_few_bytes(saved, batch, 8 * len(x), why)
    return saved


def _torchs_loss_gradients(batch: Batch, dloss: Tensor, needs: Needs) -> Answers:
    *given, target = batch
    leaves = [t.detach().clone().requires_grad_() for t in given]
    loss = F.cross_entropy(F.linear(*leaves), target)
    grads = torch.autograd.grad(loss, leaves, dloss)
    dx, dw, db = (g if needed else None for g, needed in zip(grads, needs, strict=True))
    return dx, dw, db


Loss = tuple[Tensor, list[Tensor]]


def _right_forward(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    lse = F.linear(x, w, b).logsumexp(1)
    return F.cross_entropy(F.linear(x, w, b), target), [x, w, b, target, lse]


def _backward_of(
    saved: list[Tensor], factor: Tensor | float, needs: Needs, *, hit: float = 1.0
) -> Answers:
    """The right second half, for dz = (softmax - hit * one-hot) * factor."""
    x, w, b, target = saved[:4]
    dz = (F.linear(x, w, b).softmax(1) - hit * F.one_hot(target, len(w))) * factor
    grads = dz @ w, dz.T @ x, dz.sum(0)
    dx, dw, db = (g if needed else None for g, needed in zip(grads, needs, strict=True))
    return dx, dw, db


def _right_backward(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
    return _backward_of(saved, dloss / len(saved[0]), needs)


def _also_saving(extra: Callable[[Tensor], Tensor]) -> Callable[..., Loss]:
    """The right first half, which saves `extra` of the logits besides."""

    def head_loss_forward(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
        loss, _ = _right_forward(x, w, b, target)
        return loss, [x, w, b, target, extra(F.linear(x, w, b))]

    return head_loss_forward


_halves(
    head_loss,
    "logits_saved",
    "The logits were saved: N * V numbers, which backward can compute again from x and w. One "
    "number for each row is enough.",
    head_loss_forward=_also_saving(lambda z: z),
    head_loss_backward=_right_backward,
)
_halves(
    head_loss,
    "softmax_saved",
    "The probabilities were saved: as many numbers as the logits. They are exp(z - lse), and z can "
    "be computed again.",
    head_loss_forward=_also_saving(lambda z: z.softmax(1)),
    head_loss_backward=_right_backward,
)


def _saving_gradients(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    loss, saved = _right_forward(x, w, b, target)
    return loss, [g for g in _right_backward(saved, torch.ones(()), (True,) * 3) if g is not None]


_halves(
    head_loss,
    "gradients_in_forward",
    "The gradients were computed in forward and saved. Some libraries do, and spare themselves the "
    "second computation of the logits; but dw is as large as w, and here the bytes are counted.",
    head_loss_forward=_saving_gradients,
    head_loss_backward=lambda saved, dloss, needs: tuple(
        g * dloss if needed else None for g, needed in zip(saved, needs, strict=True)
    ),
)


def _overflowing(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    z = F.linear(x, w, b)
    lse = z.exp().sum(1).log()
    return (lse - z.gather(1, target[:, None])[:, 0]).mean(), [x, w, b, target, lse]


_halves(
    head_loss,
    "overflow",
    "exp of a logit over 88 is inf in float32, and so is the loss. torch.logsumexp takes the "
    "row's maximum away first.",
    head_loss_forward=_overflowing,
    head_loss_backward=_right_backward,
)


def _summed_loss(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    loss, saved = _right_forward(x, w, b, target)
    return loss * len(x), saved


_halves(
    head_loss,
    "summed",
    "The loss is N times too large: F.cross_entropy takes the mean over the rows.",
    head_loss_forward=_summed_loss,
    head_loss_backward=_right_backward,
)
_halves(
    head_loss,
    "dloss_ignored",
    "dloss was not used. Whoever reads the loss may scale it: each backward multiplies by the "
    "gradient that arrives.",
    head_loss_forward=_right_forward,
    head_loss_backward=lambda saved, dloss, needs: _backward_of(saved, 1 / len(saved[0]), needs),
)
_halves(
    head_loss,
    "not_averaged",
    "The gradients are N times too large: the loss is a mean, so each row's part is divided by N.",
    head_loss_forward=_right_forward,
    head_loss_backward=_backward_of,
)
_halves(
    head_loss,
    "target_forgotten",
    "The 1 at the target is missing: dz is softmax minus one-hot. This pushes every word down, the "
    "right one too.",
    head_loss_forward=_right_forward,
    head_loss_backward=lambda saved, dloss, needs: _backward_of(
        saved, dloss / len(saved[0]), needs, hit=0.0
    ),
)
_halves(
    head_loss,
    "everybody_gets_one",
    "A gradient was computed that nobody asked for. `needs` says who needs one; the others get "
    "None.",
    head_loss_forward=_right_forward,
    head_loss_backward=lambda saved, dloss, needs: _right_backward(saved, dloss, (True,) * 3),
)

_left_behind: list[Tensor] = []


def _keeping_aside(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    loss, saved = _right_forward(x, w, b, target)
    _left_behind[:] = [x.clone(), w.clone(), b.clone(), target.clone()]
    return loss, saved


_halves(
    head_loss,
    "kept_on_the_side",
    "Backward used what the last forward left behind, not what was saved. Two forwards may come "
    "before the first backward: all that a call needs travels in its own list.",
    head_loss_forward=_keeping_aside,
    head_loss_backward=lambda saved, dloss, needs: _right_backward(_left_behind, dloss, needs),
)


@head_loss.cost
def _(student: Student, draw: Draw) -> str:
    layer, n = onelayer.head(), 32
    x, target = draw.tensor(n, 64), draw.integers(n, low=0, high=599)
    w, b = layer.weight, layer.bias
    with onelayer.count_saved(ignore=[w, b, x, target]) as saved:
        F.cross_entropy(F.linear(x, w, b), target)
    batch = x, w.detach(), b.detach(), target
    mine = _new_bytes(student.call("head_loss_forward", *batch)[1], batch)
    return (
        f"the head at batch {n}: {mine:,} bytes saved beside its inputs, where torch's nodes save "
        f"{saved.bytes:,}; the price is the logits once more, {2 * n * w.numel():,} FLOP"
    )


# ---- 4.3 an edit in place

Capped = tuple[Tensor, Tensor, Tensor]


@lab.question(
    "cap_in_place",
    points=3,
    minutes=10,
    difficulty=3,
    hints=(
        "h had a node before your edit, and whoever holds h asks that node for the gradient. Who "
        "tells torch that h comes out of your Function now?",
        "Four lines: remember where z was under the limit before you edit it; z.clamp_(max=limit); "
        "ctx.mark_dirty(z); ctx.mark_non_differentiable(lost). Backward gets two gradients, uses "
        "the first, and answers z and limit.",
        "return dz * passed, None",
    ),
)
def cap_in_place(student: Student, draw: Draw) -> None:
    """A Function that edits its input in place and returns a report without a gradient.

    z (N, V), limit (a float), dy (N, V) -> (z cut off at limit, what each row lost (N,), the
    gradient of what z was before, given dy for what it is after).
    """
    for n in draw.sizes(3, 1, high=9):
        z = draw.tensor(n, draw.integer(12, 20))
        dy = 2.0 + draw.tensor(*z.shape).abs()  # above every limit, below no logit that was cut
        limit = draw.choice((0.25, 0.5))
        got = _parts(student.call("cap_in_place", z, limit, dy), "z, lost, gradient")
        for name, mine, torchs in zip(
            ("z", "what each row lost", "the gradient"), got, _torchs_cap(z, limit, dy), strict=True
        ):
            _expect_named(name, mine, torchs)
        if got[1].requires_grad:
            raise Wrong(expected="a report without gradient", got="requires_grad is True")


def _torchs_cap(z: Tensor, limit: float, dy: Tensor) -> Capped:
    """torch's own clamp_, which is dirty too."""
    leaf = z.detach().clone().requires_grad_()
    h = leaf * 1
    lost = (h.detach() - limit).clamp(min=0).sum(1)
    h.clamp_(max=limit)
    return h.detach(), lost, torch.autograd.grad(h, leaf, dy)[0]


@cap_in_place.wrong(
    "dirty_forgotten",
    "The gradient passes where z was cut off: the old node of z answered, as if nothing had been "
    "edited. ctx.mark_dirty(z) gives z a new history. (If you have that line: was the mask read "
    "after the edit, when nothing is over the limit any more?)",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, _ = _torchs_cap(z, limit, dy)
    return capped, lost, dy.clone()


@cap_in_place.wrong(
    "not_in_place",
    "z holds what it held before: a new tensor was capped. `clamp_` with an underscore writes into "
    "z itself.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    _, lost, _ = _torchs_cap(z, limit, dy)
    return z.clone(), lost, dy.clone()


@cap_in_place.wrong(
    "report_differentiable",
    "The report requires a gradient, so the next one to use it asks your backward for something "
    "that it does not compute. Say ctx.mark_non_differentiable(lost).",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, dz = _torchs_cap(z, limit, dy)
    return capped, lost.requires_grad_(), dz


@cap_in_place.wrong(
    "gradient_capped",
    "The gradient was cut off at the limit, as z was. The local rule is another one: where z was "
    "cut off nothing passes, elsewhere all does.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, _ = _torchs_cap(z, limit, dy)
    return capped, lost, dy.clamp(max=limit)


@cap_in_place.wrong(
    "mask_inverted",
    "The gradient passes where z was cut off, and stops elsewhere. It is the other way round.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, _ = _torchs_cap(z, limit, dy)
    return capped, lost, dy * (z > limit)


@cap_in_place.cost
def _(student: Student, draw: Draw) -> str:
    z = draw.tensor(32, 600)
    capped, _, _ = student.call("cap_in_place", z, 1.0, torch.ones_like(z))
    cut = int((capped == 1.0).sum())
    return (
        f"{cut:,} of {z.numel():,} logits cut off in their own {z.nbytes:,} bytes; a mask of bools "
        f"takes {z.numel():,} bytes until backward, a second copy of z would take {z.nbytes:,}"
    )


# ---- 4.4 the backward of the backward

Triple = tuple[Tensor, Tensor, Tensor]


@lab.question(
    "linear_double_backward",
    points=4,
    minutes=12,
    difficulty=4,
    hints=(
        "Write the three lines of 4.1's backward, and under each input of theirs who read it: dy "
        "stands in all three.",
        "dx = dy @ w is a linear layer with dy as its input and w.T as its weight, dw = dy.T @ x "
        "another one. d_dy adds up three paths, d_x comes from dw alone, d_w from dx alone.",
        "d_dy = gx @ w.T + x @ gw.T + gb",
    ),
)
def linear_double_backward(student: Student, draw: Draw) -> None:
    """The backward of linear's backward: the gradients of dy, x and w, given those of dx, dw, db.

    x (N, D), w (V, D), dy (N, V), gx (N, D), gw (V, D), gb (V,) -> (d_dy (N, V), d_x (N, D),
    d_w (V, D)).
    """
    drawn = [(n, draw.integer(2, 19), draw.integer(2, 19)) for n in draw.sizes(1, 0, high=19)]
    for n, v, d in [(3, 4, 5), (4, 4, 4), *drawn]:
        given = [draw.tensor(*shape) for shape in ((n, d), (v, d), (n, v), (n, d), (v, d), (v,))]
        got = student.call("linear_double_backward", *given)
        _expect_answers(got, _torchs_double(*given), "d_dy d_x d_w")


def _torchs_double(x: Tensor, w: Tensor, dy: Tensor, *g: Tensor) -> Triple:
    x, w, dy = (t.detach().clone().requires_grad_() for t in (x, w, dy))
    b = torch.zeros(len(w), requires_grad=True)
    first = torch.autograd.grad(F.linear(x, w, b), (x, w, b), dy, create_graph=True)
    return torch.autograd.grad(first, (dy, x, w), g)  # type: ignore[return-value]


@linear_double_backward.wrong(
    "linear_so_nothing",
    "All zero. y is linear in x, and also in w, but their product is not: dx reads w, and dw reads "
    "x.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return torch.zeros_like(dy), torch.zeros_like(x), torch.zeros_like(w)


@linear_double_backward.wrong(
    "through_dx_alone",
    "d_dy has the path through dx alone. dw and db read dy as well: three paths, and paths add up.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ w.T, dy @ gw, dy.T @ gx


@linear_double_backward.wrong(
    "bias_path_forgotten",
    "The path through db is missing in d_dy. db = dy.sum(dim=0), so each row of dy gets gb.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ w.T + x @ gw.T, dy @ gw, dy.T @ gx


@linear_double_backward.wrong(
    "first_backward_again",
    "d_x and d_w are dx and dw of the first backward. Now the question is who read x: dw did, so "
    "what arrives is gw.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ w.T + x @ gw.T + gb, dy @ w, dy.T @ x


@linear_double_backward.wrong(
    "weight_transposed",
    "d_w is transposed: compare shapes, w is (V, D).",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ w.T + x @ gw.T + gb, dy @ gw, gx.T @ dy


@linear_double_backward.cost
def _(student: Student, draw: Draw) -> str:
    n, v, d = 32, 600, 64
    given = [draw.tensor(*shape) for shape in ((n, d), (v, d), (n, v), (n, d), (v, d), (v,))]
    student.call("linear_double_backward", *given)
    flops = 2 * n * v * d
    return (
        f"{4 * flops:,} FLOP in four products for the head at batch {n}: forward needs one, "
        f"backward two; it reads dy again, {given[2].nbytes:,} bytes that the first may not free"
    )


# ---- 4.5 detective case: the second derivative

Curvature = tuple[Tensor, Tensor, Tensor]


@lab.question(
    "loss_curvature",
    points=4,
    minutes=12,
    difficulty=4,
    hints=(
        "Ask torch.autograd.gradgradcheck. Then follow dz = p - hot backwards by hand: on which "
        "ways does z come into p, and does the graph know both?",
        "forward records nothing, so the lse that was computed in it has no history: for the "
        "second backward it is a constant. Save z alone, and compute what depends on it in "
        "backward, where create_graph=True records.",
        "p = z.softmax(dim=1)",
    ),
)
def loss_curvature(student: Student, draw: Draw) -> None:
    """Detective case: a Function for the mean cross-entropy whose first gradient is right and whose
    second is wrong. Make both right.

    z (N, V), target (N,), v (N, V) -> (loss, dz, the gradient of (dz * v).sum() for z).
    """
    for n in draw.sizes(3, 1, high=12):
        z = draw.tensor(n, draw.integer(4, 9))
        v, target = draw.tensor(*z.shape), draw.integers(n, low=0, high=z.shape[1] - 1)
        got = _parts(student.call("loss_curvature", z, target, v), "loss, dz, gradient")
        for name, mine, torchs in zip(
            ("the loss", "dz", "the gradient of the gradient"),
            got,
            _torchs_curvature(z, target, v),
            strict=True,
        ):
            _expect_named(name, mine, torchs)


def _torchs_curvature(z: Tensor, target: Tensor, v: Tensor) -> Curvature:
    z = z.detach().clone().requires_grad_()
    loss = F.cross_entropy(z, target)
    (dz,) = torch.autograd.grad(loss, z, create_graph=True)
    return loss.detach(), dz.detach(), torch.autograd.grad(dz, z, v)[0]


def _with_second(
    z: Tensor, target: Tensor, v: Tensor, second: Callable[[Tensor], Tensor]
) -> Curvature:
    """The right loss and gradient, and a second derivative from the probabilities."""
    loss, dz, _ = _torchs_curvature(z, target, v)
    return loss, dz, second(z.softmax(1))


@loss_curvature.wrong(
    "as_found",
    "This is what the code as found computes. The saved lse was computed in forward, where nothing "
    "is recorded, so the second backward takes it for a constant: the way from z through lse is "
    "lost.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Curvature:
    return _with_second(z, target, v, lambda p: p * v / len(z))


@loss_curvature.wrong(
    "diagonal_only",
    "Each logit was differentiated by itself: p * (1 - p). But the probabilities of a row share "
    "their sum, so each depends on every logit of its row.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Curvature:
    return _with_second(z, target, v, lambda p: p * (1 - p) * v / len(z))


@loss_curvature.wrong(
    "mean_forgotten",
    "The second derivative is N times too large: it goes through the mean like the first.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Curvature:
    return _with_second(z, target, v, lambda p: p * (v - (p * v).sum(1, keepdim=True)))


class _Once(torch.autograd.Function):
    """Its gradient is right, and comes out of a backward that nobody recorded."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, target: Tensor) -> Tensor:
        ctx.save_for_backward(z, target)
        return F.cross_entropy(z, target)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        z, target = ctx.saved_tensors
        return (z.softmax(1) - F.one_hot(target, z.shape[1])) * (grads[0] / len(z)), None


@loss_curvature.wrong(
    "no_history",
    "dz has no history: once_differentiable, no_grad or detach kept torch from recording this "
    "backward. Here it refuses; a penalty added to the loss would be dropped without a word. The "
    "second derivative needs a backward that is recorded.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Curvature:
    z = z.detach().requires_grad_()
    loss = _Once.apply(z, target)  # type: ignore[no-untyped-call]
    (dz,) = torch.autograd.grad(loss, z, create_graph=True)
    return loss, dz, torch.autograd.grad(dz, z, v)[0]


@loss_curvature.cost
def _(student: Student, draw: Draw) -> str:
    z, target = draw.tensor(32, 600), draw.integers(32, low=0, high=599)
    student.call("loss_curvature", z, target, draw.tensor(32, 600))
    return (
        f"an lse made again from z costs {2 * z.numel():,} FLOP for {len(z)} rows of {z.shape[1]} "
        f"and spares {4 * len(z)} bytes; one kept as a constant costs the second derivative"
    )


# ---- 4.6 a checkpoint by hand

Saved = list[Tensor]


@lab.question(
    "checkpoint_block",
    points=5,
    minutes=15,
    difficulty=4,
    hints=(
        "When does the generator have to be read so that a second run draws the same numbers? And "
        "in backward: where was it before you set it, and who wants it there again?",
        "forward: read the state, then run the block; save x, w1, w2 and the state. "
        "backward: note the state of now, set the saved one, run the block on fresh leaves under "
        "torch.enable_grad(), set the state of now again, then torch.autograd.grad(y, leaves, dy).",
        "now = torch.get_rng_state(); torch.set_rng_state(then)",
    ),
)
def checkpoint_block(student: Student, draw: Draw) -> None:
    """A checkpoint by hand: the block's inside is computed again, with the same dropout, and the
    global generator is left as an unchecked run leaves it.

    checkpoint_forward: x (N, D), w1 (H, D), w2 (D, H), seed -> (y (N, D), list of tensors to save,
    the next two numbers of the generator). checkpoint_backward: that list, dy (N, D), another seed
    -> ((dx, dw1, dw2), the next two numbers).
    """
    for _ in draw.cases(2):
        asked = [_drawn_block(draw) for _ in range(2)]
        kept = [_ask_checkpoint(student, *block) for block in asked]
        for (given, seed), saved in zip(asked, kept, strict=True):
            dy, later = draw.tensor(*given[0].shape), seed + 1
            answer = student.call("checkpoint_backward", saved, dy, later)
            grads, after = _parts(answer, "gradients, what the next one draws")
            _, _, want = _torchs_block(given, seed, dy)
            _expect_answers(grads, want, "dx dw1 dw2")
            _expect_draws(after, _first_draws(later), "after backward")


Given = tuple[Tensor, Tensor, Tensor]


def _drawn_block(draw: Draw) -> tuple[Given, int]:
    """More hidden numbers than a generator's state has bytes, so that no mask fits in its place."""
    n, d, h = draw.integer(48, 64), draw.integer(8, 16), draw.integer(144, 160)
    given = draw.tensor(n, d), draw.tensor(h, d), draw.tensor(d, h)
    return given, draw.integer(0, 2**31)


def _ask_checkpoint(student: Student, given: Given, seed: int) -> Saved:
    answer = student.call("checkpoint_forward", *given, seed)
    y, kept, after = _parts(answer, "y, saved, what the next one draws")
    want, draws, _ = _torchs_block(given, seed, torch.zeros_like(given[0]))
    _expect_named("y", y, want)
    _expect_draws(after, draws, "after forward")
    saved = _tensors(kept)
    why = "Too much was saved: beside the inputs a checkpoint keeps one state of the generator."
    _expect_few_bytes(saved, given, torch.get_rng_state().nbytes + 64, why)
    return saved


def _expect_draws(got: Any, want: Tensor, when: str) -> None:
    try:
        expect_close(got, want, tolerance=0.0)
    except Wrong as wrong:
        where = f"in what the next one draws {when}"
        why = "The generator is not where a run without a checkpoint leaves it."
        raise Wrong(expected=wrong.expected, got=wrong.got, where=where, why=why) from None


def _hidden(x: Tensor, w1: Tensor) -> Tensor:
    return F.gelu(F.linear(x, w1))


def _block(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    return F.linear(F.dropout(_hidden(x, w1), 0.1), w2)


@torch.random.fork_rng(devices=[])
def _first_draws(seed: int) -> Tensor:
    torch.manual_seed(seed)
    return torch.rand(2)


@torch.random.fork_rng(devices=[])
def _torchs_block(given: Given, seed: int, dy: Tensor) -> tuple[Tensor, Tensor, Given]:
    """The block without a checkpoint -> (y, what the next one draws, the three gradients)."""
    torch.manual_seed(seed)
    x, w1, w2 = (t.detach().clone().requires_grad_() for t in given)
    y = _block(x, w1, w2)
    draws = torch.rand(2)
    dx, dw1, dw2 = torch.autograd.grad(y, (x, w1, w2), dy)
    return y.detach(), draws, (dx, dw1, dw2)


Forward = tuple[Tensor, Saved, Tensor]
Backward = tuple[Given, Tensor]


@torch.random.fork_rng(devices=[])
def _checkpointed(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    torch.manual_seed(seed)
    saved = [x, w1, w2, torch.get_rng_state()]
    return _block(x, w1, w2), saved, torch.rand(2)


def _rerun(saved: Saved, dy: Tensor) -> Given:
    """The gradients of the block, which draws from where the generator is."""
    x, w1, w2 = (t.detach().clone().requires_grad_() for t in saved[:3])
    dx, dw1, dw2 = torch.autograd.grad(_block(x, w1, w2), (x, w1, w2), dy)
    return dx, dw1, dw2


@torch.random.fork_rng(devices=[])
def _recomputed(saved: Saved, dy: Tensor, seed: int) -> Backward:
    torch.manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(saved[3])
        grads = _rerun(saved, dy)
    return grads, torch.rand(2)


def _wrong_checkpoint(
    name: str,
    sentence: str,
    forward: Callable[..., Forward] = _checkpointed,
    backward: Callable[..., Backward] = _recomputed,
) -> None:
    _halves(
        checkpoint_block,
        name,
        sentence,
        checkpoint_forward=forward,
        checkpoint_backward=backward,
    )


def _keeping_inside(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    y, saved, draws = _checkpointed(x, w1, w2, seed)
    return y, [*saved, _hidden(x, w1)], draws


_wrong_checkpoint(
    "inside_kept",
    "The inside of the block was saved, so nothing was won: a checkpoint keeps the inputs and runs "
    "the block again.",
    _keeping_inside,
)


@torch.random.fork_rng(devices=[])
def _keeping_mask(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    y, _, draws = _checkpointed(x, w1, w2, seed)
    torch.manual_seed(seed)
    return y, [x, w1, w2, F.dropout(torch.ones(len(x), len(w1)), 0.1) > 0], draws


_wrong_checkpoint(
    "mask_kept",
    "The mask was saved: one byte for each hidden number. The state of the generator is smaller, "
    "and does not grow with the batch.",
    _keeping_mask,
)


@torch.random.fork_rng(devices=[])
def _state_too_late(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    torch.manual_seed(seed)
    y = _block(x, w1, w2)
    return y, [x, w1, w2, torch.get_rng_state()], torch.rand(2)


_wrong_checkpoint(
    "state_too_late",
    "The state was read after the block had drawn its mask: the second run draws the numbers that "
    "follow. Read it first.",
    _state_too_late,
)


@torch.random.fork_rng(devices=[])
def _rewinding(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    torch.manual_seed(seed)
    state = torch.get_rng_state()
    y = _block(x, w1, w2)
    torch.set_rng_state(state)
    return y, [x, w1, w2, state], torch.rand(2)


_wrong_checkpoint(
    "rewound_after_forward",
    "forward set the generator back to where it began, so the next layer draws the numbers that "
    "this block has used. Read the state in forward; set it in backward.",
    _rewinding,
)


@torch.random.fork_rng(devices=[])
def _another_mask(saved: Saved, dy: Tensor, seed: int) -> Backward:
    torch.manual_seed(seed)
    return _rerun(saved, dy), torch.rand(2)


_wrong_checkpoint(
    "another_mask",
    "The second run drew another mask: these are the gradients of a forward that never was. Set "
    "the saved state before you run the block again.",
    backward=_another_mask,
)


@torch.random.fork_rng(devices=[])
def _left_in_the_past(saved: Saved, dy: Tensor, seed: int) -> Backward:
    torch.manual_seed(seed)
    torch.set_rng_state(saved[3])
    return _rerun(saved, dy), torch.rand(2)


_wrong_checkpoint(
    "left_in_the_past",
    "The gradients are right, but backward left the generator in the past: the next dropout draws "
    "old numbers once more. Note the state on entry and set it again.",
    backward=_left_in_the_past,
)


@torch.random.fork_rng(devices=[])
def _without_dropout(saved: Saved, dy: Tensor, seed: int) -> Backward:
    torch.manual_seed(seed)
    x, w1, w2 = (t.detach().clone().requires_grad_() for t in saved[:3])
    dx, dw1, dw2 = torch.autograd.grad(F.linear(_hidden(x, w1), w2), (x, w1, w2), dy)
    return (dx, dw1, dw2), torch.rand(2)


_wrong_checkpoint(
    "without_dropout",
    "The second run had no dropout. It must be the same function as the first, mask and all.",
    backward=_without_dropout,
)


@torch.no_grad()
def _unrecorded(saved: Saved, dy: Tensor, seed: int) -> Backward:
    return _recomputed(saved, dy, seed)


_wrong_checkpoint(
    "unrecorded",
    "The second run left no graph: inside a Function torch records nothing, so there is nothing to "
    "go back through. `with torch.enable_grad():` around the block switches it on.",
    backward=_unrecorded,
)


@checkpoint_block.cost
def _(student: Student, draw: Draw) -> str:
    n, d, h = 256, 64, 256
    given = draw.tensor(n, d), draw.tensor(h, d), draw.tensor(d, h)
    mine = _new_bytes(student.call("checkpoint_forward", *given, 1)[1], given)
    with torch.random.fork_rng(devices=[]), onelayer.count_saved(ignore=given) as saved:
        _block(*(t.requires_grad_() for t in given))
    return (
        f"{n} tokens: {mine:,} bytes saved beside the inputs, where the block itself saves "
        f"{saved.bytes:,}; run again for it: {4 * n * d * h:,} FLOP"
    )


# ---- 4.7 what a schedule costs

Ints = Sequence[int]
Keep = Sequence[int]


@lab.question(
    "schedule_cost",
    points=3,
    minutes=12,
    difficulty=3,
    hints=(
        "Walk backward with a set of what is held. What comes into it at a layer, and what leaves "
        "it?",
        "For i from the last layer to 0: while i is not held, take the highest held k below i, run "
        "layer k (its FLOPs count) and hold k + 1. Then look at the sum of what is held, then drop "
        "i.",
        "again += flops[nearest]; held.add(nearest + 1)",
    ),
)
def schedule_cost(student: Student, draw: Draw) -> None:
    """What a checkpoint schedule costs: its peak of held activations, and the FLOPs run again.

    nbytes (of activation i, the input of layer i), flops (of layer i's forward), keep (indices,
    rising, the first is 0) -> (peak bytes from the end of the forward on, recomputed FLOPs).
    """
    fixed: list[tuple[Ints, Ints, Keep]] = [
        ([4, 9, 7, 2, 5, 3, 6, 2], [11, 13, 17, 19, 23, 29, 31, 37], [0, 3, 5]),
        ([3, 1, 2], [2, 3, 5], [0, 1, 2]),
    ]
    for nbytes, flops, keep in fixed + [_drawn_schedule(draw) for _ in draw.cases(6)]:
        got = student.call("schedule_cost", nbytes, flops, keep)
        expect_equal(got, (_peak(nbytes, keep), _again(flops, keep)))


def _drawn_schedule(draw: Draw) -> tuple[Ints, Ints, Keep]:
    layers = draw.integer(1, 12)
    nbytes, flops = _drawn_chain(draw, layers)
    return nbytes, flops, [0, *(k for k in range(1, layers) if draw.integer(0, 1))]


def _drawn_chain(draw: Draw, layers: int) -> tuple[list[int], list[int]]:
    nbytes = [256 * draw.integer(1, 12) for _ in range(layers)]
    return nbytes, [1000 * draw.integer(1, 12) for _ in range(layers)]


def _segments(layers: int, keep: Keep) -> list[tuple[int, int]]:
    """From each kept activation to the next one."""
    return list(zip(keep, [*keep[1:], layers], strict=True))


def _peak(nbytes: Ints, keep: Keep) -> int:
    """While a segment goes back, all of it is held, and what is kept below; what lies above is
    gone. The end of the forward is the last segment's moment."""
    return max(
        sum(nbytes[k] for k in keep if k < start) + sum(nbytes[start:end])
        for start, end in _segments(len(nbytes), keep)
    )


def _again(flops: Ints, keep: Keep) -> int:
    """Each dropped activation is written once more, by the layer before it."""
    return sum(flops[i - 1] for i in range(len(flops)) if i not in keep)


def _peak_never_freed(nbytes: Ints, keep: Keep) -> int:
    inside = [sum(nbytes[start + 1 : end]) for start, end in _segments(len(nbytes), keep)]
    return sum(nbytes[k] for k in keep) + max(inside)


@schedule_cost.wrong(
    "kept_only",
    "The peak counts what was kept, and forgets what comes back: in backward a whole segment is "
    "held again, on top of the kept ones below it.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> tuple[int, int]:
    return sum(nbytes[k] for k in keep), _again(flops, keep)


@schedule_cost.wrong(
    "nothing_freed",
    "The peak adds the largest segment to all that was kept. When backward comes to an early "
    "segment, the activations above it are gone.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> tuple[int, int]:
    return _peak_never_freed(nbytes, keep), _again(flops, keep)


@schedule_cost.wrong(
    "all_at_once",
    "This peak is every activation at once, as in a run without checkpoints. When a layer's "
    "backward is done its activation goes, before the segment below comes back.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> tuple[int, int]:
    return sum(nbytes), _again(flops, keep)


@schedule_cost.wrong(
    "nothing_stays",
    "The way from the kept activation was run anew for every layer. What came back on the way "
    "stays: each activation is computed again once.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> tuple[int, int]:
    nearest = {i: max(k for k in keep if k <= i) for i in range(len(nbytes))}
    return _peak(nbytes, keep), sum(sum(flops[k:i]) for i, k in nearest.items())


@schedule_cost.wrong(
    "layer_above",
    "The FLOPs are those of the layer that reads the missing activation. The one that writes it "
    "has to run: layer i - 1 for activation i.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> tuple[int, int]:
    return _peak(nbytes, keep), sum(flops[i] for i in range(len(flops)) if i not in keep)


@schedule_cost.wrong(
    "whole_segments",
    "Each segment was run to its end. Its last layer's output is the next kept activation, or the "
    "result: nobody needs it again.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> tuple[int, int]:
    long = [(s, e) for s, e in _segments(len(nbytes), keep) if e - s > 1]
    return _peak(nbytes, keep), sum(sum(flops[s:e]) for s, e in long)


@schedule_cost.cost
def _(student: Student, draw: Draw) -> str:
    layers, step = 64, 8
    ones, keep = [1] * layers, list(range(0, layers, step))
    peak, again = student.call("schedule_cost", ones, ones, keep)
    return (
        f"{layers} equal layers, every {step}th kept: {peak} activations at most instead of "
        f"{layers}, {again} layers run again: {again / (3 * layers):.0%} more compute, where a "
        "backward is two forwards"
    )


# ---- 4.8 the best schedule


@lab.question(
    "best_schedule",
    points=4,
    minutes=15,
    difficulty=4,
    hints=(
        "With at most 10 layers there are at most 512 schedules. What do you need to know of each?",
        "Make every list that begins with 0, drop those whose peak (4.7) is over the budget, and "
        "take the one with the fewest FLOPs. itertools.combinations makes the lists.",
        "return min(fitting, key=again, default=None)",
    ),
)
def best_schedule(student: Student, draw: Draw) -> None:
    """The checkpoint schedule with the fewest recomputed FLOPs whose peak fits into a budget.

    nbytes, flops as in 4.7, at most 10 of them; budget in bytes -> the kept activations as a list
    of indices with 0 among them, or None if no schedule fits.
    """
    fixed: list[tuple[Ints, Ints, int]] = [
        ([5, 4, 3, 6, 2, 1, 6, 1], [6, 2, 7, 1, 8, 3, 5, 4], 18),
        ([5, 4, 3, 6, 2, 1, 6, 1], [6, 2, 7, 1, 8, 3, 5, 4], 28),
        ([3, 3, 3], [1, 1, 1], 8),
        ([7], [2], 7),
    ]
    for nbytes, flops, budget in fixed + [_drawn_budget(draw) for _ in draw.cases(4)]:
        got = student.call("best_schedule", nbytes, flops, budget)
        _expect_best(got, nbytes, flops, budget)


def _every_schedule(layers: int) -> list[Keep]:
    rest = range(1, layers)
    return [[0, *kept] for n in range(layers) for kept in combinations(rest, n)]


def _drawn_budget(draw: Draw) -> tuple[Ints, Ints, int]:
    """A budget at the peak of some schedule, or one byte below the lowest of all."""
    nbytes, flops = _drawn_chain(draw, draw.integer(2, 9))
    peaks = sorted({_peak(nbytes, keep) for keep in _every_schedule(len(nbytes))})
    return nbytes, flops, draw.choice([peaks[0] - 1, *peaks])


def _expect_best(got: Any, nbytes: Ints, flops: Ints, budget: int) -> None:
    """Any schedule that fits and that no other one beats: there may be several."""
    fits = [keep for keep in _every_schedule(len(nbytes)) if _peak(nbytes, keep) <= budget]
    if not fits or got is None:
        return expect_equal(got, None) if not fits else _refused(fits, nbytes)
    keep = _as_schedule(got, len(nbytes))
    if (peak := _peak(nbytes, keep)) > budget:
        why = "This schedule does not fit: while a segment goes back, all of it is held again."
        raise Wrong(expected=f"a peak of at most {budget:,}", got=f"{peak:,}", why=why)
    best, mine = min(_again(flops, other) for other in fits), _again(flops, keep)
    if mine > best:
        why = "This schedule fits, but another one that fits recomputes less."
        raise Wrong(expected=f"{best:,} FLOPs run again", got=f"{mine:,}", why=why)
    return None


def _refused(fits: list[Keep], nbytes: Ints) -> None:
    lowest = min(_peak(nbytes, keep) for keep in fits)
    why = "Some schedule fits."
    raise Wrong(expected=f"a schedule: one has a peak of {lowest:,}", got="None", why=why)


def _as_schedule(got: Any, layers: int) -> list[int]:
    """The indices in rising order, if they are a schedule."""
    indices = list(got) if isinstance(got, (list, tuple)) else []
    if not indices or not all(type(k) is int and 0 <= k < layers for k in indices):
        raise Wrong(expected=f"a list of indices below {layers}, or None", got=describe(got))
    if 0 not in indices or len(set(indices)) != len(indices):
        raise Wrong(expected="each index once, and 0 among them", got=describe(got))
    return sorted(indices)


def _cheapest(fits: list[Keep], flops: Ints) -> Keep | None:
    return min(fits, key=lambda keep: _again(flops, keep), default=None)


@best_schedule.wrong(
    "kept_bytes_only",
    "The budget was held by what is kept. But in backward a segment comes back, and has to find "
    "room beside what is kept below it.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    every = _every_schedule(len(nbytes))
    return _cheapest([k for k in every if sum(nbytes[i] for i in k) <= budget], flops)


@best_schedule.wrong(
    "nothing_freed",
    "The peak was taken too high: what lies above the segment that goes back is gone by then. So a "
    "cheaper schedule that fits was thrown away.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    every = _every_schedule(len(nbytes))
    return _cheapest([k for k in every if _peak_never_freed(nbytes, k) <= budget], flops)


@best_schedule.wrong(
    "lowest_peak",
    "This is the schedule with the lowest peak. The budget allows more: use it all, and recompute "
    "less.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    lowest = min(_every_schedule(len(nbytes)), key=lambda keep: _peak(nbytes, keep))
    return lowest if _peak(nbytes, lowest) <= budget else None


@best_schedule.wrong(
    "every_root_of_L",
    "Every sqrt(L)th activation is a good rule when all layers are alike and nobody names a "
    "budget. These layers differ, and the budget is given.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    keep = list(range(0, len(nbytes), math.isqrt(len(nbytes))))
    return keep if _peak(nbytes, keep) <= budget else None


@best_schedule.wrong(
    "greedy",
    "The dearest activation that still fits was kept, then the next one. A large one early shuts "
    "out two that together save more: look at whole schedules.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    keep: list[int] = [0]
    for i in sorted(range(1, len(nbytes)), key=lambda i: -flops[i - 1]):
        tried = sorted([*keep, i])
        if _peak(nbytes, keep) > budget or _peak(nbytes, tried) <= budget:
            keep = tried
    return keep if _peak(nbytes, keep) <= budget else None


@best_schedule.wrong(
    "all_or_nothing",
    "Either everything is kept here or nothing but the input. Between the two lie all the good "
    "schedules.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    return list(range(len(nbytes))) if sum(nbytes) <= budget else [0]


@best_schedule.cost
def _(student: Student, draw: Draw) -> str:
    layers = 10
    told = []
    for budget in (10, 7, 6, 5):
        keep = student.call("best_schedule", [1] * layers, [1] * layers, budget)
        run = "does not fit" if keep is None else f"{_again([1] * layers, keep)} run again"
        told.append(f"{budget} activations: {run}")
    return f"{layers} equal layers. {'; '.join(told)}"
