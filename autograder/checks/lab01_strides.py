"""Lab 01, strides: what is asked, what is true, what goes wrong.

Every truth comes from the installed torch (its strides, its `view`, its `gather`) or from a slow
definition; none is a pasted number.
"""

from __future__ import annotations

import math
from typing import Any

import torch

import onelayer
from autograder.judge import (
    Draw,
    Lab,
    Student,
    Wrong,
    describe,
    expect_close,
    expect_equal,
    expect_view,
)

lab = Lab("01_strides", "Strides")

Sizes = tuple[int, ...]


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
    always: list[Sizes] = [(600, 64), (5,), (2, 3, 4), (1, 7, 1), (), (2, 0, 3), (0,)]
    for size in always + [draw.shape(low=0) for _ in draw.cases(5)]:
        expect_equal(student.call("contiguous_strides", size), torch.empty(size).stride())


@contiguous_strides.wrong(
    "column_major",
    "These are the strides of column-major order: torch's *last* dimension is the one that steps "
    "by 1.",
)
def _(size: Sizes) -> Sizes:
    return tuple(math.prod(size[:d]) for d in range(len(size)))


@contiguous_strides.wrong(
    "in_bytes", "These are bytes. torch counts strides in elements; numpy counts them in bytes."
)
def _(size: Sizes) -> Sizes:
    return tuple(4 * s for s in torch.empty(size).stride())


@contiguous_strides.wrong(
    "own_size_included",
    "Each stride here also multiplies by its own size. One step along a dimension skips only what "
    "lies to the right of it.",
)
def _(size: Sizes) -> Sizes:
    return tuple(math.prod(size[d:]) for d in range(len(size)))


@contiguous_strides.wrong(
    "zero_poisons",
    "A dimension of size 0 has turned the strides to its left into 0. torch counts a size of 0 as "
    "1 here.",
)
def _(size: Sizes) -> Sizes:
    return tuple(math.prod(size[d + 1 :]) for d in range(len(size)))


@contiguous_strides.cost
def _(student: Student, draw: Draw) -> str:
    stride = student.call("contiguous_strides", (600, 64))
    weight = torch.empty(600, 64)
    return (
        f"{len(stride)} integers place all {weight.numel():,} floats of the head's weight "
        f"({weight.nbytes:,} bytes); no float was read"
    )


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
    for first, size, stride, offset in always:
        place = torch.arange(24).as_strided(size, stride, offset)[first]
        expect_equal(student.call("address", first, size, stride, offset), int(place))
    for layout in draw.layouts() * draw.rounds:
        size = draw.shape(3, low=2, high=5)
        numbered = _numbered(draw.tensor(*size, layout=layout))
        drawn: Sizes = tuple(draw.integer(-n, n - 1) for n in size)
        for index in (drawn, tuple(n - 1 for n in size), (-1, 0, -1)):
            got = student.call("address", index, *_geometry(numbered))
            expect_equal(got, int(numbered[index]))


def _geometry(t: torch.Tensor) -> tuple[Sizes, Sizes, int]:
    return tuple(t.shape), tuple(t.stride()), int(t.storage_offset())


def _numbered(t: torch.Tensor) -> torch.Tensor:
    """The same geometry over a storage in which element k holds the number k."""
    elements = t.untyped_storage().nbytes() // t.element_size()
    size, stride, offset = _geometry(t)
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


@address.cost
def _(student: Student, draw: Draw) -> str:
    at = student.call("address", (599, 63), (600, 64), (64, 1), 0)
    transposed = student.call("address", (63, 599), (64, 600), (1, 64), 0)
    return (
        f"two multiplications and an addition: W[599, 63] and W.T[63, 599] are floats {at:,} and "
        f"{transposed:,} of the storage"
    )


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
    always: list[tuple[Sizes, Sizes]] = [
        ((600, 64), (64, 1)),
        ((64, 600), (1, 64)),
        ((3, 4), (0, 1)),
        ((3, 4), (8, 1)),
        ((1, 4), (99, 1)),
        ((3, 1, 4), (4, 7, 1)),
        ((2, 0, 3), (5, 9, 2)),
        ((), ()),
        ((5,), (2,)),
    ]
    drawn = [
        _geometry(draw.tensor(*draw.shape(low=0, high=3), layout=draw.layout()))[:2]
        for _ in draw.cases(8)
    ]
    for size, stride in always + drawn:
        want = torch.empty_strided(size, stride).is_contiguous()
        expect_equal(student.call("is_contiguous", size, stride), want)


@is_contiguous.wrong(
    "size_one_counted",
    "A dimension of size 1 was refused for its stride. Nobody ever steps along it, so its stride "
    "means nothing.",
)
def _(size: Sizes, stride: Sizes) -> bool:
    return tuple(stride) == torch.empty(size).stride()


@is_contiguous.wrong(
    "last_stride_only",
    "A last stride of 1 says that rows have no gaps inside. The rows themselves may still be "
    "apart, or all the same.",
)
def _(size: Sizes, stride: Sizes) -> bool:
    return not stride or stride[-1] == 1


@is_contiguous.wrong(
    "only_decreasing",
    "Falling strides say that the order is row-major. Contiguous also means without gaps.",
)
def _(size: Sizes, stride: Sizes) -> bool:
    return list(stride) == sorted(stride, reverse=True)


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


@is_contiguous.cost
def _(student: Student, draw: Draw) -> str:
    n = draw.integer(2, 9)
    row = student.call("is_contiguous", (1, 64), (n * 64, 1))
    column = student.call("is_contiguous", (64, 1), (1, 64))
    return (
        f"no float read; a single row says {row}, a single column of W.T says {column}: neither "
        "would copy"
    )


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
    for size, stride, new_size in always + [_reshaping(draw) for _ in draw.cases(8)]:
        got = student.call("view_strides", size, stride, new_size)
        _expect_strides(got, _torch_view(size, stride, new_size), new_size)


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


def _expect_strides(got: Any, want: Sizes | None, size: Sizes) -> None:
    """The same strides, but for dimensions of size 1: nobody steps along those."""
    if want is None or not isinstance(got, (list, tuple)):
        return expect_equal(got, want)
    if len(got) != len(size):
        where = f"{len(size)} dimensions need {len(size)} strides, {len(got)} came"
        raise Wrong(expected=_dotted(want, size), got=describe(got), where=where)
    used = [(g, w) for g, w, n in zip(got, want, size, strict=True) if n != 1]
    if any(type(g) is not int or g != w for g, w in used):
        raise Wrong(expected=_dotted(want, size), got=_dotted(got, size))
    return None


def _dotted(stride: Any, size: Sizes) -> str:
    """Strides as shown: a dot where the size is 1 and any number would do."""
    shown = [describe(s, 24) if n != 1 else "." for s, n in zip(stride, size, strict=True)]
    return f"({', '.join(shown)}{',' if len(shown) == 1 else ''})"


@view_strides.wrong(
    "contiguous_only",
    "This view exists: each run may be cut on its own. Several runs, or gaps between elements, "
    "are no reason to refuse.",
)
def _(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
    if not torch.empty_strided(size, stride).is_contiguous():
        return None
    return tuple(torch.empty(new_size).stride())


@view_strides.wrong(
    "always_possible",
    "These are the strides of a fresh tensor. The floats lie where the old strides put them; here "
    "no strides reach "
    "them in the new order, so torch would need a copy.",
)
def _(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes:
    return tuple(torch.empty(new_size).stride())


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


@lab.question(
    "sliding_windows",
    points=3,
    minutes=10,
    difficulty=2,
    hints=(
        "How far apart in memory are two neighbours of x? And the first elements of two windows?",
        "`x.as_strided(size, stride)` makes any view. Both strides are multiples of x.stride(0).",
        "x.as_strided((count, width), (step * x.stride(0), x.stride(0)))",
    ),
)
def sliding_windows(student: Student, draw: Draw) -> None:
    """All windows of `width` neighbours of x, one every `step`, without copying a byte.

    x (N,) of any stride and offset -> a view (1 + (N - width) // step, width).
    """
    for layout in ("contiguous", "offset", "strided", "contiguous", *draw.layouts() * draw.rounds):
        n = draw.integer(8, 40)
        x, width, step = draw.tensor(n, layout=layout), draw.integer(2, 7), draw.integer(1, 3)
        expect_view(student.call("sliding_windows", x, width, step), x.unfold(0, width, step))


@sliding_windows.wrong(
    "stacked",
    "The windows are right, but they are a copy. A view needs only two strides: as_strided.",
)
def _(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    return torch.stack([x[k : k + width] for k in range(0, len(x) - width + 1, step)])


@sliding_windows.wrong(
    "unit_stride",
    "The strides assume that neighbours of x are neighbours in memory. x may itself be a view: "
    "use x.stride(0).",
)
def _(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    return x.as_strided((1 + (len(x) - width) // step, width), (step, 1))


@sliding_windows.wrong(
    "offset_reset",
    "The view begins at the start of the storage. x begins at x.storage_offset(), which "
    "as_strided keeps unless told otherwise.",
)
def _(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    s = x.stride(0)
    return x.as_strided((1 + (len(x) - width) // step, width), (step * s, s), 0)


@sliding_windows.wrong(
    "one_window_short",
    "The last window is missing. The first window needs `width` elements, every further one only "
    "`step` more.",
)
def _(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    s = x.stride(0)
    return x.as_strided(((len(x) - width) // step, width), (step * s, s))


@sliding_windows.cost
def _(student: Student, draw: Draw) -> str:
    x = draw.tensor(600)
    windows = student.call("sliding_windows", x, 64, 1)
    held = windows.untyped_storage().nbytes()
    return f"0 bytes copied: {windows.nbytes:,} bytes of windows over {held:,} bytes of storage"


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
    ]
    for size, stride, to in always + [_expansion(draw) for _ in draw.cases(6)]:
        got = student.call("broadcast_strides", size, stride, to)
        _expect_strides(got, _torch_expand(size, stride, to), to)


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


@broadcast_strides.wrong(
    "stride_kept",
    "The repeated dimension kept its stride, so its second step leaves the row. Reading the same "
    "float again is a step of 0.",
)
def _(size: Sizes, stride: Sizes, to: Sizes) -> Sizes | None:
    return _expand_by_rule(size, stride, to, repeated=None)


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


@broadcast_strides.cost
def _(student: Student, draw: Draw) -> str:
    bias, n = torch.empty(600), 32
    stride = student.call("broadcast_strides", (600,), (1,), (n, 600))
    return (
        f"strides {tuple(stride)}: the bias is read {n} times from {bias.nbytes:,} bytes; "
        f"copied out it would be {n * bias.nbytes:,}"
    )


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
        ((2, 3), (3, 2)),
        ((2, 3), (4, 2)),
        ((0, 4), (0, 0)),
        ((4, 3), (1, 4)),
    ]
    drawn = [(draw.shape(draw.integer(1, 3), high=4), draw) for _ in draw.cases(8)]
    for size, stride in always + [(n, tuple(d.integer(0, 6) for _ in n)) for n, d in drawn]:
        expect_equal(student.call("overlaps", size, stride), _shares_a_float(size, stride))


def _shares_a_float(size: Sizes, stride: Sizes) -> bool:
    """The slow definition: number the storage, look at every element, count the different ones."""
    reach = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True) if n)
    seen = torch.arange(max(reach, 1)).as_strided(size, stride)
    return len(set(seen.flatten().tolist())) < seen.numel()


@overlaps.wrong(
    "zero_stride_only",
    "A size of 1 is never stepped along: its stride 0 repeats nothing.",
)
def _(size: Sizes, stride: Sizes) -> bool:
    return 0 in stride


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


@overlaps.cost
def _(student: Student, draw: Draw) -> str:
    windows = torch.empty(10).unfold(0, 3, 1)
    both = student.call("overlaps", tuple(windows.shape), tuple(windows.stride()))
    return (
        f"{windows.numel()} addresses looked at to be certain ({both}); torch asks a cheaper "
        "question "
        "before an in-place write, and it has a third answer: too hard to tell"
    )


Step = tuple[str, tuple[Any, ...]]


@lab.question(
    "copied_bytes",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "A step copied when its result lives in another storage than its input. Whose pointer "
        "tells?",
        "Compare `t.untyped_storage().data_ptr()` before and after each step, not `t.data_ptr()`: "
        "a slice has another first element in the same storage. The bill is the new storage's "
        "nbytes().",
        "0 if y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() else "
        "y.untyped_storage().nbytes()",
    ),
)
def copied_bytes(student: Student, draw: Draw) -> None:
    """How many bytes each step of a forward path copies into new memory; 0 where it only made a
    view.

    x, steps such as ("transpose", (1, 2)) to be called as x.transpose(1, 2), each on the result of
    the last -> one number per step.
    """
    for _ in draw.cases(2):
        batch, tokens = draw.integer(2, 4), draw.integer(3, 6)
        for steps in _paths(batch, tokens):
            x = draw.tensor(batch, tokens, 64)
            expect_equal(student.call("copied_bytes", x, steps), _bill(x, steps))


def _paths(batch: int, tokens: int) -> list[list[Step]]:
    """Ways in which the activations (B, T, 64) really travel: heads split, merged, cut and
    flattened.
    """
    split: list[Step] = [("view", (batch, tokens, 4, 16)), ("transpose", (1, 2))]
    return [
        [*split, ("transpose", (1, 2)), ("reshape", (batch, tokens, 64))],
        [*split, ("reshape", (batch, 4, tokens * 16)), ("contiguous", ()), ("flatten", ())],
        [("narrow", (1, 1, tokens - 1)), ("contiguous", ()), ("view", (-1, 64)), ("t", ())],
        [("narrow", (2, 8, 16)), ("flatten", (0, 1)), ("contiguous", ())],
        [
            ("select", (1, -1)),
            ("unsqueeze", (1,)),
            ("expand", (batch, tokens, 64)),
            ("flatten", (0, 1)),
        ],
    ]


def _bill(x: torch.Tensor, steps: list[Step]) -> list[int]:
    """By mechanism: what the operators of each step put into new storages, as dispatched."""
    bill = []
    for name, arguments in steps:
        with onelayer.count_bytes() as moved:
            x = getattr(x, name)(*arguments)
        bill.append(moved.bytes)
    return bill


@copied_bytes.wrong(
    "first_element_pointer",
    "`t.data_ptr()` is the address of the first element. A slice moves it without copying: "
    "compare the storages' pointers.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        y = getattr(x, name)(*arguments)
        bill.append(0 if y.data_ptr() == x.data_ptr() else y.untyped_storage().nbytes())
        x = y
    return bill


@copied_bytes.wrong(
    "against_the_start",
    "Each step is compared with the very first tensor. After one copy, every later view looks "
    "like a copy too: compare "
    "with the step before.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill, start = [], x.untyped_storage().data_ptr()
    for name, arguments in steps:
        x = getattr(x, name)(*arguments)
        fresh = x.untyped_storage()
        bill.append(0 if fresh.data_ptr() == start else fresh.nbytes())
    return bill


@copied_bytes.wrong(
    "contiguity_mistaken",
    "You charge for every result that is not contiguous. Those are the views; it is the step that "
    "makes them contiguous that copies.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        x = getattr(x, name)(*arguments)
        bill.append(0 if x.is_contiguous() else x.nbytes)
    return bill


@copied_bytes.wrong(
    "every_step_charged",
    "You charge every step for its result. Most steps here only make a new header over the same "
    "floats.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        x = getattr(x, name)(*arguments)
        bill.append(x.nbytes)
    return bill


@copied_bytes.wrong(
    "by_the_name",
    "You charge by the name of the step. `reshape` and `flatten` copy only where no view exists, "
    "contiguous or not: look at the storages.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        suspect = name in ("reshape", "contiguous", "flatten") and not x.is_contiguous()
        x = getattr(x, name)(*arguments)
        bill.append(x.nbytes if suspect else 0)
    return bill


@copied_bytes.wrong("in_elements", "These are elements. The bill is in bytes: storage.nbytes().")
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        y = getattr(x, name)(*arguments)
        before, after = x.untyped_storage(), y.untyped_storage()
        bill.append(0 if after.data_ptr() == before.data_ptr() else y.numel())
        x = y
    return bill


@copied_bytes.wrong(
    "size_of_the_old_storage",
    "The right steps, charged for the storage that they read. What was copied fills the new one.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        y = getattr(x, name)(*arguments)
        before, after = x.untyped_storage(), y.untyped_storage()
        bill.append(0 if after.data_ptr() == before.data_ptr() else before.nbytes())
        x = y
    return bill


@copied_bytes.cost
def _(student: Student, draw: Draw) -> str:
    merge = _paths(32, 16)[1]
    bill = student.call("copied_bytes", draw.tensor(32, 16, 64), merge)
    names = [name for (name, _), paid in zip(merge, bill, strict=True) if paid]
    return (
        f"{sum(bill):,} bytes copied by {', '.join(names)} in {len(merge)} steps at batch 32; no "
        "line says copy"
    )


@lab.question(
    "gather_flat",
    points=3,
    minutes=10,
    difficulty=3,
    hints=(
        "Write the address of the logit in row n, column index[n, k]. Which parts change with n, "
        "which with k?",
        "Rows contribute arange(N)[:, None] * stride[0], columns index * stride[1]. "
        "Adding them broadcasts (N, 1) with (N, K).",
        "flat[offset + torch.arange(len(index))[:, None] * stride[0] + index * stride[1]]",
    ),
)
def gather_flat(student: Student, draw: Draw) -> None:
    """`x.gather(1, index)` without x: only its storage as one flat row, its strides and its offset.

    flat (all elements of the storage), stride (2 numbers), offset, index (N, K) int64 -> (N, K).
    """
    for layout in ("contiguous", *draw.layouts() * draw.rounds):
        n, v, k = draw.integer(2, 9), draw.integer(5, 60), draw.integer(1, 3)
        x, index = draw.tensor(n, v, layout=layout), draw.integers(n, k, low=0, high=v - 1)
        got = student.call("gather_flat", _flat(x), x.stride(), x.storage_offset(), index)
        expect_close(got, x.gather(1, index), tolerance=0.0)


def _flat(x: torch.Tensor) -> torch.Tensor:
    """The whole storage of x as one row."""
    return torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())


@gather_flat.wrong(
    "column_stride_forgotten",
    "The column number needs its stride too: neighbours in a row need not be neighbours in memory.",
)
def _(flat: torch.Tensor, stride: Sizes, offset: int, index: torch.Tensor) -> torch.Tensor:
    return flat[offset + torch.arange(len(index))[:, None] * stride[0] + index]


@gather_flat.wrong(
    "rows_forgotten",
    "Every row reads from row 0. The row number has an address of its own: arange(N)[:, None] * "
    "stride[0].",
)
def _(flat: torch.Tensor, stride: Sizes, offset: int, index: torch.Tensor) -> torch.Tensor:
    return flat[offset + index * stride[1]]


@gather_flat.wrong(
    "offset_lost",
    "The offset is missing: the tensor does not begin where its storage begins.",
)
def _(flat: torch.Tensor, stride: Sizes, offset: int, index: torch.Tensor) -> torch.Tensor:
    return flat[torch.arange(len(index))[:, None] * stride[0] + index * stride[1]]


@gather_flat.wrong(
    "strides_swapped",
    "The two strides changed places: stride[0] steps from row to row, stride[1] from column to "
    "column.",
)
def _(flat: torch.Tensor, stride: Sizes, offset: int, index: torch.Tensor) -> torch.Tensor:
    return flat[offset + torch.arange(len(index))[:, None] * stride[1] + index * stride[0]]


@gather_flat.cost
def _(student: Student, draw: Draw) -> str:
    logits, target = draw.tensor(32, 600), draw.integers(32, 1, low=0, high=599)
    picked = student.call("gather_flat", _flat(logits), logits.stride(), 0, target)
    return (
        f"{picked.nbytes:,} bytes picked out of {logits.nbytes:,}: this is how a loss reads its "
        "targets"
    )


@lab.question(
    "centre_windows",
    points=3,
    minutes=10,
    difficulty=3,
    hints=(
        "Print x before and after the call. Then ask your own `overlaps` about the windows.",
        "`-=` writes into the windows, and the windows are the same floats again and again. "
        "The subtraction must write somewhere else.",
        "return windows - windows.mean(dim=1, keepdim=True)",
    ),
)
def centre_windows(student: Student, draw: Draw) -> None:
    """Detective case: every window of x minus its own mean. The code below looks right; make it
    right.

    x (N,), width -> (N - width + 1, width); x itself stays as it is.
    """
    for n in (8, *(draw.integer(5, 40) for _ in draw.cases(3))):
        x, width = draw.tensor(n), draw.integer(2, 4)
        windows = torch.stack([x[k : k + width] for k in range(n - width + 1)])
        want = windows - windows.mean(dim=1, keepdim=True)
        expect_close(student.call("centre_windows", x, width), want, tolerance=1e-5)


@centre_windows.wrong(
    "writes_the_windows",
    "Your function wrote into x. Writing into a view of x does that too.",
)
def _(x: torch.Tensor, width: int) -> torch.Tensor:
    windows = x.unfold(0, width, 1)
    windows -= windows.mean(dim=1, keepdim=True)
    return windows


@centre_windows.wrong(
    "clones_x_first",
    "x is safe now, but the windows still share floats with one another: copy the windows, not x.",
)
def _(x: torch.Tensor, width: int) -> torch.Tensor:
    windows = x.clone().unfold(0, width, 1)
    windows -= windows.mean(dim=1, keepdim=True)
    return windows


@centre_windows.wrong(
    "one_mean_for_all",
    "Every window lost the same mean. Each has its own: mean(dim=1, keepdim=True).",
)
def _(x: torch.Tensor, width: int) -> torch.Tensor:
    return x.unfold(0, width, 1) - x.mean()


@centre_windows.wrong(
    "mean_across_windows",
    "This is the mean of each *position* over all windows. The mean of a window runs along dim 1.",
)
def _(x: torch.Tensor, width: int) -> torch.Tensor:
    windows = x.unfold(0, width, 1)
    return windows - windows.mean(dim=0, keepdim=True)


@centre_windows.cost
def _(student: Student, draw: Draw) -> str:
    x = draw.tensor(600)
    centred = student.call("centre_windows", x, 4)
    return f"{centred.nbytes:,} bytes written once, none of them into the {x.nbytes:,} bytes of x"
