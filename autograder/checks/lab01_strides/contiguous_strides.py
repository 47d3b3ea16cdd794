"""The strides of a fresh tensor."""

from __future__ import annotations

import math
from typing import Any

import torch

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal, some

from . import lab
from .geometry import Sizes, every_size

_RAISED = {
    "ZeroDivisionError": "A size may be 0, and nothing is divided by it. Multiply from the right "
    "instead, where a size of 0 counts as 1.",
    "IndexError": "A tensor has any number of dimensions: one, or none at all.",
}


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
    always: list[Sizes] = [
        (600, 64),
        (5,),
        (2, 3, 4),
        (1, 7, 1),
        (),
        (2, 0, 3),
        (0,),
        (2, 3, 2, 3, 2),
        (3, 1, 2, 0, 2, 5, 2),
        (3, 2, 4, 5),
        (0, 65_537, 65_537),  # no element, and strides beyond float32 and int32
        *some(every_size((1, 2, 3)), 25),
    ]
    cases = [(size,) for size in always + [draw.shape(low=0) for _ in draw.cases(5)]]
    with explaining(_RAISED):
        for (size,), got in zip(cases, student.each("contiguous_strides", cases), strict=True):
            want = torch.empty(size).stride()
            expect_equal(got, want, why=_first_wrong(got, want, size))


def _first_wrong(got: Any, want: Sizes, size: Sizes) -> str:
    """The wrong stride that is furthest to the right, where the walk begins, and what a step there
    skips; "" where the verdict has a better word for all of them."""
    if not isinstance(got, (list, tuple)):
        if not size and got is not None:
            return "A tensor without dimensions has no strides: ()."
        return "" if got is None else "A tuple is asked for, with a stride for each dimension."
    if not size and got:
        return "A tensor without dimensions has no strides: ()."
    if not all(isinstance(s, (int, float)) for s in got):
        return ""
    if any(isinstance(s, float) for s in got):
        return "These are floats. A stride is a whole number of elements."
    wrong = [d for d in range(len(size)) if len(got) == len(size) and got[d] != want[d]]
    if not wrong or sorted(map(repr, got)) == sorted(map(repr, want)):
        return ""
    d, skipped = wrong[-1], want[wrong[-1]]
    counted = ", where a size of 0 counts as 1" if 0 in size[d + 1 :] else ""
    return (
        f"From the right, the first wrong stride is that of dimension {d}: a step there skips all "
        f"that the dimensions to its right hold, {skipped} in all{counted}."
    )


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
    "The right strides the wrong way round, as where they are found from right to left and "
    "appended. The first one belongs to the first dimension.",
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


def _counted(sizes: Sizes) -> int:
    """The elements of these sizes, where 0 counts as 1."""
    return math.prod(n or 1 for n in sizes)


contiguous_strides.wrong(
    "column_major_of_all",
    "These are the strides of column-major order: torch's *last* dimension is the one that steps "
    "by 1.",
    contiguous_strides=lambda size: tuple(_counted(size[:d]) for d in range(len(size))),
)
contiguous_strides.wrong(
    "own_size_included_in_all",
    "Each stride here also multiplies by its own size. One step along a dimension skips only what "
    "lies to the right of it.",
    contiguous_strides=lambda size: tuple(_counted(size[d:]) for d in range(len(size))),
)
contiguous_strides.wrong(
    "neighbour_alone",
    "Each stride is the size of the next dimension. A step skips what all the dimensions to its "
    "right hold: their product.",
    contiguous_strides=lambda size: (*size[1:], 1) if size else (),
)
contiguous_strides.wrong(
    "all_others_multiplied",
    "Each stride multiplies all the other sizes. Those to the left of a dimension are not skipped "
    "by its step.",
    contiguous_strides=lambda size: tuple(
        _counted(size[:d] + size[d + 1 :]) for d in range(len(size))
    ),
)
contiguous_strides.wrong(
    "sizes_added",
    "The sizes to the right were added. A step skips their product: each row of a matrix is "
    "skipped as a whole.",
    contiguous_strides=lambda size: tuple(1 + sum(size[d + 1 :]) for d in range(len(size))),
)
contiguous_strides.wrong(
    "size_one_steps_by_one",
    "A dimension of size 1 got a stride of 1. torch computes it like any other, although nobody "
    "will ever use it.",
    contiguous_strides=lambda size: tuple(
        1 if n == 1 else s for n, s in zip(size, torch.empty(size).stride(), strict=True)
    ),
)
contiguous_strides.wrong(
    "size_zero_steps_nowhere",
    "A dimension of size 0 got a stride of 0. Its own size is no part of its stride: torch "
    "computes it like any other.",
    contiguous_strides=lambda size: tuple(
        s if n else 0 for n, s in zip(size, torch.empty(size).stride(), strict=True)
    ),
)
contiguous_strides.wrong(
    "nothing_steps_nowhere",
    "A tensor without elements got strides of 0 alone. torch counts a size of 0 as 1 here.",
    contiguous_strides=lambda size: (0,) * len(size) if 0 in size else torch.empty(size).stride(),
)
contiguous_strides.wrong(
    "nothing_steps_by_one",
    "A tensor without elements got strides of 1 alone. torch counts a size of 0 as 1, and the "
    "other sizes as they are.",
    contiguous_strides=lambda size: (1,) * len(size) if 0 in size else torch.empty(size).stride(),
)


@contiguous_strides.cost
def _(student: Student, draw: Draw) -> str:
    stride = student.call("contiguous_strides", (600, 64))
    weight = torch.empty(600, 64)
    return (
        f"{len(stride)} integers place all {weight.numel():,} floats of the head's weight "
        f"({weight.nbytes:,} bytes); no float was read"
    )
