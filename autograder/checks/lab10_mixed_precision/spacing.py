"""How far apart the numbers of a format are at x, and how much of x rounding can cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_tuple, text

from . import lab
from .exactly import as_number, expect_number
from .formats import BFLOAT16, E5M2, FLOAT16, FLOAT32, Format

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
        "rounding, of any x but 0. Below the smallest normal number the spacing stays, down to 0. "
        "Rounding goes at most half a spacing.",
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
            expect_number(
                pair[0],
                distance,
                text("within", place="the distance", rest=where),
                why=_why_distance(as_number(pair[0]), x, Format(wide, long)),
            )
            expect_number(
                pair[1],
                bound,
                text("within", place="the bound", rest=where),
                tolerance=1e-9,
                why=_why_bound(as_number(pair[1]), x, Format(wide, long)),
            )


def _cases(draw: Draw) -> list[tuple[float, int, int]]:
    """In each format: numbers between powers of two, powers of two and what is beside them,
    subnormal numbers, 0 and the largest. In this order: the first ones tell most mistakes apart."""
    drawn = [Format(draw.integer(3, 8), draw.integer(1, 14)) for _ in draw.cases(3)]
    cases = []
    for kind in (BFLOAT16, FLOAT16, E5M2, *drawn, Format(10, 6)):
        power = math.ldexp(1.0, draw.integer(2, kind.bias - 1))
        smallest = math.ldexp(1.0, kind.smallest_exponent)
        sizes = [power * draw.integer(17, 31) / 16, power * 1.75, power * 1.25, power]
        # what the format rounds up to a power, what float32 does, and log2 not; then what log2 does
        sizes += [power * (2 - 2.0 ** -(kind.fraction_bits + 2))]
        sizes += [power * (1 - 2.0**-40), math.nextafter(power, 0.0), smallest]
        sizes += [smallest * draw.integer(1, 15) / 16, smallest / 2**20, 0.0, kind.largest]
        cases += [(x * draw.choice((1.0, -1.0)), kind[0], kind[1]) for x in sizes]
    return cases


def _why_distance(mine: Any, x: float, kind: Format) -> str:
    """What holds at this x."""
    if not isinstance(mine, (int, float)):
        return ""
    if x == 0.0:
        return _AT_ZERO
    if abs(x) < math.ldexp(1.0, kind.smallest_exponent + 1):
        return _LOWEST
    is_next = mine == 2 * _known(x, kind)[0] and _exponent(kind.nearest(x)) > _exponent(x)
    return _NEXT if is_next else _BETWEEN


def _why_bound(mine: Any, x: float, kind: Format) -> str:
    """The distance is right, and the bound is not."""
    if not isinstance(mine, (int, float)) or math.isnan(mine):
        return ""
    if x == 0.0:
        return _EXACT_ZERO
    distance, bound = _known(x, kind)
    if mine < 0:
        return _NEGATIVE
    if mine == 0.0:
        return _ONLY_AT_ZERO
    if math.isclose(mine, distance / 2):
        return _ABSOLUTE
    times = mine / bound
    return _TOO_SMALL if times < 1 else _TOO_LARGE


_AT_ZERO = "At 0 the next number is the smallest one, 0.00...1 times 2 to the power of 1 - bias."
_LOWEST = (
    "|x| is below twice the smallest normal number. From there down to 0 the distance stays: 2 to "
    "the power of 1 - bias - fraction_bits, with the bias of this format."
)
_BETWEEN = (
    "The distance is a power of two: that of the largest power of two that is not over |x|, "
    "divided by 2**fraction_bits."
)
_NEXT = (
    "This is the distance from the next power of two on, and |x| is below that, however little. "
    "Not what x is rounded to counts: the largest power of two that is not over |x| does."
)
_EXACT_ZERO = "The distance is right. 0 is a number of the format: its bound is 0."
_ONLY_AT_ZERO = (
    "The distance is right. The bound is 0 at 0 alone: at any other x it is half the distance, "
    "divided by |x|, also where x is itself a number of the format."
)
_NEGATIVE = "The distance is right. A bound on an error is not negative: divide by |x|."
_ABSOLUTE = "The distance is right, and this is half of it. Relative to x it is divided by |x|."
_TOO_SMALL = (
    "The distance is right, and this bound is too small for this x: half the distance, divided by "
    "|x| itself, and by nothing near it."
)
_TOO_LARGE = (
    "The distance is right, and this bound is larger than this x needs: half the distance, divided "
    "by |x| itself, and by nothing near it."
)


def _known(x: float, kind: Format) -> Pair:
    distance = math.ldexp(1.0, kind.spacing_exponent(x))
    return distance, distance / 2 / abs(x) if x else 0.0


def _exponent(x: float) -> int:
    return math.frexp(x)[1] - 1 if x else -2000


def _with_exponent(x: float, kind: Format, exponent: int) -> Pair:
    distance = math.ldexp(1.0, exponent - kind.fraction_bits)
    return distance, distance / 2 / abs(x) if x else 0.0


def _scaled(x: float, kind: Format, by: float) -> Pair:
    distance, bound = _known(x, kind)
    return distance * by, bound * by


def _float32_step(x: float) -> int:
    """The exponent of the distance to the next float32."""
    return FLOAT32.spacing_exponent(torch.tensor(x, dtype=torch.float32).item())


def _wrong(name: str, sentence: str, answer: Callable[[float, Format], Any]) -> None:
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
    "The spacing shrinks on here below the smallest normal number. It stays as it is at that one.",
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
    "through_float32",
    "Almost: a number just below a power of two was taken for that power, as where x becomes a "
    "float32 first. math.frexp reads the exponent of x itself.",
    lambda x, kind: _with_exponent(
        x,
        kind,
        max(_exponent(torch.tensor(x, dtype=torch.float32).item()), kind.smallest_exponent),
    ),
)
_wrong(
    "through_the_format",
    "Almost: a number just below a power of two was taken for that power, as where x is rounded "
    "to the format first. math.frexp reads the exponent of x itself.",
    lambda x, kind: _with_exponent(
        x, kind, max(_exponent(kind.nearest(x)), kind.smallest_exponent)
    ),
)
_wrong(
    "hidden_one_counted",
    "Distance and bound are half as large as they are, as where the hidden one is counted as a "
    "digit. It adds no numbers between two powers of two.",
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
    "worst_of_format_but_at_zero",
    "The distance is right. The bound is that of the worst x of all normal ones: at this x it is "
    "half the distance, divided by |x|.",
    lambda x, kind: (_known(x, kind)[0], 2.0 ** -(kind.fraction_bits + 1) if x else 0.0),
)
_wrong(
    "sign_of_x",
    "Right for positive x. A bound is not negative.",
    lambda x, kind: (_known(x, kind)[0], math.copysign(_known(x, kind)[1], x)),
)
_wrong(
    "toward_zero",
    "At a power of two this is the distance to the next number toward zero. The one away from "
    "zero is asked: it is twice as large there.",
    lambda x, kind: _with_exponent(
        x, kind, max(_exponent(x) - (abs(math.frexp(x)[0]) == 0.5), kind.smallest_exponent)
    ),
)
_wrong(
    "logarithm_to_the_nearest",
    "The power of two above |x| was taken here, as where the logarithm is rounded to the nearest "
    "whole number. The one below counts, however near the other is.",
    lambda x, kind: _with_exponent(
        x, kind, max(round(math.log2(abs(x) or 2.0**-999)), kind.smallest_exponent)
    ),
)
_wrong(
    "logarithm_upward",
    "Between two powers of two the one above |x| was taken, as where the logarithm is rounded up. "
    "Numbers are spread evenly from the power below on.",
    lambda x, kind: _with_exponent(
        x, kind, max(math.ceil(math.log2(abs(x) or 2.0**-999)), kind.smallest_exponent)
    ),
)
_wrong(
    "of_float32",
    "This is the distance to the next number of float32, whatever the format is.",
    lambda x, kind: _with_exponent(x, kind, _float32_step(x) + kind.fraction_bits),
)
_wrong(
    "smallest_of_float32",
    "Right for formats of 8 exponent bits. Their smallest normal number has the exponent -126; "
    "with fewer exponent bits it is another: 1 - bias.",
    lambda x, kind: _with_exponent(x, kind, max(_exponent(x), -126)),
)
_wrong(
    "smallest_one_less",
    "The smallest normal number has the exponent 1 - bias, which is 2 - 2**(exponent_bits - 1). "
    "Here it is one less.",
    lambda x, kind: _with_exponent(x, kind, max(_exponent(x), kind.smallest_exponent - 1)),
)
_wrong(
    "one_fewer",
    "From one power of two to the next there are 2**fraction_bits steps, not one fewer.",
    lambda x, kind: _scaled(x, kind, 2**kind.fraction_bits / (2**kind.fraction_bits - 1)),
)
_wrong(
    "half_of_it",
    "Half of the distance was given as the distance. Half of it belongs into the bound alone.",
    lambda x, kind: (_known(x, kind)[0] / 2, _known(x, kind)[1]),
)
_wrong(
    "other_order",
    "The bound came first. The distance is asked first, then the bound.",
    lambda x, kind: _known(x, kind)[::-1],
)
_wrong(
    "distance_alone",
    "Only the distance came back. Two numbers are asked: the bound as well.",
    lambda x, kind: _known(x, kind)[0],
)
_wrong(
    "error_of_this_x",
    "The second number is the error that this x has. A bound is asked: half the distance, relative "
    "to |x|, also where x is a number of the format.",
    lambda x, kind: (_known(x, kind)[0], abs(kind.nearest(x) - x) / abs(x) if x else 0.0),
)
_wrong(
    "of_the_rounded",
    "Half the distance was divided by the rounded number. Relative to |x| it is divided by |x|.",
    lambda x, kind: (
        _known(x, kind)[0],
        _known(x, kind)[0] / 2 / abs(kind.nearest(x) or math.inf),
    ),
)
_wrong(
    "bound_of_normal_ones",
    "Among the subnormal numbers this is the bound of normal ones. The distance stays there while "
    "|x| shrinks: the bound is larger.",
    lambda x, kind: (
        _known(x, kind)[0],
        min(_known(x, kind)[1], 2.0 ** -(kind.fraction_bits + 1)),
    ),
)
_wrong(
    "nothing_at_zero",
    "At 0 the distance is not 0: the next numbers are the smallest ones, on both sides.",
    lambda x, kind: _known(x, kind) if x else (0.0, 0.0),
)
_wrong(
    "smallest_normal_at_zero",
    "At 0 this is the smallest normal number. Between 0 and that one lie the subnormal numbers.",
    lambda x, kind: _known(x, kind) if x else (math.ldexp(1.0, kind.smallest_exponent), 0.0),
)
_wrong(
    "infinite_at_zero",
    "The bound at 0 is 0: 0 is a number of the format, and rounding leaves it as it is.",
    lambda x, kind: _known(x, kind) if x else (_known(x, kind)[0], math.inf),
)
_wrong(
    "half_at_zero",
    "The bound at 0 is 0: 0 is a number of the format, and rounding leaves it as it is.",
    lambda x, kind: _known(x, kind) if x else (_known(x, kind)[0], _known(x, kind)[0] / 2),
)
_wrong(
    "divided_by_zero",
    _RAISED["ZeroDivisionError"],
    lambda x, kind: (_known(x, kind)[0], _known(x, kind)[0] / 2 / abs(x)),
)
_wrong(
    "logarithm_of_x",
    _RAISED["ValueError"],
    lambda x, kind: _with_exponent(x, kind, max(math.floor(math.log2(x)), kind.smallest_exponent)),
)
_wrong(
    "logarithm_of_a_negative_x",
    _RAISED["ValueError"],
    lambda x, kind: (
        _with_exponent(x, kind, max(math.floor(math.log2(x)), kind.smallest_exponent))
        if x
        else _known(x, kind)
    ),
)
_wrong(
    "logarithm_of_zero",
    _RAISED["ValueError"],
    lambda x, kind: _with_exponent(
        x, kind, max(math.floor(math.log2(abs(x))), kind.smallest_exponent)
    ),
)


@spacing.cost
def _(student: Student, draw: Draw) -> str:
    told = []
    for name, kind in (("bfloat16", BFLOAT16), ("float16", FLOAT16)):
        distance, bound = student.call("spacing", 600.0, *kind[:2])
        told.append(f"{name} {distance:g} ({bound:.1e} of it)")
    return "at 600, the words of the head: " + ", ".join(told)
