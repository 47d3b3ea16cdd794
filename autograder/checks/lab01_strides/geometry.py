"""Size, stride and offset of a tensor: what the questions of this lab are about."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

Sizes = tuple[int, ...]

IN_FLOAT32 = (
    "An address above 2**24 came out wrong, as in float32, which has no odd number there. Compute "
    "with ints."
)


def geometry(t: torch.Tensor) -> tuple[Sizes, Sizes, int]:
    return tuple(t.shape), tuple(t.stride()), int(t.storage_offset())


def every_size(dims: Sequence[int], numbers: Sequence[int] = (0, 1, 2, 3)) -> list[Sizes]:
    """Each size of so many dimensions whose numbers are among `numbers`: all awkward ones."""
    return [size for d in dims for size in itertools.product(numbers, repeat=d)]
