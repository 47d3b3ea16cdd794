"""Rounding to a shorter format: to nearest, half to even, and what happens at both ends of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import torch
from torch import Tensor

from autograder.judge import Draw, Student

from . import lab
from .exactly import expect_elements
from .formats import BFLOAT16, E4M3FN, E5M2, FLOAT16, Format


@lab.question(
    "rounded",
    points=5,
    minutes=14,
    difficulty=4,
    hints=(
        "How far apart are the numbers of the format near x? Rounding is easy on a grid of whole "
        "numbers.",
        "Divide by the spacing, round half to even, multiply again: in float64 both steps are "
        "exact, because the spacing is a power of two. Below the smallest normal number the "
        "spacing grows no smaller. Then look at what is over the largest number.",
        "spacing = 2.0 ** (max(exponent, 1 - bias) - fraction_bits); "
        "torch.round(x / spacing) * spacing",
    ),
)
def rounded(student: Student, draw: Draw) -> None:
    """x rounded to the nearest number of a format; where two are as near, to the one whose last bit
    is 0.

    x (float32, any shape), exponent_bits, fraction_bits, finite (bool: no infinity, as
    float8_e4m3fn) -> a float32 tensor of x's shape.
    """
    drawn = [_drawn(draw, finite=bool(k % 2)) for k in draw.cases(4)]
    kinds = (BFLOAT16, FLOAT16, E5M2, E4M3FN, Format(3, 4), Format(7, 19, True), *drawn)
    asked = [(x, kind) for kind in kinds for x in _edges(kind, draw)]
    asked += zip(_shapes(draw), (FLOAT16, E4M3FN, E5M2, BFLOAT16, E5M2), strict=True)
    answers = student.each("rounded", [(x, *kind) for x, kind in asked])
    for (x, kind), got in zip(asked, answers, strict=True):
        why = partial(_why, kind=kind)
        expect_elements(got, _all(kind.nearest, x), x, where=_name(kind), why=why)


def _drawn(draw: Draw, *, finite: bool) -> Format:
    """Each of its numbers is one of float32: at 8 exponent bits the highest exponent is none."""
    return Format(draw.integer(2, 7 if finite else 8), draw.integer(1, 14), finite)


def _why(x: float, want: float, came: float, *, kind: Format) -> str:
    """What is true of this element."""
    if math.isnan(want):
        return _NAN
    if came == -want:
        return _ITS_SIGN
    if math.isinf(x) and math.isinf(want):
        return _INFINITE
    if abs(x) > kind.largest:
        if math.isinf(want):
            spacing = math.ldexp(1.0, kind.spacing_exponent(kind.largest))
            is_tie = abs(x) == kind.largest + spacing / 2 and abs(came) == kind.largest
            return _TIE_OVER if is_tie else _IS_OVER
        return _LARGEST if kind.finite else _STILL_NEAR
    if math.isnan(came) or math.isinf(came):
        return _IS_A_NUMBER
    if kind.nearest(came) != came:
        return _NO_NUMBER
    return _TIE if abs(came - x) == abs(want - x) else _NEARER


_NAN = (
    "NaN stays NaN, also where the format is `finite`. Neither `<` nor `>` finds it: beside NaN "
    "both are False."
)
_INFINITE = "Infinity stays infinite, with its sign, where the format is not `finite`."
_ITS_SIGN = "The size is right. The sign is that of x, also of zero and of infinity."
_IS_OVER = (
    "x is too large: rounded to the grid it is over the largest number. In a format with infinity "
    "it becomes infinite, with the sign of x."
)
_TIE_OVER = (
    "x is half a spacing over the largest number, so what would come next is as near. The last bit "
    "of that one is 0: x is rounded up to it, and so it is infinite, with the sign of x."
)
_LARGEST = (
    "The format is `finite`, and x is over its largest number: it becomes that number, with the "
    "sign of x. The pattern of ones, which would be the next one, is NaN and no number."
)
_STILL_NEAR = (
    "x is over the largest number, and nearer to it than to what would come next: it is rounded "
    "down to it."
)
_IS_A_NUMBER = "x is not over the largest number of the format: it becomes a number."
_NO_NUMBER = (
    "The format has no such number. Near x its numbers are whole multiples of the spacing there, "
    "which below the smallest normal number grows no smaller."
)
_TIE = "Two numbers are as near. The one whose last bit is 0 is asked."
_NEARER = "This is a number of the format, and another one is nearer to x."


def _name(kind: Format) -> str:
    return f"{kind[0]} exponent and {kind[1]} fraction bits{', finite' * kind.finite}"


def _all(answer: Callable[[float], float], x: Tensor) -> Tensor:
    """`answer` of each element, as a float32 tensor of x's shape."""
    numbers = [answer(n) for n in x.detach().flatten().tolist()]
    return torch.tensor(numbers, dtype=torch.float32).reshape(x.shape)


def _shapes(draw: Draw) -> list[Tensor]:
    """One number, none for either kind of end, a view with stride 0, and a leaf that requires a
    gradient."""
    one = draw.tensor(dtype=torch.float32)
    leaf = draw.tensor(draw.integer(2, 4), draw.integer(5, 7), layout="offset", requires_grad=True)
    none = [draw.tensor(0, 3), draw.tensor(0)]
    return [one, *none, draw.tensor(3, draw.integer(4, 6), layout="expanded"), leaf]


def _edges(kind: Format, draw: Draw) -> list[Tensor]:
    """Every way to round, a tensor for each size of numbers, for what is wrong with small ones is
    not seen beside large ones: around zero, in the smallest binade, in a drawn one, over the
    largest number, and what is no number. In a drawn order, with both signs."""
    drawn = draw.integer(kind.smallest_exponent, kind.bias - 1)
    binades = [_binade(kind, exponent, draw) for exponent in (kind.smallest_exponent, drawn)]
    tiny = math.ldexp(1.0, kind.smallest_exponent - kind.fraction_bits)
    groups = [_smallest(tiny), *binades, _over(kind), [0.0, math.inf, math.nan]]
    return [_both_signs(group, draw) for group in groups]


def _both_signs(sizes: list[float], draw: Draw) -> Tensor:
    signed = [math.copysign(n, sign) for n in sizes if _is_float32(n) for sign in (1.0, -1.0)]
    return torch.tensor(draw.shuffled(signed), dtype=torch.float32)


def _smallest(tiny: float) -> list[float]:
    """The halves between zero and the smallest numbers; the first of them rounds to zero."""
    return [tiny / 4, tiny, *(n for k in (0, 1, 2) for n in _around((k + 0.5) * tiny))]


def _binade(kind: Format, exponent: int, draw: Draw) -> list[float]:
    """Between two powers of two: the first tie, the last, which rounds to the next power, and
    others."""
    first, spacing = 2**kind.fraction_bits, math.ldexp(1.0, exponent - kind.fraction_bits)
    steps = (first, 2 * first - 2, 2 * first - 1, draw.integer(first, 2 * first - 1))
    ties = [n for k in steps for n in _around((k + 0.5) * spacing)]
    return [*ties, *(k * spacing for k in steps), (first + draw.integer(1, 15) / 16) * spacing]


def _over(kind: Format) -> list[float]:
    """The largest number, what rounds to it, what is as near to the next one, and more."""
    spacing = math.ldexp(1.0, kind.spacing_exponent(kind.largest))
    return [kind.largest, *_around(kind.largest + spacing / 2), 2.5 * kind.largest]


def _around(tie: float) -> list[float]:
    """A tie, and its neighbours in float32."""
    middle = torch.tensor(tie, dtype=torch.float32)
    ends = [torch.tensor(end, dtype=torch.float32) for end in (0.0, math.inf)]
    return [tie, *(torch.nextafter(middle, end).item() for end in ends)]


def _is_float32(n: float) -> bool:
    return math.isnan(n) or n == torch.tensor(n, dtype=torch.float32).item()


def _grid(
    x: float,
    kind: Format,
    *,
    to_whole: Callable[[Fraction], int] = round,
    lowest: int | None = None,
    over: str = "right",
    sign: bool = True,
    digits: int | None = None,
) -> float:
    """Rounded, and the ways to get it wrong. to_whole: on the grid. lowest: exponent of the
    spacing. over: "right", "infinite", "largest", "cut" (the largest at once), "grows" (no end).
    digits: of the fraction."""
    if math.isnan(x) or x == 0.0:
        return x if sign else abs(x)
    size = abs(x)
    if math.isfinite(size):
        exponent = math.frexp(size)[1] - 1
        bottom = kind.smallest_exponent if lowest is None else lowest
        spacing = max(exponent, bottom) - (kind.fraction_bits if digits is None else digits)
        steps = to_whole(Fraction(size) / Fraction(2) ** spacing)
        size = math.ldexp(steps, spacing)
    size = _ended(abs(x), size, kind, over)
    return math.copysign(size, x) if sign or size else 0.0


def _ended(x: float, size: float, kind: Format, over: str) -> float:
    if over == "grows" or (size <= kind.largest and not (over == "cut" and x > kind.largest)):
        return size
    if over == "cut":
        return kind.largest if kind.finite else math.inf
    stays = kind.finite if over == "right" else over == "largest"
    return kind.largest if stays else math.inf


def _away(n: Fraction) -> int:
    return math.floor(n + Fraction(1, 2))


def _down(n: Fraction) -> int:
    return math.ceil(n - Fraction(1, 2))


def _upward(to_whole: Callable[[Fraction], int]) -> Callable[[float, Format], float]:
    """Rounded by `to_whole` of x itself, not of |x|."""

    def answer(x: float, kind: Format) -> float:
        sign = -1 if x < 0 else 1
        return _grid(x, kind, to_whole=lambda n: sign * to_whole(sign * n))

    return answer


def _of_ones(kind: Format) -> float:
    """What the pattern of ones would be, were it a number."""
    return math.ldexp(2 - 2.0**-kind.fraction_bits, kind.bias + 1)


def _ending(
    x: float, kind: Format, largest: float, over: float, lowest: int | None = None
) -> float:
    """With another largest number, another number over it, and another smallest exponent."""
    size = abs(_grid(x, kind, over="grows", lowest=lowest))
    return math.copysign(over if size > largest else size, x) if x == x else x


def _rounds_up(x: float, kind: Format) -> bool:
    """Whether log2 of this x in float32 is one more than its exponent, and the spacing with it."""
    exponent = math.frexp(x)[1] - 1
    if x == 0.0 or not math.isfinite(x) or exponent < kind.smallest_exponent:
        return False
    return math.floor(torch.tensor(abs(x)).log2().item()) > exponent


def _wrong(name: str, sentence: str, answer: Callable[[float, Format], float]) -> None:
    def given(x: Tensor, exponent_bits: int, fraction_bits: int, finite: bool) -> Tensor:
        kind = Format(exponent_bits, fraction_bits, finite)
        return _all(lambda n: answer(n, kind), x)

    rounded.wrong(name, sentence, rounded=given)


_wrong(
    "cut_off",
    "This rounds toward zero, as where the bits that do not fit are cut off. The nearest number "
    "may be the next one.",
    lambda x, kind: _grid(x, kind, to_whole=math.floor),
)
_wrong(
    "half_away",
    "Right but for ties, which were all rounded away from zero. Of two numbers that are as near, "
    "take the one whose last bit is 0, else sums drift.",
    lambda x, kind: _grid(x, kind, to_whole=_away),
)
_wrong(
    "half_down",
    "Right but for ties, which were all rounded toward zero. Of two numbers that are as near, take "
    "the one whose last bit is 0.",
    lambda x, kind: _grid(x, kind, to_whole=_down),
)
_wrong(
    "away_from_zero",
    "Everything between two numbers was rounded away from zero, also what is nearer to the other.",
    lambda x, kind: _grid(x, kind, to_whole=math.ceil),
)
_wrong(
    "no_subnormals",
    "Right for normal numbers. Below the smallest of them the spacing stays as it is there: here "
    "the grid grew finer and finer, as if the exponent had no end.",
    lambda x, kind: _grid(x, kind, lowest=-200),
)
_wrong(
    "subnormals_to_zero",
    "What is below the smallest normal number became zero. The format has subnormal numbers there.",
    lambda x, kind: (
        math.copysign(0.0, x) if abs(x) < 2.0**kind.smallest_exponent else kind.nearest(x)
    ),
)
_wrong(
    "rounded_twice",
    "x was rounded twice: to fraction_bits first, which can make it a tie of the subnormal "
    "numbers, then to their grid. Round once, to the grid.",
    lambda x, kind: kind.nearest(_grid(x, kind, lowest=-200, over="grows")),
)
_wrong(
    "no_end",
    "What is too large for the format was kept. Over its largest number there is infinity, or, "
    "where it has none, the largest number.",
    lambda x, kind: _grid(x, kind, over="grows"),
)
_wrong(
    "always_infinite",
    "A `finite` format has no infinity: what is too large becomes its largest number.",
    lambda x, kind: _grid(x, kind, over="infinite"),
)
_wrong(
    "never_infinite",
    "What is too large became the largest number. That is so in `finite` formats alone: elsewhere "
    "it is infinity, and a loss scaler needs to see it.",
    lambda x, kind: _grid(x, kind, over="largest"),
)
_wrong(
    "overflow_before_rounding",
    "What is over the largest number by less than half a spacing became infinite. It still rounds "
    "to the largest: compare what was rounded, not x.",
    lambda x, kind: _grid(x, kind, over="cut"),
)
_wrong(
    "ends_as_if_infinite",
    "In a `finite` format the highest exponent holds numbers as well, so that the largest one is "
    "larger: 448 for float8_e4m3fn, not 240.",
    lambda x, kind: (
        kind.nearest(x)
        if math.isnan(x) or not kind.finite
        else math.copysign(min(abs(Format(*kind[:2]).nearest(x)), Format(*kind[:2]).largest), x)
    ),
)
_wrong(
    "nan_as_largest",
    "NaN became a number. It has no nearest one, and must stay visible.",
    lambda x, kind: kind.largest if math.isnan(x) else kind.nearest(x),
)
_wrong(
    "zero_without_sign",
    "Almost: what rounds to zero keeps its sign, so -0.0.",
    lambda x, kind: _grid(x, kind, sign=False),
)
_wrong(
    "half_upward",
    "Ties were all rounded up, as by floor(n + 0.5). Of two numbers that are as near, take the "
    "one whose last bit is 0.",
    _upward(_away),
)
_wrong(
    "upward",
    "Everything between two numbers was rounded up. The nearest may be the lower one.",
    _upward(math.ceil),
)
_wrong(
    "downward",
    "Everything between two numbers was rounded down. The nearest may be the upper one.",
    _upward(math.floor),
)
_wrong(
    "one_digit_less",
    "The spacing is twice as large as it is. From one power of two to the next there are "
    "2**fraction_bits numbers.",
    lambda x, kind: _grid(x, kind, digits=kind.fraction_bits - 1),
)
_wrong(
    "all_finite",
    "Every format was taken for a `finite` one. Where it is not, the highest exponent holds no "
    "numbers, and what is too large is infinite.",
    lambda x, kind: Format(*kind[:2], finite=True).nearest(x),
)
_wrong(
    "none_finite",
    "Here `finite` changes nothing. In such a format the highest exponent holds numbers, and what "
    "is too large becomes the largest of them.",
    lambda x, kind: Format(*kind[:2]).nearest(x),
)
_wrong(
    "pattern_of_ones_is_a_number",
    "In a `finite` format the fraction of ones at the highest exponent is NaN. The largest number "
    "is the one before it: 448 for float8_e4m3fn, not 480.",
    lambda x, kind: (
        _ending(x, kind, _of_ones(kind), _of_ones(kind)) if kind.finite else kind.nearest(x)
    ),
)
_wrong(
    "always_448",
    "448 is the largest number of float8_e4m3fn. Another `finite` format has another.",
    lambda x, kind: _ending(x, kind, 448.0, 448.0) if kind.finite else kind.nearest(x),
)
_wrong(
    "infinity_stays",
    "Infinity stayed infinite in a `finite` format. It becomes the largest number there.",
    lambda x, kind: x if math.isinf(x) else kind.nearest(x),
)
_wrong(
    "infinity_as_nan",
    "Infinity became NaN, as inf / inf is. It stays, or becomes the largest number of a `finite` "
    "format.",
    lambda x, kind: math.nan if math.isinf(x) else kind.nearest(x),
)
_wrong(
    "overflow_as_nan",
    "In a `finite` format what is too large became NaN. It becomes the largest number.",
    lambda x, kind: (
        math.nan
        if kind.finite
        and abs(Format(*kind[:2], True).nearest(x)) == kind.largest
        and abs(_grid(x, kind, over="grows")) > kind.largest
        else kind.nearest(x)
    ),
)
_wrong(
    "infinity_without_sign",
    "What is too large on the negative side became +inf. It keeps its sign.",
    lambda x, kind: abs(kind.nearest(x)) if math.isinf(kind.nearest(x)) else kind.nearest(x),
)
_wrong(
    "nan_as_zero",
    "NaN became 0. It has no nearest number, and must stay visible.",
    lambda x, kind: 0.0 if math.isnan(x) else kind.nearest(x),
)
_wrong(
    "always_bfloat16",
    "x was rounded to bfloat16, whatever the format is.",
    lambda x, kind: BFLOAT16.nearest(x),
)
_wrong(
    "bias_one_more",
    "The bias is one too large, so both ends of the format are at the wrong place. It is "
    "2**(exponent_bits - 1) - 1.",
    lambda x, kind: _ending(
        x,
        kind,
        2 * kind.largest,
        2 * kind.largest if kind.finite else math.inf,
        kind.smallest_exponent - 1,
    ),
)
_wrong(
    "subnormals_half",
    "The smallest numbers are half as large as they are. The spacing at the lower end is that of "
    "the exponent 1 - bias.",
    lambda x, kind: _grid(x, kind, lowest=kind.smallest_exponent - 1),
)
_wrong(
    "power_above",
    "The spacing is that above the next power of two, twice as large: torch.frexp's exponent is "
    "one more than that of 1.fraction.",
    lambda x, kind: _grid(
        x, kind, digits=kind.fraction_bits - (math.frexp(x)[1] > kind.smallest_exponent)
    ),
)
_wrong(
    "rounded_logarithm",
    "Almost: log2 of a number just below a power of two rounds to a whole number. torch.frexp "
    "takes the exponent from the bits.",
    lambda x, kind: _grid(x, kind, digits=kind.fraction_bits - _rounds_up(x, kind)),
)
_wrong(
    "rounded_to_plus_zero",
    "Almost: what rounds to zero keeps its sign, so -0.0.",
    lambda x, kind: kind.nearest(x) or (x if x == 0 else 0.0),
)


def _in_dtype(name: str, sentence: str, change: Callable[[Tensor], Tensor]) -> None:
    rounded.wrong(
        name,
        sentence,
        rounded=lambda x, exponent_bits, fraction_bits, finite: change(
            _all(Format(exponent_bits, fraction_bits, finite).nearest, x)
        ),
    )


_in_dtype(
    "in_float64",
    "The numbers are right, and came in float64. They are asked in float32.",
    lambda near: near.double(),
)
_in_dtype(
    "in_bfloat16",
    "The numbers came in bfloat16. They are asked in float32, whatever the format is.",
    lambda near: near.bfloat16(),
)
_in_dtype("flat", "The result is flat. It has the shape of x.", lambda near: near.flatten())


@rounded.wrong("x_written", "x itself was written into. Make a new tensor.")
def _(x: Tensor, exponent_bits: int, fraction_bits: int, finite: bool) -> Tensor:
    near = _all(Format(exponent_bits, fraction_bits, finite).nearest, x)
    return x.detach().copy_(near)


@rounded.cost
def _(student: Student, draw: Draw) -> str:
    x = torch.tensor([1 / 3], dtype=torch.float32)
    errors = []
    for kind in (FLOAT16, BFLOAT16, E5M2):
        got = student.call("rounded", x, *kind)
        errors.append(f"{abs(got.item() - x.item()) / x.item():.1e}")
    return f"a third is off by {', '.join(errors)} in float16, bfloat16 and float8_e5m2"
