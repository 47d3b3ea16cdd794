"""The arithmetic intensity of the head."""

from __future__ import annotations

import math
from itertools import cycle
from typing import Any

import torch

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal

from . import lab
from .meta_layer import (
    DTYPES,
    SMALL,
    WITHOUT_HEAD,
    drawn_sizes,
    in_terms,
    moved_bytes,
    moved_terms,
    product_flops,
)


@lab.question(
    "flops_per_byte",
    points=2,
    minutes=5,
    difficulty=1,
    hints=(
        "Two numbers that you have counted already, one divided by the other.",
        "The FLOPs of 0.4 divided by the bytes of 0.3. Write both out in this cell.",
        "return 2 * n * d * v / ((n * d + v * d + v + n * v) * itemsize)",
    ),
)
def flops_per_byte(student: Student, draw: Draw) -> None:
    """The arithmetic intensity of the head: floating-point operations per byte moved.

    n tokens, d, v, itemsize -> float.
    """
    drawn = [(draw.integer(2, 99), *size) for size in drawn_sizes(draw)]
    sizes = [(32, 64, 600), (1, 64, 600), (4096, 64, 600), *drawn, (5, 11, 3)]
    sizes += [(65_536, 64, 600), (8192, 4096, 4096)]  # beyond 32 bits; more than the page's 100
    kinds = [(n, d, v, dtype) for n, d, v in sizes for dtype in DTYPES[:2]]
    kinds += [(*size, dtype) for size, dtype in zip(SMALL, cycle(DTYPES))]
    cases = [(n, d, v, dtype.itemsize) for n, d, v, dtype in kinds]
    answers = student.each("flops_per_byte", cases)
    with explaining(WITHOUT_HEAD):
        for (n, d, v, dtype), got in zip(kinds, answers, strict=True):
            want = product_flops(n, d, v) / moved_bytes(n, d, v, dtype)
            _expect_number(got, want, why=_because(got, want, n, d, v, dtype))


def _expect_number(got: object, want: float, *, why: str) -> None:
    """A float within rounding of `want`, however the operations were ordered."""
    near = isinstance(got, (int, float)) and abs(got - want) <= 1e-9 * want
    expect_equal(want if near else got, want, why=why)


_ROUNDED = "The quotient is right and was rounded. Return it as it is."


def _because(got: Any, want: float, n: int, d: int, v: int, dtype: torch.dtype) -> str:
    """How a number was rounded, with which other bytes or operations it would be right, or which
    two are divided; "" for what is no number."""
    if type(got) is not float or not math.isfinite(got):
        return ""
    if got in [round(want, digits) for digits in range(1, 9)]:
        return _ROUNDED
    if math.isclose(got, want, rel_tol=2**-23):
        return (
            "This is as near as float32 comes. Python's own numbers hold more digits: divide these."
        )
    flops, moved = product_flops(n, d, v), moved_bytes(n, d, v, dtype)
    bytes_under_it = _whole(flops / got) if got else 0
    if which := in_terms(abs(bytes_under_it - moved), moved_terms(n, d, v, dtype)):
        if bytes_under_it < moved:
            return f"This would be right if the bytes were fewer here, by {which}."
        return f"This would be right if the bytes were more here, by {which}."
    return f"{flops:,} operations move {moved:,} bytes here."


def _whole(number: float) -> int:
    """The whole number that it is within rounding, else 0."""
    near = round(number)
    return near if math.isclose(number, near, rel_tol=1e-9) else 0


@flops_per_byte.wrong(
    "upside_down", "This is bytes per FLOP. Intensity is work per byte: divide the other way."
)
def _(n: int, d: int, v: int, itemsize: int) -> float:
    return (n * d + v * d + v + n * v) * itemsize / (2 * n * d * v)


flops_per_byte.wrong(
    "per_number",
    "This is FLOPs per number. A number takes `itemsize` bytes, so divide by it too.",
    flops_per_byte=lambda n, d, v, itemsize: 2 * n * d * v / (n * d + v * d + v + n * v),
)


@flops_per_byte.wrong(
    "weight_for_each_token",
    "The weight is charged once per token here. It is read once for the whole batch, and that is "
    "why intensity grows with n.",
)
def _(n: int, d: int, v: int, itemsize: int) -> float:
    return 2 * n * d * v / ((n * d + n * v * d + v + n * v) * itemsize)


flops_per_byte.wrong(
    "weight_only",
    "Only the weight's bytes are counted. The tokens and the logits travel too, and with a large "
    "batch they are nearly everything.",
    flops_per_byte=lambda n, d, v, itemsize: 2 * n * d * v / (v * d * itemsize),
)
flops_per_byte.wrong(
    "result_not_written",
    "The logits are missing among the bytes. They are written, and with a large batch they are "
    "most of the bill.",
    flops_per_byte=lambda n, d, v, itemsize: 2 * n * d * v / ((n * d + v * d + v) * itemsize),
)
flops_per_byte.wrong(
    "bias_forgotten",
    "Nearly: the bytes are v numbers too few, as many as the bias has. It is read too.",
    flops_per_byte=lambda n, d, v, itemsize: 2 * n * d * v / ((n * d + v * d + n * v) * itemsize),
)
flops_per_byte.wrong(
    "multiply_add_as_one",
    "This is half of it, as where a multiplication and its addition count as one operation. They "
    "are two, as in 0.4.",
    flops_per_byte=lambda n, d, v, itemsize: n * d * v / ((n * d + v * d + v + n * v) * itemsize),
)


@flops_per_byte.wrong(
    "rounded_down",
    "The quotient was rounded down to a whole number, as `//` does. Divide with `/`.",
)
def _(n: int, d: int, v: int, itemsize: int) -> int:
    return 2 * n * d * v // ((n * d + v * d + v + n * v) * itemsize)


flops_per_byte.wrong(
    "always_four",
    "Right for float32, and the same whatever `itemsize` is. In half precision as many operations "
    "move half as many bytes.",
    flops_per_byte=lambda n, d, v, itemsize: 2 * n * d * v / ((n * d + v * d + v + n * v) * 4),
)
flops_per_byte.wrong(
    "multiplied_by_itemsize",
    "`itemsize` multiplies the quotient here, as in `a / b * c`. It belongs to the bytes: / "
    "(numbers * itemsize).",
    flops_per_byte=lambda n, d, v, itemsize: 2 * n * d * v / (n * d + v * d + v + n * v) * itemsize,
)
flops_per_byte.wrong(
    "bias_counted",
    "One operation per logit is too many in it, as many as the bias adds. As in 0.4, only the "
    "matrix product counts.",
    flops_per_byte=lambda n, d, v, itemsize: (
        (2 * n * d * v + n * v) / ((n * d + v * d + v + n * v) * itemsize)
    ),
)
flops_per_byte.wrong(
    "first_addition_not_counted",
    "One operation per logit is missing in it, as where d - 1 additions are counted. As in 0.4, "
    "the custom is to count d.",
    flops_per_byte=lambda n, d, v, itemsize: (
        n * v * (2 * d - 1) / ((n * d + v * d + v + n * v) * itemsize)
    ),
)
flops_per_byte.wrong(
    "input_forgotten",
    "The tokens' own states are missing among the bytes: n rows of d numbers are read.",
    flops_per_byte=lambda n, d, v, itemsize: 2 * n * d * v / ((v * d + v + n * v) * itemsize),
)
flops_per_byte.wrong(
    "one_token",
    "These are the FLOPs of one token, divided by the bytes of all n.",
    flops_per_byte=lambda n, d, v, itemsize: 2 * d * v / ((n * d + v * d + v + n * v) * itemsize),
)
flops_per_byte.wrong(
    "always_one_token",
    "This is the intensity of one token alone, whatever n is. The weight is read once for all n.",
    flops_per_byte=lambda n, d, v, itemsize: 2 * d * v / ((d + v * d + v + v) * itemsize),
)
flops_per_byte.wrong(
    "per_bit",
    "This is FLOPs per bit. A byte has 8 of them, and bytes were asked for.",
    flops_per_byte=lambda n, d, v, itemsize: (
        2 * n * d * v / (8 * (n * d + v * d + v + n * v) * itemsize)
    ),
)
flops_per_byte.wrong(
    "multiplied",
    "FLOPs were multiplied by bytes. Work *per* byte is a quotient.",
    flops_per_byte=lambda n, d, v, itemsize: 2 * n * d * v * (n * d + v * d + v + n * v) * itemsize,
)
flops_per_byte.wrong(
    "rounded",
    _ROUNDED,
    flops_per_byte=lambda n, d, v, itemsize: round(
        2 * n * d * v / ((n * d + v * d + v + n * v) * itemsize), 2
    ),
)
flops_per_byte.wrong(
    "not_divided",
    "These are the FLOPs and the bytes. One number was asked for: the first divided by the second.",
    flops_per_byte=lambda n, d, v, itemsize: (
        2 * n * d * v,
        (n * d + v * d + v + n * v) * itemsize,
    ),
)
flops_per_byte.wrong(
    "as_in_the_example",
    "This is the example's number. Compute with n, d, v and itemsize.",
    flops_per_byte=lambda n, d, v, itemsize: 210 / 312,
)


flops_per_byte.wrong(
    "rounded_example",
    "This is the example's number, rounded. Compute with n, d, v and itemsize.",
    flops_per_byte=lambda n, d, v, itemsize: 0.67,
)


@flops_per_byte.cost
def _(student: Student, draw: Draw) -> str:
    counts = [student.call("flops_per_byte", n, 64, 600, 4) for n in (1, 32)]
    endless = 2 * 64 * 600 / ((64 + 600) * 4)  # of so many tokens, a loop over them would not end
    one, batch = (f"{count:.1f}" for count in counts)
    limit = f"{math.ceil(100 * endless) / 100:.2f}"
    return f"{one} FLOPs per byte for one token, {batch} at batch 32, and never above {limit}"
