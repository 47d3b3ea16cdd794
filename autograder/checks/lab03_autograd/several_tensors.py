"""One answer that consists of several tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from autograder.judge import Said, Wrong, expect_close, expect_tuple, within


def expect_each(
    got: Any,
    want: Sequence[Tensor],
    names: str,
    *,
    tolerance: float = 1e-5,
    alone: Mapping[str, Said] | None = None,
) -> None:
    """Each tensor close to the wanted one; raises Wrong about the first that is not, by name, with
    its sentence of `alone` where it is the only one and the comparison has none."""
    each = names.split()
    expect_tuple(got, len(want), f"{len(want)} tensors: {', '.join(each)}")
    wrong: dict[str, Wrong] = {}
    for name, mine, torchs in zip(each, got, want, strict=True):
        try:
            with within(f"in {name}"):
                expect_close(mine, torchs, tolerance=tolerance)
        except Wrong as found:
            wrong[name] = found
    for name, first in wrong.items():
        if len(wrong) == 1 and alone:
            first.why = first.why or alone.get(name, "")
        raise first
