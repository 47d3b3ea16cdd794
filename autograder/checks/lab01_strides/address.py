"""The place of an element in its storage."""

from __future__ import annotations

import torch

from autograder.judge import Draw, Student, expect_equal

from . import lab
from .geometry import Sizes, geometry


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
        ((1, -1), (3, 4), (4, 1), 0),
        ((2, 1), (4, 3), (1, 4), 0),
    ]
    places = [
        int(torch.arange(24).as_strided(size, stride, offset)[index])
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
    for got, place in zip(student.each("address", cases), places, strict=True):
        expect_equal(got, place)


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


@address.cost
def _(student: Student, draw: Draw) -> str:
    at = student.call("address", (599, 63), (600, 64), (64, 1), 0)
    transposed = student.call("address", (63, 599), (64, 600), (1, 64), 0)
    return (
        f"two multiplications and an addition: W[599, 63] and W.T[63, 599] are floats {at:,} and "
        f"{transposed:,} of the storage"
    )
