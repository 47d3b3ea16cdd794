"""The bytes that the programs of two kernels move, and those of the one that replaces them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from autograder.judge import Draw, Student, expect_equal, expect_tuple, within

from . import lab

Moved = tuple[tuple[int, int], tuple[int, int]]
TARGET_BYTES, LOSS_BYTES = 8, 4


@lab.question(
    "fused_bytes",
    points=4,
    minutes=8,
    difficulty=3,
    by_effect=True,
    hints=(
        "How many programs load one element of x? And one of w?",
        "A program of linear_kernel loads its rows of x and its words of w, with all features. So "
        "x is loaded once for each column of programs and w, with b, once for each row of them. "
        "Masked lanes load nothing.",
        "before, read: x times ceil(V / WORDS), w and b times ceil(N / ROWS), then z, then t",
    ),
)
def fused_bytes(student: Student, draw: Draw) -> None:
    """The bytes that all programs load and store: linear and loss as two kernels, and fused.

    N, V, D, itemsize (of x, w, b and z), ROWS, WORDS -> ((read, written) before, (read, written)
    after).
    """
    for case in _cases(draw):
        got = expect_tuple(student.call("fused_bytes", *case), 2, "(read, written), twice")
        for place, mine, want in zip(("before", "after"), got, _counted(*case), strict=True):
            with within(f"{place} the fusion,"):
                why = _about(place, mine, want) if case[0] else _NO_TOKEN
                expect_equal(mine, want, why=_PARTS if _holds_floats(mine) else why)


_RULES = {
    "before": (
        "Each program of linear_kernel loads its rows of x and its words of w and b. The loss "
        "kernel loads each row of z once, and its target, of 8 bytes. What hangs over an edge "
        "moves nothing.",
        "Each logit is stored once, of itemsize bytes, and for each row of z a loss of 4.",
    ),
    "after": (
        "Each program loads its rows of x and their targets once, of 8 bytes, and all of w and b. "
        "What hangs over an edge moves nothing.",
        "For each token a loss and an lse are stored, of 4 bytes each, and nothing else.",
    ),
}


def _about(place: str, mine: Any, want: tuple[int, int]) -> str:
    """What moves there, where a number of bytes is another."""
    if not isinstance(mine, (list, tuple)) or len(mine) != len(want):
        return ""
    rules = zip(mine, want, _RULES[place], strict=True)
    return next((rule for got, bytes_, rule in rules if got != bytes_), "")


_PARTS = (
    "A number of bytes is a float here. Programs and tiles come whole: what hangs over is one "
    "more, -(-N // ROWS)."
)
_NO_TOKEN = "N is 0 here: without a token there is no program, and nothing moves."


def _holds_floats(pair: Any) -> bool:
    return isinstance(pair, (list, tuple)) and any(isinstance(n, float) for n in pair)


def _cases(draw: Draw) -> Iterator[tuple[int, int, int, int, int, int]]:
    yield 23, 600, 64, 4, 8, 128
    yield 32, 128, 16, 2, 16, 32
    yield 1, 5, 3, 4, 4, 8
    yield 0, 600, 64, 4, 16, 64  # no token, no program
    yield 20, 300, 12, 8, 4, 64  # no number of bytes but the items' is their size
    yield 33, 128, 16, 1, 16, 32
    yield 32, 129, 7, 2, 16, 32
    for _ in draw.cases(3):
        rows, words = 2 ** draw.integer(1, 4), 2 ** draw.integer(3, 6)
        n, v, d = draw.integer(17, 90), draw.integer(100, 400), draw.integer(5, 16)
        yield n, v, d, draw.choice((2, 4)), rows, words


def _tiles(n: int, size: int) -> list[int]:
    """How many of n are in each tile: the last may hang over."""
    return [min(size, n - first) for first in range(0, n, size)]


def _counted(n: int, v: int, d: int, itemsize: int, rows: int, words: int) -> Moved:
    """Program after program."""
    read = written = fused = 0
    for mine in _tiles(n, rows):
        fused += mine * d * itemsize + mine * TARGET_BYTES
        for its in _tiles(v, words):
            read += (mine * d + its * d + its) * itemsize
            written += mine * its * itemsize
            fused += (its * d + its) * itemsize
    for _ in range(n):  # the loss kernel: a program for each row of z
        read += v * itemsize + TARGET_BYTES
        written += LOSS_BYTES
    return (read, written), (fused, n * 2 * LOSS_BYTES)


@dataclass(frozen=True)
class _Rules:
    """What moves, and what people take to do so. Of a tensor: once for each tile of "rows" or
    "words", for each "program" or "token", or "once"."""

    x: str = "words"
    w: str = "rows"
    b: str = "rows"  # or "never"
    fused_x: str = "once"
    fused_w: str = "rows"
    fused_b: str = ""  # as b or as fused_w
    fused_t: str = "once"
    masked: bool = True  # lanes that hang over load nothing
    masked_rows: bool = True  # those of x alone
    masked_words: bool = True  # those of w and b alone
    masked_stores: bool = True
    whole_tiles: bool = False  # the last one, which hangs over, is left out
    whole_rows: bool = False  # of the tiles of rows alone
    one_more: bool = False  # than whole tiles, always
    z_read: int = 1
    z_written: int = 1
    z_kept: int = 0  # by the fused kernel
    size: int = 0  # of an element of x, w and b; 0: itemsize
    z_size: int = 0
    b_size: int = 0
    targets: tuple[int, int] = (TARGET_BYTES, TARGET_BYTES)  # before, after; -1: itemsize
    losses: tuple[int, int] = (LOSS_BYTES, 2 * LOSS_BYTES)  # of a token; below 0: itemsizes
    one_loss: bool = False

    def __call__(self, n: int, v: int, d: int, itemsize: int, rows: int, words: int) -> Moved:
        size, z_size = self.size or itemsize, self.z_size or self.size or itemsize
        r, c = n // rows + self.one_more, v // words + self.one_more
        if not self.whole_tiles and not self.one_more:
            r, c = n // rows if self.whole_rows else len(_tiles(n, rows)), len(_tiles(v, words))
        times = {"rows": r, "words": c, "program": r * c, "token": n, "once": 1, "never": 0}
        full_n = n if self.masked and self.masked_rows else r * rows
        full_v = v if self.masked and self.masked_words else c * words
        z = (n * v if self.masked_stores else r * rows * c * words) * z_size
        x, w, b = full_n * d * size, full_v * d * size, full_v * (self.b_size or size)
        t, fused_t = (n * max(one, -one * itemsize) for one in self.targets)
        b_after = self.b if self.b in ("once", "never") else self.fused_b or self.fused_w
        tokens = 1 if self.one_loss else n
        loss, fused_loss = (tokens * max(one, -one * itemsize) for one in self.losses)
        read = x * times[self.x] + w * times[self.w] + b * times[self.b] + self.z_read * z + t
        fused = x * times[self.fused_x] + w * times[self.fused_w] + b * times[b_after]
        fused += fused_t * times[self.fused_t]
        return (read, self.z_written * z + loss), (fused, self.z_kept * z + fused_loss)


_right = _Rules()
_OF_ITEMSIZE = "A loss and an lse are float32: 4 bytes each, whatever the dtype of x."


def _by_parts_of_tiles(n: int, v: int, d: int, itemsize: int, rows: int, words: int) -> Moved:
    """A tile that hangs over counts as the part of one that it is."""
    x, w, z = n * d * itemsize, n * v * (d + 1) * itemsize // rows, n * v * itemsize
    t, loss = n * TARGET_BYTES, n * LOSS_BYTES
    return (x * v // words + w + z + t, z + loss), (x + w + t, 2 * loss)


_WRONG: dict[str, tuple[str, Callable[..., Any]]] = {
    "each_tensor_once": (
        "Before the fusion x, w and b are each counted once. That is the least that can move; "
        "these programs share nothing, and each loads its tiles for itself.",
        _Rules(x="once", w="once", b="once", fused_w="once"),
    ),
    "rows_for_columns": (
        "x and w are exchanged: the tiles of x are loaded once for each tile of words, those of w "
        "once for each tile of rows.",
        _Rules(x="rows", w="words", b="words"),
    ),
    "tiles_exchanged": (
        "The numbers of tiles are exchanged, before and after: there are ceil(N / ROWS) tiles of "
        "rows and ceil(V / WORDS) of words.",
        _Rules(x="rows", w="words", b="words", fused_w="words"),
    ),
    "masked_lanes_count": (
        "The lanes that hang over the edge are counted. A masked lane loads nothing.",
        _Rules(masked=False),
    ),
    "masked_rows_count": (
        "The lanes that hang over the edge are counted. A masked lane loads nothing.",
        _Rules(masked_rows=False),
    ),
    "masked_words_count": (
        "The lanes that hang over the edge are counted. A masked lane loads nothing.",
        _Rules(masked_words=False),
    ),
    "masked_stores_count": (
        "The lanes that hang over the edge are counted, in loads and in stores. A masked lane "
        "moves nothing.",
        _Rules(masked=False, masked_stores=False),
    ),
    "last_tiles_dropped": (
        "The number of tiles is rounded down, as by //. The last one hangs over, and a program "
        "loads what is left of it: round up.",
        _Rules(whole_tiles=True),
    ),
    "all_tiles_full": (
        "The lanes that hang over the edge are counted, in loads and in stores. A masked lane "
        "moves nothing.",
        lambda n, v, d, size, rows, words: _right(
            len(_tiles(n, rows)) * rows, len(_tiles(v, words)) * words, d, size, rows, words
        ),
    ),
    "all_words_full": (
        "The words that hang over the edge are counted, in loads and in stores. A masked lane "
        "moves nothing.",
        lambda n, v, *case: _right(n, len(_tiles(v, case[3])) * case[3], *case),
    ),
    "last_rows_dropped": (
        "The number of tiles of rows is rounded down, as by //. The last one hangs over, and a "
        "program has what is left of it: round up.",
        _Rules(whole_rows=True),
    ),
    "parts_of_tiles": (
        "Tiles are counted in parts: w and b come N / ROWS times, x V / WORDS times. A program "
        "loads all its words however few rows it has, and all its rows: round both up.",
        _by_parts_of_tiles,
    ),
    "a_tile_too_many": (
        "There is a tile too many where N is a multiple of ROWS, or V of WORDS: round up, and "
        "leave whole multiples alone.",
        _Rules(one_more=True),
    ),
    "logits_never_read": (
        "The logits are written and never read again. The loss kernel reads each of them: that is "
        "what fusion saves.",
        _Rules(z_read=0),
    ),
    "logits_never_written": (
        "Before the fusion the logits are read and never written. linear_kernel stores each of "
        "them.",
        _Rules(z_written=0),
    ),
    "logits_read_twice": (
        "Before the fusion the logits are read twice. The loss kernel loads each row once.",
        _Rules(z_read=2),
    ),
    "logits_still_written": (
        "The fused kernel writes no logit. It stores a loss and a log-sum-exp for each row.",
        _Rules(z_kept=1),
    ),
    "float32_logits": (
        "The logits are counted with 4 bytes each. z has the itemsize of x, w and b.",
        _Rules(z_size=4),
    ),
    "always_float32": (
        "x, w, b and z are counted with 4 bytes an element. Their elements are itemsize bytes.",
        _Rules(size=4),
    ),
    "x_once": (
        "Before the fusion x is counted once. Programs that differ in their tile of words load "
        "the same rows of x again.",
        _Rules(x="once"),
    ),
    "weights_once_before": (
        "Before the fusion w and b are counted once. Programs that differ in their tile of rows "
        "load the same words again.",
        _Rules(w="once", b="once", fused_w="rows"),
    ),
    "all_for_each_program": (
        "Before the fusion each program is counted as if it loaded all of x, w and b. It loads its "
        "own rows and its own words.",
        _Rules(x="program", w="program", b="program"),
    ),
    "weights_once": (
        "After the fusion w and b are counted once. Every program goes over all words, so each "
        "of the ceil(N / ROWS) programs loads all of w and b.",
        _Rules(fused_w="once"),
    ),
    "weights_for_each_token": (
        "After the fusion w and b are counted once for each token. A program has ROWS tokens, and "
        "loads w and b once for all of them.",
        _Rules(fused_w="token"),
    ),
    "x_for_each_tile": (
        "After the fusion x is counted once for each tile of words. A program loads its rows of x "
        "once, before it walks.",
        _Rules(fused_x="words"),
    ),
    "targets_for_each_tile": (
        "After the fusion the targets are counted once for each tile of words. A program loads its "
        "targets once, before it walks.",
        _Rules(fused_t="words"),
    ),
    "no_bias": (
        "b is missing: it is loaded with w, a bias for each word.",
        _Rules(b="never"),
    ),
    "bias_once": (
        "b is counted once. It is loaded as often as w.",
        _Rules(b="once"),
    ),
    "biases_of_4": (
        "b is counted with 4 bytes a bias. It has the itemsize of x and w.",
        _Rules(b_size=4),
    ),
    "bias_once_after": (
        "After the fusion b is counted once. Each program walks over all words, and loads b with "
        "w.",
        _Rules(fused_b="once"),
    ),
    "narrow_targets": (
        "A target is an int64: 8 bytes, whatever the dtype of x.",
        _Rules(targets=(-1, -1)),
    ),
    "targets_of_4": (
        "A target is counted with 4 bytes. An int64 has 8.",
        _Rules(targets=(4, 4)),
    ),
    "no_targets": (
        "The targets are missing. Before and after the fusion a kernel loads one for each token.",
        _Rules(targets=(0, 0)),
    ),
    "no_targets_before": (
        "Before the fusion the targets are missing: the loss kernel loads one for each row of z.",
        _Rules(targets=(0, TARGET_BYTES)),
    ),
    "no_targets_after": (
        "After the fusion the targets are missing: each program loads those of its rows.",
        _Rules(targets=(TARGET_BYTES, 0)),
    ),
    "no_lse": (
        "After the fusion one number is stored for each token. The fused kernel stores two: the "
        "loss and the lse.",
        _Rules(losses=(LOSS_BYTES, LOSS_BYTES)),
    ),
    "lse_before": (
        "Before the fusion two numbers are stored for each token. That loss kernel stores the loss "
        "alone; it is the fused one that keeps an lse too.",
        _Rules(losses=(2 * LOSS_BYTES, 2 * LOSS_BYTES)),
    ),
    "no_loss_before": (
        "Before the fusion no loss is stored: the second kernel stores a float32 for each row.",
        _Rules(losses=(0, 2 * LOSS_BYTES)),
    ),
    "losses_of_itemsize": (_OF_ITEMSIZE, _Rules(losses=(-1, -2))),
    "losses_of_itemsize_behind": (_OF_ITEMSIZE, _Rules(losses=(LOSS_BYTES, -2))),
    "losses_of_itemsize_before": (_OF_ITEMSIZE, _Rules(losses=(-1, 2 * LOSS_BYTES))),
    "wide_losses": (
        "A loss and an lse are counted with 8 bytes each. A float32 has 4.",
        _Rules(losses=(8, 16)),
    ),
    "one_loss": (
        "One loss is stored for all tokens. These kernels store one for each.",
        _Rules(one_loss=True),
    ),
    "elements": (
        "These are elements of x, w, b and z. Each of them is itemsize bytes.",
        _Rules(size=1),
    ),
    "narrow_rows": (
        "Targets, losses and lse are counted with itemsize. A target is an int64, 8 bytes; a loss "
        "and an lse are float32, 4 bytes.",
        _Rules(targets=(-1, -1), losses=(-1, -2)),
    ),
    "whole_tiles_moved": (
        "The lanes that hang over the edge are counted, in loads and in stores. A masked lane "
        "moves nothing.",
        lambda *case: (
            (_Rules(masked=False)(*case)[0][0], _Rules(masked_stores=False)(*case)[0][1]),
            _Rules(masked=False)(*case)[1],
        ),
    ),
    "after_first": (
        "What moves after the fusion stands first. The order is before, after.",
        lambda *case: _right(*case)[::-1],
    ),
    "reads_together": (
        "The two reads stand together, then the two writes. The pairs are (read, written) before "
        "and (read, written) after.",
        lambda *case: tuple(zip(*_right(*case), strict=True)),
    ),
    "sums": (
        "What is read and what is written has been added up. Both are asked for, before and after.",
        lambda *case: tuple(map(sum, _right(*case))),
    ),
    "four_numbers": (
        "These four numbers belong in two pairs: (read, written) before and (read, written) after.",
        lambda *case: sum(_right(*case), ()),
    ),
}


for _key, (_sentence, _rules) in _WRONG.items():
    fused_bytes.wrong(_key, _sentence, fused_bytes=_rules)


@fused_bytes.cost
def _(student: Student, draw: Draw) -> str:
    before, after = student.call("fused_bytes", 65_536, 600, 64, 2, 64, 64)
    return (
        f"for 65,536 tokens in float16: {sum(before) / 1e6:,.0f} MB before, {sum(after) / 1e6:,.0f}"
        f" MB after; of the logits alone {2 * 65_536 * 600 * 2 / 1e6:,.0f} MB are gone"
    )
