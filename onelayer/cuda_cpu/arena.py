"""The tensors of a call, laid out for a watched run: each alone, far from the next.

In one's own memory a step over the end of x may land in y, and then nobody could tell. Here a good
stretch of nobody's memory follows each tensor. What the kernel wrote is copied back.
"""

import ctypes
from dataclasses import dataclass

import torch

ALIGN = 512
LEAST_GAP_BYTES = 4096
MOST_GAP_BYTES = 1 << 20


@dataclass(frozen=True)
class Extent:
    """The bytes that a view covers, from its first element to its last: [low, high)."""

    low: int
    high: int
    itemsize: int

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self.high - self.low


def extent(t: torch.Tensor) -> Extent:
    """Return where the elements of a strided tensor lie; for one without elements, nothing."""
    low = t.data_ptr()
    if t.numel() == 0:
        return Extent(low, low, t.element_size())
    reach = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return Extent(low, low + (reach + 1) * t.element_size(), t.element_size())


class Arena:
    """Copies of tensors' bytes; overlapping ones stay one."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self.extents = [extent(t) for t in tensors]
        self._groups = _merged(self.extents)
        offsets, total = [], ALIGN
        for group in self._groups:
            gap = min(max(LEAST_GAP_BYTES, group.size), MOST_GAP_BYTES)
            total += gap
            total += -total % ALIGN + group.low % ALIGN  # alignment is kept as it was
            offsets.append(total)
            total += group.size + gap
        self._memory = torch.empty(total + ALIGN, dtype=torch.uint8)
        base = self._memory.data_ptr() + -self._memory.data_ptr() % ALIGN
        self._places = [base + offset for offset in offsets]

    def address(self, e: Extent) -> int:
        """Return where the copy of that extent begins."""
        for group, place in zip(self._groups, self._places, strict=True):
            if group.low <= e.low and e.high <= group.high:
                return place + e.low - group.low
        return e.low

    def regions(self) -> list[tuple[int, Extent]]:
        """Return (address, extent) of each stretch of memory that may be touched."""
        pairs = zip(self._places, self._groups, strict=True)
        return [(place, group) for place, group in pairs if group.size]

    def groups(self) -> list[Extent]:
        """Return the stretches of the tensors' own memory; tensors that overlap share one."""
        return [group for group in self._groups if group.size]

    def offset(self, e: Extent) -> tuple[int, int]:
        """Return the number of the group that holds the extent, and how far in it begins."""
        groups = enumerate(self.groups())
        holds = ((n, g) for n, g in groups if g.low <= e.low and e.high <= g.high)
        number, group = next(holds)
        return number, e.low - group.low

    def take(self, memory: bytes) -> None:
        """Write the groups' bytes, one after another, back into the tensors."""
        at = 0
        for group in self.groups():
            ctypes.memmove(group.low, memory[at : at + group.size], group.size)
            at += group.size

    def copy_in(self) -> None:
        """Fill the copies."""
        for place, group in self.regions():
            ctypes.memmove(place, group.low, group.size)

    def copy_out(self) -> None:
        """Bring back what was written."""
        for place, group in self.regions():
            ctypes.memmove(group.low, place, group.size)


def _merged(extents: list[Extent]) -> list[Extent]:
    merged: list[Extent] = []
    for e in sorted(extents, key=lambda e: e.low):
        if merged and e.low < merged[-1].high:
            last = merged.pop()
            itemsize = min(last.itemsize, e.itemsize)
            merged.append(Extent(last.low, max(last.high, e.high), itemsize))
        else:
            merged.append(e)
    return merged
