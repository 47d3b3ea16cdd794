"""Answers that are exact: infinities, NaNs and the sign of zero count."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from autograder.judge import Said, Text, Wrong, describe, text


def as_number(got: Any) -> Any:
    """A tensor of one real number as that number; anything else as it came."""
    if isinstance(got, Tensor) and got.numel() == 1 and not got.is_complex():
        return got.item()
    return got


def same_number(a: float, b: float) -> bool:
    """Whether both are the same number, with its sign, or both NaN."""
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)


def expect_number(
    got: Any, want: float, where: Said, *, tolerance: float = 0.0, why: Said = ""
) -> None:
    """The number `want`, or one that is `tolerance` times |want| away. Raises Wrong for others."""
    number = as_number(got)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise Wrong(expected=repr(want), got=describe(got), where=where, why=why)
    close = abs(number - want) <= tolerance * abs(want) if math.isfinite(want) else False
    if not (same_number(number, want) or (tolerance and close)):
        raise Wrong(expected=repr(want), got=repr(number), where=where, why=why)


def expect_elements(
    got: Any,
    want: Tensor,
    inputs: Tensor,
    *,
    where: str,
    element: str = "x =",
    why: Callable[[float, float, float], str] = lambda x, wanted, came: "",
) -> None:
    """A tensor of the shape and dtype of `want`, each element exact. `inputs`: from which each was
    made, for the words, behind `element`; `why`: a sentence for one, from (input, wanted, got)."""
    if not isinstance(got, Tensor) or got.shape != want.shape or got.dtype != want.dtype:
        raise Wrong(expected=_kind(want), got=describe(got), where=where)
    rows = zip(_floats(inputs), _floats(want), _floats(got), strict=True)
    wrong = [row for row in rows if not same_number(row[1], row[2])]
    if wrong:
        x, wanted, came = wrong[0]
        raise Wrong(
            expected=repr(wanted),
            got=repr(came),
            where=text(
                "within",
                place=f"{where}: {element} {x!r},",
                rest=f"one of {len(wrong)} wrong among {want.numel()}",
            ),
            why=why(x, wanted, came),
        )


def _floats(t: Tensor) -> Sequence[float]:
    return [float(n) for n in t.detach().flatten().to(torch.float64).tolist()]


def _kind(t: Tensor) -> Text:
    kind = str(t.dtype).removeprefix("torch.")
    return text("tensor", tensor=f"{tuple(t.shape)} {kind}")
