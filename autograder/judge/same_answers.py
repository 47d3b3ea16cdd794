"""When two answers do the same, so that one is named after the other."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import Any

import torch

from .answer import Raised
from .compare import is_close
from .student import Call, WroteInput


def same_transcript(a: list[Call], b: list[Call], *, layout: bool = True) -> bool:
    """Call by call; layout: as in `same_outcome`. In which order a half keeps its tensors for the
    next one is its own affair: only the last call, which was judged wrong, has to have them in the
    same."""
    if [x.function for x in a] != [y.function for y in b]:
        return False
    pairs = [(x.outcome, y.outcome) for x, y in zip(a, b, strict=True)]
    before = all(_same_but_for_order(x, y, layout) for x, y in pairs[:-1])
    return before and all(same_outcome(x, y, layout=layout) for x, y in pairs[-1:])


def _same_but_for_order(a: Any, b: Any, layout: bool) -> bool:
    """As same_outcome, where lists of nothing but tensors hold the same ones in any order."""
    both = isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b)
    if not both:
        return same_outcome(a, b, layout=layout)
    if not all(isinstance(t, torch.Tensor) for t in (*a, *b)):
        return all(map(partial(_same_but_for_order, layout=layout), a, b))
    left = list(b)
    for t in a:
        alike = (k for k, other in enumerate(left) if same_outcome(t, other, layout=layout))
        found = next(alike, None)
        if found is None:
            return False
        del left[found]
    return True


def same_outcome(a: Any, b: Any, *, layout: bool = True) -> bool:
    """layout: whether tensors have to lie in memory in the same way."""
    alike = partial(same_outcome, layout=layout)
    if isinstance(a, Raised) and isinstance(b, Raised):
        return (a.error, a.message, a.why) == (b.error, b.message, b.why) or (
            _is_out_of_range(a) and is_device_assert(b)
        )
    if isinstance(a, WroteInput) and isinstance(b, WroteInput):
        return a.argument == b.argument
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return (not layout or _same_layout(a, b)) and _same_elements(a, b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, float) or isinstance(b, float):
        return _same_number(a, b)
    return type(a) is type(b) and bool(a == b)


def _is_out_of_range(known: Raised) -> bool:
    """Whether a known answer, which runs on the CPU, met an index that is none. F.one_hot calls its
    indices classes."""
    return bool(re.search("out of (bounds|range)|Class values", known.message))


def is_device_assert(outcome: Any) -> bool:
    """Whether a GPU met such an index: it tells neither which one nor where, and is lost."""
    return isinstance(outcome, Raised) and "device-side assert" in outcome.message


def _same_number(a: Any, b: Any) -> bool:
    """The same formula in another order rounds otherwise, and most where it takes one large number
    from another, as moments of a trace's clock. A whole number may come as an int and is a count:
    it is the same or it is not. A NaN is the same answer as a NaN."""
    numbers = all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in (a, b))
    try:
        if not numbers or a == b or (math.isnan(a) and math.isnan(b)):
            return numbers
        counts = all(float(n).is_integer() and abs(n) < 2**53 for n in (a, b))
        return not counts and math.isclose(a, b, rel_tol=1e-6)
    except OverflowError:  # a whole number that no float can hold is none of ours
        return False


def _same_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    """A copy is not the view it was made from."""
    return (a.stride(), a.storage_offset()) == (b.stride(), b.storage_offset())


def _same_elements(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Same values within rounding, NaN and infinity in the same places."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    if a.equal(b):  # mostly, and soonest told
        return True
    finite = a.isfinite()
    alike = finite.equal(b.isfinite()) and is_close(a[finite], b[finite])
    return alike and torch.allclose(a[~finite], b[~finite], equal_nan=True)
