"""The rule of `view`: new strides, or a copy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable

import torch

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, some

from . import lab
from .compared_strides import expect_strides
from .geometry import Sizes, every_size

_RAISED = dict.fromkeys(
    ("RuntimeError", "ValueError"),
    "Where no view exists, return None. An exception is what torch's own view has for it.",
)
_NO_RUN_LEFT = {
    "IndexError: pop": "A new size of 1 needs no run, a tensor of one element has none, and where "
    "a new size does not divide what is left of its run the answer is None."
}


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
        ((3, 3), (6, 2), (9,)),  # one run, whichever of the two sizes is multiplied
        ((2, 2, 2), (2, 4, 1), (8,)),  # the floats of a row of 8, in another order
        ((64, 600), (1, 64), (64, 24, 25)),
        ((64, 600), (1, 64), (8, 8, 600)),
        ((2, 3, 4), (24, 4, 1), (2, 12)),
        ((2, 3, 4), (24, 4, 1), (6, 4)),
        ((3, 4), (0, 1), (12,)),
        ((4,), (0,), (2, 2)),
        ((2, 1, 3), (3, 77, 1), (6,)),
        ((6,), (2,), (1, 2, 1, 3)),
        ((), (), (1, 1)),
        ((), (), ()),
        ((1, 1), (5, 1), ()),
        ((2, 3), (0, 0), (6,)),
        ((3, 2), (1, 1), (6,)),
        ((4, 3), (1, 1), (2, 2, 3)),  # windows: a run may share its floats with another
        ((1, 6), (600, 1), (2, 3)),
        ((2, 3, 4), (40, 8, 1), (2, 3, 2, 2)),
        ((1, 1), (5, 7), (1, 1, 1)),
        ((2, 2, 1, 2, 3), (12, 6, 5, 3, 1), (24,)),
        ((2, 2, 1, 2, 3), (12, 6, 5, 3, 1), (3, 2, 1, 2, 2)),
        ((2, 2, 1, 2, 3), (24, 6, 5, 3, 1), (2, 1, 4, 3, 1)),
        ((3, 2, 2, 2, 2), (1, 3, 6, 12, 24), (3, 2, 1, 2, 2, 2)),
        ((3, 2, 2, 2, 2), (1, 24, 12, 6, 3), (3, 4, 4)),
        ((4, 9), (1, 4), (2, 3, 6)),  # 6 of 9, then 3 of 4, each with a rest: both runs are used up
    ]
    cases = always + [_reshaping(draw) for _ in draw.cases(8)] + some(_small(), 65)
    answers = student.each("view_strides", cases)
    for size, stride, new_size in cases:
        want = _torch_view(size, stride, new_size)
        with explaining(_NO_RUN_LEFT | (_RAISED if want is None else {})):
            got = next(answers)
        runs = ", ".join(str(n) for n, _ in _runs(size, stride)) or "1"
        expect_strides(
            got,
            want,
            new_size,
            exists=_exists(runs, size, stride, new_size),
            none=f"No strides lead to the floats in this order: the runs have {runs} elements, and "
            "a new size crosses from one into the next. Then the answer is None.",
        )


def _exists(runs: str, size: Sizes, stride: Sizes, new_size: Sizes) -> str:
    """Why there is a view, with a word on what decides here: old sizes of 1 or strides of 0, where
    whoever lets them end a run finds none, a first new size of 1, or which neighbours are one."""
    ending = _joined(zip(size, stride, strict=True))
    if _cut([run for run in ending if run[0] != 1], new_size) is None:
        return (
            f"A view exists here. Elements in each run: {runs}. Each new size can be cut from "
            "one of them. An old size of 1 ends no run, whatever its stride is."
        )
    dims = _longer(size, stride)
    if _cut(_joined(dims, _but_not_repeated), new_size) is None:
        return (
            f"A view exists here. Elements in each run: {runs}. Each new size can be cut from "
            "one of them. Neighbours of stride 0 are one run too: 0 is 3 times 0."
        )
    if new_size[:1] == (1,):
        return (
            f"A view exists here. Elements in each run: {runs}. Each new size can be cut from "
            "one of them. The first new size is 1: it takes any stride, and needs no run."
        )
    if len(dims) > len(_runs(size, stride)):
        return (
            f"A view exists here. Elements in each run: {runs}. Each new size can be cut from "
            "one of them. Two neighbours are one run where the outer stride is the inner size "
            "times the inner stride."
        )
    return (
        f"A view exists here. Elements in each run: {runs}. Each new size can be cut from "
        "one of them."
    )


def _reshaping(draw: Draw) -> tuple[Sizes, Sizes, Sizes]:
    """A small geometry, and another size with as many elements."""
    size = tuple(draw.choice((1, 2, 3, 4)) for _ in range(draw.integer(2, 4)))
    t = draw.tensor(*size, layout=draw.layout())
    keep, rest = list(size[: draw.integer(0, 2)]), math.prod(size)
    rest //= math.prod(keep)
    cut = draw.choice([d for d in range(1, rest + 1) if rest % d == 0])
    return size, tuple(t.stride()), (*keep, cut, rest // cut)


_BLOCKS: list[Sizes] = [(1, 1), (6,), (2, 4), (4, 2), (3, 3), (4, 1), (2, 3, 2), (4, 1, 2)]


def _small() -> list[tuple[Sizes, Sizes, Sizes]]:
    """Blocks of floats in each order of their dimensions, without gaps, with gaps inside, with gaps
    between the rows and with each dimension repeated, in every size with as many elements."""
    cases = []
    for size in _BLOCKS:
        total = math.prod(size)
        divisors = [n for n in range(1, total + 1) if total % n == 0]
        new_sizes = [n for n in every_size(range(4), divisors) if math.prod(n) == total]
        for stride in sorted({s for order in _orders(size) for s in _loosened(order)}):
            cases += [(size, stride, new_size) for new_size in new_sizes]
    return cases


def _orders(size: Sizes) -> list[Sizes]:
    """The strides without gaps, one for each order of the dimensions."""
    return [
        tuple(math.prod(size[e] for e in order[order.index(d) + 1 :]) for d in range(len(size)))
        for order in itertools.permutations(range(len(size)))
    ]


def _loosened(stride: Sizes) -> list[Sizes]:
    apart = tuple(s + (s > 1) for s in stride)
    repeated = [(*stride[:d], 0, *stride[d + 1 :]) for d in range(len(stride))]
    return [stride, apart, tuple(2 * s for s in stride), (2,) * len(stride), *repeated]


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


_SIZE_ONE = (
    "A dimension of size 1 was treated as a border. Its stride is never used, so it joins any run."
)


@view_strides.wrong("size_one_is_a_border", _SIZE_ONE)
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


def _runs(size: Sizes, stride: Sizes) -> list[tuple[int, int]]:
    """The size and the stride of each run."""
    return _joined(_longer(size, stride))


def _longer(size: Sizes, stride: Sizes) -> list[tuple[int, int]]:
    """The dimensions along which there is a step."""
    return [(n, s) for n, s in zip(size, stride, strict=True) if n != 1]


def _joined(
    dims: Iterable[tuple[int, int]],
    joins: Callable[[int, int], bool] = lambda stride_before, reach: stride_before == reach,
) -> list[tuple[int, int]]:
    """Runs of (size, stride). joins: whether a dimension goes on in the run before it, by the
    stride of that and by how far all of the dimension reaches."""
    runs: list[tuple[int, int]] = []
    for n, s in dims:
        if runs and joins(runs[-1][1], n * s):
            runs[-1] = runs[-1][0] * n, s
        else:
            runs.append((n, s))
    return runs


def _but_not_repeated(stride_before: int, reach: int) -> bool:
    """Whether they join, for whoever lets a stride of 0 end a run."""
    return stride_before == reach != 0


def _cut(runs: list[tuple[int, int]], new_size: Sizes) -> Sizes | None:
    """The strides of new sizes that are cut from the right ends of `runs`."""
    left, step = 1, 1
    found: list[int] = []
    for n in reversed(new_size):
        if left == 1 and n != 1 and runs:
            *runs, (left, step) = runs
        if left % n:
            return None
        found.insert(0, step)
        left, step = left // n, step * n
    return tuple(found)


view_strides.wrong(
    "neighbours_not_merged",
    "Each old dimension was taken for a run. Neighbours that can be walked through as one are one "
    "run: merge them first.",
    view_strides=lambda size, stride, new_size: _cut(_longer(size, stride), new_size),
)


@view_strides.wrong("size_one_ends_a_run", _SIZE_ONE)
def _(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
    runs = _joined(zip(size, stride, strict=True))
    return _cut([(n, s) for n, s in runs if n != 1], new_size)


@view_strides.wrong(
    "merged_by_the_outer_size",
    "Neighbours were merged by the outer size. They are one run where the outer stride is the "
    "inner size times the inner stride.",
)
def _(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
    runs: list[tuple[int, int]] = []
    outer = 1
    for n, s in zip(size, stride, strict=True):
        if n != 1 and runs and runs[-1][1] == outer * s:
            runs[-1] = runs[-1][0] * n, s
        elif n != 1:
            runs.append((n, s))
        outer = n if n != 1 else outer
    return _cut(runs, new_size)


@view_strides.wrong(
    "zero_strides_not_merged",
    "Two neighbours of stride 0 were not merged. They are one run: 0 is 3 times 0, and one step of "
    "0 walks all of it.",
)
def _(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
    return _cut(_joined(_longer(size, stride), _but_not_repeated), new_size)


@view_strides.wrong(
    "first_stride_of_the_run",
    "The step in a run is the stride of its last dimension. Here it is that of its first one.",
)
def _(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
    runs: list[tuple[int, int, int]] = []
    for n, s in zip(size, stride, strict=True):
        if n != 1 and runs and runs[-1][2] == n * s:
            runs[-1] = runs[-1][0] * n, runs[-1][1], s
        elif n != 1:
            runs.append((n, s, s))
    return _cut([(n, first) for n, first, _ in runs], new_size)


view_strides.wrong(
    "collected_backwards",
    "The right strides the wrong way round, as where they are found from right to left and "
    "appended. The first one belongs to the first dimension.",
    view_strides=lambda size, stride, new_size: (
        (_torch_view(size, stride, new_size) or ())[::-1]
        if _torch_view(size, stride, new_size) is not None
        else None
    ),
)


@view_strides.wrong(
    "step_not_grown",
    "Every new size that is cut from a run got the step of the run. Further to the left a step is "
    "longer: it skips the sizes that were cut before.",
)
def _(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
    if _torch_view(size, stride, new_size) is None:
        return None
    runs, left, step = _runs(size, stride), 1, 1
    found: list[int] = []
    for n in reversed(new_size):
        if left == 1 and n != 1:
            left, step = runs.pop()
        found.insert(0, step)
        left //= n
    return tuple(found)


@view_strides.wrong(
    "step_grown_too_early",
    "Each stride here is multiplied by its own new size. The rightmost size of a run steps by the "
    "run's own stride.",
)
def _(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
    full = _torch_view(size, stride, new_size)
    if full is None:
        return None
    return tuple(s * n for s, n in zip(full, new_size, strict=True))


@view_strides.wrong(
    "cut_from_the_left",
    "The runs were cut from the left, and the first new size got the shortest step. Begin at the "
    "right end of both.",
)
def _(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
    mirrored = _cut(_runs(size, stride)[::-1], new_size[::-1])
    return None if mirrored is None else mirrored[::-1]


view_strides.wrong(
    "copy_instead_of_none",
    "These are the strides of the copy that `reshape` makes where no view exists. Then the answer "
    "is None.",
    view_strides=lambda size, stride, new_size: tuple(
        torch.empty_strided(size, stride).reshape(new_size).stride()
    ),
)
view_strides.wrong(
    "in_bytes",
    "These are bytes. torch counts strides in elements; numpy counts them in bytes.",
    view_strides=lambda size, stride, new_size: (
        None
        if _torch_view(size, stride, new_size) is None
        else tuple(4 * s for s in _torch_view(size, stride, new_size) or ())
    ),
)
view_strides.wrong(
    "zero_stride_refused",
    "A stride of 0 was refused. An expanded dimension is a run as well: 0 is 3 times 0, and one "
    "step of 0 walks all of it.",
    view_strides=lambda size, stride, new_size: (
        None if 0 in stride else _torch_view(size, stride, new_size)
    ),
)
view_strides.wrong(
    "empty_is_none",
    "A view without dimensions has no strides, (), and it exists. None says that torch needs a "
    "copy.",
    view_strides=lambda size, stride, new_size: _torch_view(size, stride, new_size) or None,
)


@view_strides.cost
def _(student: Student, draw: Draw) -> str:
    w = torch.empty(600, 64)
    split = student.call("view_strides", (64, 600), (1, 64), (64, 24, 25))
    flat = student.call("view_strides", (64, 600), (1, 64), (38_400,))
    bill = w.nbytes if flat is None else 0
    return f"W.T.view(64, 24, 25): strides {split}, 0 bytes; W.T.reshape(-1): {bill:,} bytes copied"
