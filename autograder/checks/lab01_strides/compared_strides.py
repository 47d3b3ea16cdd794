"""Strides compared: where a dimension has size 1, any stride will do."""

from __future__ import annotations

from typing import Any

from autograder.judge import Wrong, describe, expect_equal

from .geometry import Sizes


def expect_strides(got: Any, want: Sizes | None, size: Sizes) -> None:
    """The same strides, but for dimensions of size 1: nobody steps along those."""
    if want is None or not isinstance(got, (list, tuple)):
        return expect_equal(got, want)
    if len(got) != len(size):
        where = f"{len(size)} dimensions need {len(size)} strides, {len(got)} came"
        raise Wrong(expected=_dotted(want, size), got=describe(got), where=where)
    used = [(g, w) for g, w, n in zip(got, want, size, strict=True) if n != 1]
    if any(type(g) is not int or g != w for g, w in used):
        raise Wrong(expected=_dotted(want, size), got=_dotted(got, size))
    return None


def _dotted(stride: Any, size: Sizes) -> str:
    """Strides as shown: a dot where the size is 1 and any number would do."""
    shown = [describe(s, 24) if n != 1 else "." for s, n in zip(stride, size, strict=True)]
    return f"({', '.join(shown)}{',' if len(shown) == 1 else ''})"
