"""One answer that consists of several tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from autograder.judge import expect_close, expect_tuple, within


def expect_each(got: Any, want: Sequence[Tensor], names: str, *, tolerance: float = 1e-5) -> None:
    """Each tensor close to the wanted one; raises Wrong about the first that is not, by name."""
    each = names.split()
    expect_tuple(got, len(want), f"{len(want)} tensors: {', '.join(each)}")
    for name, mine, torchs in zip(each, got, want, strict=True):
        with within(f"in {name}"):
            expect_close(mine, torchs, tolerance=tolerance)
