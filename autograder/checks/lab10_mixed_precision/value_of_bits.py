"""What a pattern of bits is worth in a format of so many exponent and fraction bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student

from . import lab
from .exactly import as_number, expect_number, same_number
from .formats import BFLOAT16, E5M2, FLOAT16, FLOAT32, Format

_RAISED = {
    "OverflowError": "Something became too large for what holds it. Patterns have up to 51 bits "
    "here; less the bias no exponent is over 512, and an exponent of ones is infinity or NaN.",
}


@lab.question(
    "value_of_bits",
    points=2,
    minutes=8,
    difficulty=2,
    hints=(
        "Which bits are the exponent, and what do its two extreme values mean?",
        "Cut the pattern with shifts and remainders. An exponent of 0 means: no hidden one, and "
        "the exponent of the smallest normal numbers. An exponent of ones: infinity, or NaN where "
        "the fraction is not 0.",
        "(fraction + (exponent > 0) * 2**fraction_bits) * "
        "2.0 ** (max(exponent, 1) - bias - fraction_bits)",
    ),
)
def value_of_bits(student: Student, draw: Draw) -> None:
    """What a pattern of bits is worth.

    bits (int, 0 <= bits < 2**(1 + exponent_bits + fraction_bits)), exponent_bits, fraction_bits
    -> float.
    """
    cases = _cases(draw)
    with explaining(_RAISED):
        for (bits, wide, long), got in zip(
            cases, student.each("value_of_bits", cases), strict=True
        ):
            pattern = f"{bits:0{1 + wide + long}b}"
            where = f"{pattern[0]} {pattern[1 : 1 + wide]} {pattern[1 + wide :]}"
            kind = Format(wide, long)
            expect_number(got, kind.value(bits), where, why=_why(as_number(got), bits, kind))


def _why(mine: Any, bits: int, kind: Format) -> str:
    """Of which sort this pattern is, where its number is another one."""
    if not isinstance(mine, (int, float)):
        return ""
    if same_number(-mine, kind.value(bits)):
        return _SIGN
    _, exponent, fraction = kind.fields(bits)
    if exponent == 2**kind.exponent_bits - 1:
        return _NAN if fraction else _INFINITE
    if exponent:
        return (
            f"The exponent's bits are {exponent} here, and of {kind.exponent_bits} exponent bits "
            f"the bias is {kind.bias}: 1.fraction times 2 to the power of {exponent - kind.bias}."
        )
    if fraction:
        return (
            f"The exponent's bits are all 0: this is 0.fraction, without a hidden one, times 2 to "
            f"the power of 1 - bias, and of {kind.exponent_bits} exponent bits the bias is "
            f"{kind.bias}."
        )
    return _ZERO


_SIGN = "The size is right. The first bit is the sign: 1 is minus, of zero and infinity too."
_NAN = "An exponent of ones with a fraction that is not 0 is NaN."
_INFINITE = "An exponent of ones with the fraction 0 is infinity."
_ZERO = "All bits behind the sign are 0: this is zero."


def _cases(draw: Draw) -> list[tuple[int, int, int]]:
    """Every kind of number in every format, torch's and drawn ones."""
    drawn = [Format(draw.integer(2, 8), draw.integer(1, 22)) for _ in draw.cases(4)]
    formats = [BFLOAT16, FLOAT16, E5M2, FLOAT32]
    formats += [Format(2, 3), Format(3, 1), Format(10, 6), Format(10, 40), *drawn]
    return [
        (bits, kind[0], kind[1]) for kind in formats for bits in draw.shuffled(_bits(kind, draw))
    ]


def _bits(kind: Format, draw: Draw) -> list[int]:
    """Both zeros, subnormal and normal numbers, the ends of each range, infinities and NaNs."""
    one, top = 2**kind.fraction_bits, 2**kind.exponent_bits - 1
    sign = one * (top + 1)
    ends = [0, 1, one - 1, one, one + 1, kind.bias * one, top * one - 1, top * one, top * one + 1]
    inside = [draw.integer(1, one - 1), draw.integer(one, top * one - 1), (top + 1) * one - 1]
    return [bits + minus for bits in {*ends, *inside} for minus in (0, sign)]


def _size(
    exponent: int,
    fraction: int,
    kind: Format,
    *,
    hidden: Callable[[int], bool] = bool,
    lowest: int = 1,
    bias: int | None = None,
    ends: bool = True,
    nans: bool = True,
) -> float:
    """As it is read, and the ways to read it wrong."""
    if ends and exponent == 2**kind.exponent_bits - 1:
        return math.nan if fraction and nans else math.inf
    ones = fraction + 2**kind.fraction_bits * hidden(exponent)
    shift = kind.bias if bias is None else bias
    return math.ldexp(ones, max(exponent, lowest) - shift - kind.fraction_bits)


def _wrong(
    name: str, sentence: str, read: Callable[[int, int, Format], float], signed: bool = True
) -> None:
    def answer(bits: int, exponent_bits: int, fraction_bits: int) -> float:
        kind = Format(exponent_bits, fraction_bits)
        sign, exponent, fraction = kind.fields(bits)
        size = read(exponent, fraction, kind)
        return -size if sign and signed else size

    value_of_bits.wrong(name, sentence, value_of_bits=answer)


_wrong(
    "hidden_one_always",
    "Right for normal numbers. Where the exponent's bits are all 0 there is no hidden one: that is "
    "how a format reaches zero.",
    lambda e, f, kind: _size(e, f, kind, hidden=lambda exponent: True),
)
_wrong(
    "no_hidden_one",
    "The hidden one is missing: a normal number is 1.fraction, not 0.fraction.",
    lambda e, f, kind: _size(e, f, kind, hidden=lambda exponent: False),
)
_wrong(
    "subnormals_half",
    "Subnormal numbers are half as large here as they are. They have the exponent of the smallest "
    "normal numbers, 1 - bias.",
    lambda e, f, kind: _size(e, f, kind, lowest=0),
)
_wrong(
    "subnormals_to_zero",
    "Numbers with an exponent of 0 are read as zero. The fraction still counts there: these are "
    "the subnormal numbers.",
    lambda e, f, kind: _size(e, f if e else 0, kind),
)
_wrong(
    "ends_are_numbers",
    "An exponent of ones is read as a number. It is infinity where the fraction is 0, and NaN "
    "where it is not.",
    lambda e, f, kind: _size(e, f, kind, ends=False),
)
_wrong(
    "no_nan",
    "With an exponent of ones only the fraction 0 is infinity. The others are NaN.",
    lambda e, f, kind: _size(e, f, kind, nans=False),
)
_wrong(
    "bias_one_more",
    "The bias is one too large: of 8 exponent bits it is 127, so 2**(exponent_bits - 1) - 1.",
    lambda e, f, kind: _size(e, f, kind, bias=kind.bias + 1),
)
_wrong(
    "bias_of_float32",
    "The bias is 127 here. That is float32's: with fewer exponent bits it is smaller.",
    lambda e, f, kind: _size(e, f, kind, bias=127),
)
_wrong("no_sign", "The first bit is the sign, and here it changes nothing.", _size, signed=False)
_wrong(
    "zero_exponent_as_any",
    "An exponent of 0 was read as any other. It has no hidden one, and means 1 - bias.",
    lambda e, f, kind: _size(e, f, kind, hidden=lambda exponent: True, lowest=0),
)
_wrong(
    "always_nan",
    "Every exponent of ones was read as NaN. With a fraction of 0 it is infinity.",
    lambda e, f, kind: math.nan if e == 2**kind.exponent_bits - 1 else _size(e, f, kind),
)
_wrong(
    "bias_of_two_formats",
    "The bias is 127 here too, as it is of 8 exponent bits. Each number of exponent bits has its "
    "own: 2**(exponent_bits - 1) - 1.",
    lambda e, f, kind: _size(e, f, kind, bias=15 if kind.exponent_bits == 5 else 127),
)
_wrong(
    "bias_of_the_table",
    "The bias is 15 here too, as it is of 5 exponent bits. Each number of exponent bits has its "
    "own: 2**(exponent_bits - 1) - 1.",
    lambda e, f, kind: _size(e, f, kind, bias=127 if kind.exponent_bits == 8 else 15),
)
_wrong(
    "only_zero_is_special",
    "Where the exponent's bits are all 0 only zero was read otherwise than normal numbers are. "
    "Every fraction is 0.fraction there, without a hidden one, times 2 to the power of 1 - bias.",
    lambda e, f, kind: _size(e, f, kind, hidden=lambda exponent: True, lowest=0) if e or f else 0.0,
)
_wrong(
    "one_nan",
    "Only the pattern of ones was read as NaN, as in float8_e4m3fn. Here an exponent of ones holds "
    "no numbers: it is infinity or NaN.",
    lambda e, f, kind: (
        math.nan
        if f == 2**kind.fraction_bits - 1 and e == 2**kind.exponent_bits - 1
        else _size(e, f, kind, ends=False)
    ),
)
_wrong(
    "nan_by_its_first_bit",
    "With an exponent of ones every fraction but 0 is NaN, also one whose first bit is 0.",
    lambda e, f, kind: _size(e, f, kind, nans=2 * f >= 2**kind.fraction_bits),
)
_wrong(
    "whole_fraction",
    "The fraction was taken for a whole number. Its bits stand behind the point: divide it by "
    "2**fraction_bits.",
    lambda e, f, kind: (
        _size(e, f, kind)
        if e == 2**kind.exponent_bits - 1
        else math.ldexp(f + bool(e), max(e, 1) - kind.bias)
    ),
)


@value_of_bits.wrong(
    "infinity_without_sign",
    "Infinity came without its sign. With the first bit set it is -inf.",
)
def _(bits: int, exponent_bits: int, fraction_bits: int) -> float:
    number = Format(exponent_bits, fraction_bits).value(bits)
    return abs(number) if math.isinf(number) else number


@value_of_bits.wrong(
    "two_s_complement",
    "A pattern with the sign set was read as a negative whole number, in two's complement. Here "
    "the sign is a bit of its own: the other bits are those of |x|.",
)
def _(bits: int, exponent_bits: int, fraction_bits: int) -> float:
    sign = 2 ** (exponent_bits + fraction_bits)
    number = Format(exponent_bits, fraction_bits).value(2 * sign - bits if bits >= sign else bits)
    return -abs(number) if bits >= sign else number


@value_of_bits.wrong(
    "fields_swapped",
    "The fraction was looked for in front of the exponent. The exponent comes first, after the "
    "sign, and the fraction is last.",
)
def _(bits: int, exponent_bits: int, fraction_bits: int) -> float:
    exponent = bits % 2**exponent_bits
    rest, sign = (bits >> exponent_bits) % 2**fraction_bits, bits >> (exponent_bits + fraction_bits)
    kind = Format(exponent_bits, fraction_bits)
    size = _size(exponent, rest, kind)
    return -size if sign else size


@value_of_bits.wrong("sign_last", "The last bit was taken for the sign. The sign is the first.")
def _(bits: int, exponent_bits: int, fraction_bits: int) -> float:
    kind = Format(exponent_bits, fraction_bits)
    _, exponent, fraction = kind.fields(bits)
    size = _size(exponent, fraction, kind)
    return -size if bits % 2 else size


@value_of_bits.wrong(
    "minus_zero_is_zero",
    "Almost: the pattern with only the sign set is -0.0. It equals 0.0, and math.copysign(1, x) "
    "tells them apart.",
)
def _(bits: int, exponent_bits: int, fraction_bits: int) -> float:
    return Format(exponent_bits, fraction_bits).value(bits) + 0.0


@value_of_bits.cost
def _(student: Student, draw: Draw) -> str:
    for kind in (FLOAT16, BFLOAT16):
        top = 2**kind.fraction_bits * (2**kind.exponent_bits - 1) - 1
        student.call("value_of_bits", top, *kind[:2])
    largest = [student.calls[-k].outcome for k in (2, 1)]
    return f"16 bits each: float16 ends at {largest[0]:.0f}, bfloat16 at {largest[1]:.2e}"
