"""A guess: how it is kept, how it is written, and when it is right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from autograder.judge.verdict import one_line

Plain: TypeAlias = "bool | int | float | str | list[Plain] | None"
"""What a guess is kept as: what JSON can say."""

MAX_TEXT = 200
MAX_PARTS = 100
MAX_INT = 2**63


def plain(value: Any) -> Plain:
    """`value` as it is kept: a tensor or array of one element is its number, a shape is a list,
    anything else is its text."""
    if value is None or isinstance(value, (bool, str)):
        return one_line(value)[:MAX_TEXT] if isinstance(value, str) else value
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, (list, tuple)) and len(value) <= MAX_PARTS:
        return [plain(part) for part in value]
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return plain(value.item())
    return one_line(str(value))[:MAX_TEXT]


def _number(value: int | float) -> Plain:
    if isinstance(value, int):
        return int(value) if abs(value) < MAX_INT else str(value)[:MAX_TEXT]
    return float(value) if math.isfinite(value) else str(value)


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether `value` could have come from `plain`."""
    if isinstance(value, list):
        return depth < 8 and len(value) <= MAX_PARTS and all(is_plain(v, depth + 1) for v in value)
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    return value is None or (type(value) in (bool, int, float) and math.isfinite(value))


def typed(text: str) -> Plain:
    """What somebody typed: a number where it is one ("153,600" is), else the text."""
    text = text.strip()
    digits = text.replace(",", "").replace("_", "").replace(" ", "")
    for kind in (int, float):
        try:
            return plain(kind(digits))
        except (ValueError, OverflowError):
            continue
    return plain(text)


def written(value: Plain) -> str:
    """A guess as a reader writes it: 153,600 and (64, 1) and plain words."""
    if isinstance(value, list):
        inner = ", ".join(map(_part, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _part(value: Plain) -> str:
    """Inside brackets a comma separates numbers, so none stands within one."""
    return written(value) if isinstance(value, (list, str)) else str(value)


def is_right(guess: Plain, actual: Plain, *, within: float = 0.0) -> bool:
    """Whether `guess` says `actual`: numbers up to the relative error `within`, anything else as it
    is written, whatever its case."""
    truth = isinstance(guess, bool) or isinstance(actual, bool)  # True is no 1
    if isinstance(guess, (int, float)) and isinstance(actual, (int, float)) and not truth:
        return math.isclose(guess, actual, rel_tol=max(within, 1e-9))
    if isinstance(guess, list) and isinstance(actual, list):
        return _all_right(guess, actual, within)
    return written(guess).strip().casefold() == written(actual).strip().casefold()


def _all_right(guess: Sequence[Plain], actual: Sequence[Plain], within: float) -> bool:
    same_length = len(guess) == len(actual)
    return same_length and all(
        is_right(*pair, within=within) for pair in zip(guess, actual, strict=True)
    )
