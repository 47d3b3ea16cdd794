"""Detective case: a mode that changes what it watches."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from autograder.checks.explaining import explaining
from autograder.judge import (
    Draw,
    Student,
    expect_close,
    expect_equal,
    expect_tuple,
    numbers_apart,
    within,
)

from . import lab
from .keys import Names
from .operators import CAME_BACK, no_mode_left

Stepped = tuple[Names, torch.Tensor]
_RAISED = {
    "KeyError: 'alpha'": "A keyword that is its default does not come: with lr = -1 there is no "
    "alpha. Hand on what came, `*args` and `**kwargs`, whatever it is.",
    "RecursionError": CAME_BACK,
}
MADE_A_COPY = (
    "This w did not move, and others did. `.float()` makes a copy of float64, and `.contiguous()` "
    "one of a transposed tensor. What func writes into a copy is lost: hand on the very tensors "
    "that came."
)
_SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (2, 1, 3)]


@lab.question(
    "observed_step",
    points=3,
    minutes=8,
    difficulty=3,
    hints=(
        "Print kwargs inside the mode. What does func receive of them?",
        "alpha=-lr arrives as a keyword. `func(*args)` drops it, and without alpha the step is w + "
        "g: uphill, whatever lr was.",
        "return func(*args, **(kwargs or {}))",
    ),
    may_write=True,
)
def observed_step(student: Student, draw: Draw) -> None:
    """Detective case: a mode that only looks must not change what it sees. The code as found does;
    make it right.

    w, g (any shape), lr -> (operators seen, as str(func); w after w.add_(g, alpha=-lr), in place).
    """
    rates = (  # twice 0.5 is 1, and that is no step of its own
        0.1,
        0.5,
        draw.integer(1, 9) / 100,
        *(draw.integer(1, 50) / 100 for _ in draw.cases(2)),
        -0.25,
        *(0.0, 1.0, -1.0, 3.5, 0.00375),
        -1,  # alpha is its default then, and does not come
        2,  # and an integer
    )
    steps = [(lr, draw.tensor(5, 4), draw.tensor(5, 4)) for lr in rates]
    steps += [(0.3, draw.tensor(*shape), draw.tensor(*shape)) for shape in _SHAPES]
    double, turned = draw.tensor(3, 2, dtype=torch.float64), draw.tensor(3, 4, layout="transposed")
    steps.append((0.1, double, draw.tensor(3, 2, dtype=torch.float64)))
    steps.append((0.3, turned, draw.tensor(3, 4, layout="expanded")))
    for lr, w, g in steps:
        want, before = w - lr * g, w.clone()
        with explaining(_RAISED), no_mode_left():
            answer = student.call("observed_step", w, g, lr)
        names, stepped = expect_tuple(answer, 2, "the names and w")
        with within("", why=partial(_because, stepped, before, g, lr)):
            expect_close(stepped, want)
        expect_equal(names, [str(torch.ops.aten.add_.Tensor)])
        expect_close(w, want)


def _because(got: Any, before: torch.Tensor, g: torch.Tensor, lr: float) -> str:
    """How far w went along g; "" where that is not where it went."""
    if not isinstance(got, torch.Tensor) or (got.shape, got.dtype) != (g.shape, g.dtype):
        return ""
    moved = got.detach() - before
    if not moved.any() and (before.dtype is torch.float64 or not before.is_contiguous()):
        return MADE_A_COPY
    alpha = float((moved * g).sum() / g.square().sum())
    if not torch.allclose(moved, alpha * g, atol=1e-5):
        return "w did not move along g: the step is w + alpha * g."
    if type(lr) is int and lr == -1:
        return f"w moved by {alpha:.3g} * g. alpha is 1 here, its default, and does not come."
    if lr == 0:
        return (
            f"w moved by {alpha:.3g} * g. alpha is 0 here, and comes as a keyword: 0 is a value as "
            "any other."
        )
    mine, right = numbers_apart(alpha, -float(lr), digits=3)
    return f"w moved by {mine} * g. alpha is {right} here, and comes as a keyword."


observed_step.wrong(
    "keywords_dropped",
    "w became w + g, as without the keyword alpha. `func(*args)` is not the call that was made.",
    observed_step=lambda w, g, lr: (["aten.add_.Tensor"], w.add_(g)),
)
observed_step.wrong(
    "uphill",
    "The step went uphill: w + lr * g. alpha is -lr already; pass the keywords on as they came.",
    observed_step=lambda w, g, lr: (["aten.add_.Tensor"], w.add_(g, alpha=lr)),
)
observed_step.wrong(
    "not_moved",
    "This is w as it was before the step. Looking means doing the very call that was made: func, "
    "once, with the tensors and keywords that came. Then return w itself.",
    observed_step=lambda w, g, lr: (["aten.add_.Tensor"], w),
)
observed_step.wrong(
    "run_twice",
    "w moved by twice the step, as where func runs once to be looked at and once for its result. "
    "An operator that writes in place must run once.",
    observed_step=lambda w, g, lr: (["aten.add_.Tensor"], w.add_(g, alpha=-lr).add_(g, alpha=-lr)),
)
observed_step.wrong(
    "on_a_copy",
    "The result is right, but w itself did not move: the step went to another tensor.",
    observed_step=lambda w, g, lr: (["aten.add_.Tensor"], w.clone().add_(g, alpha=-lr)),
)
observed_step.wrong(
    "seen_nothing",
    "w is right, and the list is empty. The step belongs inside the mode, and the list that comes "
    "back is the one that its method fills.",
    observed_step=lambda w, g, lr: ([], w.add_(g, alpha=-lr)),
)


observed_step.wrong(
    "always_half",
    "w moved by -0.5 * g, and alpha is -lr, another number in each call: pass the keywords on as "
    "they came.",
    observed_step=lambda w, g, lr: (["aten.add_.Tensor"], w.add_(g, alpha=-0.5)),
)
observed_step.wrong(
    "without_namespace",
    "w is right. The namespace is missing: str(func) begins with `aten.`.",
    observed_step=lambda w, g, lr: (["add_.Tensor"], w.add_(g, alpha=-lr)),
)
observed_step.wrong(
    "schema_names",
    "w is right. These are schema names, with `::`. Those of str(func) have dots.",
    observed_step=lambda w, g, lr: (["aten::add_.Tensor"], w.add_(g, alpha=-lr)),
)
observed_step.wrong(
    "operators_themselves",
    "These are the operators themselves. Their names were asked for, str(func).",
    observed_step=lambda w, g, lr: ([torch.ops.aten.add_.Tensor], w.add_(g, alpha=-lr)),
)
observed_step.wrong(
    "without_overload",
    "w is right. The overload is missing from the name: str(func) ends with `.Tensor`.",
    observed_step=lambda w, g, lr: (["aten.add_"], w.add_(g, alpha=-lr)),
)
observed_step.wrong(
    "product_seen",
    "w is right, and two operators were seen: lr * g was multiplied first. The line was "
    "w.add_(g, alpha=-lr).",
    observed_step=lambda w, g, lr: (["aten.mul.Tensor", "aten.add_.Tensor"], w.add_(g, alpha=-lr)),
)
observed_step.wrong(
    "subtracted",
    "w is right, and `sub_` was seen. The line to watch was w.add_(g, alpha=-lr).",
    observed_step=lambda w, g, lr: (["aten.sub_.Tensor"], w.add_(g, alpha=-lr)),
)
observed_step.wrong(
    "other_assignment",
    "w is right, and two operators were seen: `w -= lr * g` multiplies and subtracts. The line "
    "was w.add_(g, alpha=-lr).",
    observed_step=lambda w, g, lr: (["aten.mul.Tensor", "aten.sub_.Tensor"], w.add_(g, alpha=-lr)),
)
observed_step.wrong(
    "turned_round",
    "The pair is the wrong way round: the names come first, then w.",
    observed_step=lambda w, g, lr: (w.add_(g, alpha=-lr), ["aten.add_.Tensor"]),
)
observed_step.wrong(
    "w_alone",
    "w is right. The operators that were seen are asked for too: names, w.",
    observed_step=lambda w, g, lr: w.add_(g, alpha=-lr),
)


observed_step.wrong(
    "out_of_place",
    "`add` was seen, which makes a new tensor and leaves w as it was. The step is written in "
    "place: add_.",
    observed_step=lambda w, g, lr: (["aten.add.Tensor"], w.add(g, alpha=-lr)),
)
observed_step.wrong(
    "out_of_place_product",
    "`w = w - lr * g` makes two new tensors and leaves w as it was. The line to watch was "
    "w.add_(g, alpha=-lr).",
    observed_step=lambda w, g, lr: (["aten.mul.Tensor", "aten.sub.Tensor"], w - lr * g),
)


@observed_step.wrong(
    "keywords_by_position",
    "alpha came as a keyword and was passed on by position, where add_ takes none. Pass it on as "
    "it came: **kwargs.",
)
def _(w: torch.Tensor, g: torch.Tensor, lr: float) -> Stepped:
    return [], torch.ops.aten.add_.Tensor(w, g, -lr)


observed_step.wrong(
    "one_text",
    "w is right. The names are one text here, and a list of them was asked for.",
    observed_step=lambda w, g, lr: ("aten.add_.Tensor", w.add_(g, alpha=-lr)),
)


@observed_step.cost
def _(student: Student, draw: Draw) -> str:
    w, g = draw.tensor(600, 64), draw.tensor(600, 64)
    names, _ = student.call("observed_step", w, g, 0.1)
    return f"{len(names)} operator seen, {w.nbytes:,} bytes written once"
