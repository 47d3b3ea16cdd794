"""The strides of an expanded tensor."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, some

from . import lab
from .compared_strides import expect_strides
from .geometry import Sizes, every_size

_RAISED = dict.fromkeys(
    ("RuntimeError", "ValueError"),
    "Where the sizes do not fit, return None. An exception is what torch's own expand has for it.",
)


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
        ((), (), (5,)),
        ((0, 3), (3, 1), (2, 3)),  # nothing cannot be repeated
        ((1, 3), (3, 1), (0, 3)),
        ((4,), (1,), (2, 3)),  # nothing shrinks
        ((3, 4), (4, 1), (1, 4)),
        ((2, 3, 4), (12, 4, 1), (2, 1, 4)),
        ((3,), (1,), (2, 1)),
        ((3,), (1,), (0,)),
        ((3,), (1,), (0, 3)),
        ((2, 3), (0, 1), (4, 2, 3)),
        ((3,), (0,), (5,)),  # repeated already, and three all the same
        ((3,), (1,), (1, 3)),
        ((), (), ()),
    ]
    cases = always + [_expansion(draw) for _ in draw.cases(6)] + some(_small(), 62)
    answers = student.each("broadcast_strides", cases)
    for size, stride, to in cases:
        want = _torch_expand(size, stride, to)
        with explaining(_RAISED if want is None else {}):
            got = next(answers)
        pairs = zip(reversed(size), reversed(to), strict=False)
        misfit = next(((n, m) for n, m in pairs if n not in (1, m)), (0, 0))
        expect_strides(
            got,
            want,
            to,
            exists=_A_ONE_BECOMES_NOTHING
            if _ends_in_nothing(size, to)
            else "The sizes fit: seen from the right, each is 1, or as long as it shall be.",
            none=f"A size of {misfit[0]} does not become {misfit[1]}: only a size of 1 can be "
            "repeated. The answer is None.",
        )


_A_ONE_BECOMES_NOTHING = "A size of 1 becomes 0 as well: it is read no time at all."


def _ends_in_nothing(size: Sizes, to: Sizes) -> bool:
    pairs = zip(reversed(size), reversed(to), strict=False)
    return any((n, m) == (1, 0) for n, m in pairs)


def _expansion(draw: Draw) -> tuple[Sizes, Sizes, Sizes]:
    to = draw.shape(draw.integer(2, 4), low=2, high=4)
    size = tuple(draw.choice((1, n, n)) for n in to[draw.integer(0, 1) :])
    misfit = draw.integer(0, 3) == 0
    size = (size[0] + 1, *size[1:]) if misfit else size
    return size, tuple(draw.tensor(*size, layout=draw.layout()).stride()), to


def _small() -> list[tuple[Sizes, Sizes, Sizes]]:
    """Each small size with each other one, in strides that are not those of a fresh tensor."""
    old = [*every_size(range(3)), (2, 3, 1), (2, 1, 3), (1, 2, 3)]
    new = every_size((0, 1, 2), (0, 1, 2, 3, 4)) + every_size((3,), (0, 1, 2, 3))
    new += [(2, 1, 3, 2), (1, 2, 1, 3), (4, 1, 2, 3)]
    return [
        (size, (5, 1, 7)[: len(size)], to) for size in old for to in new if len(size) <= len(to)
    ]


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
    "The repeated dimension has its old stride, so a step along it leads to another float. "
    "Reading the same float again is a step of 0.",
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


def _misfitting(name: str, sentence: str, fits: Callable[[int, int], bool], *, keep: bool) -> None:
    """Lists who lets a size n become m where `fits(n, m)`, with its stride (`keep`) or a step of
    0."""

    def answer(size: Sizes, stride: Sizes, to: Sizes) -> Sizes | None:
        new = len(to) - len(size)
        triples = list(zip(size, stride, to[new:], strict=True))
        if not all(n in (1, m) or fits(n, m) for n, _, m in triples):
            return None
        kept = [s if n == m or (keep and n != 1) else 0 for n, s, m in triples]
        return (*[0] * new, *kept)

    broadcast_strides.wrong(name, sentence, broadcast_strides=answer)


_SHRUNK = (
    "A size became 1. Broadcasting of two tensors repeats whichever has the 1; `expand` repeats "
    "x alone, and nothing in it shrinks."
)
_misfitting("shrunk", _SHRUNK, lambda n, m: m == 1, keep=True)
_misfitting("shrunk_to_a_step_of_0", _SHRUNK, lambda n, m: m == 1, keep=False)
_misfitting(
    "misfit_keeps_its_stride",
    "Only a size of 1 can be repeated. These sizes do not fit together, so the answer is None.",
    lambda n, m: True,
    keep=True,
)
_misfitting(
    "whole_times_repeated",
    "A longer size was repeated that goes into the new one a whole number of times. No stride "
    "does that: only a size of 1 can be repeated.",
    lambda n, m: n > 0 and m % n == 0,
    keep=False,
)
_misfitting(
    "smaller_one_repeated",
    "A size was repeated that is smaller than the new one. Only a size of 1 can be repeated.",
    lambda n, m: n < m,
    keep=False,
)
_misfitting(
    "larger_one_cut",
    "A size was cut to a smaller one. `expand` leaves no element out: only a size of 1 changes.",
    lambda n, m: n > m,
    keep=True,
)
_misfitting(
    "nothing_repeated",
    "A size of 0 was repeated. There is nothing to read again: only a size of 1 can be repeated.",
    lambda n, m: n == 0,
    keep=False,
)


@broadcast_strides.wrong(
    "missing_left_out",
    "The dimensions that are new on the left have no stride here. Each dimension of the result "
    "needs one: 0.",
)
def _(size: Sizes, stride: Sizes, to: Sizes) -> Sizes | None:
    full = _torch_expand(size, stride, to)
    return None if full is None else full[len(to) - len(size) :]


@broadcast_strides.wrong(
    "new_on_the_right",
    "The strides of new dimensions were put on the right. Sizes line up at their right ends: what "
    "is new stands on the left.",
)
def _(size: Sizes, stride: Sizes, to: Sizes) -> Sizes | None:
    full, new = _torch_expand(size, stride, to), len(to) - len(size)
    return None if full is None else (*full[new:], *full[:new])


@broadcast_strides.wrong(
    "new_dimension_skips_all",
    "A dimension that is new on the left got a step over the whole tensor, as if there were copies "
    "of it. Its every index reads the same floats: a step of 0.",
)
def _(size: Sizes, stride: Sizes, to: Sizes) -> Sizes | None:
    full, new = _torch_expand(size, stride, to), len(to) - len(size)
    if full is None:
        return None
    whole = stride[0] * size[0] if size else 1
    skips = [whole * math.prod(to[d + 1 : new]) for d in range(new)]
    return (*skips, *full[new:])


@broadcast_strides.wrong(
    "every_step_is_0",
    "Every step is 0 here. A size that is as long as before is walked along as before.",
)
def _(size: Sizes, stride: Sizes, to: Sizes) -> Sizes | None:
    return None if _torch_expand(size, stride, to) is None else (0,) * len(to)


@broadcast_strides.wrong(
    "collected_backwards",
    "The right strides the wrong way round, as where they are found from right to left and "
    "appended. The first one belongs to the first dimension.",
)
def _(size: Sizes, stride: Sizes, to: Sizes) -> Sizes | None:
    full = _torch_expand(size, stride, to)
    return None if full is None else full[::-1]


broadcast_strides.wrong(
    "empty_is_none",
    "Without dimensions there are no strides, (), and the sizes fit. None says that they do not.",
    broadcast_strides=lambda size, stride, to: _torch_expand(size, stride, to) or None,
)
broadcast_strides.wrong(
    "nothing_refused",
    "A size of 0 was refused. A size of 1 becomes 0 as well: it is read no time at all.",
    broadcast_strides=lambda size, stride, to: None if 0 in to else _torch_expand(size, stride, to),
)


@broadcast_strides.cost
def _(student: Student, draw: Draw) -> str:
    bias, n = torch.empty(600), 32
    stride = student.call("broadcast_strides", (600,), (1,), (n, 600))
    return (
        f"strides {tuple(stride)}: the bias is read {n} times from {bias.nbytes:,} bytes; "
        f"copied out it would be {n * bias.nbytes:,}"
    )
