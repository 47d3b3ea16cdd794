"""The bytes that the programs of two kernels move, and those of the one that replaces them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autograder.judge import Draw, Student, expect_equal, expect_tuple, within

from . import lab

Moved = tuple[tuple[int, int], tuple[int, int]]
TARGET_BYTES, LOSS_BYTES = 8, 4


@lab.question(
    "fused_bytes",
    points=4,
    minutes=8,
    difficulty=3,
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
                expect_equal(mine, want)


def _cases(draw: Draw) -> Iterator[tuple[int, int, int, int, int, int]]:
    yield 23, 600, 64, 4, 8, 128
    yield 32, 128, 16, 2, 16, 32
    yield 1, 5, 3, 4, 4, 8
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
    """What moves, and what people take to do so or not."""

    reloads: bool = True  # every program loads its tiles again
    rows_and_columns: bool = True  # x goes with the columns of programs, w with the rows
    masked: bool = True  # lanes that hang over load nothing
    z_twice: bool = True  # written by one kernel, read by the next
    z_stays: bool = True  # the fused kernel has no z in memory
    w_once: bool = False  # the fused kernel loads w once for all programs
    wide_targets: bool = True  # int64
    in_bytes: bool = True

    def __call__(self, n: int, v: int, d: int, itemsize: int, rows: int, words: int) -> Moved:
        size = itemsize if self.in_bytes else 1
        target = TARGET_BYTES if self.wide_targets else itemsize
        many_rows, many_words = len(_tiles(n, rows)), len(_tiles(v, words))
        full_n, full_v = (n, v) if self.masked else (many_rows * rows, many_words * words)
        x_times, w_times = many_words, many_rows
        if not self.rows_and_columns:
            x_times, w_times = w_times, x_times
        if not self.reloads:
            x_times = w_times = 1
        z, weights = n * v * size, (full_v * d + full_v) * size
        read = full_n * d * size * x_times + weights * w_times + n * target
        read += z if self.z_twice else 0
        fused = full_n * d * size + n * target
        fused += weights * (1 if self.w_once or not self.reloads else many_rows)
        kept = 0 if self.z_stays else z
        return (read, z + LOSS_BYTES * n), (fused, 2 * LOSS_BYTES * n + kept)


_WRONG = {
    "each_tensor_once": (
        "Each tensor is counted once. That is the least that can move; these programs share "
        "nothing, and each loads its tiles for itself.",
        _Rules(reloads=False),
    ),
    "rows_for_columns": (
        "x and w are exchanged: the tiles of x are loaded once for each tile of words, those of w "
        "once for each tile of rows.",
        _Rules(rows_and_columns=False),
    ),
    "masked_lanes_count": (
        "The lanes that hang over the edge are counted. A masked lane loads nothing.",
        _Rules(masked=False),
    ),
    "logits_never_read": (
        "The logits are written and never read again. The loss kernel reads each of them: that is "
        "what fusion saves.",
        _Rules(z_twice=False),
    ),
    "logits_still_written": (
        "The fused kernel writes no logit. It stores a loss and a log-sum-exp for each row.",
        _Rules(z_stays=False),
    ),
    "weights_once": (
        "After the fusion w and b are counted once. Every program goes over all words, so each "
        "of the ceil(N / ROWS) programs loads all of w and b.",
        _Rules(w_once=True),
    ),
    "narrow_targets": (
        "A target is an int64: 8 bytes, whatever the dtype of x.",
        _Rules(wide_targets=False),
    ),
    "elements": (
        "These are elements of x, w, b and z. Each of them is itemsize bytes.",
        _Rules(in_bytes=False),
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
