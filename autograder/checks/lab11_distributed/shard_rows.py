"""Rows that do not divide by the number of ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_close, within

from . import lab

_JOINED = {
    "RuntimeError: shape": "W * R rows are joined, and the whole has V: cut the padding off first.",
}
ROW_OF_ZEROS = (
    "A row of zeros that is no padding was left out, as where rows of zeros are taken for padding. "
    "What stands in the padding says nothing: it is what comes behind V rows."
)
_RAISED = {
    "RuntimeError: shape": (
        "This shape holds another number of values. W shards hold W * R rows, of which W * R - V "
        "are padding: fill up with zeros along dimension 0 first."
    ),
    "RuntimeError: Padding": "F.pad counts dimensions from the last one, and a bias has only one. "
    "The padding is rows, the rest of the shape t.shape[1:].",
    "RuntimeError: cannot reshape tensor of 0": (
        "A rank may hold no row of the whole, and a row no number. Where nothing is held, -1 says "
        "nothing: the rest of the shape is t.shape[1:]."
    ),
    "IndexError: index": "Behind the last row there may be more than one row of padding, or whole "
    "shards of it.",
    "IndexError: list index": (
        "What is indexed here ends before this place. torch.chunk and torch.split may give fewer "
        "parts than there are ranks, and the rows of a rank may all lie behind the last one: they "
        "are R rows of zeros."
    ),
    "IndexError: tuple index": (
        "What is indexed here ends before this place. torch.chunk and torch.split may give fewer "
        "parts than there are ranks, and the rows of a rank may all lie behind the last one: they "
        "are R rows of zeros."
    ),
}


@lab.question(
    "shard_rows",
    points=3,
    minutes=6,
    difficulty=2,
    hints=(
        "How many rows does each rank hold if all hold the same number and none is lost? And "
        "where does the padding end up when the shards are put together again?",
        "R = ceil(V / W). Pad the whole to W * R rows, then rank r holds rows r * R to (r + 1) * "
        "R. The other way: join all shards and cut off what exceeds V.",
        "rows = -(-len(t) // world); return torch.cat(shards)[:v]",
    ),
)
def shard_rows(student: Student, draw: Draw) -> None:
    """Rows in equal shards, one for each rank, and back: shard(t (V, ...), rank, world) -> (R, ...)
    with R = ceil(V / W), padded with zeros, and unshard(shards, v) -> (V, ...).

    What stands in the padding of the shards that come back is nobody's business.
    """
    cases = [((600, 4), 7), ((8, 3), 7), ((12,), 4), ((3, 2), 5), ((1, 2, 2), 3), ((7,), 1)]
    cases += [(draw.shape(low=2, high=9), draw.integer(2, 8)) for _ in draw.cases(2)]
    dtypes = [draw.choice((torch.float32, torch.float64)) for _ in cases]
    cases += [((5, 3), 4), ((5,), 3), ((7, 2, 1, 3), 3), ((5, 0), 2), ((9,), 4), ((0, 3), 2)]
    dtypes += [torch.bfloat16, torch.int64, *[torch.float32] * 2, torch.bool, torch.float32]
    for (shape, world), dtype in zip(cases, dtypes, strict=True):
        t = draw.tensor(*shape, dtype=dtype, layout=draw.choice(("contiguous", "transposed")))
        if len(t) > 9:
            t[len(t) // 2] = 0  # a row of zeros that is no padding
        if t.shape == (12,):
            t[-1] = 0  # there is no padding, and the whole ends with one
        want = shards_of(t, world)
        for rank in range(world):
            with explaining(_RAISED):
                got = student.call("shard", t, rank, world)
            why = partial(_of_a_shard, got, want[rank], rank, len(t))
            with within(f"on rank {rank}", why=why):
                expect_close(got, want[rank], tolerance=0.0)
        poisoned = _with_noise_in_the_padding(want, len(t))
        with explaining(_JOINED):
            got = student.call("unshard", poisoned, len(t))
        with within("", why=partial(_of_the_whole, got, t, len(want[0]))):
            expect_close(got, t, tolerance=0.0)


THE_REST = "Only rows are cut and filled up. The rest of the shape stays as it is."
ALONG_ANOTHER = (
    "Only rows are filled up, and here another dimension grew in their place. F.pad counts "
    "dimensions from the last one: the rows come last in its list, behind two zeros for each other "
    "dimension."
)


def _of_a_shard(got: Any, want: Tensor, rank: int, v: int) -> str:
    """What is wrong in a shard: its number of rows, its padding or its rows; "" where the verdict
    has a better word."""
    rows = len(want)
    if not isinstance(got, Tensor):
        return ""
    if got.dim() != want.dim():
        return THE_REST
    held = max(0, min(rows, v - rank * rows))
    grown = any(mine > n for mine, n in zip(got.shape, want.shape, strict=True))
    if len(got) == held < rows and grown:
        return ALONG_ANOTHER
    if len(got) == (rank + 1) * rows - v > rows:
        return (
            f"This shard has (rank + 1) * R - V = {len(got)} rows. Rank {rank} holds no row of the "
            f"whole: it is filled up with R = {rows} rows of zeros, and no more."
        )
    if len(got) != rows:
        return f"R = ceil(V / W) is {rows} here, and this shard has another number of rows."
    if got.shape != want.shape:
        return THE_REST
    if got.dtype != want.dtype:
        return ""
    if got[:held].equal(want[:held]):
        return f"From its row {held} on this shard is padding, and holds zeros."
    return (
        f"Rank {rank} holds the rows of the whole from {rank * rows} on, {held} of them, in order."
    )


def _of_the_whole(got: Any, want: Tensor, rows: int) -> str:
    """What is wrong in the whole: its number of rows, or one of them."""
    if not isinstance(got, Tensor):
        return "" if got is None else "The whole is one tensor, (V, ...)."
    if got.dim() != want.dim() or got.shape[1:] != want.shape[1:]:
        return (
            "The shards are rows of one tensor: join them along dimension 0, one after the other."
        )
    if got.dtype == want.dtype and _lacks_zeros(got, want):
        return ROW_OF_ZEROS
    if len(got) != len(want):
        return f"The whole has {len(want)} rows, and {len(got)} came."
    if got.dtype != want.dtype:
        return ""
    row = int((got != want).reshape(len(want), -1).any(dim=1).nonzero()[0])
    return f"Row {row} of the whole is row {row % rows} of the shard of rank {row // rows}."


def _lacks_zeros(got: Tensor, want: Tensor) -> bool:
    """Whether all rows of `want` are there in order, but for some that are zeros. What comes behind
    them is not looked at."""
    width = math.prod(want.shape[1:])
    filled, others = (t[t.reshape(len(t), width).any(dim=1)] for t in (want, got))
    missing = (len(want) - len(filled)) - (len(got) - len(others))
    return len(filled) > 0 and missing > 0 and others[: len(filled)].equal(filled)


def shards_of(t: Tensor, world: int) -> list[Tensor]:
    """What torch.chunk gives each rank, padded with zeros to the first one's length."""
    chunks = list(t.chunk(world))
    rows = len(chunks[0])
    chunks += [t[:0]] * (world - len(chunks))
    return [torch.cat([c, t.new_zeros(rows - len(c), *t.shape[1:])]) for c in chunks]


def _with_noise_in_the_padding(shards: Sequence[Tensor], v: int) -> list[Tensor]:
    rows = len(shards[0])
    noisy = [s.clone() for s in shards]
    for rank, s in enumerate(noisy):
        s[max(0, min(rows, v - rank * rows)) :] = 1e9
    return noisy


def joined(shards: Sequence[Tensor], v: int) -> Tensor:
    """The right way back."""
    return torch.cat(list(shards))[:v]


def right_shard(t: Tensor, rank: int, world: int) -> Tensor:
    """The right way there."""
    return shards_of(t, world)[rank]


shard_rows.otherwise(shard=right_shard, unshard=joined)


def _dropping(t: Tensor, rank: int, world: int) -> Tensor:
    rows = len(t) // world
    return t[rank * rows : (rank + 1) * rows]


shard_rows.wrong(
    "remainder_dropped",
    "This shard has V // W rows. With as many on each rank, nobody holds the V % W rows that are "
    "left, 5 of 600 on 7 ranks: those words could never learn. Round up, and pad.",
    shard=_dropping,
)


def _unpadded(t: Tensor, rank: int, world: int) -> Tensor:
    rows = -(-len(t) // world)
    return t[rank * rows : (rank + 1) * rows]


shard_rows.wrong(
    "not_padded",
    "The shards have different lengths. A collective moves equal parts: fill up with zeros to R "
    "rows.",
    shard=_unpadded,
)


def _balanced(t: Tensor, rank: int, world: int) -> Tensor:
    rows = -(-len(t) // world)
    mine = t.tensor_split(world)[rank]
    return torch.cat([mine, t.new_zeros(rows - len(mine), *t.shape[1:])])


shard_rows.wrong(
    "spread_evenly",
    "The rows were spread evenly, so that several ranks hold padding. fully_shard fills each rank "
    "with R rows until none is left; else the joined tensor has holes.",
    shard=_balanced,
)


def _interleaved(t: Tensor, rank: int, world: int) -> Tensor:
    rows = -(-len(t) // world)
    mine = t[rank::world]
    return torch.cat([mine, t.new_zeros(rows - len(mine), *t.shape[1:])])


shard_rows.wrong(
    "dealt_out",
    "The rows were dealt out like cards, every W-th to a rank. Ranks hold neighbouring rows, so "
    "that joining them is a plain concatenation.",
    shard=_interleaved,
)


def _padded_in_front(t: Tensor, rank: int, world: int) -> Tensor:
    rows = -(-len(t) // world)
    whole = torch.cat([t.new_zeros(rows * world - len(t), *t.shape[1:]), t])
    return whole[rank * rows : (rank + 1) * rows]


shard_rows.wrong(
    "padded_in_front",
    "The padding stands before the first row. It belongs behind the last one: the whole is the "
    "first V rows of what is joined.",
    shard=_padded_in_front,
)


def _one_more(t: Tensor, rank: int, world: int) -> Tensor:
    rows = len(t) // world + 1
    whole = torch.cat([t, t.new_zeros(rows * world - len(t), *t.shape[1:])])
    return whole[rank * rows : (rank + 1) * rows]


shard_rows.wrong(
    "one_row_more",
    "V // W + 1 is one row too many where V divides by W. ceil(V / W) is -(-V // W).",
    shard=_one_more,
)
shard_rows.wrong(
    "padding_kept",
    "The padding came back as rows of the tensor. Cut the joined shards off after V rows.",
    unshard=lambda shards, v: torch.cat(list(shards)),
)


def _filled_rows(shards: Sequence[Tensor], v: int) -> Tensor:
    whole = torch.cat(list(shards))
    return whole[whole.flatten(1).any(dim=1) if whole.dim() > 1 else whole != 0]


shard_rows.wrong(
    "zeros_taken_for_padding",
    ROW_OF_ZEROS,
    unshard=_filled_rows,
)


def _cut_each(shards: Sequence[Tensor], v: int) -> Tensor:
    rows = v // len(shards)
    return torch.cat([s[:rows] for s in shards])


shard_rows.wrong(
    "cut_from_each",
    "Rows were cut off every shard on the way back. Only the last ranks hold padding: join first, "
    "then cut once.",
    unshard=_cut_each,
)


def _cut_from_the_last(shards: Sequence[Tensor], v: int) -> Tensor:
    padding = sum(map(len, shards)) - v
    return torch.cat([*shards[:-1], shards[-1][: max(0, len(shards[-1]) - padding)]])


shard_rows.wrong(
    "cut_from_the_last",
    "Only the last shard was cut, which may hold less than all of the padding: of 8 rows on 7 "
    "ranks, three ranks hold padding alone. Join first, then cut.",
    unshard=_cut_from_the_last,
)


def _chunk_of(t: Tensor, rank: int, world: int) -> Tensor:
    chunks = t.chunk(world)
    padding = len(chunks[0]) - len(chunks[rank])
    return torch.cat([chunks[rank], t.new_zeros(padding, *t.shape[1:])])


shard_rows.wrong(
    "fewer_chunks_than_ranks",
    "There are fewer parts than ranks: 8 rows in parts of R = 2, as torch.chunk or torch.split "
    "gives them, are 4, and ranks 4 to 6 have none. They hold R rows of zeros.",
    shard=_chunk_of,
)


def _padded_with(t: Tensor, rank: int, world: int, *, padding: Tensor) -> Tensor:
    mine = _unpadded(t, rank, world)
    rows = -(-len(t) // world)
    return torch.cat([mine, padding.expand(rows - len(mine), *t.shape[1:])])


shard_rows.wrong(
    "padded_with_the_last_row",
    "The padding repeats the last row. It holds zeros, or sums over shards count a row twice.",
    shard=lambda t, rank, world: _padded_with(t, rank, world, padding=t[-1:]),
)
shard_rows.wrong(
    "padded_in_float32",
    "The shard has the dtype of the tensor. What torch.zeros makes is float32 unless it is told.",
    shard=lambda t, rank, world: right_shard(t, rank, world).float(),
)


def _for_matrices(t: Tensor, rank: int, world: int) -> Tensor:
    _, columns = t.shape[0], t.shape[1]
    return right_shard(t, rank, world).reshape(-1, columns)


shard_rows.wrong(
    "for_matrices_only",
    "Right for a matrix. A bias has one dimension, and other tensors have three: the rest of the "
    "shape is t.shape[1:], whatever it is.",
    shard=_for_matrices,
)
shard_rows.wrong(
    "last_rank_first",
    "The ranks are counted from the wrong end: rank 0 holds the first rows.",
    shard=lambda t, rank, world: right_shard(t, world - 1 - rank, world),
)
shard_rows.wrong(
    "joined_side_by_side",
    "The shards were put side by side. They are rows: join them along dimension 0.",
    unshard=lambda shards, v: torch.cat(list(shards), dim=-1)[..., :v],
)


@shard_rows.cost
def _(student: Student, draw: Draw) -> str:
    w = draw.tensor(600, 64)
    mine = student.call("shard", w, 6, 7)
    padding = 7 * mine.numel() - w.numel()
    return (
        f"the head's weight on 7 ranks: {mine.numel() * 4:,} of {w.nbytes:,} bytes on each, "
        f"{padding * 4:,} bytes of padding in all"
    )
