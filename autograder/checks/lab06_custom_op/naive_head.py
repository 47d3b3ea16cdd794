"""The head in CUDA, a thread for each logit."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from autograder.judge import Draw, Student, Wrong, describe, expect_tuple

from . import lab
from .bench import BUILD_S, counts_of, explained, needs_compiler, room_for
from .faults import IDLE_LAUNCH, IMPOSSIBLE_LAUNCH, OUT_OF_BOUNDS, SENTENCES
from .heads import (
    as_if_contiguous,
    as_if_transposed,
    cases,
    columns_written,
    expect_logits,
    head,
    list_readings,
    without_the_rest,
)


@lab.question(
    "naive_head",
    points=4,
    minutes=13,
    difficulty=3,
    hints=(
        "Which n and which v are mine? And what does a thread do whose v is V or more?",
        "v = blockIdx.x * blockDim.x + threadIdx.x, n the same with y. The loop over d is that of "
        "6.1. For the grid, divide and round up; without a row there is nothing to launch.",
        "dim3 grid((V + 15) / 16, (N + 15) / 16); and in the kernel: if (n >= N || v >= V) return;",
    ),
    function="run_cu",
    budget_s=BUILD_S,
    simulated=True,
)
def naive_head(student: Student, draw: Draw) -> None:
    """The head in CUDA C++, a thread for each element of y: any N, any strides, masked edges.

    Text with the host function launch; x (N, D), w (V, D), b (V,) -> y (N, V), contiguous.
    """
    needs_compiler()
    with room_for(student, "naive_head") as room:
        for x, w, b in cases(draw):
            with explained(SENTENCES):
                y = room.call("run_cu", "naive_head", x, w, b)
            expect_logits(y, x, w, b)
        _expect_many_blocks(room, draw)
        _expect_few_loads(room, draw)
        _expect_together(room, draw)


def _expect_many_blocks(room: Student, draw: Draw) -> None:
    """Where the blocks are more than the threads that a block may have, <<<block, grid>>> fails."""
    n, v = draw.integer(520, 540), draw.integer(520, 540)
    x, w, b = draw.tensor(n, 1), draw.tensor(v, 1), draw.tensor(v)
    with explained(SENTENCES):
        y = room.call("run_cu", "naive_head", x, w, b)
    expect_logits(y, x, w, b)


TOUCHED = (
    "The logits are right, and more is loaded or stored than they need: for each, 2 D elements "
    "and a bias are read, and it is written once. Does a thread beyond the edge load, too, or "
    "does every turn of the loop read b again, or y, or write y?"
)
AT_THE_EDGE = (
    "The logits are right, and there are as many loads as where each thread of each block takes 2 "
    "D elements and a bias. A thread that hangs over the edge must touch nothing: no logit is its "
    "own, and it does none again."
)
SCATTERED = (
    "Neighbouring threads do not write side by side. Neighbours in x have the same threadIdx.y: "
    "v is to grow by 1 from one to the next, because y[n, v] and y[n, v + 1] lie side by side."
)
SEVERAL_EACH = (
    "The first 16 threads of the first block write more than 16 logits. Each thread is to compute "
    "one element of y: the loops over n and v are gone, and the grid covers y."
)


def _expect_few_loads(room: Student, draw: Draw) -> None:
    """Threads beyond the edge touch nothing, others what they need."""
    n, v, d = draw.integer(17, 23), draw.integer(33, 40), draw.integer(5, 9)
    x, w, b = draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v)
    with explained(SENTENCES):
        counted = counts_of(room.call("run_cu", "naive_head", x, w, b, True), x, w, b)
    for what, got, most in zip(
        ("loads", "stores"), counted, (n * v * (2 * d + 1), n * v), strict=True
    ):
        if got > most:
            every = 16 * 16 * math.ceil(n / 16) * math.ceil(v / 16) * (2 * d + 1)
            why = AT_THE_EDGE if (what, got) == ("loads", every) else TOUCHED
            raise Wrong(expected=f"at most {most:,} {what}", got=f"{got:,}", why=why)


def _expect_together(room: Student, draw: Draw) -> None:
    n, v = draw.integer(33, 40), draw.integer(41, 60)
    x, w, b = draw.tensor(n, 3), draw.tensor(v, 3), draw.tensor(v)
    with explained(SENTENCES):
        got = room.call("written_by_neighbours", "naive_head", x, w, b)
    places = expect_tuple(got, None, "places in y")
    if not all(type(place) is int for place in places):
        raise Wrong(expected="places in y", got=describe(got))
    if len(places) > 16:
        raise Wrong(expected="at most 16 logits", got=f"{len(places)}", why=SEVERAL_EACH)
    runs = sum(place - 1 not in set(places) for place in places)
    if runs > max(1, len(places) // 8):
        said = f"{len(places)} in {runs} places"
        raise Wrong(expected="16 logits side by side", got=said, why=SCATTERED)


naive_head.otherwise(
    run_cu=lambda name, x, w, b, count=False: (
        [
            x.shape[0] * len(w) * (2 * x.shape[1] + 1),
            len(x) * len(w),
            "the CPU, simulated",
            head(x, w, b),
        ]
        if count
        else head(x, w, b)
    ),
    written_by_neighbours=lambda name, x, w, b: list(range(16)),
    naive_head=lambda: "__global__ void naive_head() {}",
)
naive_head.wrong(
    "loads_at_the_edge",
    TOUCHED,
    run_cu=lambda name, x, w, b, count=False: (
        [
            2 * len(x) * len(w) * (2 * x.shape[1] + 1),
            len(x) * len(w),
            "the CPU, simulated",
            head(x, w, b),
        ]
        if count
        else head(x, w, b)
    ),
)
naive_head.wrong(
    "scattered",
    SCATTERED,
    written_by_neighbours=lambda name, x, w, b: [k * len(w) for k in range(16)],
)
naive_head.wrong(
    "several_logits_each",
    SEVERAL_EACH,
    written_by_neighbours=lambda name, x, w, b: list(range(len(w))),
)


@naive_head.wrong("edge_not_masked", OUT_OF_BOUNDS)
def _(name: str, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    raise RuntimeError("out_of_bounds: no mask")


@naive_head.wrong("empty_grid_launched", IMPOSSIBLE_LAUNCH)
def _(name: str, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    if not len(x):
        raise RuntimeError("impossible_launch: a grid of 0 blocks")
    return head(x, w, b)


@naive_head.wrong("blocks_without_a_row", IDLE_LAUNCH)
def _(name: str, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    if not len(x):
        raise RuntimeError("idle_launch: N is 0, and blocks were launched")
    return head(x, w, b)


@naive_head.wrong("grid_and_block_swapped", IMPOSSIBLE_LAUNCH)
def _(name: str, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    if len(x) * len(w) > 1024 * 16 * 16:
        raise RuntimeError("impossible_launch: a block of more than 1024 threads")
    return head(x, w, b)


naive_head.wrong(
    "grid_rounded_down",
    "The last words are still NaN: no thread has written them. Does the grid round up, (V + 15) "
    "/ 16, and does v count with blockIdx.x and threadIdx.x, n with those of y?",
    run_cu=lambda name, x, w, b: without_the_rest(head(x, w, b), len(x), len(w) // 16 * 16),
)


@naive_head.wrong(
    "grid_rounded_down_both_ways",
    "What no full block covers is still NaN: round up, (V + 15) / 16 and (N + 15) / 16, and mask "
    "the edge.",
)
def _(name: str, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return without_the_rest(head(x, w, b), len(x) // 16 * 16, len(w) // 16 * 16)


@naive_head.wrong(
    "blocks_exchanged",
    "y is still NaN beyond as many blocks of words as tokens need, or of tokens as words need, as "
    "where the two are exchanged. The grid has (V + 15) / 16 in x and (N + 15) / 16 in y; v counts "
    "with blockIdx.x, and n with blockIdx.y.",
)
def _(name: str, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    rows, columns = 16 * math.ceil(len(w) / 16), 16 * math.ceil(len(x) / 16)
    return without_the_rest(head(x, w, b), rows, columns)


@naive_head.wrong(
    "strides_ignored",
    "Right where the rows lie one after the other, wrong where they do not: on a GPU, too, the "
    "strides say where an element is.",
)
def _(name: str, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return head(as_if_contiguous(x), as_if_contiguous(w), as_if_contiguous(b))


naive_head.wrong(
    "weight_transposed",
    "w was read as (D, V). Its rows are words: w[v, d] is at v * w_v + d * w_d.",
    run_cu=lambda name, x, w, b: head(x, as_if_transposed(w), b),
)
naive_head.wrong(
    "written_by_columns",
    "The right numbers stand in the wrong places: y[n, v] is at n * V + v.",
    run_cu=lambda name, x, w, b: columns_written(head(x, w, b)),
)
naive_head.wrong(
    "nothing_launched",
    "All of y is NaN, as it was: no thread has written, or the sum was added to what stood "
    "there. Is the kernel launched, and does it store with `=`?",
    run_cu=lambda name, x, w, b: torch.full_like(head(x, w, b), math.nan),
)
list_readings(naive_head, "run_cu")
naive_head.wrong(
    "by_a_library",
    "This kernel is to be yours from the first load to the last store: no library in it.",
    run_cu=lambda name, x, w, b: head(x, w, b),
    naive_head=lambda: 'extern "C" void launch(...) { cblas_sgemm(x, w, y); }',
)


@naive_head.cost
def _(student: Student, draw: Draw) -> str:
    n, v, d = 20, 600, 64
    x, w, b = draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v)
    with room_for(student, "naive_head") as room:
        loads, stores, where, _ = room.call("run_cu", "naive_head", x, w, b, True)
    return (
        f"on {where}: for each of {n * v:,} logits {loads / (n * v):.1f} loads from "
        f"global memory and {stores / (n * v):.1f} stores; x, w and b have {n * d + v * d + v:,} "
        f"elements, so one is read {loads / (n * d + v * d + v):.0f} times on average"
    )
