"""The strides of an expanded tensor."""

from __future__ import annotations

import torch

from autograder.judge import Draw, Student

from . import lab
from .compared_strides import expect_strides
from .geometry import Sizes


@lab.question(
    "broadcast_strides",
    points=2,
    minutes=8,
    difficulty=2,
    hints=(
        "A repeated row is read from the same place again. What stride reads the same place again?",
        "Align the sizes at their *right* ends. Equal sizes keep the stride; a size of 1 that "
        "grows, "
        "and every new dimension on the left, gets stride 0; anything else is impossible.",
        "stride 0 where the old size is 1 (or missing) and the new one is not; None when n not in "
        "(1, m)",
    ),
)
def broadcast_strides(student: Student, draw: Draw) -> None:
    """The strides of `x.expand(to)`: one float read many times. None where the sizes do not fit.

    size, stride, to (at least as many dimensions) -> strides or None.
    """
    always: list[tuple[Sizes, Sizes, Sizes]] = [
        ((32, 1), (1, 1), (32, 600)),
        ((600,), (1,), (32, 600)),
        ((2, 3), (3, 1), (3, 2, 3)),
        ((3, 1), (7, 2), (2, 3, 5)),
        ((3,), (1,), (3, 4)),
        ((2, 3), (3, 1), (6, 3)),
        ((), (), (2, 2)),
        ((0, 3), (3, 1), (2, 3)),  # nothing cannot be repeated
        ((1, 3), (3, 1), (0, 3)),
    ]
    cases = always + [_expansion(draw) for _ in draw.cases(6)]
    for case, got in zip(cases, student.each("broadcast_strides", cases), strict=True):
        expect_strides(got, _torch_expand(*case), case[-1])


def _expansion(draw: Draw) -> tuple[Sizes, Sizes, Sizes]:
    to = draw.shape(draw.integer(2, 4), low=2, high=4)
    size = tuple(draw.choice((1, n, n)) for n in to[draw.integer(0, 1) :])
    misfit = draw.integer(0, 3) == 0
    size = (size[0] + 1, *size[1:]) if misfit else size
    return size, tuple(draw.tensor(*size, layout=draw.layout()).stride()), to


def _torch_expand(size: Sizes, stride: Sizes, to: Sizes) -> Sizes | None:
    try:
        return tuple(torch.empty_strided(size, stride).expand(to).stride())
    except RuntimeError:
        return None


def _expand_by_rule(size: Sizes, stride: Sizes, to: Sizes, *, repeated: int | None) -> Sizes | None:
    """Right-aligned expansion; `repeated` is the stride given to repeated dimensions (None: keep
    it).
    """
    new = len(to) - len(size)
    out = [0] * new
    for n, s, m in zip(size, stride, to[new:], strict=True):
        if n not in (1, m):
            return None
        out.append(s if n == m or repeated is None else repeated)
    return tuple(out)


broadcast_strides.wrong(
    "stride_kept",
    "The repeated dimension kept its stride, so its second step leaves the row. Reading the same "
    "float again is a step of 0.",
    broadcast_strides=lambda size, stride, to: _expand_by_rule(size, stride, to, repeated=None),
)


@broadcast_strides.wrong(
    "materialised",
    "These are the strides of a tensor that was filled with copies. Broadcasting copies nothing: "
    "repeated dimensions have stride 0.",
)
def _(size: Sizes, stride: Sizes, to: Sizes) -> Sizes | None:
    return None if _torch_expand(size, stride, to) is None else tuple(torch.empty(to).stride())


@broadcast_strides.wrong(
    "aligned_left",
    "Sizes line up at their right ends; dimensions that are missing on the left are added with "
    "stride 0.",
)
def _(size: Sizes, stride: Sizes, to: Sizes) -> Sizes | None:
    padded = size + (1,) * (len(to) - len(size))
    if any(n not in (1, m) for n, m in zip(padded, to, strict=True)):
        return None
    steps = stride + (0,) * (len(to) - len(size))
    return tuple(0 if n == 1 else s for n, s in zip(padded, steps, strict=True))


@broadcast_strides.wrong(
    "misfit_accepted",
    "Only a size of 1 can be repeated. These sizes do not fit together, so the answer is None.",
)
def _(size: Sizes, stride: Sizes, to: Sizes) -> Sizes:
    new = len(to) - len(size)
    pairs = zip(size, stride, to[new:], strict=True)
    return (*[0] * new, *[s if n == m else 0 for n, s, m in pairs])


@broadcast_strides.wrong(
    "new_dimension_steps",
    "A dimension that is new on the left got a step of 1. Its every index reads the same tensor "
    "from the start again: a step of 0.",
)
def _(size: Sizes, stride: Sizes, to: Sizes) -> Sizes | None:
    old = _torch_expand(size, stride, to)
    return None if old is None else (1,) * (len(to) - len(size)) + old[len(to) - len(size) :]


@broadcast_strides.cost
def _(student: Student, draw: Draw) -> str:
    bias, n = torch.empty(600), 32
    stride = student.call("broadcast_strides", (600,), (1,), (n, 600))
    return (
        f"strides {tuple(stride)}: the bias is read {n} times from {bias.nbytes:,} bytes; "
        f"copied out it would be {n * bias.nbytes:,}"
    )
