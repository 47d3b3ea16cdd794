"""The head in CUDA with tiles in shared memory."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.judge import Draw, Student, Wrong

from . import lab
from .bench import BUILD_S, counts_of, explained, needs_compiler, room_for
from .faults import DIVERGENT, OUT_OF_BOUNDS, RACE, SENTENCES, UNWRITTEN
from .heads import as_if_contiguous, cases, expect_logits, head, list_readings, without_the_rest

SMALLEST_TILE = 8
Counted = list[int | str | Tensor]

_NOT_SHARED = (
    "The logits are right, but the loads are as many as in a kernel that shares nothing, or "
    "more: each element should come from global memory once for each block, and 16 threads "
    "should use it."
)
_SHARED_IN_PART = (
    "The logits are right, and fewer elements are loaded than without tiles, but more than with "
    "two of 8 x 8: is x or w still read from global memory for each product, is an element "
    "loaded more than once for a block, or is a tile smaller?"
)


@lab.question(
    "tiled_head",
    points=6,
    minutes=20,
    difficulty=5,
    hints=(
        "256 threads, two tiles of 256 places: which place of xs, and which of ws, is mine to "
        "fill? And which rows of the tiles does my sum need?",
        "xs[i][j] gets x[n, first + j], ws[i][j] gets w[block's first word + i, first + j], each 0 "
        "outside. Then barrier, sum += xs[i][k] * ws[j][k] over k, barrier. After the loop, mask "
        "the store alone.",
        "xs[i][j] = n < N && d < D ? x[n * x_n + d * x_d] : 0;  (and row = blockIdx.x * TILE + i)",
    ),
    function="run_cu",
    budget_s=BUILD_S,
    simulated=True,
)
def tiled_head(student: Student, draw: Draw) -> None:
    """The head in CUDA C++ with tiles in shared memory: few loads, two barriers, masked edges.

    Text with the host function launch; x (N, D), w (V, D), b (V,) -> y (N, V), contiguous.
    """
    needs_compiler()
    with room_for(student, "tiled_head") as room:
        for x, w, b in cases(draw):
            with explained(SENTENCES):
                y = room.call("run_cu", "tiled_head", x, w, b)
            expect_logits(y, x, w, b)
        _expect_few_loads(room, draw)


def _expect_few_loads(room: Student, draw: Draw) -> None:
    n, v, d = draw.integer(33, 40), draw.integer(65, 79), draw.integer(33, 40)
    x, w, b = draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v)
    with explained(SENTENCES):
        loads, _ = counts_of(room.call("run_cu", "tiled_head", x, w, b, True), x, w, b)
    most = _loads(n, v, d, SMALLEST_TILE) * 5 // 4  # the bias may be loaded by threads at the edge
    if loads > most:
        expected = f"at most {most:,} loads (tiles of {SMALLEST_TILE})"
        why = _NOT_SHARED if loads >= _loads_naive(x, w) else _SHARED_IN_PART
        raise Wrong(expected=expected, got=f"{loads:,}", why=why)


def _loads(n: int, v: int, d: int, tile: int) -> int:
    """From global memory, with square tiles: x for each column of blocks, w for each row of
    them, and the bias for each logit."""
    return n * d * math.ceil(v / tile) + v * d * math.ceil(n / tile) + n * v


def _loads_naive(x: Tensor, w: Tensor) -> int:
    return len(x) * len(w) * (2 * x.shape[1] + 1)


@tiled_head.wrong("no_barrier", RACE)
def _(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor:
    raise RuntimeError("race: no barrier")


@tiled_head.wrong("returned_early", DIVERGENT)
def _(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor:
    raise RuntimeError("divergent_barrier: returned early")


@tiled_head.wrong("tile_not_masked", OUT_OF_BOUNDS)
def _(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor:
    raise RuntimeError("out_of_bounds: a tile hangs over the edge")


@tiled_head.wrong("edge_left_unwritten", UNWRITTEN)
def _(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor:
    raise RuntimeError("unwritten_shared: no zero at the edge")


@tiled_head.wrong("never_shared", _NOT_SHARED)
def _(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor | Counted:
    if count:
        return [_loads_naive(x, w), len(x) * len(w), "the CPU, simulated", head(x, w, b)]
    return head(x, w, b)


@tiled_head.wrong(
    "last_features_dropped",
    "The last features are missing: D is no multiple of the tile, and the tile that hangs over its "
    "end counts too, with zeros.",
)
def _(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor:
    whole = x.shape[1] // 16 * 16
    return head(x[:, :whole], w[:, :whole], b)


@tiled_head.wrong(
    "last_feature_again",
    "Beyond D the last feature came once more, in both tiles, and its product was added again. "
    "What lies outside of x or w counts as 0.",
)
def _(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor:
    beyond = -x.shape[1] % 16
    x, w = (torch.cat([t, t[:, -1:].expand(-1, beyond)], 1) for t in (x, w))
    return head(x, w, b)


@tiled_head.wrong(
    "last_tile_kept",
    "Features of the turn before the last count twice, as where the places beyond D keep what "
    "that turn had brought. Every turn fills every place: what lies outside of x or w counts as "
    "0.",
)
def _(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor:
    d = x.shape[1]
    again = slice(max(d - 16, 0), d // 16 * 16)  # 16 features before those that are beyond D
    x, w = (torch.cat([t, t[:, again]], 1) for t in (x, w))
    return head(x, w, b)


tiled_head.wrong(
    "bias_for_each_tile",
    "The bias was added once for each tile of features: it counts once, outside of the loop.",
    run_cu=lambda name, x, w, b, count=False: head(x, w, b * math.ceil(x.shape[1] / 16)),
)


@tiled_head.wrong(
    "strides_ignored",
    "Right where the rows lie one after the other, wrong where they do not: the loads into the "
    "tiles must use the strides.",
)
def _(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor:
    return head(as_if_contiguous(x), as_if_contiguous(w), as_if_contiguous(b))


@tiled_head.wrong(
    "edge_brings_zeros",
    "Threads whose own n or v lies beyond the edge brought zeros, and others needed what they were "
    "to bring. A load is masked by the row and the feature that it reads, and only the store by n "
    "and v.",
)
def _(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor:
    # place [i][k] of both tiles is filled by thread (i, k): its n is that of row i, its v of word k
    in_x, in_w = _in_tiles(x), _in_tiles(w)
    n, v = (
        (torch.arange(16 * len(t)) < size).double().view(-1, 16)
        for t, size in ((in_x, len(x)), (in_w, len(w)))
    )
    sums = torch.einsum("aifk,cjfk,ck,aj->aicj", in_x, in_w, v, n).flatten(2).flatten(0, 1)
    return (sums[: len(x), : len(w)] + b.double()).float()


def _in_tiles(t: Tensor) -> Tensor:
    """t (rows, D) -> (blocks, 16, tiles of features, 16), 0 where a tile hangs over the edge."""
    padded = F.pad(t.double(), (0, -t.shape[1] % 16, 0, -t.shape[0] % 16))
    return padded.view(padded.shape[0] // 16, 16, padded.shape[1] // 16, 16)


def _multiplied(form: str) -> Callable[..., Tensor]:
    """A kernel that multiplies other places of its tiles: x[a, i, f, k] and w[c, j, f, k] meet by
    the einsum `form`, whose result is y[a, i, c, j]."""

    def run_cu(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor:
        sums = torch.einsum(form, _in_tiles(x), _in_tiles(w))
        y = sums.reshape(*sums.shape[:3], -1).expand(-1, -1, -1, 16).flatten(2).flatten(0, 1)
        return (y[: len(x), : len(w)] + b.double()).float()

    return run_cu


_MISPLACED = {
    "row_v_brought": (
        "Each sum took feature k from word k of the block, as where thread (i, j) brings row v "
        "of w, its own column of y, to place ws[i][j]. Row i of the tile is word blockIdx.x * "
        "TILE + i, whichever thread brings it.",
        "aifk,ckfk->aic",
    ),
    "tile_of_w_read_across": (
        "In the sum of thread (i, j) feature k of x met feature j of word k: ws was filled or "
        "read across. xs[i][k] meets ws[j][k], if ws[i][j] was brought from row i of the tile.",
        "aifk,ckfj->aicj",
    ),
    "tiles_swapped": (
        "Inside each block i and j are exchanged: place (i, j) of y has the logit of token j "
        "and word i. n comes from i and v from j, in the sum and in the store.",
        "ajfk,cifk->aicj",
    ),
    "tile_of_x_read_across": (
        "In the sum of thread (i, j) feature i of token k met feature k of w: xs was filled or "
        "read across. xs[i][k] meets ws[j][k], if xs[i][j] was brought from row i of the tile.",
        "akfi,cjfk->aicj",
    ),
}
for _key, (_sentence, _form) in _MISPLACED.items():
    tiled_head.wrong(_key, _sentence, run_cu=_multiplied(_form))


@tiled_head.wrong(
    "feature_of_the_row",
    "The feature that a thread brings was counted by its row, so that a row of a tile holds one "
    "feature 16 times: place [i][j] is feature first + j.",
)
def _(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor:
    sums = torch.einsum("aifi,cjfj->aicj", _in_tiles(x), _in_tiles(w)).flatten(2).flatten(0, 1)
    return (16 * sums[: len(x), : len(w)] + b.double()).float()


@tiled_head.wrong(
    "sum_begun_for_each_tile",
    "Only the last tile of features is left in each sum: it begins before the loop over the tiles "
    "and grows in it.",
)
def _(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor:
    last = (x.shape[1] - 1) // 16 * 16
    return head(x[:, last:], w[:, last:], b)


list_readings(tiled_head, "run_cu")


@tiled_head.wrong(
    "first_tile_again",
    "Every turn of the loop brings the first 16 features: `first` says where this turn's begin.",
)
def _(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor:
    turns = math.ceil(x.shape[1] / 16)
    return head(turns * x[:, :16], w[:, :16], b)


tiled_head.wrong(
    "added_to_what_was_there",
    "All of y is NaN, as new memory may be: store the sum with `=`, once, if n < N and v < V.",
    run_cu=lambda name, x, w, b, count=False: torch.full_like(head(x, w, b), math.nan),
)


@tiled_head.wrong(
    "edge_not_stored",
    "The logits at the edge are still NaN. A thread stores if its own n < N and v < V, whether its "
    "block is full or not.",
)
def _(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Tensor:
    return without_the_rest(head(x, w, b), len(x) // 16 * 16, len(w) // 16 * 16)


@tiled_head.cost
def _(student: Student, draw: Draw) -> str:
    n, v, d = 20, 600, 64
    x, w, b = draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v)
    with room_for(student, "tiled_head") as room:
        loads, stores, where, _ = room.call("run_cu", "tiled_head", x, w, b, True)
    return (
        f"on {where}: for each of {n * v:,} logits {loads / (n * v):.1f} loads from "
        f"global memory, {_loads_naive(x, w) / loads:.1f} times fewer than the naive kernel, "
        f"and {stores / (n * v):.1f} stores"
    )
