"""What an operator would return."""

from __future__ import annotations

from typing import Any

import torch

from autograder.judge import Draw, Student, expect_equal, expect_tuple, within

from . import lab
from .bench import explained, room_for_python

ELSEWHERE = "meta"
"""A device that is not the CPU and that is everywhere: without a GPU torch refuses to index a fake
tensor of "cuda", and a fake kernel that computes is right."""
Meta = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, str]

_NO_BIAS = "b is None where there is no bias: the sizes of y are those of x and w."
_RAISED = {
    "DataDependentOutputException": "Your fake kernel asked a tensor for a number. A fake tensor "
    "has none: only shape, strides, dtype and device.",
    "DynamicOutputShapeException": "Your fake kernel asks for a shape that depends on the numbers.",
    "UnsupportedOperatorException": "Your fake kernel calls an operator that has no fake itself.",
    "'NoneType' object": _NO_BIAS,
    "type 'NoneType'": _NO_BIAS,
}


@lab.question(
    "fake_head",
    points=3,
    minutes=7,
    difficulty=2,
    hints=(
        "What does head_kernel compute first, and of which shape is that in memory?",
        "The product is (V, N), contiguous, and y is its transpose. Allocate that from x, so that "
        "dtype and device follow, and take the sizes as they are: no int(), no len().",
        "return x.new_empty(w.shape[0], x.shape[0]).T",
    ),
    function="faked",
    budget_s=60.0,
    host="Its operator has a kernel for the CPU alone.",
)
def fake_head(student: Student, draw: Draw) -> None:
    """A fake kernel: shape, strides, dtype and device of head's result, from fake tensors.

    x (N, D), w (V, D), b (V,) or None, fake -> y (N, V), fake, column by column.
    """
    plans: list[dict[str, Any]] = [
        {},
        {"bias": False},
        {"dtype": torch.float64},
        {"device": ELSEWHERE},
        {"dtype": torch.float16},
        {"dtype": torch.bfloat16, "device": ELSEWHERE, "bias": False},
    ]
    with room_for_python(student, "fake_head") as room:
        for plan in plans + [{} for _ in draw.cases(2)]:
            sizes = draw.integer(2, 40), draw.integer(50, 90), draw.integer(100, 120)
            _expect_meta(_faked(room, *sizes, **plan), _real(*sizes, **plan))
        sizes = draw.integer(5, 9), draw.integer(20, 29), draw.integer(40, 49)
        symbolic = _faked(room, *sizes, symbols=True)
    why = "A symbol became a number: the compiler would compile again for each other size."
    expect_equal(symbolic, [True, True], why=why)


def _faked(room: Student, *sizes: int, **plan: Any) -> Any:
    with explained(_RAISED):
        return room.call("faked", "fake_head", *sizes, **plan)


def _real(
    n: int, v: int, d: int, dtype: torch.dtype = torch.float32, device: str = "cpu", **_: Any
) -> Meta:
    """What the real kernel returns; only the device's name is taken on trust."""
    y = (torch.ones(v, d, dtype=dtype) @ torch.ones(n, d, dtype=dtype).T).T
    return tuple(y.shape), y.stride(), y.dtype, device


_ABOUT = {
    "shape": "y is (N, V): x has a row for each token, w a row for each word.",
    "strides": "The real result is the transpose of a (V, N) that is contiguous: its strides are "
    "(1, N).",
    "dtype": "The real result has the dtype of x.",
    "device": "The real result is where x is.",
}


def _expect_meta(got: Any, want: Meta) -> None:
    expect_tuple(got, len(want), "sizes, strides, dtype, device")
    for name, mine, real in zip(("shape", "strides", "dtype", "device"), got, want, strict=True):
        with within(f"in the {name}", why=_ABOUT[name]):
            expect_equal(mine, real)


def _meta(n: int, v: int, d: int, **plan: Any) -> Any:
    """The right answer, also about symbols."""
    symbols = plan.pop("symbols", False)
    return [True, True] if symbols else _real(n, v, d, **plan)


@fake_head.wrong(
    "row_by_row",
    "The strides are those of a contiguous (N, V). The real result is the transpose of a (V, "
    "N): what is compiled around the operator was laid out for yours, and Inductor raises when "
    "another comes.",
)
def _(name: str, n: int, v: int, d: int, **plan: Any) -> Any:
    meta = _meta(n, v, d, **plan)
    return meta if plan.get("symbols") else (meta[0], (v, 1), *meta[2:])


@fake_head.wrong(
    "shape_transposed",
    "This is (V, N), as the product lies in memory. The kernel returns its transpose.",
)
def _(name: str, n: int, v: int, d: int, **plan: Any) -> Any:
    meta = _meta(n, v, d, **plan)
    return meta if plan.get("symbols") else ((v, n), (n, 1), *meta[2:])


@fake_head.wrong(
    "always_float32",
    "The real result has the dtype of x. What torch.empty makes is float32 unless it is told.",
)
def _(name: str, n: int, v: int, d: int, **plan: Any) -> Any:
    meta = _meta(n, v, d, **plan)
    return meta if plan.get("symbols") else (*meta[:2], torch.float32, meta[3])


@fake_head.wrong(
    "always_on_the_cpu",
    "x is on another device, and your result is on the CPU. Allocate from x, or pass its device "
    "on.",
)
def _(name: str, n: int, v: int, d: int, **plan: Any) -> Any:
    meta = _meta(n, v, d, **plan)
    return meta if plan.get("symbols") else (*meta[:3], "cpu")


@fake_head.wrong(
    "sizes_become_numbers",
    "N and V became numbers on the way, as by len() or int(): the compiler then compiles for these "
    "sizes alone. Pass both on as they come: x.shape[0], w.shape[0].",
)
def _(name: str, n: int, v: int, d: int, **plan: Any) -> Any:
    return [False, False] if plan.get("symbols") else _meta(n, v, d, **plan)


@fake_head.wrong(
    "batch_becomes_a_number",
    "N became a number on the way, as by len() or int(): V is still a symbol. Pass both on as "
    "they come: x.shape[0].",
)
def _(name: str, n: int, v: int, d: int, **plan: Any) -> Any:
    return [False, True] if plan.get("symbols") else _meta(n, v, d, **plan)


class DataDependentOutputException(RuntimeError):
    """torch's, by name."""


@fake_head.wrong(
    "asks_for_a_number",
    "Your fake kernel asked a tensor for a number. A fake tensor has none: only shape, strides, "
    "dtype and device.",
)
def _(name: str, n: int, v: int, d: int, **plan: Any) -> Any:
    raise DataDependentOutputException("aten._local_scalar_dense.default")


@fake_head.cost
def _(student: Student, draw: Draw) -> str:
    n = 1_000_000
    with room_for_python(student, "fake_head") as room:
        shape, strides, dtype, _ = room.call("faked", "fake_head", n, 600, 64, device=ELSEWHERE)
    nbytes = shape[0] * shape[1] * dtype.itemsize
    return f"{nbytes:,} bytes of logits described for {n:,} tokens, strides {strides}: 0 allocated"
