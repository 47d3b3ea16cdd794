"""The truth about the head's parameters, bytes and FLOPs: torch's own layer on the meta device,
with sizes and without numbers.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from autograder.judge import Draw

Sizes = tuple[int, ...]


def drawn_sizes(draw: Draw) -> list[Sizes]:
    """Three (d, v), fresh."""
    return [(draw.integer(2, 90), draw.integer(100, 900)) for _ in draw.cases(3)]


def meta_layer(d: int, v: int, dtype: torch.dtype = torch.float32) -> nn.Linear:
    """torch's own layer, with sizes and without numbers."""
    return nn.Linear(d, v, device="meta", dtype=dtype)


def moved_bytes(n: int, d: int, v: int, dtype: torch.dtype) -> int:
    """Of x (n, d), the layer's weight and bias, and the result (n, v), each once."""
    layer, x = meta_layer(d, v, dtype), torch.empty(n, d, device="meta", dtype=dtype)
    return sum(int(t.nbytes) for t in (x, *layer.parameters(), layer(x)))


def product_flops(n: int, d: int, v: int) -> int:
    """What torch's own counter counts for x (n, d) through the layer."""
    with FlopCounterMode(display=False) as counted:
        meta_layer(d, v)(torch.empty(n, d, device="meta"))
    return int(counted.get_total_flops())
