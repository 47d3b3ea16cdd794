# %% [markdown] id="title"
# # Lab 10: mixed precision
#
# A training run in 16 bits dies of few causes: a number is too large for its format, too small, or
# disappears in a sum. In this lab you read and round numbers of any format, predict what autocast
# makes of a program, write a `GradScaler`, repair a run that dies, and make the head's loss safe.
#
# Work from top to bottom, in about two hours, after
# [chapter 10](../../notebooks/10_mixed_precision.ipynb). No GPU is needed. Each question has a
# stub, a check that answers at once, and three hints. Only the cells with answers are graded, all
# of them together: keep your helper functions in them.

# %% id="setup" tags=["setup"]
import math

import torch
import torch.nn.functional as F

# isort: split
# %% id="instruments"
from autograder import check, hint, progress

# %% [markdown] id="formats"
# Of a number's bits the first is its sign, then come the **exponent** and the **fraction**. How
# many of each is the format:
#
# | | exponent | fraction | largest | smallest normal | smallest |
# |---|---|---|---|---|---|
# | `float32` | 8 | 23 | 3.4e38 | 1.2e-38 | 1.4e-45 |
# | `bfloat16` | 8 | 7 | 3.4e38 | 1.2e-38 | 9.2e-41 |
# | `float16` | 5 | 10 | 65504 | 6.1e-5 | 6.0e-8 |
# | `float8_e5m2` | 5 | 2 | 57344 | 6.1e-5 | 1.5e-5 |
#
# A **normal** number is 1.fraction times 2 to the power of exponent - bias, where the bias is 127
# of 8 exponent bits, 15 of 5. Two exponents mean something else. All bits 0: a **subnormal**
# number, 0.fraction times 2 to the power of 1 - bias. All bits 1: infinity where the fraction is 0,
# else NaN.

# %% [markdown] id="worked-example"
# ## Worked example: the number after 1
#
# The checks draw formats that torch does not have, so your functions take the format as two
# numbers. This one also works where no format of torch could tell it.


# %% id="worked-example-code" tags=["worked-example"]
def after_one(exponent_bits, fraction_bits):
    """-> (bits of 1.0, bits of the next larger number, that number)."""
    # 1.0 is 1.000... times 2 to the power of 0: its exponent field is the bias
    bias = 2 ** (exponent_bits - 1) - 1
    one = bias << fraction_bits
    # the next pattern is the next number, and its fraction is one unit
    return one, one + 1, 1 + 2.0**-fraction_bits


print(after_one(8, 7), torch.tensor(after_one(8, 7)[1], dtype=torch.int16).view(torch.bfloat16))

# %% [markdown] id="bits"
# ## What a pattern is worth
#
# Write the function that reads a pattern of bits: `bits` is a whole number, the sign its highest
# bit. There are two zeros. Stuck? `hint("value_of_bits")`


# %% id="value_of_bits" role="solution"
def value_of_bits(bits, exponent_bits, fraction_bits):
    """bits (int) of a format with so many exponent and fraction bits -> float."""
    ### BEGIN SOLUTION
    fraction = bits % 2**fraction_bits
    exponent = (bits >> fraction_bits) % 2**exponent_bits
    sign = -1.0 if bits >> (exponent_bits + fraction_bits) else 1.0
    if exponent == 2**exponent_bits - 1:
        return math.nan if fraction else sign * math.inf
    bias = 2 ** (exponent_bits - 1) - 1
    ones = fraction + 2**fraction_bits if exponent else fraction
    return sign * math.ldexp(ones, max(exponent, 1) - bias - fraction_bits)
    ### END SOLUTION


# %% id="value_of_bits_check" role="check"
check("value_of_bits")


# %% id="value_of_bits_alternative" role="alternative"
def value_of_bits(bits, exponent_bits, fraction_bits):
    """Digit by digit, on the text of the pattern."""
    text = format(bits, f"0{1 + exponent_bits + fraction_bits}b")
    sign, exponent, fraction = text[0], text[1 : 1 + exponent_bits], text[1 + exponent_bits :]
    tail = sum(int(digit) / 2**place for place, digit in enumerate(fraction, 1))
    if "0" not in exponent:
        size = math.nan if tail else math.inf
    elif "1" not in exponent:
        size = tail * 2.0 ** (2 - 2 ** (exponent_bits - 1))
    else:
        size = (1 + tail) * 2.0 ** (int(exponent, 2) - 2 ** (exponent_bits - 1) + 1)
    return torch.tensor(-size if sign == "1" else size, dtype=torch.float64)


# %% id="value_of_bits_alternative_torch" role="alternative"
def value_of_bits(bits, exponent_bits, fraction_bits):
    """As a float64: its exponent and fraction are wider, and torch reads it."""
    fraction = bits % 2**fraction_bits
    exponent = (bits >> fraction_bits) % 2**exponent_bits
    sign = bits >> (exponent_bits + fraction_bits)
    wide = exponent - (2 ** (exponent_bits - 1) - 1) + 1023
    if exponent == 2**exponent_bits - 1:
        wide = 2047
    elif exponent == 0:
        tiny = fraction * 2.0 ** (2 - 2 ** (exponent_bits - 1) - fraction_bits)
        return -tiny if sign else tiny
    pattern = (wide << 52) | (fraction << (52 - fraction_bits))
    size = torch.tensor(pattern, dtype=torch.int64).view(torch.float64).item()
    return -size if sign else size


# %% [markdown] id="rounding"
# ## To the nearest number
#
# What happens in `x.to(torch.bfloat16)`? Round each element of a float32 tensor to the nearest
# number of a format; where two are as near, to the one whose last bit is 0. The result is float32
# again: every number of these formats is one of float32 too.
#
# What is too large becomes infinity. It is too large if it would be rounded up to a number after
# the largest. A format may be `finite`, as `float8_e4m3fn` is: the highest exponent holds numbers
# like any other, only the fraction of ones there is NaN, and what is too large becomes the largest
# number, 448, also infinity. NaN stays NaN. Stuck? `hint("rounded")`


# %% id="rounded" role="solution"
def rounded(x, exponent_bits, fraction_bits, finite):
    """x (float32, any shape) -> the nearest numbers of the format, as float32."""
    ### BEGIN SOLUTION
    bias = 2 ** (exponent_bits - 1) - 1
    wide = x.detach().double()
    exponent = torch.frexp(wide).exponent - 1
    spacing = torch.ldexp(torch.ones_like(wide), exponent.clamp(min=1 - bias) - fraction_bits)
    near = torch.where(wide.isfinite(), torch.round(wide / spacing) * spacing, wide)
    if finite:
        largest = (2 - 2.0 ** (1 - fraction_bits)) * 2.0 ** (bias + 1)
        near = near.clamp(-largest, largest)
    else:
        largest = (2 - 2.0**-fraction_bits) * 2.0**bias
        near = torch.where(near.abs() > largest, math.inf * near.sign(), near)
    return near.float()
    ### END SOLUTION


# %% id="rounded_check" role="check"
check("rounded")


# %% id="rounded_alternative" role="alternative"
def rounded(x, exponent_bits, fraction_bits, finite):
    """On the bits: add half of the last place, a little less where it is even, and cut."""
    bits = x.detach().contiguous().view(torch.int32)
    sign, size = bits & -(2**31), (bits & (2**31 - 1)).long()
    bias = 2 ** (exponent_bits - 1) - 1
    field = size >> 23
    ones = torch.where(field > 0, (size & (2**23 - 1)) | 2**23, size & (2**23 - 1))
    # the number is ones * 2 ** (field - 150): how many of its bits are below the last that stays?
    below = (151 - bias - fraction_bits - field.clamp(min=1)).clamp(23 - fraction_bits, 40)
    kept = (ones + (1 << (below - 1)) - 1 + ((ones >> below) & 1)) >> below
    near = torch.ldexp(kept.double(), field.clamp(min=1) + below - 150)
    largest = (2 - 2.0**-fraction_bits * (2 if finite else 1)) * 2.0 ** (bias + finite)
    too_large = (near > largest) | (field == 255)
    near = torch.where(too_large, largest if finite else math.inf, near)
    near = torch.where(x.detach().isnan(), math.nan, near).float()
    return (near.view(torch.int32) | sign).view(torch.float32)


# %% id="rounded_alternative_sums" role="alternative"
def rounded(x, exponent_bits, fraction_bits, finite):
    """By a sum that has no room for the other digits, in float64, number by number."""
    bias = 2 ** (exponent_bits - 1) - 1
    top = 2.0 ** (bias + finite) * (2 - 2.0 ** (finite - fraction_bits))

    def near(n):
        if not math.isfinite(n):
            return math.copysign(top, n) if finite and n == n else n
        _, exponent = math.frexp(n)
        anchor = math.ldexp(3.0, 51 + max(exponent - 1, 1 - bias) - fraction_bits)
        size = anchor + abs(n) - anchor
        if size > top:
            size = top if finite else math.inf
        return math.copysign(size, n)

    numbers = [near(n) for n in x.detach().double().flatten().tolist()]
    return torch.tensor(numbers, dtype=torch.float32).view(x.shape)


# %% [markdown] id="where-you-are"
# ## Where you are

# %% id="where-you-are-run"
progress()
