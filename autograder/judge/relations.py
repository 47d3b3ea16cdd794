"""What a wrong answer has to do with the right one, where that can be seen in the values alone.

No guess at how it came about: each sentence is true of the two values that were compared, whoever
wrote the code. A known wrong answer that behaves the same says more, and goes first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from .words import Said, text

MOST = 10_000  # values of a list; a longer one is not looked into
LARGEST = 1_000_000  # elements of a tensor
SINGLE = 64 * torch.finfo(torch.float32).eps
"""How far a float64 may be off that was a float32 on the way."""
FACTORS = (-1.0, 2.0, 0.5, -2.0, -0.5)
"""What one number is compared with: any other quotient of two numbers says nothing."""
Plain: TypeAlias = "bool | int | float | str | tuple[Plain, ...] | None"


def between_kinds(got: torch.Tensor, want: torch.Tensor, tolerance: float) -> Said:
    """Of two tensors whose shapes or dtypes differ: what would make one of the other."""
    if got.dtype != want.dtype and got.shape == want.shape and want.numel():
        return text("relation.dtype") if _close(got, want, tolerance) else ""
    if got.dtype != want.dtype or got.numel() != want.numel() or not want.numel():
        return ""
    if got.dim() == 2 and got.mT.shape == want.shape and _close(got.mT, want, tolerance):
        return text("relation.transposed")
    alike = got.shape != want.shape and _close(got.reshape(want.shape), want, tolerance)
    return text("relation.shape") if alike else ""


def between_tensors(got: torch.Tensor, want: torch.Tensor, allowed: float) -> Said:
    """Of two tensors of one shape and dtype that are further apart than `allowed`."""
    if not (want.is_floating_point() and 0 < want.numel() <= LARGEST):
        return ""
    mine, right = got.detach().double(), want.detach().double()
    if not bool(mine.isfinite().all()):
        return text("relation.nan") if bool(mine.isnan().any()) else text("relation.infinite")
    tolerance = allowed / (float(right.abs().max()) or 1.0)
    if not bool(mine.any()):
        return text("relation.zero") if want.numel() > 1 else ""
    if want.dtype is torch.float64 and _close(mine, right, SINGLE):
        return text("relation.digits")
    if _is_square(right) and _close(mine.mT, right, tolerance):
        return text("relation.transposed")
    return _by_a_factor(mine, right, tolerance) or _in_another_order(mine, right, tolerance)


def _is_square(t: torch.Tensor) -> bool:
    return t.dim() == 2 and t.shape[0] == t.shape[1]


def _by_a_factor(mine: torch.Tensor, right: torch.Tensor, tolerance: float) -> Said:
    place = right.abs().argmax()
    factor = float(mine.flatten()[place] / right.flatten()[place])
    if right.count_nonzero() < 2:
        factor = next((k for k in FACTORS if math.isclose(k, factor, rel_tol=1e-4)), 0.0)
    return _factor(factor) if _close(mine / factor, right, max(tolerance, 1e-5)) else ""


def _factor(factor: float) -> Said:
    shown = f"{factor:.4g}"
    if shown == "-1":
        return text("relation.sign")
    return text("relation.factor", factor=shown) if shown != "1" else ""  # off by almost nothing


def _in_another_order(mine: torch.Tensor, right: torch.Tensor, tolerance: float) -> Said:
    """Whether the rows are the right ones, in other places."""
    if right.dim() == 0:
        return ""
    rows = [t.reshape(t.shape[0], -1)[:, 0].sort() for t in (mine, right)]
    (_, here), (_, there) = rows
    moved = not torch.equal(here, there)
    return text("relation.order") if moved and _close(mine[here], right[there], tolerance) else ""


def _close(got: torch.Tensor, want: torch.Tensor, tolerance: float) -> bool:
    if want.numel() > LARGEST or got.is_complex() or want.is_complex():
        return False
    mine, right = got.detach().double(), want.detach().double()
    # A dtype that cannot hold more digits is not further off for that.
    dtypes = [t.dtype for t in (got, want) if t.is_floating_point()]
    rounding = max([64 * torch.finfo(dtype).eps for dtype in dtypes], default=0.0)
    allowed = max(tolerance, rounding) * float(right.abs().max())
    return bool(((mine - right).abs() <= allowed).all())


def between_values(got: Any, want: Any) -> Said:
    """Of two plain values that are not equal: numbers, texts, lists of them, dicts."""
    if isinstance(want, dict):
        return _between_dicts(got, want) if isinstance(got, dict) else ""
    if isinstance(want, str):
        return _between_texts(got, want)
    if not isinstance(want, (list, tuple)):
        return _between_numbers([got], [want]) if _are_numbers(got, want) else ""
    if not isinstance(got, (list, tuple)) or max(len(got), len(want)) > MOST:
        return ""
    mine, right = list(map(_plain, got)), list(map(_plain, want))
    if None in mine or None in right:
        return ""
    return _between_lists([p[0] for p in mine if p], [p[0] for p in right if p])


def _plain(value: Any) -> tuple[Plain] | None:
    """A value that can be counted, in a tuple; None for every other."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return (value,)
    if not isinstance(value, (list, tuple)) or len(value) > 20:
        return None
    parts = list(map(_plain, value))
    return None if None in parts else (tuple(part[0] for part in parts if part),)


def _between_dicts(got: dict[Any, Any], want: dict[Any, Any]) -> Said:
    missing, extra = want.keys() - got.keys(), got.keys() - want.keys()
    pairs = {str(key): (_plain(got[key]), _plain(want[key])) for key in want.keys() & got.keys()}
    if any(None in pair for pair in pairs.values()):
        return ""
    differ = sorted(key for key, (mine, right) in pairs.items() if mine != right)
    if missing or extra:
        which = _some(sorted(map(str, missing or extra)))
        said = text("relation.missing" if missing else "relation.extra", what=which)
        return "" if differ else said
    return text("relation.keys", what=_some(differ)) if differ else ""


def _between_texts(got: Any, want: str) -> Said:
    if not isinstance(got, str) or got == want:
        return ""
    if got.strip().casefold() == want.strip().casefold():
        return text("relation.case")
    return ""


def _are_numbers(got: Any, want: Any) -> bool:
    numbers = all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in (got, want))
    try:
        return numbers and math.isfinite(got) and math.isfinite(want)
    except OverflowError:
        return False


def _between_numbers(got: Sequence[Any], want: Sequence[Any]) -> Said:
    """Of as many numbers as were asked for."""
    apart = {float(a) - float(b) for a, b in zip(got, want, strict=True)}
    by = apart.pop() if len(apart) == 1 else 0.0
    if by and (len(want) > 2 or abs(by) == 1):
        size = f"{abs(by):g}"
        if len(want) == 1:
            over = text("relation.apart_alone", by=size)
            return over if by > 0 else text("relation.below_alone", by=size)
        return text("relation.apart", by=size) if by > 0 else text("relation.below", by=size)
    quotients = [float(a) / float(b) if b else math.inf for a, b in zip(got, want, strict=True)]
    first = quotients[0]
    same = all(math.isclose(q, first, rel_tol=1e-6) for q in quotients)
    told = len(want) > 2 or any(math.isclose(first, k, rel_tol=1e-6) for k in FACTORS)
    return _factor(first) if same and told and first and math.isfinite(first) else ""


def _between_lists(got: list[Any], want: list[Any]) -> Said:
    if len(got) == len(want) and all(map(_are_numbers, got, want)):
        related = _between_numbers(got, want) if want else ""
        if related:
            return related
    if len(want) > 1 and all(isinstance(v, bool) for v in (*got, *want)):
        opposite = len(got) == len(want) and all(a != b for a, b in zip(got, want, strict=True))
        return text("relation.opposite") if opposite else ""
    mine, right = Counter(map(repr, got)), Counter(map(repr, want))
    if mine == right:
        return text("relation.order")
    too_many, too_few = mine - right, right - mine
    if not too_few and set(mine) == set(right):
        return text("relation.repeated", what=_some(too_many))
    if not too_few:
        return text("relation.extra", what=_some(too_many))
    return "" if too_many else text("relation.missing", what=_some(too_few))


def _some(what: Any) -> str:
    """The first few, as one text."""
    shown = list(what)
    few = ", ".join(name[:60] for name in shown[:3])
    return few if len(shown) <= 3 else f"{few}, ..."
