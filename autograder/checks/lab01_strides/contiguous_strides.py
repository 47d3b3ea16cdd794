"""The strides of a fresh tensor."""

from __future__ import annotations

import math

import torch

from autograder.judge import Draw, Student, expect_equal

from . import lab
from .geometry import Sizes


@lab.question(
    "contiguous_strides",
    points=2,
    minutes=5,
    difficulty=1,
    hints=(
        "The last dimension steps by 1. What does one step along the dimension before it skip?",
        "Walk from the last dimension to the first and keep a running product of the sizes passed. "
        "A size of 0 must not turn the product into 0: torch counts it as 1.",
        "for n in reversed(size): stride.insert(0, step); step *= max(n, 1)",
    ),
)
def contiguous_strides(student: Student, draw: Draw) -> None:
    """The strides that torch gives a fresh tensor of this size.

    size, any number of dimensions, zeros included -> as many strides, counted in elements.
    """
    always: list[Sizes] = [(600, 64), (5,), (2, 3, 4), (1, 7, 1), (), (2, 0, 3), (0,)]
    cases = [(size,) for size in always + [draw.shape(low=0) for _ in draw.cases(5)]]
    for (size,), got in zip(cases, student.each("contiguous_strides", cases), strict=True):
        expect_equal(got, torch.empty(size).stride())


contiguous_strides.wrong(
    "column_major",
    "These are the strides of column-major order: torch's *last* dimension is the one that steps "
    "by 1.",
    contiguous_strides=lambda size: tuple(math.prod(size[:d]) for d in range(len(size))),
)
contiguous_strides.wrong(
    "in_bytes",
    "These are bytes. torch counts strides in elements; numpy counts them in bytes.",
    contiguous_strides=lambda size: tuple(4 * s for s in torch.empty(size).stride()),
)
contiguous_strides.wrong(
    "own_size_included",
    "Each stride here also multiplies by its own size. One step along a dimension skips only what "
    "lies to the right of it.",
    contiguous_strides=lambda size: tuple(math.prod(size[d:]) for d in range(len(size))),
)
contiguous_strides.wrong(
    "zero_poisons",
    "A dimension of size 0 has turned the strides to its left into 0. torch counts a size of 0 as "
    "1 here.",
    contiguous_strides=lambda size: tuple(math.prod(size[d + 1 :]) for d in range(len(size))),
)
contiguous_strides.wrong(
    "collected_backwards",
    "The right strides in the wrong order: they were found from right to left and appended. Put "
    "each one in front of those before.",
    contiguous_strides=lambda size: torch.empty(size).stride()[::-1],
)


@contiguous_strides.wrong(
    "size_one_steps_nowhere",
    "A dimension of size 1 got a stride of 0. torch computes it like any other, although nobody "
    "will ever use it.",
)
def _(size: Sizes) -> Sizes:
    fresh = torch.empty(size).stride()
    return tuple(0 if n == 1 else s for n, s in zip(size, fresh, strict=True))


@contiguous_strides.cost
def _(student: Student, draw: Draw) -> str:
    stride = student.call("contiguous_strides", (600, 64))
    weight = torch.empty(600, 64)
    return (
        f"{len(stride)} integers place all {weight.numel():,} floats of the head's weight "
        f"({weight.nbytes:,} bytes); no float was read"
    )
