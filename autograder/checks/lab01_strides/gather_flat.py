"""`gather` as address arithmetic."""

from __future__ import annotations

import torch

from autograder.judge import Draw, Student, expect_close

from . import lab
from .geometry import Sizes


@lab.question(
    "gather_flat",
    points=3,
    minutes=10,
    difficulty=3,
    hints=(
        "Write the address of the logit in row n, column index[n, k]. Which parts change with n, "
        "which with k?",
        "Rows contribute arange(N)[:, None] * stride[0], columns index * stride[1]. "
        "Adding them broadcasts (N, 1) with (N, K).",
        "flat[offset + torch.arange(len(index))[:, None] * stride[0] + index * stride[1]]",
    ),
)
def gather_flat(student: Student, draw: Draw) -> None:
    """`x.gather(1, index)` without x: only its storage as one flat row, its strides and its offset.

    flat (all elements of the storage), stride (2 numbers), offset, index (N, K) int64 -> (N, K).
    """
    drawn = [_rows_and_columns(draw, at) for at in ("contiguous", *draw.layouts() * draw.rounds)]
    cases = [(_flat(x), x.stride(), x.storage_offset(), index) for x, index in drawn]
    for (x, index), got in zip(drawn, student.each("gather_flat", cases), strict=True):
        expect_close(got, x.gather(1, index), tolerance=0.0)


def _rows_and_columns(draw: Draw, layout: str) -> tuple[torch.Tensor, torch.Tensor]:
    n, v, k = draw.integer(2, 9), draw.integer(5, 60), draw.integer(1, 3)
    return draw.tensor(n, v, layout=layout), draw.integers(n, k, low=0, high=v - 1)


def _flat(x: torch.Tensor) -> torch.Tensor:
    """The whole storage of x as one row."""
    return torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())


@gather_flat.wrong(
    "column_stride_forgotten",
    "The column number needs its stride too: neighbours in a row need not be neighbours in memory.",
)
def _(flat: torch.Tensor, stride: Sizes, offset: int, index: torch.Tensor) -> torch.Tensor:
    return flat[offset + torch.arange(len(index))[:, None] * stride[0] + index]


gather_flat.wrong(
    "rows_forgotten",
    "Every row reads from row 0. The row number has an address of its own: arange(N)[:, None] * "
    "stride[0].",
    gather_flat=lambda flat, stride, offset, index: flat[offset + index * stride[1]],
)


@gather_flat.wrong(
    "offset_lost",
    "The offset is missing: the tensor does not begin where its storage begins.",
)
def _(flat: torch.Tensor, stride: Sizes, offset: int, index: torch.Tensor) -> torch.Tensor:
    return flat[torch.arange(len(index))[:, None] * stride[0] + index * stride[1]]


@gather_flat.wrong(
    "strides_swapped",
    "The two strides changed places: stride[0] steps from row to row, stride[1] from column to "
    "column.",
)
def _(flat: torch.Tensor, stride: Sizes, offset: int, index: torch.Tensor) -> torch.Tensor:
    return flat[offset + torch.arange(len(index))[:, None] * stride[1] + index * stride[0]]


@gather_flat.wrong(
    "rows_along_columns",
    "The row numbers (N,) lie along dim 1 when they meet the index (N, K). Give them a dim of "
    "their own: arange(N)[:, None].",
)
def _(flat: torch.Tensor, stride: Sizes, offset: int, index: torch.Tensor) -> torch.Tensor:
    return flat[offset + torch.arange(len(index)) * stride[0] + index * stride[1]]


@gather_flat.cost
def _(student: Student, draw: Draw) -> str:
    logits, target = draw.tensor(32, 600), draw.integers(32, 1, low=0, high=599)
    picked = student.call("gather_flat", _flat(logits), logits.stride(), 0, target)
    return (
        f"{picked.nbytes:,} bytes picked out of {logits.nbytes:,}: this is how a loss reads its "
        "targets"
    )
