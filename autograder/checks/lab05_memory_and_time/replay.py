"""A model of the caching allocator, block for block."""

from __future__ import annotations

from typing import Any

from autograder.judge import Draw, Student, Wrong, expect_equal, expect_tuple, within

from . import lab
from .allocator_model import MIB, Allocator, Block, Segment, rounded
from .broken_rules import broken_rule
from .requests import Plain, Requests, after, drawn_requests

SHAPE = "a list of (stream, pool, blocks), one for each segment"
KIB = 1024

# Each makes one rule visible, with sizes that no rounding makes equal.
BEST_FIT: Requests = [
    *(("alloc", f"a{n}", size * KIB, 0) for n, size in enumerate((400, 5, 90, 7, 200, 6))),
    ("free", "a0"),
    ("free", "a2"),
    ("free", "a4"),
    ("alloc", "b", 80 * KIB, 0),
]
MERGE: Requests = [
    *(("alloc", f"a{n}", size * MIB, 0) for n, size in enumerate((3, 4, 5, 6))),
    ("free", "a1"),
    ("free", "a0"),
    ("alloc", "b", 6 * MIB + 3, 0),
    ("free", "a2"),
    ("free", "b"),
]
JOINED: Requests = [  # with the block before it, and then with both
    *(("alloc", f"a{n}", size * MIB, 0) for n, size in enumerate((3, 2, 4, 2, 5))),
    *(("free", name) for name in ("a0", "a1", "a3", "a2")),
]
LEFTOVER: Requests = [
    ("alloc", "a", 19 * MIB, 0),
    ("free", "a"),
    ("alloc", "b", 9 * MIB + 70, 0),
    ("alloc", "c", 9 * MIB, 0),
    ("free", "b"),
    ("alloc", "d", 11 * MIB + 300 * KIB, 0),  # in 12 MiB: less than 1 MiB left
    ("alloc", "e", 15 * MIB, 0),  # in 16 MiB: exactly 1 MiB left
]
STREAMS: Requests = [
    ("alloc", "a", 700 * KIB, 0),
    ("free", "a"),
    ("alloc", "b", 600 * KIB, 1),
    ("alloc", "c", 3 * MIB, 1),
    ("alloc", "d", 500 * KIB, 0),
    ("empty_cache",),  # no segment is one free block
]
CACHE: Requests = [
    ("alloc", "a", 30 * MIB, 0),
    ("alloc", "b", 2 * MIB, 0),
    ("alloc", "c", 300 * KIB, 0),
    ("free", "a"),
    ("free", "b"),
    ("empty_cache",),
    ("alloc", "d", 11 * MIB, 0),
    ("free", "c"),
]
BORDERS: Requests = [
    ("alloc", "a", MIB, 0),  # small
    ("alloc", "b", 10 * MIB, 0),  # a segment of its own
    ("alloc", "c", 10 * MIB + 500 * KIB, 0),
    ("alloc", "d", 1024, 0),
    ("alloc", "e", 700, 0),
    ("alloc", "f", 300 * KIB, 0),
    ("alloc", "i", 900, 0),
    ("free", "d"),
    ("free", "f"),
    ("alloc", "g", 300 * KIB, 0),  # fits exactly
    ("alloc", "h", 512, 0),  # leaves exactly 512 bytes
]
KEPT: Requests = [
    ("alloc", "a", 9 * MIB + 200 * KIB, 0),
    ("alloc", "b", 9 * MIB + 900 * KIB, 0),  # to the segment's end
    ("alloc", "c", 14 * MIB, 0),
    ("alloc", "d", 16 * MIB, 0),
    ("alloc", "e", 40 * KIB, 0),
    ("free", "a"),
    ("free", "d"),
    ("empty_cache",),
]
TIE: Requests = [
    ("alloc", "a", 14 * MIB, 0),
    ("alloc", "b", 14 * MIB - 600, 0),
    ("free", "b"),
    ("free", "a"),
    ("alloc", "c", 13 * MIB + 5, 0),
]

OLDER_IS_LARGER: Requests = [  # and the smaller free block is in a segment of its own
    ("alloc", "a", 14 * MIB, 0),
    ("alloc", "b", 12 * MIB, 0),
    ("free", "a"),
    ("free", "b"),
    ("alloc", "c", 12 * MIB - 600, 0),
]
TWINS: Requests = [  # two free blocks of one size in one segment
    *(("alloc", f"a{n}", 3 * MIB, 0) for n in range(5)),
    ("free", "a1"),
    ("free", "a3"),
    ("alloc", "b", 3 * MIB - 900, 0),
]
TIE_FARTHER_IN: Requests = [  # the older segment's block of that size is its second
    ("alloc", "a", 3 * MIB, 0),
    ("alloc", "b", 5 * MIB, 0),
    ("alloc", "c", 11 * MIB, 0),
    ("alloc", "d", 5 * MIB, 0),
    ("alloc", "e", 6 * MIB, 0),
    ("free", "d"),
    ("free", "b"),
    ("alloc", "f", 5 * MIB - 900, 0),
]
NAMED_AGAIN: Requests = [  # a name that is free can be given again, and there are more streams
    ("alloc", "a", 3 * MIB, 3),
    ("alloc", "b", 4 * MIB, 3),
    ("free", "a"),
    ("alloc", "a", 300 * KIB, 2),
    ("alloc", "c", 400 * KIB, 2),
    ("alloc", "d", 2 * MIB, 2),  # stream 3 has a free block that is large enough
    ("free", "a"),
    ("alloc", "a", 3073 * MIB - 600, 0),  # leaves 512 bytes more than 1 MiB
]
RELEASED: Requests = [
    ("alloc", "a", 300 * KIB, 0),
    ("alloc", "b", 64 * MIB, 0),
    ("free", "b"),
    ("alloc", "c", 2 * MIB, 0),  # the only free block is far larger
    ("free", "a"),
    ("alloc", "d", 5 * MIB, 1),
    ("free", "d"),
    ("empty_cache",),  # a small segment goes too, and one of another stream
]
NAMED_ALIKE: Requests = [  # the names that stay begin with the one that goes, or are its beginning
    *(("alloc", name, size * MIB, 0) for name, size in (("a", 3), ("a1", 2), ("a12", 4))),
    ("free", "a1"),
]
ROUNDED_FIRST: Requests = [("alloc", "a", 10 * MIB - 100, 0)]  # a block of 10 MiB, so its own


@lab.question(
    "replay",
    points=5,
    minutes=20,
    difficulty=4,
    hints=(
        "Keep a list of segments, each with its stream, its pool and its blocks in order. What are "
        "the four things that change such a list?",
        "alloc: among the free blocks of the same stream and pool that are large enough take "
        "min((bytes, age of the segment, place)); if there is none, append a segment of one free "
        "block. Then split. free: mark the block, then join it with a free one before and after.",
        "left >= 512 if pool == 'small' else left > 2**20   # split, or give the whole block",
    ),
)
def replay(student: Student, draw: Draw) -> None:
    """The segments that the allocator holds after a sequence of requests, block for block.

    requests: list of ("alloc", name, bytes, stream), ("free", name) or ("empty_cache",) -> list of
    (stream, "small" or "large", blocks) in the order of cudaMalloc, where blocks is the list of
    (bytes, name of the tensor in it, or None) from the segment's beginning to its end.
    """
    # TIE comes late: who takes the younger of equals there has the right segments in another order.
    fixed = [BEST_FIT[:1], BEST_FIT, MERGE, LEFTOVER, STREAMS, CACHE, TIE_FARTHER_IN, TIE, TWINS]
    fixed += [JOINED, BORDERS, KEPT, RELEASED, NAMED_AGAIN, NAMED_ALIKE, ROUNDED_FIRST]
    fixed += [OLDER_IS_LARGER, []]
    drawn = [drawn_requests(draw, 40, streams=1 + n % 2) for n in draw.cases(4)]
    cases = [(requests,) for requests in fixed + drawn]
    for (requests,), got in zip(cases, student.each("replay", cases), strict=True):
        want = after(requests)
        try:
            _expect_segments(got, want)
        except Wrong as wrong:
            wrong.why = broken_rule(got, want, requests) or wrong.why
            raise


def _expect_segments(got: Any, want: Plain) -> None:
    segments = expect_tuple(got, len(want), f"{SHAPE}: {len(want)} here")
    for number, (mine, (stream, pool, blocks)) in enumerate(zip(segments, want, strict=True)):
        with within(f"segment {number}"):
            kind, size, parts = expect_tuple(mine, 3, "(stream, pool, blocks)")
            expect_equal((kind, size), (stream, pool))
            with within("blocks"):
                expect_equal(parts, blocks)


class _FirstFit(Allocator):
    def best(self, size: int, stream: int) -> tuple[Segment, int] | None:
        found = [
            (age, place, block)
            for age, segment in enumerate(self.segments)
            if super(_FirstFit, self).best(size, stream) and segment.stream == stream
            if (segment.pool == "small") == (size <= MIB)
            for place, block in enumerate(segment.blocks)
            if block.name is None and block.bytes >= size
        ]
        return (self.segments[found[0][0]], found[0][1]) if found else None


class _YoungestOfEqual(Allocator):
    def best(self, size: int, stream: int) -> tuple[Segment, int] | None:
        self.segments.reverse()
        found = super().best(size, stream)
        self.segments.reverse()
        return found


class _NoSplit(Allocator):
    def splits(self, left: int, pool: str) -> bool:
        return False


class _AlwaysSplit(Allocator):
    def splits(self, left: int, pool: str) -> bool:
        return left >= 512


class _SplitAtOneMiB(Allocator):
    def splits(self, left: int, pool: str) -> bool:
        return left >= (512 if pool == "small" else MIB)


class _LargeRuleForAll(Allocator):
    def splits(self, left: int, pool: str) -> bool:
        return left > MIB


class _NoJoin(Allocator):
    def join(self, segment: Segment) -> None:
        pass


class _JoinsForwardOnly(Allocator):
    """Joins with the free block behind, and forgets the one before."""

    def free(self, name: str) -> None:
        for segment in self.segments:
            for place, block in enumerate(segment.blocks):
                if block.name == name:
                    block.name, behind = None, segment.blocks[place + 1 : place + 2]
                    if behind and behind[0].name is None:
                        block.bytes += segment.blocks.pop(place + 1).bytes


class _JoinsBackwardOnly(Allocator):
    def free(self, name: str) -> None:
        for segment in self.segments:
            for place, block in enumerate(segment.blocks):
                if block.name == name:
                    block.name = None
                    if place and segment.blocks[place - 1].name is None:
                        segment.blocks[place - 1].bytes += segment.blocks.pop(place).bytes
                    return


class _OneStream(Allocator):
    def best(self, size: int, stream: int) -> tuple[Segment, int] | None:
        streams = {segment.stream for segment in self.segments}
        found = (super(_OneStream, self).best(size, s) for s in sorted(streams))
        return min(
            (f for f in found if f),
            key=lambda f: (f[0].blocks[f[1]].bytes, f[0].number),
            default=None,
        )


class _OnePool(Allocator):
    def best(self, size: int, stream: int) -> tuple[Segment, int] | None:
        fitting = [
            (block.bytes, age, place)
            for age, segment in enumerate(self.segments)
            if segment.stream == stream
            for place, block in enumerate(segment.blocks)
            if block.name is None and block.bytes >= size
        ]
        return (self.segments[min(fitting)[1]], min(fitting)[2]) if fitting else None


class _FreedAtOnce(Allocator):
    def free(self, name: str) -> None:
        super().free(name)
        self.empty_cache()


class _CacheStays(Allocator):
    def empty_cache(self) -> int:
        return 0


class _HoldsAsked(Allocator):
    """Splits at the bytes that were asked for."""

    def alloc(self, name: str, nbytes: int, stream: int = 0) -> str:
        how = super().alloc(name, nbytes, stream)
        for segment in self.segments:
            for place, block in enumerate(segment.blocks):
                if block.name == name and block.bytes == rounded(nbytes) != nbytes:
                    left = block.bytes - nbytes
                    if place + 1 < len(segment.blocks) and segment.blocks[place + 1].name is None:
                        block.bytes = nbytes
                        segment.blocks[place + 1].bytes += left
        return how


class _EmptiesAll(Allocator):
    """Cuts free blocks out of segments that are in use."""

    def empty_cache(self) -> int:
        before = self.reserved
        super().empty_cache()
        for segment in self.segments:
            segment.blocks[:] = [b for b in segment.blocks if b.name is not None]
        return before - self.reserved


class _NewInFront(Allocator):
    """The tensor lies at the end of the block that is split."""

    def alloc(self, name: str, nbytes: int, stream: int = 0) -> str:
        how = super().alloc(name, nbytes, stream)
        for segment in self.segments:
            for place, block in enumerate(segment.blocks):
                if block.name == name:
                    _swap(segment.blocks, place)
                    return how
        return how


def _swap(blocks: list[Block], place: int) -> None:
    if place + 1 < len(blocks) and blocks[place + 1].name is None:
        blocks[place : place + 2] = [blocks[place + 1], blocks[place]]


KNOWN: list[tuple[str, type[Allocator], str]] = [
    (
        "not_rounded",
        _HoldsAsked,
        "A block ends where the request ended. Blocks are whole multiples of 512 bytes.",
    ),
    (
        "no_split",
        _NoSplit,
        "The whole free block went to the tensor. What the tensor does not need becomes a free "
        "block again, where enough is left.",
    ),
    (
        "at_the_end",
        _NewInFront,
        "When a block is split the tensor takes its beginning, and the rest behind it stays free.",
    ),
    (
        "large_rule_for_all",
        _LargeRuleForAll,
        "In the small pool a block is split as soon as 512 bytes are left over. More than 1 MiB "
        "has to be left over in the large pool only.",
    ),
    (
        "always_split",
        _AlwaysSplit,
        "In the large pool a block is split only when more than 1 MiB is left over. Otherwise the "
        "tensor gets the whole block: fewer splinters, some unused bytes.",
    ),
    (
        "splits_at_one_mib",
        _SplitAtOneMiB,
        "Exactly 1 MiB is left over here, and a large block is split only for more than that.",
    ),
    (
        "no_join",
        _NoJoin,
        "Two free blocks lie side by side. When a tensor goes, its block is joined with the free "
        "blocks before and behind it.",
    ),
    (
        "joins_forward_only",
        _JoinsForwardOnly,
        "The freed block was joined with the free block behind it, and not with the one before it.",
    ),
    (
        "joins_backward_only",
        _JoinsBackwardOnly,
        "The freed block was joined with the free block before it, and not with the one behind it.",
    ),
    (
        "first_fit",
        _FirstFit,
        "The first free block that is large enough was taken. The allocator takes the smallest one "
        "that is large enough.",
    ),
    (
        "youngest_of_equal",
        _YoungestOfEqual,
        "Two free blocks are equally large. The allocator takes the one in the older segment.",
    ),
    (
        "one_stream",
        _OneStream,
        "The block of another stream was taken. A free block may still be read by the work of its "
        "own stream, so every stream has its own blocks.",
    ),
    (
        "one_pool",
        _OnePool,
        "A small tensor was put into a segment of the large pool. The two pools share no segment.",
    ),
    (
        "freed_at_once",
        _FreedAtOnce,
        "The segment went back to CUDA when its last tensor was freed. It stays: that is the "
        "cache. Only empty_cache gives it back.",
    ),
    (
        "cache_stays",
        _CacheStays,
        "empty_cache gives every segment back that is one free block.",
    ),
    (
        "empties_parts",
        _EmptiesAll,
        "empty_cache took a part of a segment. cudaFree takes back a whole segment or nothing: one "
        "tensor in it keeps all of it.",
    ),
]
for _name, _kind, _sentence in KNOWN:
    replay.wrong(_name, _sentence, replay=lambda requests, kind=_kind: after(requests, kind))


class _WorstFit(Allocator):
    def best(self, size: int, stream: int) -> tuple[Segment, int] | None:
        found = [
            (block.bytes, age, place)
            for age, segment in enumerate(self.segments)
            if (segment.stream, segment.pool) == (stream, "small" if size <= MIB else "large")
            for place, block in enumerate(segment.blocks)
            if block.name is None and block.bytes >= size
        ]
        return (self.segments[max(found)[1]], max(found)[2]) if found else None


replay.wrong(
    "worst_fit",
    "The largest free block was taken. The allocator takes the smallest one that is large enough.",
    replay=lambda requests: after(requests, _WorstFit),
)


class _LastTwin(Allocator):
    def best(self, size: int, stream: int) -> tuple[Segment, int] | None:
        found = super().best(size, stream)
        if found is None:
            return None
        segment, place = found
        alike = [
            k
            for k, block in enumerate(segment.blocks)
            if block.name is None and block.bytes == segment.blocks[place].bytes
        ]
        return segment, alike[-1]


replay.wrong(
    "last_of_equal",
    "Two free blocks of one segment are equally large. The allocator takes the first of them.",
    replay=lambda requests: after(requests, _LastTwin),
)


class _NewestOfEqual(_LastTwin):
    def best(self, size: int, stream: int) -> tuple[Segment, int] | None:
        self.segments.reverse()
        found = super().best(size, stream)
        self.segments.reverse()
        return found


replay.wrong(
    "newest_of_equal",
    "Of free blocks of one size the last one was taken. The oldest segment goes first, and there "
    "the first block.",
    replay=lambda requests: after(requests, _NewestOfEqual),
)


class _MoreThan512(Allocator):
    def splits(self, left: int, pool: str) -> bool:
        return left > 512 if pool == "small" else left > MIB


replay.wrong(
    "splits_for_more_than_512",
    "Exactly 512 bytes are left over here: in the small pool that is enough for a block of its "
    "own.",
    replay=lambda requests: after(requests, _MoreThan512),
)


class _RestVanishes(Allocator):
    def alloc(self, name: str, nbytes: int, stream: int = 0) -> str:
        how = super().alloc(name, nbytes, stream)
        for segment in self.segments:
            for block in segment.blocks:
                if block.name == name:
                    block.bytes = rounded(nbytes)
        return how


replay.wrong(
    "rest_vanishes",
    "A block that was not split has the tensor's bytes here, and what is left over is in no block. "
    "The tensor gets the whole block: a segment's blocks add up to the segment.",
    replay=lambda requests: after(requests, _RestVanishes),
)


class _EmptiesEverything(Allocator):
    def empty_cache(self) -> int:
        before, self.segments = self.reserved, []
        return before

    def free(self, name: str) -> None:
        if any(block.name == name for s in self.segments for block in s.blocks):
            super().free(name)


replay.wrong(
    "empties_all",
    "empty_cache gave segments back in which tensors live. Only a segment that is one free block "
    "goes.",
    replay=lambda requests: after(requests, _EmptiesEverything),
)


class _FreesByPrefix(Allocator):
    def free(self, name: str) -> None:
        for held in [block.name for segment in self.segments for block in segment.blocks]:
            if held is not None and held.startswith(name):
                super().free(held)


replay.wrong(
    "freed_by_a_prefix",
    "A tensor was freed whose name only begins with the name that was freed. Compare whole names.",
    replay=lambda requests: after(requests, _FreesByPrefix),
)


@replay.cost
def _(student: Student, draw: Draw) -> str:
    requests = drawn_requests(draw, 40)
    calls = sum(verb == "alloc" for verb, *_ in requests)
    segments = student.call("replay", requests)
    return f"{calls} tensors asked for, {len(segments)} segments held at the end"
