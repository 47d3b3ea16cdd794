"""The formats of a float: how many bits of exponent and of fraction, and what torch stores in them.

Each has one bit of sign in front. No rounding of ours: torch converts, and its bits are read.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

_TF32_TAIL = 13  # bits of a float32's fraction that tensor cores leave out
_INTEGERS = {8: torch.int8, 16: torch.int16, 32: torch.int32}


@dataclass(frozen=True)
class Format:
    """A format by name. `dtype` is torch's; tf32 has none, and is a float32 that ends in zeros."""

    name: str
    exponent_bits: int
    fraction_bits: int
    dtype: torch.dtype

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def _tail(self) -> int:
        """Bits of the dtype that are behind the fraction."""
        return 8 * self.dtype.itemsize - self.bits


FORMATS = {
    form.name: form
    for form in (
        Format("fp32", 8, 23, torch.float32),
        Format("tf32", 8, 10, torch.float32),
        Format("bf16", 8, 7, torch.bfloat16),
        Format("fp16", 5, 10, torch.float16),
        Format("e5m2", 5, 2, torch.float8_e5m2),
        Format("e4m3fn", 4, 3, torch.float8_e4m3fn),
    )
}


def pattern_of(value: float, form: Format) -> int:
    """The bits that torch stores for a number, as an integer from 0 to 2**bits - 1."""
    x = torch.tensor(value, dtype=torch.float32)
    x = _ten_bits(x) if form.name == "tf32" else x.to(form.dtype)
    stored = int(x.view(_INTEGERS[8 * x.itemsize]).item()) >> form._tail
    return stored & ((1 << form.bits) - 1)  # without the sign of an integer


def value_of(pattern: int, form: Format) -> float:
    """The number that torch reads from these bits."""
    wide = pattern << form._tail
    size = 8 * form.dtype.itemsize
    signed = wide - 2**size if wide >= 2 ** (size - 1) else wide
    return float(torch.tensor(signed, dtype=_INTEGERS[size]).view(form.dtype).float().item())


def in_groups(pattern: int, form: Format) -> str:
    """The bits as text, with a gap behind the sign and behind the exponent."""
    text = f"{pattern:0{form.bits}b}"
    return f"{text[0]} {text[1 : 1 + form.exponent_bits]} {text[1 + form.exponent_bits :]}"


def _ten_bits(x: Tensor) -> Tensor:
    """A float32 with ten bits of fraction: a float16 has as many for numbers from a half to 1."""
    fraction, exponent = torch.frexp(x)
    return torch.ldexp(fraction.half().float(), exponent)
