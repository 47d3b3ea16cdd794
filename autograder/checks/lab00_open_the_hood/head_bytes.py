"""The bytes that one forward of the head moves."""

from __future__ import annotations

import torch

from autograder.judge import Draw, Student, expect_equal

from . import lab
from .meta_layer import drawn_sizes, meta_layer, moved_bytes


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
    sizes = [(32, 64, 600), (1, 64, 600), (5, 3, 7), (0, 4, 6), *drawn]
    kinds = [(n, d, v, dtype) for n, d, v in sizes for dtype in (torch.float32, torch.bfloat16)]
    cases = [(n, d, v, dtype.itemsize) for n, d, v, dtype in kinds]
    for kind, got in zip(kinds, student.each("head_bytes", cases), strict=True):
        expect_equal(got, moved_bytes(*kind))


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
    "The bias is missing: v more numbers are read.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + n * v) * itemsize,
)
head_bytes.wrong(
    "in_numbers",
    "These are numbers. Each of them takes `itemsize` bytes.",
    head_bytes=lambda n, d, v, itemsize: n * d + v * d + v + n * v,
)
head_bytes.wrong(
    "always_four",
    "Right for float32. Half precision takes 2 bytes: use `itemsize`, not 4.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + v + n * v) * 4,
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
    "The bias is charged once per token. It is one row of v numbers, used for all of them.",
    head_bytes=lambda n, d, v, itemsize: (n * d + v * d + n * v + n * v) * itemsize,
)


@head_bytes.cost
def _(student: Student, draw: Draw) -> str:
    total = student.call("head_bytes", 32, 64, 600, 4)
    weight = meta_layer(64, 600).weight.nbytes
    return f"batch 32 in fp32: {total:,} bytes, of which the weight alone is {weight / total:.0%}"
