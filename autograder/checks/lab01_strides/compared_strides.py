"""Strides compared: where a dimension has size 1, any stride will do."""

from __future__ import annotations

from typing import Any

from autograder.judge import Wrong, describe, expect_equal

from .geometry import Sizes

_SAY_NONE = "Where there are no such strides, the answer is None."
_ONE_FOR_EACH = "Each dimension of the result has one stride: a tuple with as many numbers."


def expect_strides(
    got: Any, want: Sizes | None, size: Sizes, *, exists: str = "", none: str = ""
) -> None:
    """The same strides, but for dimensions of size 1: nobody steps along those. exists: why there
    are such strides, where None came; none: why there are none."""
    if want is None:
        said = "" if isinstance(got, (list, tuple)) and len(got) == len(size) else _SAY_NONE
        return expect_equal(got, want, why=said or none)
    if not isinstance(got, (list, tuple)):
        return expect_equal(got, want, why=exists if got is None else _ONE_FOR_EACH)
    if len(got) != len(size):
        where = f"{len(size)} dimensions need {len(size)} strides, {len(got)} came"
        raise Wrong(expected=_dotted(want, size), got=describe(got), where=where, why=_ONE_FOR_EACH)
    used = [(g, w) for g, w, n in zip(got, want, size, strict=True) if n != 1]
    if any(type(g) is not int or g != w for g, w in used):
        why = _first_wrong(got, want, size)
        raise Wrong(expected=_dotted(want, size), got=_dotted(got, size), why=why)
    return None


def _first_wrong(got: Any, want: Sizes, size: Sizes) -> str:
    """Of the wrong strides the one that is furthest to the right, and where its step leads."""
    d = max(d for d, n in enumerate(size) if n != 1 and (type(got[d]), got[d]) != (int, want[d]))
    if type(got[d]) is not int:
        return "A stride is a whole number of elements."
    if want[d] == 0:
        return (
            f"A step along dimension {d} of the result has to read the same float again, with a "
            f"stride of 0. Here the stride is {got[d]}."
        )
    return (
        f"A step along dimension {d} of the result leads {want[d]} floats further in the storage. "
        f"Here it leads {got[d]} further."
    )


def _dotted(stride: Any, size: Sizes) -> str:
    """Strides as shown: a dot where the size is 1 and any number would do."""
    shown = [describe(s, 24) if n != 1 else "." for s, n in zip(stride, size, strict=True)]
    return f"({', '.join(shown)}{',' if len(shown) == 1 else ''})"
