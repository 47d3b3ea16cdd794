"""The rules of CUDA's caching allocator in eighty lines, slow and without CUDA.

The same requests give the same segments and blocks as torch's own allocator: a test asks both, on
the mocked device, and compares block for block. It covers the allocator as it is configured when
nobody configures it.
(https://github.com/pytorch/pytorch/blob/v2.13.0/c10/cuda/CUDACachingAllocator.cpp)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

KIB, MIB = 2**10, 2**20
ROUND = 512  # every block is a multiple of it
SMALL = MIB  # the most that a block of the small pool holds
SMALL_SEGMENT, LARGE_SEGMENT, OWN_SEGMENT, PAGE = 2 * MIB, 20 * MIB, 10 * MIB, 2 * MIB
Request = tuple[Any, ...]
"""("alloc", name, bytes, stream), ("free", name) or ("empty_cache",)."""


class OutOfMemory(RuntimeError):
    """The device has no room for a segment, even after all whole free segments went back."""


@dataclass
class Block:
    """bytes: rounded. name: of the tensor that lives in it, None in a free one. asked: its bytes
    as they were asked for."""

    bytes: int
    name: str | None = None
    asked: int = 0


@dataclass
class Segment:
    """What one cudaMalloc gave. number: the how manyth it was. blocks: from its beginning to its
    end."""

    number: int
    stream: int
    pool: str
    blocks: list[Block]

    @property
    def bytes(self) -> int:
        return sum(block.bytes for block in self.blocks)

    @property
    def free(self) -> bool:
        """Whether it can go back to CUDA: it is one free block."""
        return len(self.blocks) == 1 and self.blocks[0].name is None

    def plain(self) -> tuple[int, str, list[tuple[int, str | None]]]:
        """(stream, pool, [(bytes, tensor or None), ...])."""
        return self.stream, self.pool, [(block.bytes, block.name) for block in self.blocks]


def rounded(nbytes: int) -> int:
    """The bytes of the block for a request: whole multiples of 512, and one at least."""
    return max(ROUND, -(-nbytes // ROUND) * ROUND)


def pool_of(nbytes: int) -> str:
    """The pool of a block of so many bytes: "small" up to 1 MiB, else "large"."""
    return "small" if nbytes <= SMALL else "large"


def segment_bytes(nbytes: int) -> int:
    """What cudaMalloc is asked for, for a block of so many bytes that no free one can hold."""
    if nbytes <= SMALL:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if nbytes < OWN_SEGMENT else -(-nbytes // PAGE) * PAGE


@dataclass
class Allocator:
    """capacity: bytes of the device, None without end. segments: in the order of cudaMalloc."""

    capacity: int | None = None
    segments: list[Segment] = field(default_factory=list)
    peak_reserved: int = 0

    def __post_init__(self) -> None:
        self._numbers = count()

    @property
    def reserved(self) -> int:
        return sum(segment.bytes for segment in self.segments)

    @property
    def allocated(self) -> int:
        """Bytes of the blocks that are in use, as `torch.cuda.memory_allocated` counts them."""
        return sum(b.bytes for s in self.segments for b in s.blocks if b.name is not None)

    def run(self, requests: Iterable[Request]) -> Allocator:
        """Carries out requests one after the other. Raises OutOfMemory, and KeyError for a free of
        what is not there."""
        for verb, *arguments in requests:
            getattr(self, verb)(*arguments)
        return self

    def adopt(self, stream: int, pool: str, blocks: Iterable[tuple[int, str | None]]) -> None:
        """Takes over a segment in the state in which `Segment.plain` tells it."""
        held = [Block(size, name) for size, name in blocks]
        self.segments.append(Segment(next(self._numbers), stream, pool, held))

    def alloc(self, name: str, nbytes: int, stream: int = 0) -> str:
        """Puts a tensor into the best free block or into a new segment, and says how: "cached",
        "new segment" or "after release". Nothing is allocated for 0 bytes."""
        if nbytes == 0:
            return "cached"
        size, how = rounded(nbytes), "cached"
        found = self.best(size, stream)
        if found is None:
            found, how = self._grown(size, stream)
        segment, place = found
        block = segment.blocks[place]
        left = block.bytes - size
        if self.splits(left, segment.pool):
            segment.blocks.insert(place + 1, Block(left))
            block.bytes = size
        block.name, block.asked = name, nbytes
        return how

    def free(self, name: str) -> None:
        """Gives a tensor's block back to the pool, and joins it with its free neighbours."""
        for segment in self.segments:
            for block in segment.blocks:
                if block.name == name:
                    block.name, block.asked = None, 0
                    return self.join(segment)
        raise KeyError(name)

    def empty_cache(self) -> int:
        """Gives every segment that is one free block back to CUDA; says how many bytes."""
        before = self.reserved
        self.segments = [segment for segment in self.segments if not segment.free]
        return before - self.reserved

    def best(self, size: int, stream: int) -> tuple[Segment, int] | None:
        """The smallest free block that holds it; of several the one in the oldest segment, and
        there the first."""
        fitting = [
            (block.bytes, age, place)
            for age, segment in enumerate(self.segments)
            if segment.stream == stream and segment.pool == pool_of(size)
            for place, block in enumerate(segment.blocks)
            if block.name is None and block.bytes >= size
        ]
        if not fitting:
            return None
        _, age, place = min(fitting)
        return self.segments[age], place

    def splits(self, left: int, pool: str) -> bool:
        """Whether a block is split when so many bytes of it are left over."""
        return left >= ROUND if pool == "small" else left > SMALL

    def join(self, segment: Segment) -> None:
        """Makes one block of free ones that lie side by side."""
        joined: list[Block] = []
        for block in segment.blocks:
            if joined and block.name is None and joined[-1].name is None:
                joined[-1].bytes += block.bytes
            else:
                joined.append(block)
        segment.blocks[:] = joined

    def _grown(self, size: int, stream: int) -> tuple[tuple[Segment, int], str]:
        wanted, how = segment_bytes(size), "new segment"
        if not self._has_room(wanted):
            self.empty_cache()
            how = "after release"
        if not self._has_room(wanted):
            raise OutOfMemory(f"{wanted:,} bytes wanted, {self.reserved:,} reserved")
        segment = Segment(next(self._numbers), stream, pool_of(size), [Block(wanted)])
        self.segments.append(segment)
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return (segment, 0), how

    def _has_room(self, nbytes: int) -> bool:
        return self.capacity is None or self.reserved + nbytes <= self.capacity
