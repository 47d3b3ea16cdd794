"""Whether two indices share a float."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal, some

from . import lab
from .geometry import IN_FLOAT32, Sizes, every_size

_RAISED = dict.fromkeys(
    ("ValueError", "IndexError"),
    "A tensor has any number of dimensions, of any sizes: also none at all, and 0.",
)

_MORE: list[tuple[Sizes, Sizes]] = [
    ((2, 2, 2, 2), (8, 4, 2, 1)),
    ((2, 2, 2, 2), (7, 4, 2, 1)),  # no three dimensions meet, and all four do
    ((2, 2, 2, 2), (10, 13, 14, 17)),  # 10 + 17 is 13 + 14, and none alone is met by the others
    ((2, 1, 2, 1, 3), (6, 0, 3, 0, 1)),
    ((2, 1, 2, 1, 3), (3, 0, 2, 0, 1)),
    ((7, 5), (5, 1)),
    ((7, 5), (4, 1)),
    ((9, 2), (1, 8)),
    ((13, 2), (1, 12)),
    ((13, 9), (9, 1)),
    ((9, 13), (1, 8)),
    ((3, 2), (600, 64)),
    ((11,), (0,)),
    ((2, 0, 3), (0, 0, 0)),
    ((1, 1, 1), (0, 0, 0)),
    ((1, 2), (3, 0)),  # a size of 1 excuses no stride of 0 beside it
    ((2, 2), (2**24, 1)),  # beyond the integers of float32
]


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
        ((), ()),
        ((3, 2), (8, 2)),
        ((2, 3, 2), (1, 2, 1)),  # the first and the last dimension meet
        ((2, 2, 2), (3, 1, 2)),  # no two dimensions meet, and all three do
        ((1, 3), (1, 1)),  # nobody steps along a size of 1
        ((3, 1), (2, 2)),
        ((3,), (0,)),
        ((1, 2, 3), (6, 1, 1)),
        ((2, 3), (6, 3)),
        *_MORE,
    ]
    small = [(n, s) for n in every_size((1, 2)) for s in every_size((len(n),), range(5))]
    large = [(n, s) for n in every_size((3,), (1, 2, 3)) for s in every_size((3,), (1, 2, 3, 6))]
    always += some(small, 35) + some(large, 25)
    drawn = [(draw.shape(draw.integer(1, 3), high=4), draw) for _ in draw.cases(8)]
    cases = always + [(n, tuple(d.integer(0, 6) for _ in n)) for n, d in drawn]
    with explaining(_RAISED):
        for case, got in zip(cases, student.each("overlaps", cases), strict=True):
            expect_equal(got, _shares_a_float(*case), why=_because(got, *case))


def _shares_a_float(size: Sizes, stride: Sizes) -> bool:
    """The slow definition: write down every address, count the different ones."""
    addresses = _addresses(size, stride)
    return len(set(addresses)) < len(addresses)


def _addresses(size: Sizes, stride: Sizes) -> list[int]:
    indices = itertools.product(*map(range, size))
    return [sum(i * s for i, s in zip(index, stride, strict=True)) for index in indices]


def _because(got: Any, size: Sizes, stride: Sizes) -> str:
    """Two indices that meet, or what says that there are none; "" for what is no bool."""
    if not isinstance(got, bool):
        return ""
    if 0 in size:
        return "There is no index at all, so no two of them meet."
    if not size:
        return "Without dimensions there is one index, (), and no other that it could meet."
    first: dict[int, Sizes] = {}
    for index in itertools.product(*map(range, size)):
        at = sum(i * s for i, s in zip(index, stride, strict=True))
        if at in first:
            one, other = ("[" + ", ".join(map(str, each)) + "]" for each in (first[at], index))
            return f"Two indices have the address {at}: {one} and {other}."
        first[at] = index
    if (1, 0) in zip(size, stride, strict=True):
        return (
            f"Each of the {len(first)} indices has an address of its own: nobody steps along a "
            "size of 1, and its stride of 0 repeats nothing."
        )
    if not _nested(size, stride):
        return (
            f"Each of the {len(first)} indices has an address of its own: the steps interleave "
            "here, and never meet."
        )
    return f"Each of the {len(first)} indices has an address of its own."


def _nested(size: Sizes, stride: Sizes) -> bool:
    """Whether each step is longer than all that the shorter ones reach together."""
    reach = 0
    for s, n in sorted(zip(stride, size, strict=True)):
        if n > 1 and s <= reach:
            return False
        reach += max(n - 1, 0) * s
    return True


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


_INTERLEAVED = "These dimensions interleave and never meet. Compare addresses, not strides."
overlaps.wrong(
    "nesting_required",
    _INTERLEAVED,
    overlaps=lambda size, stride: 0 not in size and not _nested(size, stride),
)
overlaps.wrong(
    "nesting_required_of_nothing_too",
    _INTERLEAVED,
    overlaps=lambda size, stride: not _nested(size, stride),
)


@overlaps.wrong(
    "long_zero_stride_only",
    "Stride 0 is one way to meet. Windows meet with strides of 1: compare the addresses.",
)
def _(size: Sizes, stride: Sizes) -> bool:
    return any(s == 0 and n > 1 for n, s in zip(size, stride, strict=True)) and 0 not in size


overlaps.wrong(
    "equal_strides",
    "Equal strides are one way to meet, and not the only one: a step of 0 leads nowhere, and 2 "
    "steps of 1 are 1 step of 2. Compare the addresses.",
    overlaps=lambda size, stride: len(set(stride)) < len(stride),
)
overlaps.wrong(
    "out_of_order",
    "Out of order is not twice: a transpose is not contiguous, and every float of it has one "
    "index. Compare the addresses.",
    overlaps=lambda size, stride: not torch.empty_strided(size, stride).is_contiguous(),
)


overlaps.wrong(
    "zero_or_equal_strides",
    "A size of 1 is never stepped along, so its stride meets no other. And strides can meet that "
    "differ: compare the addresses.",
    overlaps=lambda size, stride: 0 in stride or len(set(stride)) < len(stride),
)
overlaps.wrong(
    "rows_too_short",
    "A row that is longer than the step to the next one may still meet nothing, where there is no "
    "next one or the steps interleave. Compare the addresses.",
    overlaps=lambda size, stride: any(
        stride[d] < size[d + 1] * stride[d + 1] for d in range(len(size) - 1)
    ),
)
overlaps.wrong(
    "the_opposite",
    "This is true where every float has one index, and false where two meet.",
    overlaps=lambda size, stride: not _shares_a_float(size, stride),
)
overlaps.wrong(
    "in_float32",
    IN_FLOAT32,
    overlaps=lambda size, stride: (
        len(set(torch.tensor(_addresses(size, stride)).float().tolist())) < math.prod(size)
    ),
)
overlaps.wrong(
    "reach_one_too_small",
    "There is room for all here, and for no more, which is enough: from the first address to the "
    "last it is their difference and 1.",
    overlaps=lambda size, stride: (
        sum((n - 1) * s for n, s in zip(size, stride, strict=True)) < math.prod(size)
    ),
)


def _pairs_meet(size: Sizes, stride: Sizes) -> bool:
    pairs = itertools.combinations(zip(size, stride, strict=True), 2)
    return any(_shares_a_float((n, m), (s, t)) for (n, s), (m, t) in pairs)


overlaps.wrong(
    "neighbours_compared",
    "Each address was compared with the next one alone. Two that meet may stand far apart in the "
    "list: collect them in a set.",
    overlaps=lambda size, stride: any(
        one == other for one, other in itertools.pairwise(_addresses(size, stride))
    ),
)
overlaps.wrong(
    "not_rising",
    "Addresses that do not rise are out of order. They are all different in a transpose: count the "
    "different ones.",
    overlaps=lambda size, stride: any(
        one >= other for one, other in itertools.pairwise(_addresses(size, stride))
    ),
)
overlaps.wrong(
    "falling_addresses",
    "Addresses that fall are out of order. They are all different in a transpose: count the "
    "different ones.",
    overlaps=lambda size, stride: _addresses(size, stride) != sorted(_addresses(size, stride)),
)
overlaps.wrong(
    "one_index_too_many",
    "Each dimension was walked one index too far: they run from 0 to n - 1.",
    overlaps=lambda size, stride: _shares_a_float(tuple(n + 1 for n in size), stride),
)
overlaps.wrong(
    "one_index_too_few",
    "This is right for n - 1 places in each dimension, as many as range(n - 1) or range(1, n) has. "
    "There are n, from 0 to n - 1.",
    overlaps=lambda size, stride: _shares_a_float(tuple(max(n - 1, 0) for n in size), stride),
)
overlaps.wrong(
    "two_at_a_time",
    "No two of these dimensions meet by themselves. A step along one and a step along another can "
    "lead where a step along a third does: take all of them together.",
    overlaps=lambda size, stride: (
        0 not in size
        and (_pairs_meet(size, stride) or (len(size) == 1 and _shares_a_float(size, stride)))
    ),
)
overlaps.wrong(
    "nothing_overlaps",
    "There is no index at all, so no two of them meet.",
    overlaps=lambda size, stride: 0 in size or _shares_a_float(size, stride),
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
