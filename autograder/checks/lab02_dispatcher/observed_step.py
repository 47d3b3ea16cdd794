"""Detective case: a mode that changes what it watches."""

from __future__ import annotations

import torch

from autograder.judge import Draw, Student, expect_close, expect_equal, expect_tuple

from . import lab
from .keys import Names

Stepped = tuple[Names, torch.Tensor]


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
    for lr in (
        0.5,
        0.1,
        draw.integer(1, 9) / 100,
        *(draw.integer(1, 50) / 100 for _ in draw.cases(2)),
    ):
        w, g = draw.tensor(5, 4), draw.tensor(5, 4)
        want = w - lr * g
        answer = student.call("observed_step", w, g, lr)
        names, stepped = expect_tuple(answer, 2, "the names and w")
        expect_close(stepped, want)
        expect_equal(names, [str(torch.ops.aten.add_.Tensor)])
        expect_close(w, want)


observed_step.wrong(
    "keywords_dropped",
    "w became w + g: the keyword alpha never reached the operator. `func(*args)` is not the call "
    "that was made.",
    observed_step=lambda w, g, lr: (["aten.add_.Tensor"], w.add_(g)),
)
observed_step.wrong(
    "uphill",
    "The step went uphill: w + lr * g. alpha is -lr already; pass the keywords on as they came.",
    observed_step=lambda w, g, lr: (["aten.add_.Tensor"], w.add_(g, alpha=lr)),
)
observed_step.wrong(
    "not_moved",
    "w did not move: func got copies, or was never called. Looking means doing the very call that "
    "was made.",
    observed_step=lambda w, g, lr: (["aten.add_.Tensor"], w),
)
observed_step.wrong(
    "run_twice",
    "The step was taken twice: func ran once to be looked at and once for its result. An operator "
    "that writes in place must run once.",
    observed_step=lambda w, g, lr: (["aten.add_.Tensor"], w.add_(g, alpha=-lr).add_(g, alpha=-lr)),
)
observed_step.wrong(
    "on_a_copy",
    "The result is right, but w itself did not move: the step went to a copy.",
    observed_step=lambda w, g, lr: (["aten.add_.Tensor"], w.clone().add_(g, alpha=-lr)),
)
observed_step.wrong(
    "seen_nothing",
    "w is right, and nothing was seen: the step ran outside the mode.",
    observed_step=lambda w, g, lr: ([], w.add_(g, alpha=-lr)),
)


@observed_step.cost
def _(student: Student, draw: Draw) -> str:
    w, g = draw.tensor(600, 64), draw.tensor(600, 64)
    names, _ = student.call("observed_step", w, g, 0.1)
    return f"{len(names)} operator seen, {w.nbytes:,} bytes written once"
