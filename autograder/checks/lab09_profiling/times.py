"""Times of a trace as answers: microseconds, which a trace gives to the nanosecond."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from autograder.judge import Wrong, describe

CLOSE_US = 0.5
"""Traces round each time to a nanosecond, and their clock is a large float: this is far more."""
MILLISECONDS = "These are milliseconds. A trace's times are microseconds, and those were asked for."
Pair = tuple[float, float]


def as_number(got: Any) -> Any:
    """A tensor of one real number as that number; anything else as it came."""
    if isinstance(got, torch.Tensor) and got.numel() == 1 and not got.is_complex():
        return got.item()
    return got


def expect_us(got: Any, want: float, where: str) -> None:
    """A time of `want` us. Raises Wrong for another one, and for what is no time."""
    got = as_number(got)
    if isinstance(got, bool) or not isinstance(got, (int, float)) or not math.isfinite(got):
        raise Wrong(expected=f"{want:.1f} us", got=describe(got), where=where)
    if abs(got - want) > CLOSE_US:
        raise Wrong(expected=f"{want:.1f} us", got=f"{got:.1f} us", where=where)


def related(got: Any, want: float, *, less: str, more: str) -> str:
    """What is true of a number that is less than `want`, or more; nothing of what is none."""
    got = as_number(got)
    if isinstance(got, bool) or not isinstance(got, (int, float)) or not math.isfinite(got):
        return ""
    return more if got > want else less


def union_us(spans: Iterable[Pair]) -> float:
    """How long at least one of these (begin, end) lasted."""
    total, until = 0.0, -math.inf
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def spans_of(events: Iterable[dict[str, Any]], cats: Sequence[str]) -> list[Pair]:
    """(begin, end) of the events of these categories."""
    found = [e for e in events if e["ph"] == "X" and e["cat"] in cats]
    return [(e["ts"], e["ts"] + e["dur"]) for e in found]
