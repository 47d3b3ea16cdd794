"""How far apart the numbers of a format are at x, and how much of x rounding can cost."""

from __future__ import annotations

import math
from collections.abc import Callable

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_tuple, text

from . import lab
from .exactly import expect_number
from .formats import BFLOAT16, E5M2, FLOAT16, Format

Pair = tuple[float, float]
_RAISED = {
    "ValueError": "x may be 0, which has no logarithm, and negative: the spacing at 0 is that of "
    "the subnormal numbers.",
    "ZeroDivisionError": "x may be 0. Rounding leaves it as it is: its bound is 0.",
}


@lab.question(
    "spacing",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "Which two powers of two is |x| between, and how many numbers are there between them?",
        "2 to the power of fraction_bits, evenly spread. math.frexp finds the power of two without "
        "rounding. Below the smallest normal number the spacing stays. Rounding goes at most half "
        "a spacing.",
        "2.0 ** (max(math.frexp(x)[1] - 1, 1 - bias) - fraction_bits)",
    ),
)
def spacing(student: Student, draw: Draw) -> None:
    """The distance from one number of the format to the next at x, and the bound on the relative
    error of rounding x.

    x (float, not too large for the format), exponent_bits, fraction_bits -> (distance, bound).
    """
    cases = _cases(draw)
    with explaining(_RAISED):
        for (x, wide, long), got in zip(cases, student.each("spacing", cases), strict=True):
            distance, bound = _known(x, Format(wide, long))
            where = f"at {x!r}, with {wide} exponent and {long} fraction bits"
            pair = expect_tuple(got, 2, "(distance, bound)", where=where)
            expect_number(pair[0], distance, text("within", place="the distance", rest=where))
            expect_number(
                pair[1], bound, text("within", place="the bound", rest=where), tolerance=1e-9
            )


def _cases(draw: Draw) -> list[tuple[float, int, int]]:
    """In each format: a number that it does not hold, powers of two and what is beside them,
    subnormal numbers, 0 and the largest. In this order: the first ones tell most mistakes apart."""
    drawn = [Format(draw.integer(3, 8), draw.integer(1, 14)) for _ in draw.cases(3)]
    cases = []
    for kind in (BFLOAT16, FLOAT16, E5M2, *drawn):
        power = math.ldexp(1.0, draw.integer(2, kind.bias - 1))
        smallest = math.ldexp(1.0, kind.smallest_exponent)
        sizes = [power * draw.integer(17, 31) / 16, power, math.nextafter(power, 0.0), smallest]
        sizes += [smallest * draw.integer(1, 15) / 16, smallest / 2**20, 0.0, kind.largest]
        cases += [(x * draw.choice((1.0, -1.0)), kind[0], kind[1]) for x in sizes]
    return cases


def _known(x: float, kind: Format) -> Pair:
    distance = math.ldexp(1.0, kind.spacing_exponent(x))
    return distance, distance / 2 / abs(x) if x else 0.0


def _exponent(x: float) -> int:
    return math.frexp(x)[1] - 1 if x else -2000


def _with_exponent(x: float, kind: Format, exponent: int) -> Pair:
    distance = math.ldexp(1.0, exponent - kind.fraction_bits)
    return distance, distance / 2 / abs(x) if x else 0.0


def _wrong(name: str, sentence: str, answer: Callable[[float, Format], Pair]) -> None:
    spacing.wrong(
        name,
        sentence,
        spacing=lambda x, exponent_bits, fraction_bits: answer(
            x, Format(exponent_bits, fraction_bits)
        ),
    )


_wrong(
    "at_one",
    "This is the spacing at 1, the format's `eps`. It doubles at each power of two.",
    lambda x, kind: _with_exponent(x, kind, 0),
)
_wrong(
    "in_proportion",
    "The spacing is no share of x: between two powers of two it stays the same.",
    lambda x, kind: (abs(x) * 2.0**-kind.fraction_bits, 2.0 ** -(kind.fraction_bits + 1)),
)
_wrong(
    "no_subnormals",
    "Below the smallest normal number the spacing stays as it is there. It does not shrink on.",
    lambda x, kind: _with_exponent(x, kind, _exponent(x) if x else kind.smallest_exponent),
)
_wrong(
    "power_above",
    "The power of two above |x| was taken. Numbers are spread evenly from the power below on.",
    lambda x, kind: _with_exponent(x, kind, max(_exponent(x) + 1, kind.smallest_exponent)),
)
_wrong(
    "rounded_logarithm",
    "Almost: log2 of a number just below a power of two rounds to a whole number. math.frexp takes "
    "the exponent from the bits.",
    lambda x, kind: _with_exponent(
        x, kind, max(math.floor(math.log2(abs(x) or 2.0**-999)), kind.smallest_exponent)
    ),
)
_wrong(
    "hidden_one_counted",
    "One digit too many was counted: the hidden one adds no numbers between two powers of two.",
    lambda x, kind: (_known(x, kind)[0] / 2, _known(x, kind)[1] / 2),
)
_wrong(
    "whole_spacing",
    "The distance is right. The nearest number is at most half of it away.",
    lambda x, kind: (_known(x, kind)[0], _known(x, kind)[1] * 2),
)
_wrong(
    "not_relative",
    "The distance is right, and the second number is the bound on the error. Relative to x it is "
    "divided by |x|.",
    lambda x, kind: (_known(x, kind)[0], _known(x, kind)[0] / 2 if x else 0.0),
)
_wrong(
    "worst_of_format",
    "The distance is right. The bound is that of the worst x of all normal ones: at this x it is "
    "half the distance, divided by |x|.",
    lambda x, kind: (_known(x, kind)[0], 2.0 ** -(kind.fraction_bits + 1)),
)
_wrong(
    "sign_of_x",
    "Right for positive x. A bound is not negative.",
    lambda x, kind: (_known(x, kind)[0], math.copysign(_known(x, kind)[1], x)),
)


@spacing.cost
def _(student: Student, draw: Draw) -> str:
    told = []
    for name, kind in (("bfloat16", BFLOAT16), ("float16", FLOAT16)):
        distance, bound = student.call("spacing", 600.0, *kind[:2])
        told.append(f"{name} {distance:g} ({bound:.1e} of it)")
    return "at 600, the words of the head: " + ", ".join(told)
