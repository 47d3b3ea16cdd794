"""One answer for each input: who needs a gradient, and what backward says to each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autograder.judge import Wrong, describe, expect_close, expect_tuple, within

Needs = tuple[bool, bool, bool]
Maybe = Tensor | None
Answers = tuple[Maybe, Maybe, Maybe]
Triple = tuple[Tensor, Tensor, Tensor]

# Said of a call whose shapes an earlier one had, which was right.
ANOTHER_CALLS = (
    "An earlier call with tensors of these shapes was right, and this one, with other numbers, is "
    "not. What is made for a call belongs on its ctx: the class, and a dict on it, are shared by "
    "all calls."
)

# Said of what raises MIXED_DTYPES, where all is float64.
MIXED = (
    "The inputs are float64 here, and torch refuses to mix them with another dtype. What "
    "torch.ones or torch.zeros makes is float32 unless it is told: dtype=x.dtype."
)

LEARNING: tuple[Needs, ...] = (
    (True, True, True),
    (False, True, True),
    (True, False, False),
    (False, False, True),
    (True, True, False),
    (False, True, False),
    (True, False, True),
)


def for_whom(grads: Sequence[Maybe], needs: Needs) -> Answers:
    """The three gradients, with None for each that nobody needs."""
    dx, dw, db = (g if needed else None for g, needed in zip(grads, needs, strict=True))
    return dx, dw, db


def expect_answers(got: Any, want: Sequence[Maybe], names: str, *, tolerance: float = 1e-5) -> None:
    """One answer for each input: None where None is wanted, else close; the first wrong by name."""
    each = names.split()
    why = "One answer for each of them, in this order."
    expect_tuple(got, len(want), f"{len(want)} answers: {', '.join(each)}", why=why)
    for name, mine, torchs in zip(each, got, want, strict=True):
        if torchs is None and mine is not None:
            why = f"Nobody needs {name}, so the answer is None, and nothing is made for it."
            raise Wrong(expected=f"None for {name}", got=describe(mine), why=why)
        if torchs is not None:
            expect_named(name, mine, torchs, tolerance=tolerance)


def expect_named(
    name: str, mine: Any, torchs: Tensor, *, tolerance: float = 1e-5, why: str = ""
) -> None:
    """`mine` close to `torchs`; raises Wrong with the name, and with `why` if it is not. tolerance:
    in float32; in float64 it is no wider than 1e-9: nothing was rounded to float32 on the way."""
    if torchs.dtype is torch.float64:
        tolerance = min(tolerance, 1e-9)
    with within(f"in {name}", why=why):
        expect_close(mine, torchs, tolerance=tolerance)


def parts(got: Any, names: str) -> Sequence[Any]:
    """`got`, if it has as many parts as there are names."""
    each = names.split(", ")
    return expect_tuple(got, len(each), f"({names})")
