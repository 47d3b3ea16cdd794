"""Whether a geometry is row-major without gaps."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from autograder.judge import Draw, Student, expect_equal, some

from . import lab
from .geometry import Sizes, every_size

_ALWAYS: list[tuple[Sizes, Sizes]] = [
    ((600, 64), (64, 1)),
    ((64, 600), (1, 64)),
    ((3, 4), (0, 1)),
    ((3, 4), (8, 1)),
    ((1, 4), (99, 1)),
    ((3, 1, 4), (4, 7, 1)),
    ((2, 0, 3), (5, 9, 2)),
    ((), ()),
    ((5,), (2,)),
    ((3, 1), (1, 5)),
    ((1,), (7,)),
    ((2, 3, 4), (12, 1, 3)),
    ((2, 3, 4), (12, 1, 4)),
    ((5, 3, 4), (0, 4, 1)),
    ((2, 3), (5, 0)),  # falling, and as long as a contiguous one
    ((3, 2, 2), (4, 3, 0)),
    ((2, 3, 4), (12, 3, 2)),
    ((2, 3, 4), (17, 3, 0)),
    ((2, 3, 4, 5), (60, 1, 15, 3)),  # contiguous for torch in another memory format
    ((3, 1), (5, 5)),  # a last size of 1 excuses its own stride, and not the one before it
    ((2, 3, 1), (6, 2, 7)),
]


def _strides(size: Sizes) -> list[Sizes]:
    """Those of a fresh tensor, those with each one longer, shorter or 0, and other orders."""
    fresh = tuple(torch.empty(size).stride())
    near = [
        (*fresh[:d], other, *fresh[d + 1 :])
        for d, s in enumerate(fresh)
        for other in (s + 1, 2 * s, 0)
    ]
    return [
        fresh,
        tuple(2 * s for s in fresh),
        *near,
        *dict.fromkeys(itertools.permutations(fresh)),
    ]


_SIZES = [*every_size((1, 2, 3)), (2, 3, 2, 2), (2, 1, 1, 3), (1, 2, 3, 1), (1,) * 4, (2, 1, 0, 1)]
_SMALL = some([(size, stride) for size in _SIZES for stride in _strides(size)], 77)


@lab.question(
    "is_contiguous",
    points=3,
    minutes=10,
    difficulty=2,
    hints=(
        "Compare with the strides of 1.1, but ask of each dimension whether its stride is ever "
        "used.",
        "A dimension of size 1 is never stepped along, so its stride does not matter. "
        "A tensor without elements has nothing out of order.",
        "0 in size or all(n == 1 or s == want for n, s, want in zip(size, stride, contiguous))",
    ),
)
def is_contiguous(student: Student, draw: Draw) -> None:
    """Whether a tensor of this size and stride lies in row-major order without gaps.

    size, stride -> bool, what `torch.Tensor.is_contiguous()` says.
    """
    tensors = [draw.tensor(*draw.shape(low=0, high=3), layout=draw.layout()) for _ in draw.cases(8)]
    cases = [*_ALWAYS, *_SMALL] + [(tuple(t.shape), t.stride()) for t in tensors]
    for case, got in zip(cases, student.each("is_contiguous", cases), strict=True):
        expect_equal(got, torch.empty_strided(*case).is_contiguous(), why=_because(got, *case))


def _because(got: Any, size: Sizes, stride: Sizes) -> str:
    """Why a tensor is contiguous, or which stride says that it is not; "" for what is no bool."""
    if not isinstance(got, bool):
        return ""
    if 0 in size:
        return (
            "This tensor has no elements, so none is out of place: torch calls every empty tensor "
            "contiguous."
        )
    fresh = torch.empty(size).stride()
    for d in reversed(range(len(size))):
        if size[d] != 1 and stride[d] != fresh[d]:
            return (
                f"A step along dimension {d} is {stride[d]} here. Row by row without gaps it is "
                f"{fresh[d]}."
            )
    if not size:
        return "Without dimensions there is one element, and it is in its place."
    if stride != fresh:
        return (
            "Where the size is not 1, these are the strides of a fresh tensor. The stride of a "
            "size of 1 is not looked at."
        )
    return "These are the strides of a fresh tensor."


is_contiguous.wrong(
    "size_one_counted",
    "A dimension of size 1 was refused for its stride. Nobody ever steps along it, so its stride "
    "means nothing.",
    is_contiguous=lambda size, stride: tuple(stride) == torch.empty(size).stride(),
)
is_contiguous.wrong(
    "last_stride_only",
    "A last stride of 1 says that rows have no gaps inside. The rows themselves may still be "
    "apart, or all the same.",
    is_contiguous=lambda size, stride: not stride or stride[-1] == 1,
)
is_contiguous.wrong(
    "only_decreasing",
    "Falling strides say that the order is row-major. Contiguous also means without gaps.",
    is_contiguous=lambda size, stride: list(stride) == sorted(stride, reverse=True),
)


@is_contiguous.wrong(
    "empty_forgotten",
    "This tensor has no elements, so none is out of place: torch calls every empty tensor "
    "contiguous.",
)
def _(size: Sizes, stride: Sizes) -> bool:
    step = 1
    for n, s in zip(reversed(size), reversed(stride), strict=True):
        if n != 1 and s != step:
            return False
        step *= max(n, 1)
    return True


@is_contiguous.wrong(
    "without_gaps",
    "It has no gaps, true. Nor has W.T: it fills its storage, in another order. Contiguous also "
    "means row by row.",
)
def _(size: Sizes, stride: Sizes) -> bool:
    reach = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    return 0 in size or math.prod(size) == reach


is_contiguous.wrong(
    "size_one_counted_but_not_zero",
    "A dimension of size 1 was refused for its stride. Nobody ever steps along it, so its stride "
    "means nothing.",
    is_contiguous=lambda size, stride: 0 in size or tuple(stride) == torch.empty(size).stride(),
)
is_contiguous.wrong(
    "column_by_column",
    "This asks for columns one after the other. Contiguous means row by row: the last dimension "
    "steps by 1.",
    is_contiguous=lambda size, stride: (
        0 in size
        or all(
            n == 1 or s == math.prod(size[:d])
            for d, (n, s) in enumerate(zip(size, stride, strict=True))
        )
    ),
)
is_contiguous.wrong(
    "the_opposite",
    "This is true where the tensor is not contiguous, and false where it is.",
    is_contiguous=lambda size, stride: not torch.empty_strided(size, stride).is_contiguous(),
)
is_contiguous.wrong(
    "last_dimension_steps_by_one",
    "The last stride was asked to be 1. Where the last size is 1 it may be anything: nobody steps "
    "along it.",
    is_contiguous=lambda size, stride: (
        torch.empty_strided(size, stride).is_contiguous()
        and (0 in size or not size or stride[-1] == 1)
    ),
)


@is_contiguous.cost
def _(student: Student, draw: Draw) -> str:
    n = draw.integer(2, 9)
    row = student.call("is_contiguous", (1, 64), (n * 64, 1))
    column = student.call("is_contiguous", (64, 1), (1, 64))
    return (
        f"no float read; a single row says {row}, a single column of W.T says {column}: neither "
        "would copy"
    )
