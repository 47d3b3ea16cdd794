"""`gather` as address arithmetic."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_close, within

from . import lab
from .geometry import IN_FLOAT32, Sizes

_NOT_THERE = (
    "A place was read that is not there. An address is the offset, the row times stride[0] and the "
    "column times stride[1], in the whole storage."
)
_RAISED = {
    **dict.fromkeys(
        ("IndexError: index", "IndexError: out of range", "RuntimeError: index"), _NOT_THERE
    ),
    "RuntimeError: setStorage": "A view of this size reaches behind the end of the storage: its "
    "floats lie from the offset on, by both strides.",
    "RuntimeError: stack": "There may be no row in index: then there is nothing to stack, and the "
    "result is (0, K).",
    "ZeroDivisionError": "A stride may be 0, as where a row is repeated: then there is nothing to "
    "divide by. Compute each address.",
    **dict.fromkeys(
        ("RuntimeError: shape", "RuntimeError: Size does not match", "RuntimeError: step is 0"),
        "The storage need not be a matrix of these rows: they may overlap in it, lie apart, or "
        "come column by column. Compute each address.",
    ),
}


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
    drawn += _further(draw)
    cases: list[tuple[Any, ...]] = [
        (_flat(x), x.stride(), x.storage_offset(), index) for x, index in drawn
    ]
    with explaining(_RAISED):
        answers = student.each("gather_flat", cases)
        for (x, index), case, got in zip(drawn, cases, answers, strict=True):
            want = x.gather(1, index)
            with within("", why=partial(_because, got, want, *case)):
                expect_close(got, want, tolerance=0.0)


def _rows_and_columns(draw: Draw, layout: str) -> tuple[torch.Tensor, torch.Tensor]:
    n, v, k = draw.integer(2, 9), draw.integer(5, 60), draw.integer(1, 3)
    return draw.tensor(n, v, layout=layout), draw.integers(n, k, low=0, high=v - 1)


def _further(draw: Draw) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Other dtypes, an offset beside a stride along the row or one of 0, as many columns as rows,
    one of them, more than x has, an index that is a transpose, no row, and addresses beyond a byte,
    beyond two and beyond the integers of float32."""
    wide = draw.tensor(5, 14, dtype=torch.float64, layout="strided")[1:, 2:]
    whole = draw.integers(4, 6, low=0, high=2**60)
    far = torch.zeros(2, 2**23 + 2, dtype=torch.int8)
    far[1, -3] = 1  # at 2**24 + 1
    return [
        (wide, draw.integers(4, 2, low=0, high=11)),
        (whole, draw.integers(4, 2, low=0, high=5)),
        (draw.tensor(3, 7), torch.tensor([[6, 0, 2], [1, 5, 3], [4, 2, 6]])),
        (draw.tensor(4, 5, layout="offset"), torch.tensor([[4], [0], [4], [4]])),
        (draw.tensor(3, 7)[1:2].expand(4, 7), torch.tensor([[6, 0], [1, 5], [3, 3], [0, 2]])),
        (draw.tensor(1, 6, layout="strided"), torch.tensor([[5, 0, 5]])),
        (draw.tensor(1, 6), torch.tensor([[5]])),
        (draw.tensor(3, 4), torch.zeros(0, 2, dtype=torch.int64)),
        (draw.tensor(2, 3), torch.tensor([[2, 1, 0, 2, 1], [0, 0, 2, 1, 1]])),
        (draw.tensor(4, 7), draw.integers(3, 4, low=0, high=6).T),
        (draw.tensor(9, 600), draw.integers(9, 2, low=300, high=599)),
        (draw.tensor(70, 600), draw.integers(70, 1, low=0, high=599)),
        (far, torch.tensor([[0], [far.shape[1] - 3]])),
    ]


def _because(
    got: Any,
    want: torch.Tensor,
    flat: torch.Tensor,
    stride: Sizes,
    offset: int,
    index: torch.Tensor,
) -> str:
    """Where the first wrong float was to be read; "" where the verdict has a better word."""
    if not isinstance(got, torch.Tensor):
        return "" if got is None else "One tensor is asked for, of the index's shape."
    if got.shape != want.shape:
        as_many = got.numel() == want.numel() and got.dtype == want.dtype
        if as_many and (got.dim() == 2 or torch.equal(got.flatten(), want.flatten())):
            return ""
        return "The index has a place for each float that is asked for: (N, K), as it is."
    if got.dtype == index.dtype != want.dtype:
        return "These are whole numbers, as addresses are. The floats that lie there are asked for."
    if got.dtype != want.dtype:
        return "The dtype is that of the storage, whatever it is."
    n, k = (got != want).nonzero()[0].tolist()
    at = offset + n * stride[0] + int(index[n, k]) * stride[1]
    c = int(index[n, k])
    read = (flat == got[n, k]).nonzero().flatten().tolist()
    if len(read) == 1:
        return (
            f"index[{n}, {k}] is {c}. Row {n}, column {c} lies at {at}: {offset} + {n} * "
            f"{stride[0]} + {c} * {stride[1]}. What came lies at {read[0]}."
        )
    return (
        f"index[{n}, {k}] is {c}. Row {n}, column {c} lies at {at}: {offset} + {n} * {stride[0]} + "
        f"{c} * {stride[1]}."
    )


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
    "The row numbers lie along dim 1 when they meet the index (N, K). Give them a dim of "
    "their own: arange(N)[:, None].",
)
def _(flat: torch.Tensor, stride: Sizes, offset: int, index: torch.Tensor) -> torch.Tensor:
    return flat[offset + torch.arange(len(index)) * stride[0] + index * stride[1]]


def _rows(index: torch.Tensor) -> torch.Tensor:
    return torch.arange(len(index), device=index.device)[:, None]


gather_flat.wrong(
    "index_as_address",
    "The column numbers were read as addresses. An address is the offset, the row times stride[0] "
    "and the column times stride[1].",
    gather_flat=lambda flat, stride, offset, index: flat[index],
)
gather_flat.wrong(
    "offset_subtracted",
    "The offset was subtracted. The storage begins in front of the tensor: add it.",
    gather_flat=lambda flat, stride, offset, index: flat[
        _rows(index) * stride[0] + index * stride[1] - offset
    ],
)
gather_flat.wrong(
    "offset_strided",
    "The offset was multiplied by a stride. It is a number of floats already.",
    gather_flat=lambda flat, stride, offset, index: flat[
        offset * stride[1] + _rows(index) * stride[0] + index * stride[1]
    ],
)
gather_flat.wrong(
    "index_taken_for_rows",
    "The index was multiplied by the stride of the rows, as in gather(0, index). Its numbers are "
    "columns: stride[1].",
    gather_flat=lambda flat, stride, offset, index: flat[
        offset + index * stride[0] + torch.arange(index.shape[1], device=index.device) * stride[1]
    ],
)
gather_flat.wrong(
    "offset_twice",
    "The offset was added twice. The storage is counted from its first float: once is enough.",
    gather_flat=lambda flat, stride, offset, index: flat[offset:][
        offset + _rows(index) * stride[0] + index * stride[1]
    ],
)
gather_flat.wrong(
    "first_column_of_the_index",
    "Only the first column of the index was looked up. Each row may ask for K words.",
    gather_flat=lambda flat, stride, offset, index: flat[
        offset + _rows(index) * stride[0] + index[:, :1] * stride[1]
    ],
)
gather_flat.wrong(
    "addresses_returned",
    "These are the addresses. The floats that lie there are asked for: flat[...].",
    gather_flat=lambda flat, stride, offset, index: (
        offset + _rows(index) * stride[0] + index * stride[1]
    ),
)
gather_flat.wrong(
    "columns_numbered",
    "The places of the index were numbered along its columns. stride[0] steps from row to row: "
    "arange(N)[:, None].",
    gather_flat=lambda flat, stride, offset, index: flat[
        offset + torch.arange(index.shape[1], device=index.device) * stride[0] + index * stride[1]
    ],
)
gather_flat.wrong(
    "always_float32",
    "Right for float32. A storage may hold another dtype, and a float32 does not hold its numbers.",
    gather_flat=lambda flat, stride, offset, index: flat[
        offset + _rows(index) * stride[0] + index * stride[1]
    ].float(),
)
gather_flat.wrong(
    "in_float32",
    IN_FLOAT32,
    gather_flat=lambda flat, stride, offset, index: flat[
        (offset + _rows(index) * stride[0] + index.float() * stride[1]).long()
    ],
)


@gather_flat.cost
def _(student: Student, draw: Draw) -> str:
    logits, target = draw.tensor(32, 600), draw.integers(32, 1, low=0, high=599)
    picked = student.call("gather_flat", _flat(logits), logits.stride(), 0, target)
    return (
        f"{picked.nbytes:,} bytes picked out of {logits.nbytes:,}: this is how a loss reads its "
        "targets"
    )
