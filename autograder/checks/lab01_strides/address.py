"""The place of an element in its storage."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal, some

from . import lab
from .geometry import Sizes, geometry

_RAISED = {
    "ValueError": "A tensor has any number of dimensions: 2 are an example.",
    "IndexError": "A tensor has any number of dimensions, one for each place of the index.",
}

_SMALL: list[tuple[Sizes, Sizes, int]] = [
    ((5,), (2,), 3),
    ((3, 4), (4, 1), 5),
    ((3, 4), (1, 3), 0),
    ((3, 1), (9, 5), 2),
    ((1, 3), (8, 0), 6),
    ((2, 1, 2, 1, 3), (12, 50, 6, 40, 2), 1),
    ((4, 3), (1, 1), 0),  # windows: both dimensions move by one
]
"""Of these, each index is asked, or twelve: places counted from the front and from the end."""


@lab.question(
    "address",
    points=2,
    minutes=5,
    difficulty=1,
    hints=(
        "Each index moves by its own stride. Where does the walk begin?",
        "Start at the offset and add index times stride for each dimension. "
        "A negative index counts from the end: add the size to it first.",
        "offset + sum((i + n if i < 0 else i) * s for i, n, s in zip(index, size, stride))",
    ),
)
def address(student: Student, draw: Draw) -> None:
    """The place in the storage of the element that `index` names.

    index (negative ones count from the end), size, stride, offset -> one integer, in elements.
    """
    always: list[tuple[Sizes, Sizes, Sizes, int]] = [
        ((1, 2), (3, 4), (4, 1), 5),
        ((1, 0), (3, 4), (4, 1), 0),  # 0 beside no negative index
        ((-3, 1), (5, 4), (10, 1), 2),  # each misreading of -3 has a place of its own
        ((1, -1), (3, 4), (4, 1), 0),
        ((-1, -2), (3, 4), (4, 1), 5),  # from the end in each of the two
        ((0, 0), (3, 4), (4, 1), 5),  # the walk is over where it begins
        ((2, 1), (4, 3), (1, 4), 0),
        ((1,), (5,), (2,), 3),  # an offset beside steps of 2
        ((), (), (), 3),
    ]
    for small in _SMALL:
        every = [*itertools.product(*(range(-n, n) for n in small[0]))]
        always += [(index, *small) for index in some(every, min(12, len(every)))]
    places = [
        int(torch.arange(64).as_strided(size, stride, offset)[index])
        for index, size, stride, offset in always
    ]
    cases = list(always)
    for layout in draw.layouts() * draw.rounds:
        size = draw.shape(3, low=2, high=5)
        numbered = _numbered(draw.tensor(*size, layout=layout))
        drawn: Sizes = tuple(draw.integer(-n, n - 1) for n in size)
        for index in (drawn, tuple(n - 1 for n in size), (-1, 0, -1)):
            cases.append((index, *geometry(numbered)))
            places.append(int(numbered[index]))
    cases.append(((4096, 1), (5000, 5000), (4097, 1), 0))  # beyond the integers of float32
    places.append(4096 * 4097 + 1)
    with explaining(_RAISED):
        answers = student.each("address", cases)
        for case, got, place in zip(cases, answers, places, strict=True):
            expect_equal(got, place, why=_walk(got, *case))


def _walk(got: Any, index: Sizes, size: Sizes, stride: Sizes, offset: int) -> str:
    """Where the walk to the place begins, and how far each dimension takes it; "" where the verdict
    has a better word for the answer."""
    if isinstance(got, (list, tuple)):
        return "One number is asked for: the place where all the steps together lead."
    if type(got) is not int:
        return ""
    steps = [str(i % n * s) for i, n, s in zip(index, size, stride, strict=True)]
    if not steps:
        return "Without dimensions there is one element. It lies at the offset."
    if min(index) < 0:
        return (
            f"The walk begins at the offset, {offset}, and its dimensions add {', '.join(steps)}. "
            "Each index below 0 counts from the end of its own dimension."
        )
    return f"The walk begins at the offset, {offset}, and its dimensions add {', '.join(steps)}."


def _numbered(t: torch.Tensor) -> torch.Tensor:
    """The same geometry over a storage in which element k holds the number k."""
    elements = t.untyped_storage().nbytes() // t.element_size()
    size, stride, offset = geometry(t)
    return torch.arange(elements).as_strided(size, stride, offset)


@address.wrong(
    "offset_forgotten",
    "The offset is missing: a view need not begin where its storage begins.",
)
def _(index: Sizes, size: Sizes, stride: Sizes, offset: int) -> int:
    return sum((i % n) * s for i, n, s in zip(index, size, stride, strict=True))


@address.wrong(
    "negative_taken_literally",
    "A negative index was multiplied as it stands. It counts from the end: add the size first.",
)
def _(index: Sizes, size: Sizes, stride: Sizes, offset: int) -> int:
    return offset + sum(i * s for i, s in zip(index, stride, strict=True))


@address.wrong(
    "strides_ignored",
    "This address comes from the sizes, as if the tensor were contiguous. Use the strides that it "
    "really has.",
)
def _(index: Sizes, size: Sizes, stride: Sizes, offset: int) -> int:
    row_major = torch.empty(size).stride()
    return offset + sum((i % n) * s for i, n, s in zip(index, size, row_major, strict=True))


@address.wrong(
    "in_bytes", "This place is in bytes. Offset and strides are counted in elements, and so is it."
)
def _(index: Sizes, size: Sizes, stride: Sizes, offset: int) -> int:
    return 4 * (offset + sum((i % n) * s for i, n, s in zip(index, size, stride, strict=True)))


@address.wrong(
    "sizes_for_strides",
    "Each index was multiplied by its size. A step along a dimension is as long as its stride.",
)
def _(index: Sizes, size: Sizes, stride: Sizes, offset: int) -> int:
    return offset + sum((i % n) * n for i, n in zip(index, size, strict=True))


@address.wrong(
    "whole_walk_wrapped",
    "The place was counted from the end after all steps were added. An index counts from the end "
    "of its own dimension: add the size to it first.",
)
def _(index: Sizes, size: Sizes, stride: Sizes, offset: int) -> int:
    walked = sum(i * s for i, s in zip(index, stride, strict=True))
    return offset + walked + (math.prod(size) if walked < 0 else 0)


def _wrong(name: str, sentence: str, step: Callable[[int, int, int], int]) -> None:
    """step: what a dimension adds, from its index, size and stride."""

    def answer(index: Sizes, size: Sizes, stride: Sizes, offset: int) -> int:
        return offset + sum(map(step, index, size, stride))

    address.wrong(name, sentence, address=answer)


_wrong(
    "sign_dropped",
    "The sign of a negative index was dropped. -1 is the last place, not the one at 1: add the "
    "size first.",
    lambda i, n, s: abs(i) * s,
)
_wrong(
    "every_negative_is_the_last",
    "Every negative index was taken for the last place. That is -1 alone: add the size to the "
    "index.",
    lambda i, n, s: (n - 1 if i < 0 else i) * s,
)
_wrong(
    "only_minus_one",
    "-1 is counted from the end, and other negative indices are not: add the size to every "
    "negative index.",
    lambda i, n, s: (n - 1 if i == -1 else i) * s,
)
_wrong(
    "end_counted_from_zero",
    "A negative index came out one place too far left: the last one is -1, not 0 from the end.",
    lambda i, n, s: (n - 1 + i if i < 0 else i) * s,
)
_wrong(
    "zero_from_the_end",
    "0 was counted from the end as well. It is the first place: only what is below 0 counts from "
    "the end.",
    lambda i, n, s: (n + i if i <= 0 else i) * s,
)
_wrong(
    "index_subtracted",
    "A negative index was subtracted from the size, which lies beyond the end. It is negative "
    "already: add it.",
    lambda i, n, s: (n - i if i < 0 else i) * s,
)
_wrong(
    "stride_added_to_the_index",
    "The stride was added to a negative index. It counts from the end of its dimension: add the "
    "size.",
    lambda i, n, s: (s + i if i < 0 else i) * s,
)
_wrong(
    "negative_is_the_first",
    "A negative index was taken for the first place. It counts from the end: add the size.",
    lambda i, n, s: max(i, 0) * s,
)
_wrong(
    "size_added_to_the_step",
    "The size was added after the index was multiplied by its stride. It belongs to the index: add "
    "it first.",
    lambda i, n, s: i * s + (n if i < 0 else 0),
)
_wrong(
    "counted_from_one",
    "Places were counted from 1. The element at index 0 is no step away.",
    lambda i, n, s: (i % n + 1) * s,
)


def _steps(index: Sizes, size: Sizes, stride: Sizes) -> list[int]:
    return [i % n * s for i, n, s in zip(index, size, stride, strict=True)]


address.wrong(
    "strides_from_behind",
    "The strides were taken from behind. Each index moves by the stride at its own place.",
    address=lambda index, size, stride, offset: offset + sum(_steps(index, size, stride[::-1])),
)
address.wrong(
    "last_dimension_alone",
    "Only the last dimension moved the place, as where each step overwrites the one before. Add "
    "them up.",
    address=lambda index, size, stride, offset: offset + sum(_steps(index, size, stride)[-1:]),
)
address.wrong(
    "first_dimension_alone",
    "Only the first dimension moved the place. Every one adds its index times its stride.",
    address=lambda index, size, stride, offset: offset + sum(_steps(index, size, stride)[:1]),
)
address.wrong(
    "last_steps_by_one",
    "The last index was added as it is. A step along the last dimension may have any stride: "
    "multiply by it.",
    address=lambda index, size, stride, offset: (
        offset + sum(_steps(index, size, (*stride[:-1], 1) if stride else ()))
    ),
)
address.wrong(
    "offset_in_every_dimension",
    "The offset was added once for each dimension. The walk begins there, once.",
    address=lambda index, size, stride, offset: sum(
        step + offset for step in _steps(index, size, stride)
    ),
)
address.wrong(
    "offset_taken_away",
    "The offset was subtracted. The storage begins in front of the first element: add it.",
    address=lambda index, size, stride, offset: sum(_steps(index, size, stride)) - offset,
)
address.wrong(
    "offset_multiplied",
    "The offset was multiplied. The walk begins there: add it.",
    address=lambda index, size, stride, offset: offset * sum(_steps(index, size, stride)),
)
address.wrong(
    "nothing_without_dimensions",
    "Without dimensions there is one element. It lies at the offset.",
    address=lambda index, size, stride, offset: (
        offset + sum(_steps(index, size, stride)) if size else 0
    ),
)


@address.cost
def _(student: Student, draw: Draw) -> str:
    at = student.call("address", (599, 63), (600, 64), (64, 1), 0)
    transposed = student.call("address", (63, 599), (64, 600), (1, 64), 0)
    return (
        f"two multiplications and an addition: W[599, 63] and W.T[63, 599] are floats {at:,} and "
        f"{transposed:,} of the storage"
    )
