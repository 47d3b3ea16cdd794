"""How the allocator serves one more request."""

from __future__ import annotations

from autograder.checks.explaining import saying
from autograder.judge import Draw, Student, expect_equal

from . import lab
from .allocator_model import (
    MIB,
    Allocator,
    OutOfMemory,
    pool_of,
    rounded,
    segment_bytes,
)
from .requests import Plain, Requests, drawn_bytes, drawn_requests

WAYS = ("cached", "new segment", "after release", "out of memory")
Case = tuple[Plain, int, int]
# Free bytes enough for the request, and no block of them large enough.
SPLINTERS: Requests = [
    *(("alloc", f"a{n}", (5 + n % 3) * MIB, 0) for n in range(12)),
    *(("free", f"a{n}") for n in range(1, 12, 2)),
]
WHOLE: Requests = [
    ("alloc", "a", 24 * MIB, 0),
    ("alloc", "b", 3 * MIB, 0),
    ("alloc", "c", 300_000, 0),
    ("free", "a"),
]

TWO_WHOLE: Requests = [
    ("alloc", "a", 12 * MIB, 0),
    ("alloc", "b", 14 * MIB, 0),
    ("free", "a"),
    ("free", "b"),
]
THREE_WHOLE: Requests = [*TWO_WHOLE[:2], ("alloc", "c", 16 * MIB, 0), *TWO_WHOLE[2:], ("free", "c")]
SMALL_WHOLE: Requests = [*WHOLE[:1], ("alloc", "c", 300_000, 0), ("free", "c")]
FREE_IN_FRONT: Requests = [("alloc", "a", 6 * MIB, 0), ("alloc", "b", 9 * MIB, 0), ("free", "a")]


@lab.question(
    "how_served",
    points=3,
    minutes=8,
    difficulty=3,
    hints=(
        "There are four outcomes, and the allocator tries them in this order.",
        "A free block that is large enough, in the right pool? Else: does the segment fit into "
        "what the device has left? Else: does it fit once every segment that is one free block "
        "has gone back?",
        "whole = sum(b[0][0] for _, _, b in segments if len(b) == 1 and b[0][1] is None)",
    ),
)
def how_served(student: Student, draw: Draw) -> None:
    """How one more request on stream 0 is served: "cached", "new segment", "after release" or
    "out of memory".

    segments: as `replay` returns them, all of stream 0; left: bytes that the device has left for
    cudaMalloc; nbytes: of the request -> one of the four words.
    """
    kept = drawn_requests(draw, 30)
    cases: list[Case] = [
        _case([], 2 * MIB, 1),  # nothing is held yet
        _case(SPLINTERS, 12 * MIB, 12 * MIB),  # exactly what is left; enough is free, in splinters
        _case(WHOLE, 0, 24 * MIB),
        _case(SPLINTERS, 13 * MIB, 12 * MIB + 5),  # a segment of 14 MiB
        _case(WHOLE, 30 * MIB, 400_000),
        _case([*WHOLE[:2], ("free", "b")], 0, 900_000),  # only the large pool has free bytes
        _case(WHOLE[1:2] + WHOLE[:1] + [("free", "a")], 6 * MIB, 30 * MIB),  # 24 + 6
        _case(WHOLE[1:2] + WHOLE[:1] + [("free", "a")], 8 * MIB, 30 * MIB),  # and 2 MiB to spare
        _case(WHOLE, 0, 25 * MIB + 5),
        _case(WHOLE, 0, 24 * MIB - 1024),  # too little is left over to be split off
        _case(WHOLE, 0, 17 * MIB + 10),
        _case([*WHOLE[:-1], ("free", "c")], 0, MIB + 1),
        _case(SPLINTERS, 2 * MIB, 6 * MIB + 5),
        _case(WHOLE[:1], 30 * MIB, 20 * MIB),  # one tensor, in a segment of its own
        _case(WHOLE[:1], 0, 20 * MIB),
        _case(WHOLE[:1], 2 * MIB, 700_000),
        _case(WHOLE[:1], 2 * MIB, MIB),
        _case(WHOLE[:1], 2 * MIB - 1, 700_000),
        _case(WHOLE[:1], 20 * MIB, 10 * MIB - 512),
        _case(WHOLE[:1], 20 * MIB - 1, 10 * MIB - 512),
        _case(WHOLE[:1], 10 * MIB, 10 * MIB),
        _case(WHOLE[:1], 10 * MIB, 10 * MIB - 100),  # a block of 10 MiB, when it is rounded
        _case(TWO_WHOLE, 0, 26 * MIB),  # neither of them is enough alone
        _case(THREE_WHOLE, 0, 42 * MIB),
        _case(THREE_WHOLE, 0, 40 * MIB),  # takes all three, and they have more
        _case(SMALL_WHOLE, 18 * MIB, 9 * MIB),  # the small segment's 2 MiB are what lacks
        _case(SMALL_WHOLE, 18 * MIB - 1, 9 * MIB),
        _case([*SMALL_WHOLE, ("free", "a")], 0, 26 * MIB),  # a segment of each pool goes back
        _case([("alloc", "a", 400 * MIB, 0), ("free", "a")], 30 * MIB, 2 * MIB),
        _case(FREE_IN_FRONT, 30 * MIB, 6 * MIB),  # behind it lies a smaller one
        _case([], 2 * MIB - 1, 1),
    ]
    for _ in draw.cases(6):
        left = draw.choice([0, draw.integer(1, 40) * MIB])
        cases.append(_case(kept, left, drawn_bytes(draw)))
    for case, got in zip(cases, student.each("how_served", cases), strict=True):
        with saying(_facts(*case)):
            expect_equal(got, _truth(*case))


def _facts(segments: Plain, left: int, nbytes: int) -> str:
    """What decides, in numbers."""
    block = rounded(nbytes)
    pool = pool_of(block)
    free = [size for _, p, blocks in segments if p == pool for size, name in blocks if name is None]
    whole = [blocks[0][0] for *_, blocks in segments if [name for _, name in blocks] == [None]]
    most = max(free, default=0)
    return (
        f"The block has {block} bytes, and the largest free one of its pool {most}; a new segment "
        f"has {segment_bytes(block)}, {left} are left, and {sum(whole)} would go back."
    )


def _case(requests: Requests, left: int, nbytes: int) -> Case:
    segments = [segment.plain() for segment in Allocator().run(requests).segments]
    return segments, left, nbytes


def _truth(segments: Plain, left: int, nbytes: int, kind: type[Allocator] = Allocator) -> str:
    """Asked of the allocator itself, brought into that state."""
    allocator = kind()
    for stream, pool, blocks in segments:
        allocator.adopt(stream, pool, blocks)
    allocator.capacity = allocator.reserved + left
    try:
        return allocator.alloc("one more", nbytes)
    except OutOfMemory:
        return "out of memory"


def _free(segments: Plain) -> int:
    return sum(size for *_, blocks in segments for size, name in blocks if name is None)


def _grown(left: int, nbytes: int, released: int) -> str:
    wanted = segment_bytes(rounded(nbytes))
    if wanted <= left:
        return "new segment"
    return "after release" if wanted <= left + released else "out of memory"


def _fits(segments: Plain, nbytes: int, *, any_pool: bool = False) -> bool:
    return any(
        name is None and size >= rounded(nbytes)
        for _, pool, blocks in segments
        if any_pool or pool == pool_of(rounded(nbytes))
        for size, name in blocks
    )


def _whole(segments: Plain) -> int:
    return sum(b[0][0] for *_, b in segments if len(b) == 1 and b[0][1] is None)


@how_served.wrong(
    "sum_of_free_bytes",
    "The free bytes were added up. A tensor needs one free block that is large enough: the rest is "
    "fragmentation.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    if _free(segments) >= rounded(nbytes):
        return "cached"
    return _grown(left, nbytes, _whole(segments))


@how_served.wrong(
    "never_released",
    "When cudaMalloc fails the allocator gives every whole free segment back and asks once more. "
    "Only then is it out of memory.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    truth = _truth(segments, left, nbytes)
    return "out of memory" if truth == "after release" else truth


@how_served.wrong(
    "all_free_released",
    "Free bytes of segments that are in use count as given back here. cudaFree takes whole "
    "segments: one tensor in a segment keeps all of it.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    if _fits(segments, nbytes):
        return "cached"
    return _grown(left, nbytes, _free(segments))


@how_served.wrong(
    "any_pool",
    "The free block lies in the other pool, and a request takes none from there. Only a whole free "
    "segment that goes back to CUDA makes room for both pools.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    if _fits(segments, nbytes, any_pool=True):
        return "cached"
    return _grown(left, nbytes, _whole(segments))


@how_served.wrong(
    "block_not_segment",
    "cudaMalloc is asked for a segment, not for a block: 2 MiB, 20 MiB, or the next multiple of "
    "2 MiB has to fit.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    if _fits(segments, nbytes):
        return "cached"
    if rounded(nbytes) <= left:
        return "new segment"
    released = left + _whole(segments)
    return "after release" if rounded(nbytes) <= released else "out of memory"


@how_served.wrong(
    "segments_before_blocks",
    "A cached block is taken even where the device has room for a new segment: no call of CUDA is "
    "cheaper than none.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    if segment_bytes(rounded(nbytes)) <= left:
        return "new segment"
    return _truth(segments, left, nbytes)


@how_served.wrong(
    "must_be_more",
    "A segment that needs exactly what is left fits.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    return _truth(segments, left - 1, nbytes) if left else _truth(segments, left, nbytes)


@how_served.wrong(
    "release_alone",
    "After the release both count: what the device had left, and what came back.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    if _fits(segments, nbytes):
        return "cached"
    wanted = segment_bytes(rounded(nbytes))
    if wanted <= left:
        return "new segment"
    return "after release" if wanted <= _whole(segments) else "out of memory"


@how_served.wrong(
    "one_segment_released",
    "No more than one whole free segment counts as given back here. All of them go, and together "
    "they may be enough.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    if _fits(segments, nbytes):
        return "cached"
    whole = [b[0][0] for *_, b in segments if len(b) == 1 and b[0][1] is None]
    return _grown(left, nbytes, max(whole, default=0))


@how_served.wrong(
    "own_pool_released",
    "Whole free segments of the other pool go back as well: CUDA does not know of pools.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    if _fits(segments, nbytes):
        return "cached"
    return _grown(left, nbytes, _whole([s for s in segments if s[1] == pool_of(rounded(nbytes))]))


@how_served.wrong(
    "not_rounded",
    "The segment follows from the bytes that were asked for, not from the block's: 10 MiB less "
    "100 bytes is a block of 10 MiB, which has a segment of its own.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    if _fits(segments, nbytes):
        return "cached"
    wanted, whole = segment_bytes(nbytes), _whole(segments)
    if wanted <= left:
        return "new segment"
    return "after release" if wanted <= left + whole else "out of memory"


@how_served.wrong(
    "sum_of_free_bytes_of_the_pool",
    "The free bytes of the pool were added up. A tensor needs one free block that is large enough: "
    "the rest is fragmentation.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    pool = [s for s in segments if s[1] == pool_of(rounded(nbytes))]
    if _free(pool) >= rounded(nbytes):
        return "cached"
    return _grown(left, nbytes, _whole(segments))


@how_served.wrong(
    "new_must_be_more",
    "A new segment that needs exactly what is left fits.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    if _fits(segments, nbytes):
        return "cached"
    wanted = segment_bytes(rounded(nbytes))
    if wanted < left:
        return "new segment"
    return "after release" if wanted <= left + _whole(segments) else "out of memory"


@how_served.wrong(
    "block_must_be_larger",
    "A free block that is exactly as large as the request serves it.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    if _fits(segments, rounded(nbytes) + 1):
        return "cached"
    return _grown(left, nbytes, _whole(segments))


@how_served.wrong(
    "always_twenty",
    "Every large request asked for 20 MiB here. A block of 10 MiB or more gets a segment of its "
    "own, the next multiple of 2 MiB.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    block = rounded(nbytes)
    wanted = 2 * MIB if block <= MIB else 20 * MIB
    if _fits(segments, nbytes):
        return "cached"
    if wanted <= left:
        return "new segment"
    return "after release" if wanted <= left + _whole(segments) else "out of memory"


@how_served.wrong(
    "own_segment_not_rounded",
    "A segment of its own is taken to be smaller than it is, as with the block's bytes. "
    "cudaMalloc is asked for the next multiple of 2 MiB.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    block = rounded(nbytes)
    wanted = segment_bytes(block) if block < 10 * MIB else block
    if _fits(segments, nbytes):
        return "cached"
    if wanted <= left:
        return "new segment"
    return "after release" if wanted <= left + _whole(segments) else "out of memory"


@how_served.wrong(
    "no_twenty",
    "Less than 20 MiB is enough here for a large block below 10 MiB, as with the next multiple of "
    "2 MiB. It shares a segment of 20 MiB, and all of that has to fit.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    block = rounded(nbytes)
    wanted = -(-block // (2 * MIB)) * 2 * MIB
    if _fits(segments, nbytes):
        return "cached"
    if wanted <= left:
        return "new segment"
    return "after release" if wanted <= left + _whole(segments) else "out of memory"


@how_served.wrong(
    "ten_is_shared",
    "A block of 10 MiB exactly asked for 20 MiB. The segments of 20 MiB are for blocks below "
    "that; it gets one of 10 MiB.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    block = rounded(nbytes)
    wanted = 20 * MIB if block == 10 * MIB else segment_bytes(block)
    if _fits(segments, nbytes):
        return "cached"
    if wanted <= left:
        return "new segment"
    return "after release" if wanted <= left + _whole(segments) else "out of memory"


@how_served.wrong(
    "small_segment_of_one",
    "Less than 2 MiB is enough here for a small request, as with a segment of 1 MiB. The segments "
    "of the small pool have 2 MiB.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    block = rounded(nbytes)
    wanted = MIB if block <= MIB else segment_bytes(block)
    if _fits(segments, nbytes):
        return "cached"
    if wanted <= left:
        return "new segment"
    return "after release" if wanted <= left + _whole(segments) else "out of memory"


@how_served.wrong(
    "mib_is_large",
    "A block of 1 MiB exactly was taken for a large one. It still belongs to the small pool.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    truth = _truth(segments, left, nbytes)
    if rounded(nbytes) != MIB:
        return truth
    large = [b for _, p, bs in segments if p == "large" for b, name in bs if name is None]
    return "cached" if max(large, default=0) >= MIB else _grown(left, MIB + 1, _whole(segments))


@how_served.wrong(
    "release_must_be_more",
    "After the release a segment that needs exactly what is there fits.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    truth = _truth(segments, left, nbytes)
    exact = segment_bytes(rounded(nbytes)) == left + _whole(segments)
    return "out of memory" if truth == "after release" and exact else truth


@how_served.wrong(
    "one_block_is_free",
    "A segment of one block went back although a tensor lives in it. It has to be one *free* "
    "block: its name is None.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    if _fits(segments, nbytes):
        return "cached"
    return _grown(left, nbytes, sum(b[0][0] for *_, b in segments if len(b) == 1))


@how_served.wrong(
    "first_block_is_free",
    "A segment was counted whose first block is free. Only a segment that is one free block goes "
    "back.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    if _fits(segments, nbytes):
        return "cached"
    return _grown(left, nbytes, sum(b[0][0] for *_, b in segments if b[0][1] is None))


@how_served.wrong(
    "release_is_always_enough",
    "It was taken for granted that the release helps. Ask whether the segment fits into what is "
    "left and what came back; if not, it is out of memory.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    truth = _truth(segments, left, nbytes)
    return "after release" if truth == "out of memory" else truth


@how_served.wrong(
    "any_release_is_enough",
    "It was taken for granted that the release helps, where a whole segment is free. Ask whether "
    "the new one fits into what is left and what came back.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    truth = _truth(segments, left, nbytes)
    return "after release" if truth == "out of memory" and _whole(segments) else truth


@how_served.wrong(
    "names_not_looked_at",
    "A block in which a tensor lives was given away. Only a block whose name is None is free.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    own = [s for s in segments if s[1] == pool_of(rounded(nbytes))]
    if any(size >= rounded(nbytes) for *_, blocks in own for size, _ in blocks):
        return "cached"
    return _grown(left, nbytes, _whole(segments))


@how_served.wrong(
    "free_bytes_of_a_segment",
    "The free bytes of a segment were added up. A tensor needs one free block that is large "
    "enough.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    own = [[s] for s in segments if s[1] == pool_of(rounded(nbytes))]
    if any(_free(s) >= rounded(nbytes) for s in own):
        return "cached"
    return _grown(left, nbytes, _whole(segments))


@how_served.wrong(
    "release_first",
    "The device has enough left for a new segment here. Segments go back only when cudaMalloc has "
    "failed.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    served = _truth(segments, left, nbytes)
    return "after release" if served == "new segment" else served


@how_served.wrong(
    "left_is_all",
    "What is held already was taken away from `left`. It is what the device has left for "
    "cudaMalloc, beside all that is reserved.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    if _fits(segments, nbytes):
        return "cached"
    held = sum(size for *_, blocks in segments for size, _ in blocks)
    if segment_bytes(rounded(nbytes)) <= left - held:
        return "new segment"
    later = segment_bytes(rounded(nbytes)) <= left + _whole(segments)
    return "after release" if later else "out of memory"


@how_served.wrong(
    "block_fits_after_release",
    "After the release less room than the segment needs is enough here, as where only the block "
    "has to fit. cudaMalloc is asked for a whole segment then too.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    truth = _truth(segments, left, nbytes)
    fits = rounded(nbytes) <= left + _whole(segments)
    return "after release" if truth == "out of memory" and fits else truth


@how_served.wrong(
    "no_twenty_after_release",
    "After the release less than 20 MiB is enough here for a large block below 10 MiB. cudaMalloc "
    "is asked for the same 20 MiB once more.",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    truth = _truth(segments, left, nbytes)
    fits = -(-rounded(nbytes) // (2 * MIB)) * 2 * MIB <= left + _whole(segments)
    return "after release" if truth == "out of memory" and fits else truth


@how_served.wrong(
    "empty_pool_has_no_largest",
    "max() of nothing raises: a pool may have no free block. Say what it is then: max(free, "
    "default=0).",
)
def _(segments: Plain, left: int, nbytes: int) -> str:
    pool = pool_of(rounded(nbytes))
    max(size for _, p, blocks in segments if p == pool for size, name in blocks if name is None)
    return _truth(segments, left, nbytes)


@how_served.cost
def _(student: Student, draw: Draw) -> str:
    segments, *_ = _case(SPLINTERS, 0, 1)
    told = student.call("how_served", segments, 2 * MIB, 12 * MIB)
    return f"{_free(segments):,} bytes are free, 12 MiB are asked for: {told!r}"
