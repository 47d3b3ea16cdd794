"""The bytes that one forward of the head moves."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import torch

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal

from . import lab
from .meta_layer import (
    DTYPES,
    SMALL,
    WITHOUT_HEAD,
    apart,
    drawn_sizes,
    meta_layer,
    moved_bytes,
    moved_terms,
)


@lab.question(
    "head_bytes",
    points=2,
    minutes=6,
    difficulty=1,
    hints=(
        "Four tensors take part: three are read, one is written. What are their shapes?",
        "x has n * d numbers, the weight v * d, the bias v, the result n * v; each takes "
        "itemsize bytes. The weight is counted once, however many tokens there are.",
        "return (n * d + v * d + v + n * v) * itemsize",
    ),
)
def head_bytes(student: Student, draw: Draw) -> None:
    """The bytes that one forward of the head must move: its inputs read once, its result written
    once.

    n tokens, d, v, itemsize (bytes per number) -> int.
    """
    drawn = [(draw.integer(2, 99), *size) for size in drawn_sizes(draw)]
    sizes = [(30, 64, 600), (1, 64, 600), (5, 3, 7), (0, 4, 6), *drawn, (5, 11, 3)]
    kinds = [(n, d, v, dtype) for n, d, v in sizes for dtype in DTYPES[:2]]
    kinds += [(*size, dtype) for size, dtype in zip(SMALL, cycle(DTYPES))]
    kinds += [(5, 3, 7, torch.float8_e4m3fn), (300, 3, 7, torch.float32)]
    kinds += [(65_536, 64, 50_000, torch.float32)]  # beyond the integers of 32 bits
    cases = [(n, d, v, dtype.itemsize) for n, d, v, dtype in kinds]
    with explaining(WITHOUT_HEAD):
        for kind, got in zip(kinds, student.each("head_bytes", cases), strict=True):
            want = moved_bytes(*kind)
            expect_equal(got, want, why=_because(got, want, *kind))


def _because(got: Any, want: int, n: int, d: int, v: int, dtype: torch.dtype) -> str:
    """By how much a number is wrong, or what moves; "" for what is no number."""
    if type(got) is not int:
        return ""
    return apart(got, want, moved_terms(n, d, v, dtype)) or (
        f"Numbers here: {n * d:,} in x, {v * d:,} in the weight, {v:,} in the bias and {n * v:,} "
        "in the result. Each takes `itemsize` bytes."
    )


head_bytes.wrong(
    "result_not_written",
    "The result is missing: n rows of v logits are written to memory, and they are the largest "
    "part as n grows.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + v) * itemsize,
)
head_bytes.wrong(
    "weight_for_each_token",
    "The weight is charged once per token. A matrix product needs it once for the whole batch: "
    "that is what batches are for.",
    head_bytes=lambda n, d, v, itemsize: (n * d + n * v * d + v + n * v) * itemsize,
)
head_bytes.wrong(
    "bias_forgotten",
    "These are v numbers too few, as many as the bias has. It is read too.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + n * v) * itemsize,
)
head_bytes.wrong(
    "in_numbers",
    "These are numbers. Each of them takes `itemsize` bytes.",
    head_bytes=lambda n, d, v, itemsize: n * d + v * d + v + n * v,
)
head_bytes.wrong(
    "always_four",
    "Right for float32, and the same whatever `itemsize` is. In half precision each number takes "
    "2 bytes.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + v + n * v) * 4,
)
head_bytes.wrong(
    "bias_always_four",
    "The bias is charged 4 bytes per number. Its numbers take `itemsize` bytes, as all others do.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + n * v) * itemsize + v * 4,
)
head_bytes.wrong(
    "logits_always_four",
    "The logits are charged 4 bytes per number. Their numbers take `itemsize` bytes, as all others "
    "do.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + v) * itemsize + n * v * 4,
)
head_bytes.wrong(
    "layer_only",
    "This is what the layer owns. The tokens that enter and the logits that leave travel too.",
    head_bytes=lambda n, d, v, itemsize: (v * d + v) * itemsize,
)
head_bytes.wrong(
    "input_forgotten",
    "The tokens' own states are missing: n rows of d numbers are read.",
    head_bytes=lambda n, d, v, itemsize: (v * d + v + n * v) * itemsize,
)
head_bytes.wrong(
    "bias_for_each_token",
    "These are (n - 1) * v numbers too many, as where the bias has a row for each token. It is one "
    "row of v numbers, used for all tokens.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + n * v + n * v) * itemsize,
)


head_bytes.wrong(
    "weight_forgotten",
    "The weight is missing: v rows of d numbers are read.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v + n * v) * itemsize,
)
head_bytes.wrong(
    "weight_alone",
    "This is the weight alone. The tokens' states, the bias and the logits travel too.",
    head_bytes=lambda n, d, v, itemsize: v * d * itemsize,
)
head_bytes.wrong(
    "one_bias_for_all",
    "There is one number where the bias has v. Each of the v words has its own.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + 1 + n * v) * itemsize,
)
head_bytes.wrong(
    "bias_of_the_input",
    "There are d numbers where the bias has v. It is added to the result, so it has one for each "
    "of the v words.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + d + n * v) * itemsize,
)
head_bytes.wrong(
    "bias_of_the_tokens",
    "There are n numbers where the bias has v. It has one for each of the v words, however many "
    "tokens there are.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + n + n * v) * itemsize,
)
head_bytes.wrong(
    "result_like_the_input",
    "There are n * d numbers where the result has n * v. A row of x has d numbers, and a row of "
    "logits v.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + v + n * d) * itemsize,
)
head_bytes.wrong(
    "result_twice",
    "These are n * v numbers too many, as many as the logits have. Each tensor counts once: the "
    "bias is added on the way.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + v + 2 * n * v) * itemsize,
)
head_bytes.wrong(
    "all_for_each_token",
    "The weight and the bias are charged once per token. They are read once for the whole batch.",
    head_bytes=lambda n, d, v, itemsize: n * (d + v * d + v + v) * itemsize,
)
head_bytes.wrong(
    "all_twice",
    "Everything is counted twice. Three of the tensors are only read, and the result is only "
    "written.",
    head_bytes=lambda n, d, v, itemsize: 2 * (n * d + v * d + v + n * v) * itemsize,
)
head_bytes.wrong(
    "last_one_alone_in_bytes",
    "Only the numbers of the logits take `itemsize` bytes here, and all others 1 byte, as without "
    "brackets around the sum.",
    head_bytes=lambda n, d, v, itemsize: n * d + v * d + v + n * v * itemsize,
)
head_bytes.wrong(
    "divided",
    "The numbers were divided by `itemsize`. Each takes that many bytes, so multiply.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + v + n * v) / itemsize,
)
head_bytes.wrong(
    "in_bits",
    "These are bits. `itemsize` is in bytes, and bytes were asked for.",
    head_bytes=lambda n, d, v, itemsize: 8 * (n * d + v * d + v + n * v) * itemsize,
)
head_bytes.wrong(
    "as_in_the_example",
    "This is the example's number. Compute with n, d, v and itemsize.",
    head_bytes=lambda n, d, v, itemsize: 312,
)


@head_bytes.cost
def _(student: Student, draw: Draw) -> str:
    total = student.call("head_bytes", 32, 64, 600, 4)
    weight = meta_layer(64, 600).weight.nbytes
    return f"batch 32 in fp32: {total:,} bytes, of which the weight alone is {weight / total:.0%}"
