"""Stochastic rounding: up or down by chance, where the chance is given as whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograder.judge import Draw, Student

from . import lab
from .exactly import expect_elements
from .formats import FLOAT32, Format

_ENDS = torch.tensor(
    [255 << 23, -1 << 23, 0, -1 << 31, 2**31 - 1, (255 << 23) + 1], dtype=torch.int32
)
"""Patterns: both infinities, both zeros, the NaN of all ones and the one of a single one."""


@lab.question(
    "rounded_by_chance",
    points=4,
    minutes=9,
    difficulty=3,
    hints=(
        "A float32 and the format share their exponents. Which of float32's 32 bits go?",
        "The last 23 - fraction_bits ones are the rest. Read the float's bits as a whole number, "
        "add the random one, and clear those bits: a carry goes into the fraction, and on into the "
        "exponent. NaN needs a word of its own.",
        "(x.view(torch.int32) + random) & -(2 ** (23 - fraction_bits))",
    ),
)
def rounded_by_chance(student: Student, draw: Draw) -> None:
    """x rounded to one of its two neighbours with `fraction_bits` of fraction: away from zero where
    the rest and the random number together reach a whole spacing.

    x (float32, any shape), random (int32, the shape of x, 0 <= random < 2**(23 - fraction_bits)),
    fraction_bits -> float32, the shape of x.
    """
    asked = [(x, _random(x, bits, draw), bits) for bits in _fractions(draw) for x in _inputs(draw)]
    asked += [_at_the_border(bits, draw) for bits in (7, 3, 11, 1, 20)]
    answers = student.each("rounded_by_chance", asked)
    for (x, random, bits), got in zip(asked, answers, strict=True):
        want = _all(partial(_chosen, bits=bits), x, random)
        why = partial(_why, kind=Format(8, bits))
        expect_elements(got, want, x, where=f"to {bits} fraction bits", why=why)


def _why(x: float, want: float, came: float, *, kind: Format) -> str:
    """What is true of this element."""
    if not math.isfinite(x):
        return _STAYS
    if came == -want:
        return _ITS_SIGN
    if math.isnan(came):
        return _NO_NAN
    if kind.nearest(came) != came:
        if came == x:
            return _AS_IT_WAS
        return _NOT_CUT if abs(x) >= 2.0**kind.smallest_exponent else _NOT_CUT_BELOW
    if abs(want) > abs(x):
        return _INFINITE if math.isinf(want) else _REACHED
    return _NO_REST if want == x else _NOT_REACHED


_STAYS = "Infinity and NaN stay as they are."
_ITS_SIGN = "The size is right. The sign is that of x."
_NO_NAN = "Only NaN becomes NaN."
_AS_IT_WAS = (
    "This x came back as it was, rest and all. One of its two neighbours in the format is asked, "
    "whatever `random` is."
)
_NOT_CUT = "The format has no such number: behind its fraction all bits of float32 are 0."
_NOT_CUT_BELOW = (
    "The format has no such number. Below the smallest normal number the spacing stays: the rest "
    "is in the last 23 - fraction_bits bits of the pattern here too, and these are 0 at the end."
)
_REACHED = (
    "At this x the rest and its random number together reach 2 ** (23 - fraction_bits): the "
    "neighbour away from zero is asked, of a negative x the smaller one."
)
_INFINITE = (
    "At this x the rest and its random number together reach 2 ** (23 - fraction_bits), and over "
    "the largest number there is infinity."
)
_NO_REST = "This x is a number of the format: its rest is 0, and no random number moves it."
_NOT_REACHED = (
    "At this x the rest and its random number together stay below 2 ** (23 - fraction_bits): the "
    "neighbour toward zero is asked, of a negative x the larger one."
)


def _fractions(draw: Draw) -> list[int]:
    return [7, 10, *(draw.integer(2, 14) for _ in draw.cases(2))]


def _inputs(draw: Draw) -> list[Tensor]:
    """Normal numbers in any layout; one, none; subnormal ones; and the ends."""
    rows, layout = draw.integer(2, 5), draw.layout()
    usual = [draw.tensor(rows, 7, layout=layout), draw.tensor(), draw.tensor(0, 2)]
    leaf = draw.tensor(3, draw.integer(8, 11), layout="transposed", requires_grad=True)
    tiny = draw.tensor(6) * 2.0**-130
    largest = torch.tensor(FLOAT32.largest)
    return [*usual, leaf, tiny, torch.stack([largest, -largest]), _ENDS.view(torch.float32)]


def _random(x: Tensor, bits: int, draw: Draw) -> Tensor:
    """Any, but for the ends: the largest there is, and none."""
    most = 2 ** (23 - bits) - 1
    if x.numel() in (2, 6):
        return torch.full(x.shape, most, dtype=torch.int32)
    return draw.integers(*x.shape, low=0, high=most).to(torch.int32)


def _at_the_border(bits: int, draw: Draw) -> tuple[Tensor, Tensor, int]:
    """Rests that reach a spacing by one, and fail by one, at several numbers of one size; no rest
    at all, which no random number moves; and float32's largest number, which stays without one."""
    whole = 2 ** (23 - bits)
    rests = [draw.integer(1, whole - 2) for _ in range(3)]
    pairs = [(rest, whole - rest - short) for rest in rests for short in (0, 1)]
    pairs += [(0, whole - 1), (whole - 1, 0), (whole - 1, 1), (whole // 2, 0)]
    fields = [(127 << 23) + draw.integer(0, 2**bits - 1) * whole + rest for rest, _ in pairs]
    pairs += [(whole - 1, 0)] * 2
    fields += [(255 << 23) - 1] * 2
    patterns = torch.tensor(fields, dtype=torch.int32)
    signs = torch.tensor([-1.0, 1.0] * (len(pairs) // 2))
    x = patterns.view(torch.float32) * signs
    return x, torch.tensor([random for _, random in pairs], dtype=torch.int32), bits


def _all(answer: Callable[[float, int], float], x: Tensor, random: Tensor) -> Tensor:
    pairs = zip(x.detach().flatten().tolist(), random.flatten().tolist(), strict=True)
    numbers = [answer(n, r) for n, r in pairs]
    return torch.tensor(numbers, dtype=torch.float32).reshape(x.shape)


def _chosen(
    x: float,
    random: int,
    bits: int,
    *,
    carries: Callable[[int, int, int], bool] = lambda rest, random, whole: rest + random >= whole,
    toward: str = "away",
) -> float:
    """The chosen neighbour, and the ways to choose another one. carries: (rest, random, spacing),
    in units of float32's last place."""
    if not math.isfinite(x):
        return x
    whole = 2 ** (23 - bits)
    units = int(math.ldexp(abs(x), -FLOAT32.spacing_exponent(x)))
    steps, rest = divmod(units, whole)
    if toward == "up" and x < 0 and rest:  # the neighbour below, and the rest from there
        up = carries(whole - rest, random, whole)
        steps += not up
    else:
        steps += carries(rest, random, whole)
    size = math.ldexp(steps * whole, FLOAT32.spacing_exponent(x))
    return math.copysign(size if size <= FLOAT32.largest else math.inf, x)


def _wrong(
    name: str, sentence: str, answer: Callable[[float, int, int], float], *, twice: bool = True
) -> None:
    """The result in a new order in memory, and, `twice`, in that of x."""

    def given(x: Tensor, random: Tensor, fraction_bits: int) -> Tensor:
        return _all(lambda n, r: answer(n, r, fraction_bits), x, random)

    rounded_by_chance.wrong(name, sentence, rounded_by_chance=given)
    if twice:
        rounded_by_chance.wrong(
            f"{name}_laid_as_x",
            sentence,
            rounded_by_chance=lambda x, random, fraction_bits: torch.empty_like(x.detach()).copy_(
                given(x, random, fraction_bits)
            ),
        )


_wrong(
    "nearest",
    "This rounds to the nearest number, whatever `random` is. A sum of such numbers can stand "
    "still: by chance each term counts on average.",
    lambda x, random, bits: Format(8, bits).nearest(x),
    twice=False,
)
_wrong(
    "cut_off",
    "The rest was cut off, whatever `random` is.",
    lambda x, random, bits: _chosen(x, 0, bits),
    twice=False,
)
_wrong(
    "added_after",
    "`random` decides, and the rest does not: each number moves with the same chance, also one "
    "that has no rest.",
    lambda x, random, bits: _chosen(
        x, random, bits, carries=lambda rest, random, whole: random >= whole / 2
    ),
)
_wrong(
    "other_end",
    "The chance is right, and the numbers that move are others: a small `random` moves here. The "
    "rest and `random` together have to reach a whole spacing.",
    lambda x, random, bits: _chosen(
        x, random, bits, carries=lambda rest, random, whole: random < rest
    ),
)
_wrong(
    "one_too_few",
    "Almost: the rest and `random` together reach a whole spacing, and the number stays. Reaching "
    "it is enough.",
    lambda x, random, bits: _chosen(
        x, random, bits, carries=lambda rest, random, whole: rest + random > whole
    ),
)
_wrong(
    "one_too_many",
    "Almost: one unit is missing to a whole spacing, and the number moves.",
    lambda x, random, bits: _chosen(
        x, random, bits, carries=lambda rest, random, whole: rest + random >= whole - 1
    ),
)
_wrong(
    "upward",
    "Right for positive numbers. The rest of a negative one is that of |x| too: where the sum "
    "reaches the step, |x| is rounded up, away from zero.",
    lambda x, random, bits: _chosen(x, random, bits, toward="up"),
)
_wrong(
    "reaching_means_larger",
    "Right for positive numbers. Where rest and `random` reach a whole spacing, a negative one "
    "moves away from zero too, to the smaller neighbour: here it went to the larger one.",
    lambda x, random, bits: _chosen(
        x,
        random,
        bits,
        carries=lambda rest, random, whole: (
            rest > 0 and (rest + random >= whole) == (math.copysign(1.0, x) > 0)
        ),
    ),
)
_wrong(
    "always_seven_bits",
    "7 bits of the fraction are kept, as in bfloat16. Here `fraction_bits` says how many.",
    lambda x, random, bits: _chosen(x, random, 7),
)
_wrong(
    "no_infinity",
    "What is carried over the largest number is infinite. Here it stayed finite.",
    lambda x, random, bits: (
        max(min(_chosen(x, random, bits), Format(8, bits).largest), -Format(8, bits).largest)
        if math.isfinite(x)
        else x
    ),
)

_wrong(
    "largest_moves",
    "What lies over the format's largest number became infinite though `random` does not reach "
    "it. The largest number is the neighbour toward zero there.",
    lambda x, random, bits: (
        math.copysign(math.inf, x) if abs(x) > Format(8, bits).largest else _chosen(x, random, bits)
    ),
)


@rounded_by_chance.wrong(
    "nan_counts_on",
    "NaN is a pattern too: where its rest and `random` reach a whole spacing, the carry can run "
    "through the exponent into the sign, and a number comes out. Keep NaN as it is.",
)
def _(x: Tensor, random: Tensor, fraction_bits: int) -> Tensor:
    summed = x.detach().contiguous().view(torch.int32) + random
    cut: Tensor = summed & -(2 ** (23 - fraction_bits))
    return cut.view(torch.float32)


@rounded_by_chance.wrong(
    "one_for_all",
    "One random number was used for all elements. They then move together, and their errors do not "
    "cancel.",
)
def _(x: Tensor, random: Tensor, fraction_bits: int) -> Tensor:
    first = random.flatten()[:1].expand(x.numel())
    return _all(lambda n, r: _chosen(n, r, fraction_bits), x, first)


def _bits_of(x: Tensor) -> Tensor:
    return x.detach().contiguous().view(torch.int32)


def _by_bits(x: Tensor, added: Tensor, fraction_bits: int, nan: bool = True) -> Tensor:
    moved = ((_bits_of(x) + added) & -(2 ** (23 - fraction_bits))).view(torch.float32)
    return torch.where(x.detach().isnan(), x.detach(), moved) if nan else moved


rounded_by_chance.wrong(
    "cut_off_with_the_bits",
    "The rest was cut off, whatever `random` is.",
    rounded_by_chance=lambda x, random, fraction_bits: _by_bits(
        x, torch.zeros_like(random), fraction_bits
    ),
)
rounded_by_chance.wrong(
    "half_added",
    "This rounds to the nearest number, whatever `random` is, as where half a distance is added "
    "to the bits.",
    rounded_by_chance=lambda x, random, fraction_bits: _by_bits(
        x, torch.full_like(random, 2 ** (22 - fraction_bits)), fraction_bits
    ),
)
rounded_by_chance.wrong(
    "one_more_added",
    "A rest and a random number that together stay one below the distance moved the number.",
    rounded_by_chance=lambda x, random, fraction_bits: _by_bits(x, random + 1, fraction_bits),
)
rounded_by_chance.wrong(
    "first_number_for_all",
    "Every element got the first random number. Each has one of its own.",
    rounded_by_chance=lambda x, random, fraction_bits: _by_bits(
        x, random.flatten()[:1].expand(random.shape), fraction_bits
    ),
)
rounded_by_chance.wrong(
    "subtracted_below_zero",
    "Negative numbers went the other way. The bits after the sign are those of |x|: adding moves "
    "away from zero on both sides.",
    rounded_by_chance=lambda x, random, fraction_bits: _by_bits(
        x, random.where(_bits_of(x) >= 0, -random), fraction_bits
    ),
)
rounded_by_chance.wrong(
    "one_bit_too_many",
    "One bit of the fraction too many is kept: `fraction_bits` of them stay.",
    rounded_by_chance=lambda x, random, fraction_bits: torch.where(
        x.detach().isnan(),
        x.detach(),
        ((_bits_of(x) + random) & -(2 ** (22 - fraction_bits))).view(torch.float32),
    ),
)


def _strided(
    name: str,
    sentence: str,
    answer: Callable[[Tensor, Tensor, int], Tensor],
    *,
    twice: bool = True,
) -> None:
    """What is done with the bits of x as they lie, and, `twice`, with x made contiguous."""
    for end, of in (("", Tensor.contiguous), ("_as_it_lies", lambda x: x))[not twice :]:
        rounded_by_chance.wrong(
            name + end,
            sentence,
            rounded_by_chance=lambda x, random, fraction_bits, of=of: answer(
                of(x.detach()), random, fraction_bits
            ),
        )


def _moved(x: Tensor, added: Any, bits: int, mask: int | None = None, end: Any = None) -> Tensor:
    """`added` to the bits of x, and the rest cut off. end: what becomes of what is not finite."""
    keep = -(2 ** (23 - bits)) if mask is None else mask
    near: Tensor = ((x.view(torch.int32) + added) & keep).view(torch.float32)
    return near.where(~x.isnan(), x if end is None else end)


_strided(
    "cut_off",
    "The rest was cut off, whatever `random` is.",
    lambda x, random, bits: _moved(x, 0, bits),
    twice=False,
)
_strided(
    "half_added",
    "This rounds to the nearest number, whatever `random` is, as where half a distance is added "
    "to the bits.",
    lambda x, random, bits: _moved(x, 2 ** (22 - bits), bits),
    twice=False,
)
_strided(
    "always_away",
    "Each number with a rest moved away from zero, whatever `random` is, as where a whole "
    "distance less one is added.",
    lambda x, random, bits: _moved(x, 2 ** (23 - bits) - 1, bits),
)
_strided(
    "one_more",
    "A rest and a random number that together stay one below the distance moved the number.",
    lambda x, random, bits: _moved(x, random + 1, bits),
    twice=False,
)
_strided(
    "nan_moves",
    "NaN is a pattern too: where its rest and `random` reach a whole spacing, the carry can run "
    "through the exponent into the sign, and a number comes out. Keep NaN as it is.",
    lambda x, random, bits: ((x.view(torch.int32) + random) & -(2 ** (23 - bits))).view(
        torch.float32
    ),
    twice=False,
)
_strided(
    "nan_as_zero",
    "NaN became 0. It stays NaN.",
    lambda x, random, bits: _moved(x, random, bits, end=torch.tensor(0.0, dtype=torch.float32)),
)
_strided(
    "infinity_as_nan",
    "Infinity became NaN. It stays infinite: only NaN needs a word of its own.",
    lambda x, random, bits: _moved(x, random, bits).where(~x.isinf(), math.nan),
)
_strided(
    "seven_bits",
    "7 bits of the fraction are kept, as in bfloat16. Here `fraction_bits` says how many.",
    lambda x, random, bits: _moved(x, random, bits, mask=-(2**16)),
)
_strided(
    "seven_bits_of_finite_ones",
    "7 bits of the fraction are kept, as in bfloat16. Here `fraction_bits` says how many.",
    lambda x, random, bits: _moved(x, random, bits, mask=-(2**16)).where(x.isfinite(), x),
)
_strided(
    "fraction_bits_cut",
    "`fraction_bits` bits were cut off. That many stay: 23 - fraction_bits go.",
    lambda x, random, bits: _moved(x, random, bits, mask=-(2**bits)),
)
_strided(
    "fraction_bits_cut_of_finite_ones",
    "`fraction_bits` bits were cut off. That many stay: 23 - fraction_bits go.",
    lambda x, random, bits: _moved(x, random, bits, mask=-(2**bits)).where(x.isfinite(), x),
)
_strided(
    "not_cut",
    "`random` was added, and the rest is still there. The last 23 - fraction_bits bits have to be "
    "0.",
    lambda x, random, bits: _moved(x, random, bits, mask=-1),
)
_strided(
    "subtracted",
    "`random` was subtracted. Added to the rest, it carries where both reach the distance.",
    lambda x, random, bits: _moved(x, -random, bits),
)
_strided(
    "subnormals_to_zero",
    "Subnormal numbers became zero. They are rounded like any other.",
    lambda x, random, bits: _moved(x, random, bits).where(
        ~(_moved(x, random, bits).abs() < 2.0**-126), 0.0
    ),
)
_strided(
    "as_bfloat16",
    "The result is bfloat16. It is asked in float32, whatever `fraction_bits` is.",
    lambda x, random, bits: _moved(x, random, bits).bfloat16(),
)
_strided(
    "flat",
    "The result is flat. It has the shape of x.",
    lambda x, random, bits: _moved(x, random, bits).flatten(),
)
_wrong(
    "larger_random_moves",
    "The number moves where `random` is at least the rest. So a small rest moves most often; it "
    "should move least often. Rest and `random` together have to reach a whole spacing.",
    lambda x, random, bits: _chosen(
        x, random, bits, carries=lambda rest, random, whole: random >= rest
    ),
)


@rounded_by_chance.wrong("x_written", "x itself was written into. Make a new tensor.")
def _(x: Tensor, random: Tensor, fraction_bits: int) -> Tensor:
    bits = x.detach().view(torch.int32)
    bits += random
    bits &= -(2 ** (23 - fraction_bits))
    return x


@rounded_by_chance.wrong(
    "contiguous_only",
    "`view` cannot give every x that is not contiguous another shape. Make it contiguous first, "
    "or keep its shape.",
)
def _(x: Tensor, random: Tensor, fraction_bits: int) -> Tensor:
    return _moved(x.detach().view(-1), random.view(-1), fraction_bits).view(x.shape)


@rounded_by_chance.cost
def _(student: Student, draw: Draw) -> str:
    x = torch.full((4096,), 1.001, dtype=torch.float32)
    mean = student.call("rounded_by_chance", x, _random(x, 7, draw), 7).mean().item()
    return f"1.001 becomes 1 or 1.0078125 in 8 binary digits: {mean:.4f} in the mean of 4096"
