"""The head y = x w^T + b: the truth, and what a kernel computes that finds its way wrongly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from autograder.judge import LAYOUTS, Draw


class Given(NamedTuple):
    """x (N, D), w (V, D), b (V,)."""

    x: Tensor
    w: Tensor
    b: Tensor


FIRST = (  # N, layouts of x, w and b: what fails first names a misconception
    (19, "contiguous", "contiguous", "contiguous"),
    (5, "transposed", "contiguous", "contiguous"),
    (4, "contiguous", "transposed", "contiguous"),
    (1, "contiguous", "contiguous", "strided"),
    (0, "contiguous", "contiguous", "contiguous"),
    (3, "strided", "offset", "offset"),
    (17, "expanded", "strided", "expanded"),
)


def cases(draw: Draw) -> Iterator[Given]:
    """Heads of every layout, with V and D that are no multiple of 8."""
    for n, *layouts in FIRST:
        yield _drawn(draw, n, *layouts)
    for _ in draw.cases(2):
        yield _drawn(draw, draw.integer(2, 40), *(draw.choice(LAYOUTS) for _ in range(3)))


def _drawn(draw: Draw, n: int, in_x: str, in_w: str, in_b: str) -> Given:
    v, d = 8 * draw.integer(2, 5) + draw.integer(1, 7), 8 * draw.integer(2, 4) + draw.integer(1, 7)
    x, w = draw.tensor(n, d, layout=in_x), draw.tensor(v, d, layout=in_w)
    return Given(x, w, draw.tensor(v, layout=in_b))


def head(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """(N, V) in float32, computed in float64."""
    return (x.double() @ w.double().T + b.double()).float()


def read(t: Tensor, shape: tuple[int, int], strides: tuple[int, int]) -> Tensor:
    """`shape` elements from where t begins in memory, with these strides; NaN beyond its end."""
    memory = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
    if not memory.numel():
        return t.new_zeros(shape)
    rows, columns = torch.arange(shape[0])[:, None], torch.arange(shape[1])
    at = int(t.storage_offset()) + rows * strides[0] + columns * strides[1]
    inside = at < len(memory)
    return torch.where(inside, memory[at.clamp(max=len(memory) - 1)], math.nan)


def as_if_contiguous(t: Tensor) -> Tensor:
    """t (rows, columns) or (columns,) as somebody reads it who ignores its strides."""
    rows, columns = t.shape if t.dim() == 2 else (1, len(t))
    return read(t, (rows, columns), (columns, 1)).view(t.shape)


def as_if_transposed(w: Tensor) -> Tensor:
    """w (V, D) as somebody reads it who takes it for a contiguous (D, V)."""
    v, d = w.shape
    return read(w, (v, d), (1, v))


def columns_written(y: Tensor) -> Tensor:
    """y (N, V) as it is when y[n, v] was written to place v * N + n."""
    return y.T.contiguous().view(y.shape)


def without_the_rest(y: Tensor, rows: int, columns: int) -> Tensor:
    """y of which only the first rows and columns were written: the rest is NaN, as it was."""
    written = torch.full_like(y, math.nan)
    written[:rows, :columns] = y[:rows, :columns]
    return written
