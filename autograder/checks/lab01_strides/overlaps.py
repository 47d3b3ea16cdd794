"""Whether two indices share a float."""

from __future__ import annotations

import math

import torch

from autograder.judge import Draw, Student, expect_equal

from . import lab
from .geometry import Sizes


@lab.question(
    "overlaps",
    points=3,
    minutes=12,
    difficulty=3,
    hints=(
        "What would you see if you wrote down the address of every index?",
        "Collect the addresses of all indices. They overlap when there are fewer different "
        "addresses "
        "than indices. Sizes here are small: no cleverness is needed.",
        "len({sum(i * s ...) for index in itertools.product(*map(range, size))}) < math.prod(size)",
    ),
)
def overlaps(student: Student, draw: Draw) -> None:
    """Whether two different indices reach the same float: where an in-place write would go wrong.

    size, stride (small) -> bool.
    """
    always: list[tuple[Sizes, Sizes]] = [
        ((3, 4), (4, 1)),
        ((3, 4), (0, 1)),
        ((1, 4), (0, 1)),
        ((4, 3), (1, 1)),
        ((4, 3), (1, 4)),
        ((2, 3), (3, 2)),
        ((2, 3), (4, 2)),
        ((0, 4), (0, 0)),
    ]
    drawn = [(draw.shape(draw.integer(1, 3), high=4), draw) for _ in draw.cases(8)]
    cases = always + [(n, tuple(d.integer(0, 6) for _ in n)) for n, d in drawn]
    for case, got in zip(cases, student.each("overlaps", cases), strict=True):
        expect_equal(got, _shares_a_float(*case))


def _shares_a_float(size: Sizes, stride: Sizes) -> bool:
    """The slow definition: number the storage, look at every element, count the different ones."""
    reach = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True) if n)
    seen = torch.arange(max(reach, 1)).as_strided(size, stride)
    return len(set(seen.flatten().tolist())) < seen.numel()


overlaps.wrong(
    "zero_stride_only",
    "A size of 1 is never stepped along: its stride 0 repeats nothing.",
    overlaps=lambda size, stride: 0 in stride,
)


@overlaps.wrong(
    "pigeonhole_only",
    "Two different indices meet here although there is room for all. Write down the addresses.",
)
def _(size: Sizes, stride: Sizes) -> bool:
    reach = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    return math.prod(size) > reach


@overlaps.wrong(
    "nesting_required",
    "These dimensions interleave and never meet. Compare addresses, not strides.",
)
def _(size: Sizes, stride: Sizes) -> bool:
    if 0 in size:
        return False
    reach = 0
    for s, n in sorted(zip(stride, size, strict=True)):
        if n > 1 and s <= reach:
            return True
        reach += (n - 1) * s
    return False


@overlaps.wrong(
    "long_zero_stride_only",
    "Stride 0 is one way to meet. Windows meet with strides of 1: compare the addresses.",
)
def _(size: Sizes, stride: Sizes) -> bool:
    return any(s == 0 and n > 1 for n, s in zip(size, stride, strict=True)) and 0 not in size


overlaps.wrong(
    "equal_strides",
    "Equal strides are one way to meet, and not the only one: 2 steps of 1 are 1 step of 2. "
    "Compare the addresses.",
    overlaps=lambda size, stride: len(set(stride)) < len(stride),
)
overlaps.wrong(
    "out_of_order",
    "Out of order is not twice: a transpose is not contiguous, and every float of it has one "
    "index. Compare the addresses.",
    overlaps=lambda size, stride: not torch.empty_strided(size, stride).is_contiguous(),
)


@overlaps.cost
def _(student: Student, draw: Draw) -> str:
    windows = torch.empty(10).unfold(0, 3, 1)
    both = student.call("overlaps", tuple(windows.shape), tuple(windows.stride()))
    return (
        f"{windows.numel()} addresses looked at to be certain ({both}); torch asks a cheaper "
        "question "
        "before an in-place write, and it has a third answer: too hard to tell"
    )
