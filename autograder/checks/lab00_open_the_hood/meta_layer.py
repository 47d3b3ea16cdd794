"""The truth about the head's parameters, bytes and FLOPs: torch's own layer on the meta device,
with sizes and without numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from autograder.judge import Draw

Sizes = tuple[int, ...]


def drawn_sizes(draw: Draw) -> list[Sizes]:
    """Three (d, v), fresh."""
    return [(draw.integer(2, 90), draw.integer(100, 900)) for _ in draw.cases(3)]


DTYPES = (torch.float32, torch.bfloat16, torch.float64)
SMALL = [*itertools.product((1, 7, 4), (1, 4), (1, 4))]
"""(n, d, v) with 1 in each place, with equal sizes, and with none."""


WITHOUT_HEAD = {
    "NameError: name 'head'": "An answer is graded without `head`. All that it hangs on is among "
    "the arguments."
}


def meta_layer(d: int, v: int, dtype: torch.dtype = torch.float32) -> nn.Linear:
    """torch's own layer, with sizes and without numbers."""
    return nn.Linear(d, v, device="meta", dtype=dtype)


def moved_bytes(n: int, d: int, v: int, dtype: torch.dtype) -> int:
    """Of x (n, d), the layer's weight and bias, and the result (n, v), each once."""
    layer, x = meta_layer(d, v, dtype), torch.empty(n, d, device="meta", dtype=dtype)
    return sum(int(t.nbytes) for t in (x, *layer.parameters(), layer(x)))


def moved_terms(n: int, d: int, v: int, dtype: torch.dtype) -> dict[str, int]:
    """The bytes of each of these, by their formula."""
    numbers = {"n * d": n * d, "v * d": v * d, "v": v, "n * v": n * v}
    return {f"{name} * itemsize": count * dtype.itemsize for name, count in numbers.items()}


def product_flops(n: int, d: int, v: int) -> int:
    """What torch's own counter counts for x (n, d) through the layer."""
    with FlopCounterMode(display=False) as counted:
        meta_layer(d, v)(torch.empty(n, d, device="meta"))
    return int(counted.get_total_flops())


def _too_narrow(got: Any, want: int) -> str:
    """What a count shows that went through numbers too narrow for it; "" for any other."""
    if type(got) is not int or got == want:
        return ""
    if want >= 2**31 and (got - want) % 2**32 == 0:
        return (
            "The right count is a multiple of 2**32 away: 32 bits do not hold it. Compute with "
            "Python's ints."
        )
    near = abs(got - want) <= want * 2**-23
    if near and _in_float32(got) and not _in_float32(want):
        return (
            f"float32 does not hold {want:,}: above 2**24 it has only some of the whole numbers. "
            "Compute with Python's ints."
        )
    return ""


def _in_float32(count: int) -> bool:
    return int(torch.tensor(float(count)).item()) == count


def apart(got: Any, want: int, terms: Mapping[str, int]) -> str:
    """By how much a count is wrong, in words of `terms`, or that its numbers were too narrow; ""
    where that is none of them, nor two together, nor one twice."""
    if narrow := _too_narrow(got, want):
        return narrow
    if type(got) is not int or not (which := in_terms(abs(got - want), terms)):
        return ""
    by = f"{abs(got - want):,}"
    if got > want:
        return f"These are {by} too many here: {which}."
    return f"These are {by} too few here: {which}."


def in_terms(amount: float, terms: Mapping[str, int]) -> str:
    """The term of this amount, or the two that have it together, or the one twice; "" where there
    are none, or several: then the sizes do not tell which it was."""
    some = (itertools.combinations_with_replacement(terms, n) for n in (1, 2))
    sums = [
        names
        for names in itertools.chain.from_iterable(some)
        if sum(map(terms.__getitem__, names)) == amount
    ]
    return " + ".join(sums[0]) if len(sums) == 1 else ""
