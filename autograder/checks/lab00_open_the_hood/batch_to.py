"""Detective case: the batch that stayed at home."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from autograder.judge import Draw, Student, expect_close, expect_tuple, numbers_apart, within

from . import lab

Pair = tuple[torch.Tensor, torch.Tensor]


@lab.question(
    "batch_to",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "What does `t.to(...)` do to t? Print t.dtype before and after.",
        "`.to` returns a new tensor and leaves the old one alone, so return what it returns. "
        "Integers are token numbers: leave them as they are.",
        "return tuple(t.to(where) if t.is_floating_point() else t for t in (x, y))",
    ),
)
def batch_to(student: Student, draw: Draw) -> None:
    """Detective case: two tensors with their floats in another dtype and their integers untouched.
    The code below looks right; make it right.

    x, y: tensors of any dtype; where: a floating-point dtype -> a pair.
    """
    kinds = [  # the drawn ones below have one float each, and it comes first
        (torch.float32, torch.float32, torch.float64),  # two of one kind, and both have to go
        (torch.float32, torch.int64, torch.float64),
        (torch.int64, torch.float16, torch.bfloat16),
        (torch.int64, torch.bfloat16, torch.float64),  # the one whose name begins otherwise
        (torch.float32, torch.bfloat16, torch.float64),
        (torch.int64, torch.bool, torch.float16),
        (torch.float64, torch.int64, torch.float64),  # float32 on the way would show
        (torch.float64, torch.int32, torch.float16),
        (torch.bfloat16, torch.float32, torch.bfloat16),  # the first is there already
    ]
    for first, second, where in kinds:
        n = draw.integer(2, 9)
        _expect_moved(student, _tensor(draw, first, n, 8), _tensor(draw, second, n), where)
    for x, y, where in _further(draw):
        _expect_moved(student, x, y, where)
    always = [(torch.float32, torch.float64), (torch.float32, torch.bfloat16)]
    always += [(torch.float16, torch.float32)]
    for dtype, where in always + [(_dtype(draw), _dtype(draw)) for _ in draw.cases(3)]:
        n = draw.integer(2, 9)
        x = draw.tensor(n, 8, dtype=dtype)
        for y in (draw.integers(n, low=0, high=599), draw.tensor(n, dtype=torch.bool)):
            _expect_moved(student, x, y, where)


def _further(draw: Draw) -> list[tuple[torch.Tensor, torch.Tensor, torch.dtype]]:
    """Two of one dtype, the smaller integers, no dimension, no element, whole and large numbers,
    and other layouts."""
    pairs = [(draw.tensor(2, 3, dtype=of), draw.tensor(4, dtype=of)) for of in (*_FLOATS, *_WHOLE)]
    pairs += [(draw.tensor(2, dtype=of), draw.tensor(3)) for of in _WHOLE]
    for of in _FLOATS:
        pairs.append((draw.integers(2, 3, low=0, high=9).to(of), torch.ones(4, dtype=of)))
        pairs.append((draw.tensor(dtype=of), draw.tensor(0, 3, dtype=of)))
    pairs.append((3e5 * draw.tensor(2, 3), -1e-6 * draw.tensor(4)))
    pairs.append((draw.tensor(2, 3, layout="transposed"), draw.tensor(5, layout="strided")))
    return [(x, y, where) for x, y in pairs for where in (torch.float64, torch.bfloat16)]


_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)


def _tensor(draw: Draw, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    if dtype in (torch.int64, torch.int32):
        return draw.integers(*shape, low=0, high=599).to(dtype)
    return draw.tensor(*shape, dtype=dtype)


def _expect_moved(student: Student, x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> None:
    got = expect_tuple(student.call("batch_to", x, y, where), 2, "a pair of tensors")
    want = _moved_by_torch(x, y, where)
    for given, mine, other, torchs in zip((x, y), got, got[::-1], want, strict=True):
        with within("", why=partial(_because, mine, other, torchs, given.dtype)):
            expect_close(mine, torchs, tolerance=0.0)


_RESHAPED = "Each of the two keeps its shape, whatever its dtype."
_IS_FLOAT = (
    "A tensor of floats has to come back as `where`, the first or the second, of whichever dtype."
)
_OTHER_DTYPE = (
    "What came has neither the dtype of what was given nor `where`. A tensor of floats has to come "
    "back as `where`."
)
_HOLDS_WHOLE_NUMBERS = (
    "The numbers of this tensor are whole, and it is one of floats all the same: its dtype decides."
)
_IS_NO_FLOAT = "Whole numbers, and True and False, have to keep the dtype that they have."
_NO_ELEMENT = "A tensor without elements has a dtype too. It is a float or not, as the others are."
_TURNED_ROUND = "The pair came back the other way round: x is first."


def _because(got: Any, other: Any, want: torch.Tensor, given: torch.dtype) -> str:
    """Whether the `other` of the pair is the one, or what became of a number; "" where the verdict
    has a better word."""
    if not isinstance(got, torch.Tensor):
        return ""
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        is_other = isinstance(other, torch.Tensor) and other.dtype == want.dtype
        if is_other and torch.equal(other, want):
            return _TURNED_ROUND
        if got.shape != want.shape:
            return _RESHAPED
        if not want.numel():
            return _NO_ELEMENT
        if not want.is_floating_point():
            return _IS_NO_FLOAT
        if got.dtype != given:
            return _OTHER_DTYPE
        return _HOLDS_WHOLE_NUMBERS if want.equal(want.round()) else _IS_FLOAT
    place = int((got != want).flatten().nonzero()[0])
    mine, torchs = numbers_apart(*(t.flatten()[place].item() for t in (got, want)))
    return f"The dtype is right. A number that has to be {torchs} came as {mine}."


def _dtype(draw: Draw) -> torch.dtype:
    return draw.choice((torch.float16, torch.bfloat16, torch.float32, torch.float64))


def _moved_by_torch(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    """What nn.Module.to makes of the same tensors as buffers."""
    module = nn.Module()
    module.register_buffer("x", x.clone())
    module.register_buffer("y", y.clone())
    first, second = module.to(where).buffers()
    return first, second


@batch_to.wrong(
    "result_dropped",
    "The floats are as they were. `.to` returns a new tensor: whoever drops the result, or only "
    "gives it another name, keeps the old one.",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    for t in (x, y):
        t = t.to(where)
    return x, y


batch_to.wrong(
    "integers_too",
    "Token numbers became floats. An embedding or a loss cannot look up word 17.0: move only what "
    "is_floating_point().",
    batch_to=lambda x, y, where: (x.to(where), y.to(where)),
)
batch_to.wrong(
    "mask_too",
    "A mask of True and False became numbers. Move only what is_floating_point().",
    batch_to=lambda x, y, where: tuple(
        t if t.dtype == torch.int64 else t.to(where) for t in (x, y)
    ),
)
batch_to.wrong(
    "float32_only",
    "A float16 tensor was left behind. float16 and bfloat16 are floats too: ask "
    "t.is_floating_point().",
    batch_to=lambda x, y, where: tuple(
        t.to(where) if t.dtype == torch.float32 else t for t in (x, y)
    ),
)
batch_to.wrong(
    "always_float64",
    "The floats came back in float64 although another dtype was wanted: `where` says which.",
    batch_to=lambda x, y, where: tuple(t.double() if t.is_floating_point() else t for t in (x, y)),
)
batch_to.wrong(
    "first_only",
    "The first tensor was moved and the second was not. Ask each of them: t.is_floating_point().",
    batch_to=lambda x, y, where: (x.to(where), y),
)
batch_to.wrong(
    "second_forgotten",
    "One tensor came back. Both are asked for, the untouched one too: x, y.",
    batch_to=lambda x, y, where: x.to(where),
)


@batch_to.wrong(
    "the_wrong_ones",
    "Integers and masks are moved and floats are left. It is the other way round: move what "
    "is_floating_point().",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    x, y = (t if t.is_floating_point() else t.to(where) for t in (x, y))
    return x, y


@batch_to.wrong(
    "one_of_the_two",
    "Both tensors are floats here, and one was moved. Ask each of them, also after the first was "
    "one.",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    if x.is_floating_point():
        return x.to(where), y
    return x, y.to(where) if y.is_floating_point() else y


@batch_to.wrong(
    "through_float32",
    "A float64 lost digits on its way through float32. Go to `where` in one step.",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    x, y = (t.float().to(where) if t.is_floating_point() else t for t in (x, y))
    return x, y


@batch_to.wrong(
    "bits_reread",
    "`.view(dtype)` reads the same bits as another dtype. `.to(dtype)` converts the numbers.",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    x, y = (t.view(where) if t.is_floating_point() else t for t in (x, y))
    return x, y


@batch_to.wrong(
    "masks_counted",
    "A mask of True and False became integers. Leave every tensor that is no float as it is.",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    x, y = (t.to(where) if t.is_floating_point() else t.long() for t in (x, y))
    return x, y


@batch_to.wrong(
    "floats_alone",
    "Only the floats came back. Both tensors are asked for, the untouched one too: x, y.",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> tuple[torch.Tensor, ...]:
    return tuple(t.to(where) for t in (x, y) if t.is_floating_point())


@batch_to.wrong(
    "returned_in_the_loop",
    "One tensor came back, in a tuple, as where a loop returns in its first round. Both are asked "
    "for: x, y.",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> tuple[torch.Tensor]:
    return (x.to(where) if x.is_floating_point() else x,)


@batch_to.wrong(
    "second_left_out",
    "One tensor came back. A pair was asked for, the second one too: x, y.",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> torch.Tensor:
    return x.to(where) if x.is_floating_point() else x


@batch_to.wrong(
    "turned_round",
    _TURNED_ROUND,
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    x, y = (t.to(where) if t.is_floating_point() else t for t in (x, y))
    return y, x


@batch_to.wrong(
    "first_decides",
    "The first tensor decided for both. Ask each of them: t.is_floating_point().",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    return (x.to(where), y.to(where)) if x.is_floating_point() else (x, y)


@batch_to.wrong(
    "only_both",
    "Nothing was moved here, where one of the two is no float. Ask each of them for itself.",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    both = x.is_floating_point() and y.is_floating_point()
    return (x.to(where), y.to(where)) if both else (x, y)


@batch_to.wrong(
    "callers_tensor_changed",
    "The tensor of whoever called was changed, as `t.data = ...` does. Return what `.to` returns.",
)
def _(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    for t in (x, y):
        if t.is_floating_point():
            t.data = t.data.to(where)
    return x, y


@batch_to.cost
def _(student: Student, draw: Draw) -> str:
    x, y = draw.tensor(32, 64), draw.integers(32, low=0, high=599)
    new = student.call("batch_to", x, y, torch.bfloat16)[0].nbytes
    same = student.call("batch_to", x, y, torch.float32)[0]
    shared = same.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    again = "none: .to hands back the same tensor" if shared else f"{same.nbytes:,} more"
    return f"{new:,} new bytes for 32 tokens in bfloat16; for the dtype that they have, {again}"
