"""Floating-point formats as a model: what a pattern of bits is worth, and which number is nearest.

Exact: whole numbers, fractions and powers of two. float64 holds every number of a format with at
most 11 exponent bits and 52 fraction bits, which is itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Format(NamedTuple):
    """A sign, then `exponent_bits`, then `fraction_bits`, as IEEE 754 has it.

    finite: as float8_e4m3fn, no infinity: the highest exponent holds numbers as well, but for the
    fraction of ones, which is NaN; what is too large becomes the largest number.
    """

    exponent_bits: int
    fraction_bits: int
    finite: bool = False

    @property
    def bias(self) -> int:
        return int(2 ** (self.exponent_bits - 1)) - 1

    @property
    def smallest_exponent(self) -> int:
        """Of a normal number. The subnormal ones below have its spacing."""
        return 1 - self.bias

    @property
    def largest(self) -> float:
        """The largest number."""
        ones = 2 ** (self.fraction_bits + 1) - (2 if self.finite else 1)
        return math.ldexp(ones, self.bias + self.finite - self.fraction_bits)

    def value(self, bits: int) -> float:
        """What this pattern is worth; float NaN for all NaNs."""
        sign, exponent, fraction = self.fields(bits)
        number = self._size(exponent, fraction)
        return -number if sign else number

    def fields(self, bits: int) -> tuple[int, int, int]:
        """(sign, exponent, fraction) as unsigned whole numbers."""
        fraction = bits % 2**self.fraction_bits
        exponent = (bits >> self.fraction_bits) % 2**self.exponent_bits
        return bits >> (self.exponent_bits + self.fraction_bits), exponent, fraction

    def _size(self, exponent: int, fraction: int) -> float:
        if exponent == 2**self.exponent_bits - 1:
            return math.nan if fraction else math.inf
        ones = fraction + (2**self.fraction_bits if exponent else 0)
        return math.ldexp(ones, max(exponent, 1) - self.bias - self.fraction_bits)

    def spacing_exponent(self, x: float) -> int:
        """The power of two between neighbours at finite x, from |x| away from zero."""
        exponent = math.frexp(x)[1] - 1 if x else self.smallest_exponent
        return max(exponent, self.smallest_exponent) - self.fraction_bits

    def nearest(self, x: float) -> float:
        """The nearest number; of two, the one whose last bit is 0; what rounds over the largest is
        infinite, or the largest where the format is `finite`."""
        if math.isnan(x):
            return x
        size = abs(x) if math.isinf(x) else self._rounded(abs(x))
        if size > self.largest:
            size = self.largest if self.finite else math.inf
        return math.copysign(size, x)

    def _rounded(self, size: float) -> float:
        spacing = self.spacing_exponent(size)
        steps = round(math.ldexp(size, -spacing))  # exact, a power of two; half to even
        return math.ldexp(steps, spacing)


BFLOAT16, FLOAT16, FLOAT32 = Format(8, 7), Format(5, 10), Format(8, 23)
E5M2, E4M3FN = Format(5, 2), Format(4, 3, finite=True)
