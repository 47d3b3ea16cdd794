"""Comparisons that explain themselves: each `expect_*` returns nothing or raises Wrong with
expected, got and where.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .relations import between_kinds, between_tensors, between_values
from .student import describe
from .words import Said, text

MAX_TEXT = 400  # of a text in a verdict: an answer may be as long as it likes


class Wrong(Exception):
    """The answer is wrong. expected, got: short texts; where: the first or worst place; why: one
    sentence or "".
    """

    def __init__(self, *, expected: Said, got: Said, where: Said = "", why: Said = "") -> None:
        super().__init__(expected, got)
        self.expected, self.got, self.where = _cut(expected), _cut(got), _cut(where)
        self.why = why

    def __str__(self) -> str:
        return f"expected {self.expected}, got {self.got}"


def _cut(said: Said) -> Said:
    return said[:MAX_TEXT] if isinstance(said, str) else said


def expect_equal(got: Any, want: Any, *, why: Said = "") -> None:
    """Exactly equal: same kind, same length, same values. A list and a tuple are the same kind of
    answer."""
    if isinstance(want, torch.Tensor):
        return expect_close(got, want, tolerance=0.0)
    if not _same(got, want):
        place = _first_place(got, want)
        where = _first_difference(got, want, place)
        why = why or _wrong_kind(got, want) or between_values(got, want)
        expected, came = _from_place(want, place), _from_place(got, place)
        raise Wrong(expected=expected, got=came, where=where, why=why)
    return None


def _from_place(value: Any, place: int | None) -> Said:
    """`value` in words: all of it, or where that is too long, from the first difference on."""
    whole = describe(value)
    if not place or not whole.endswith("..."):
        return whole
    return text("from_place", place=place, rest=describe(value[place:]))


def _same(got: Any, want: Any) -> bool:
    if isinstance(want, (list, tuple)):
        alike = isinstance(got, (list, tuple)) and len(got) == len(want)
        return alike and all(map(_same, got, want))
    if isinstance(want, dict):
        alike = isinstance(got, dict) and got.keys() == want.keys()
        return alike and all(_same(got[key], want[key]) for key in want)
    if isinstance(want, torch.Tensor):
        return is_close(got, want, tolerance=0.0)
    return type(got) is type(want) and bool(got == want)


def _wrong_kind(got: Any, want: Any) -> Said:
    """A sentence for an answer that has the right value in the wrong kind, else nothing."""
    if isinstance(want, (bool, int, float)) and isinstance(got, (bool, int, float, torch.Tensor)):
        single = got.numel() == 1 if isinstance(got, torch.Tensor) else True
        if single and got == want:
            return text("right_value", kind=type(want).__name__)
    return ""


def _first_difference(got: Any, want: Any, place: int | None) -> Said:
    if not isinstance(want, (list, tuple)) or not isinstance(got, (list, tuple)):
        return ""
    if len(got) != len(want):
        return text("length", want=len(want), got=len(got))
    return text("at", place=f"[{place}]")


def _first_place(got: Any, want: Any) -> int | None:
    """The first place at which two lists differ; None where there is none in the shorter one, or
    one is no list."""
    if not isinstance(got, (list, tuple)) or not isinstance(want, (list, tuple)):
        return None
    pairs = enumerate(zip(got, want, strict=False))
    return next((k for k, pair in pairs if not _same(*pair)), None)


def expect_close(got: Any, want: torch.Tensor, *, tolerance: float | None = None) -> None:
    """Same shape, same dtype, and no element further off than `tolerance` times the largest wanted
    value. Integers and truth values are equal or wrong.

    The default tolerance is 64 units of the dtype's rounding (`torch.finfo(dtype).eps`): room for
    another order of summation, none for another formula. `want` must be finite; a NaN in `got` is
    always wrong.
    """
    if not _is_of_kind(got, want):
        raise _another_kind(got, want, tolerance)
    allowed = _allowed(want, tolerance)
    error = _wrong_by(got, want, allowed)
    if bool((error >= 0).any()):
        raise _worst(got, want, error, allowed)


def is_close(got: Any, want: torch.Tensor, *, tolerance: float | None = None) -> bool:
    """Whether `expect_close` lets it pass: many times as fast where it does not, since nobody asks
    how the two are related."""
    if not _is_of_kind(got, want):
        return False
    return not bool((_wrong_by(got, want, _allowed(want, tolerance)) >= 0).any())


def _wrong_by(got: torch.Tensor, want: torch.Tensor, allowed: float) -> torch.Tensor:
    """How far off each element is that is further off than `allowed`, and -1 for the others."""
    wide = torch.complex128 if want.is_complex() else torch.float64
    error = (got.detach().to(wide) - want.detach().to(wide)).abs()
    error = torch.where(error.isnan(), math.inf, error)
    rounds = want.is_floating_point() or want.is_complex()
    wrong = error > allowed if rounds else got != want  # float64 holds no integer over 2**53
    return torch.where(wrong, error, -1.0)


def _is_of_kind(got: Any, want: torch.Tensor) -> bool:
    """Whether it is a tensor of the shape and the dtype of `want`."""
    return isinstance(got, torch.Tensor) and (got.shape, got.dtype) == (want.shape, want.dtype)


def _another_kind(got: Any, want: torch.Tensor, tolerance: float | None = None) -> Wrong:
    if not isinstance(got, torch.Tensor):
        return Wrong(expected=text("tensor", tensor=describe(want)), got=describe(got))
    why = between_kinds(got, want, tolerance or 0.0)
    return Wrong(expected=_kind(want), got=_kind(got), why=why)


def _kind(t: torch.Tensor) -> str:
    return f"{tuple(t.shape)} {str(t.dtype).removeprefix('torch.')}"


def _allowed(want: torch.Tensor, tolerance: float | None) -> float:
    if not (want.is_floating_point() or want.is_complex()) or want.numel() == 0:
        return 0.0
    if not bool(want.isfinite().all()):
        raise ValueError("the truth itself is not finite: the check is at fault")
    tolerance = 64 * torch.finfo(want.dtype).eps if tolerance is None else tolerance
    return tolerance * float(want.detach().abs().max())


def _worst(got: torch.Tensor, want: torch.Tensor, error: torch.Tensor, allowed: float) -> Wrong:
    """The element that is furthest off; `error` is below 0 where nothing is wrong."""
    index = [int(i) for i in torch.unravel_index(error.argmax(), error.shape)]
    at = tuple(index)
    counts = {"wrong": int((error >= 0).sum()), "total": error.numel()}
    facts = {"place": str(index), "allowed": allowed, **counts}
    alone = error.numel() == 1  # "worst of 1" says nothing
    expected, mine = numbers_apart(want[at].item(), got[at].item())
    return Wrong(
        expected=expected,
        got=mine,
        where=text("allowed", **facts) if alone else text("worst", **facts),
        why=between_tensors(got, want, allowed),
    )


def numbers_apart(a: complex, b: complex, *, digits: int = 6) -> tuple[str, str]:
    """Two numbers in so many digits that they differ, and in `digits` at least."""
    if isinstance(a, int):  # and b, which is of the same dtype
        return str(a), str(b)
    each = ((f"{a:.{n}g}", f"{b:.{n}g}") for n in (digits, 6, 9, 12, 17))
    return next((pair for pair in each if pair[0] != pair[1]), (str(a), str(b)))


def same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are views of one storage."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def expect_view(got: Any, want: torch.Tensor) -> None:
    """The very same view: the storage of `want`, its shape, strides and offset. No byte may have
    been copied."""
    if not _is_of_kind(got, want):
        raise _another_kind(got, want)
    if want.numel() and not same_memory(got, want):
        copied = text("copy", nbytes=got.untyped_storage().nbytes())
        raise Wrong(expected=text("view"), got=copied)
    place, wanted = _place(got), _place(want)
    if want.numel() and place != wanted:
        raise Wrong(expected=wanted, got=place)


def _place(t: torch.Tensor) -> str:
    """Strides and offset; the stride of a dimension of size 1 is never used, so it is shown as a
    dot."""
    strides = ", ".join("." if n == 1 else str(s) for n, s in zip(t.shape, t.stride(), strict=True))
    return f"strides ({strides}), offset {t.storage_offset()}"
