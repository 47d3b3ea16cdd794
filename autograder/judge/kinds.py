"""What kind of thing an answer is, before its values are compared; and where in it they lie.

An answer may be anything. A check that takes one apart asks first, and then a strange answer is
wrong in words, not a failure of the check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from .compare import Wrong
from .student import describe
from .words import Said, Text, text

T = TypeVar("T")


def expect_kind(got: Any, kind: type[T], expected: str, *, where: str = "") -> T:
    """`got`, if it is a `kind`; else raises Wrong, which says what was `expected`."""
    if not isinstance(got, kind):
        raise Wrong(expected=expected, got=describe(got), where=where)
    return got


def expect_tuple(
    got: Any, size: int | None, expected: str, *, where: str = "", why: str = ""
) -> Sequence[Any]:
    """`got`, if it is a tuple of `size` values (None: of any number); else raises Wrong.

    A list and a tuple are the same kind of answer.
    """
    if not isinstance(got, (list, tuple)) or size not in (None, len(got)):
        raise Wrong(expected=expected, got=describe(got), where=where, why=why)
    return got


def expect_tensors(got: Any, expected: str, *, where: str = "") -> list[torch.Tensor]:
    """`got` as a list, if it is any number of tensors; else raises Wrong."""
    each = expect_tuple(got, None, expected, where=where)
    if not all(isinstance(t, torch.Tensor) for t in each):
        raise Wrong(expected=expected, got=describe(got), where=where)
    return list(each)


@contextmanager
def within(place: str, *, why: str | Callable[[], str] = "") -> Iterator[None]:
    """Inside, what is wrong is wrong at `place`, before the place that the comparison names; and
    because of `why`, which may be a function where finding out takes time."""
    try:
        yield
    except Wrong as wrong:
        where = _within(place, wrong.where)
        reason = (why() if callable(why) else why) or wrong.why
        raise Wrong(expected=wrong.expected, got=wrong.got, where=where, why=reason) from None


def _within(place: str, rest: Said) -> Said:
    """No comma stands before nothing, nor before brackets."""
    if not rest or (isinstance(rest, Text) and rest.key == "allowed"):
        place = place.rstrip(",")
    return text("within", place=place, rest=rest) if place and rest else place or rest
