"""Size, stride and offset of a tensor: what the questions of this lab are about."""

from __future__ import annotations

import torch

Sizes = tuple[int, ...]


def geometry(t: torch.Tensor) -> tuple[Sizes, Sizes, int]:
    return tuple(t.shape), tuple(t.stride()), int(t.storage_offset())
