"""Fresh inputs: shapes, values and memory layouts drawn from a seed.

The seed is drawn anew for each check in a notebook, and kept secret in grading; the same seed gives
the same inputs, so a verdict can be replayed. The global random state is never touched.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import TypeVar

import torch

T = TypeVar("T")
LAYOUTS = ("contiguous", "transposed", "strided", "offset", "expanded")


def some(cases: Sequence[T], n: int) -> list[T]:
    """`n` of `cases`, the same ones for everybody: where all of a small space would be thousands,
    these lie all over it."""
    return random.Random(n).sample(cases, n)


class Draw:
    """A source of inputs. `rounds` multiplies the random cases: 1 in a notebook, more later."""

    def __init__(self, seed: int, *, rounds: int = 1) -> None:
        self.seed, self.rounds = seed, rounds
        self._random = random.Random(seed)
        self._generator = torch.Generator().manual_seed(seed)

    def cases(self, n: int) -> range:
        """`n` cases in a notebook, `n * rounds` in grading."""
        return range(n * self.rounds)

    def integer(self, low: int, high: int) -> int:
        """An integer, low <= result <= high."""
        return self._random.randint(low, high)

    def choice(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return self._random.sample(items, len(items))

    def sizes(self, *always: int, high: int = 97) -> Iterator[int]:
        """Each of `always` (the awkward sizes that every run must see), then fresh ones up to
        `high`."""
        yield from always
        for _ in self.cases(1):
            yield self.integer(2, high)

    def shape(self, dims: int | None = None, *, low: int = 1, high: int = 6) -> tuple[int, ...]:
        """A shape of `dims` dimensions (1 to 4 if not given), each size between low and high."""
        integer = self._random.randint
        dims = integer(1, 4) if dims is None else dims
        return tuple(map(integer, repeat(low, dims), repeat(high, dims)))

    def layout(self) -> str:
        return self._random.choice(LAYOUTS)

    def layouts(self) -> tuple[str, ...]:
        """Every memory layout in a fresh order."""
        return tuple(self.shuffled(LAYOUTS))

    def tensor(
        self,
        *shape: int,
        dtype: torch.dtype = torch.float32,
        layout: str = "contiguous",
        requires_grad: bool = False,
    ) -> torch.Tensor:
        """A tensor of this shape with normal values, laid out in memory as asked.

        contiguous: row-major from offset 0. transposed: dimensions in reverse order in memory.
        strided: every second element of a wider storage. offset: contiguous, but not from the
        storage's start. expanded: the first dimension longer than 1 has stride 0.
        """
        if layout not in LAYOUTS:
            raise ValueError(f"no layout {layout!r}: {', '.join(LAYOUTS)}")
        values = partial(self._values, dtype=dtype)
        return _laid_out(values, shape, layout).requires_grad_(requires_grad)

    def integers(self, *shape: int, low: int, high: int) -> torch.Tensor:
        """An int64 tensor of this shape, low <= element <= high."""
        return torch.randint(low, high + 1, shape, generator=self._generator)

    def _values(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        if not (dtype.is_floating_point or dtype.is_complex):
            return self.integers(*shape, low=0, high=1 if dtype is torch.bool else 100).to(dtype)
        exact = torch.complex128 if dtype.is_complex else torch.float64
        return torch.randn(tuple(shape), generator=self._generator, dtype=exact).to(dtype)


Values = Callable[[Sequence[int]], torch.Tensor]


def _laid_out(values: Values, shape: Sequence[int], layout: str) -> torch.Tensor:
    """`values`, laid out as `Draw.tensor` says."""
    if layout == "contiguous":
        return values(shape)
    if layout == "transposed":
        return values(shape[::-1]).permute(*reversed(range(len(shape))))
    if layout == "strided" and shape:
        return values((*shape[:-1], 2 * shape[-1]))[..., ::2]
    if layout == "expanded":
        larger = [d for d, n in enumerate(shape) if n > 1]
        if not larger:
            return values(shape)
        repeated = larger[0]
        return values((*shape[:repeated], 1, *shape[repeated + 1 :])).expand(*shape)
    return values((math.prod(shape) + 3,))[3:].view(tuple(shape))  # of no dimensions too
