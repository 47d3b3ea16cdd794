"""One answer that consists of several tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from autograder.judge import Wrong, describe, expect_close


def expect_each(got: Any, want: Sequence[Tensor], names: str, *, tolerance: float = 1e-5) -> None:
    """Each tensor close to the wanted one; raises Wrong about the first that is not, by name."""
    each = names.split()
    if not isinstance(got, (list, tuple)) or len(got) != len(want):
        raise Wrong(expected=f"{len(want)} tensors: {', '.join(each)}", got=describe(got))
    for name, mine, torchs in zip(each, got, want, strict=True):
        try:
            expect_close(mine, torchs, tolerance=tolerance)
        except Wrong as wrong:
            where = f"in {name} {wrong.where}".strip()
            raise Wrong(expected=wrong.expected, got=wrong.got, where=where) from None
