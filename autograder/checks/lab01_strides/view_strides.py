"""The rule of `view`: new strides, or a copy."""

from __future__ import annotations

import math

import torch

from autograder.judge import Draw, Student

from . import lab
from .compared_strides import expect_strides
from .geometry import Sizes


@lab.question(
    "view_strides",
    points=5,
    minutes=20,
    difficulty=4,
    hints=(
        "Which neighbouring dimensions can be walked through as one? Those runs may be cut anew; "
        "a border between two runs may not be crossed.",
        "Two neighbours are one run when outer stride == inner size * inner stride. Build the runs "
        "(ignore sizes of 1), then cut each run from its right end into the new sizes.",
        "if n != 1: extend the run when runs and runs[-1].stride == n * s, else start a new one",
    ),
)
def view_strides(student: Student, draw: Draw) -> None:
    """The strides of `x.view(new_size)`, or None where a view is impossible and torch would need a
    copy.

    size, stride, new_size (same number of elements) -> strides or None.
    """
    always: list[tuple[Sizes, Sizes, Sizes]] = [
        ((600, 64), (64, 1), (600, 8, 8)),
        ((600, 64), (64, 1), (38_400,)),
        ((64, 600), (1, 64), (38_400,)),
        ((64, 600), (1, 64), (64, 24, 25)),
        ((64, 600), (1, 64), (8, 8, 600)),
        ((2, 3, 4), (24, 4, 1), (2, 12)),
        ((2, 3, 4), (24, 4, 1), (6, 4)),
        ((3, 4), (0, 1), (12,)),
        ((4,), (0,), (2, 2)),
        ((2, 1, 3), (3, 77, 1), (6,)),
        ((6,), (2,), (1, 2, 1, 3)),
        ((), (), (1, 1)),
    ]
    cases = always + [_reshaping(draw) for _ in draw.cases(8)]
    for case, got in zip(cases, student.each("view_strides", cases), strict=True):
        expect_strides(got, _torch_view(*case), case[-1])


def _reshaping(draw: Draw) -> tuple[Sizes, Sizes, Sizes]:
    """A small geometry, and another size with as many elements."""
    size = tuple(draw.choice((1, 2, 3, 4)) for _ in range(draw.integer(2, 4)))
    t = draw.tensor(*size, layout=draw.layout())
    keep, rest = list(size[: draw.integer(0, 2)]), math.prod(size)
    rest //= math.prod(keep)
    cut = draw.choice([d for d in range(1, rest + 1) if rest % d == 0])
    return size, tuple(t.stride()), (*keep, cut, rest // cut)


def _torch_view(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
    try:
        return tuple(torch.empty_strided(size, stride).view(new_size).stride())
    except RuntimeError:
        return None


@view_strides.wrong(
    "contiguous_only",
    "This view exists: each run may be cut on its own. Several runs, or gaps between elements, "
    "are no reason to refuse.",
)
def _(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
    if not torch.empty_strided(size, stride).is_contiguous():
        return None
    return tuple(torch.empty(new_size).stride())


view_strides.wrong(
    "always_possible",
    "These are the strides of a fresh tensor. The floats lie where the old strides put them; here "
    "no strides reach "
    "them in the new order, so torch would need a copy.",
    view_strides=lambda size, stride, new_size: tuple(torch.empty(new_size).stride()),
)


@view_strides.wrong(
    "scaled_by_last_stride",
    "One step cannot walk all of this: the new size crosses from one run into the next. Then "
    "the answer is None.",
)
def _(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes:
    last = stride[-1] if stride else 1
    return tuple(last * s for s in torch.empty(new_size).stride())


@view_strides.wrong(
    "size_one_is_a_border",
    "A dimension of size 1 was treated as a border. Its stride is never used, so it joins any run.",
)
def _(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
    for d in range(len(size) - 1):
        merged = stride[d] == size[d + 1] * stride[d + 1]
        if 1 in (size[d], size[d + 1]) and not merged:
            return None
    return _torch_view(size, stride, new_size)


@view_strides.wrong(
    "size_one_left_out",
    "Dimensions of size 1 have no stride here. Every dimension of new_size needs one, used or not.",
)
def _(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
    full = _torch_view(size, stride, new_size)
    if full is None:
        return None
    return tuple(s for s, n in zip(full, new_size, strict=True) if n != 1)


@view_strides.cost
def _(student: Student, draw: Draw) -> str:
    w = torch.empty(600, 64)
    split = student.call("view_strides", (64, 600), (1, 64), (64, 24, 25))
    flat = student.call("view_strides", (64, 600), (1, 64), (38_400,))
    bill = w.nbytes if flat is None else 0
    return f"W.T.view(64, 24, 25): strides {split}, 0 bytes; W.T.reshape(-1): {bill:,} bytes copied"
