"""Detective case: the batch that stayed at home."""

from __future__ import annotations

import torch
from torch import nn

from autograder.judge import Draw, Student, expect_close, expect_tuple

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
    always = [(torch.float32, torch.float64), (torch.float32, torch.bfloat16)]
    always += [(torch.float16, torch.float32)]
    for dtype, where in always + [(_dtype(draw), _dtype(draw)) for _ in draw.cases(3)]:
        n = draw.integer(2, 9)
        x = draw.tensor(n, 8, dtype=dtype)
        for y in (draw.integers(n, low=0, high=599), draw.tensor(n, dtype=torch.bool)):
            _expect_moved(student, x, y, where)
    for _ in draw.cases(1):  # the floats come second
        n = draw.integer(2, 9)
        y, x = draw.tensor(n, 8, dtype=_dtype(draw)), draw.integers(n, low=0, high=599)
        _expect_moved(student, x, y, torch.bfloat16)


def _expect_moved(student: Student, x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> None:
    got = expect_tuple(student.call("batch_to", x, y, where), 2, "a pair of tensors")
    for mine, torchs in zip(got, _moved_by_torch(x, y, where), strict=True):
        expect_close(mine, torchs, tolerance=0.0)


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
    batch_to=lambda x, y, where: (x.to(where), y if y.dtype == torch.int64 else y.to(where)),
)
batch_to.wrong(
    "float32_only",
    "A float16 tensor was left behind. float16 and bfloat16 are floats too: ask "
    "t.is_floating_point().",
    batch_to=lambda x, y, where: (x.to(where) if x.dtype == torch.float32 else x, y),
)
batch_to.wrong(
    "always_float64",
    "The floats came back in float64 although another dtype was wanted: `where` says which.",
    batch_to=lambda x, y, where: (x.double(), y),
)
batch_to.wrong(
    "first_only",
    "You took the first tensor for the floats and left the second alone. Ask each of them: "
    "t.is_floating_point().",
    batch_to=lambda x, y, where: (x.to(where), y),
)
batch_to.wrong(
    "second_forgotten",
    "One tensor came back. Both are asked for, the untouched one too: x, y.",
    batch_to=lambda x, y, where: x.to(where),
)


@batch_to.cost
def _(student: Student, draw: Draw) -> str:
    x, y = draw.tensor(32, 64), draw.integers(32, low=0, high=599)
    new = student.call("batch_to", x, y, torch.bfloat16)[0].nbytes
    same = student.call("batch_to", x, y, torch.float32)[0]
    shared = same.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    again = "none: .to hands back the same tensor" if shared else f"{same.nbytes:,} more"
    return f"{new:,} new bytes for 32 tokens in bfloat16; for the dtype that they have, {again}"
