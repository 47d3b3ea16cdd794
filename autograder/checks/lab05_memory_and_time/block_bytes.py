"""What the allocator makes of the bytes of one request."""

from __future__ import annotations

from typing import Any

from autograder.checks.explaining import saying
from autograder.judge import Draw, Student, expect_equal

from . import lab
from .allocator_model import MIB, ROUND, pool_of, rounded, segment_bytes
from .requests import drawn_bytes

Sizes = tuple[int, str, int]


@lab.question(
    "block_bytes",
    points=2,
    minutes=5,
    difficulty=1,
    hints=(
        "Three questions, one after the other, and the last two look at the rounded bytes.",
        "Round up to a multiple of 512. Up to 1 MiB is small. A small block gets a segment of "
        "2 MiB, one below 10 MiB gets 20 MiB, and a larger one the next multiple of 2 MiB.",
        'pool = "small" if block <= 2**20 else "large"',
    ),
)
def block_bytes(student: Student, draw: Draw) -> None:
    """What the allocator makes of one request, when nothing is cached.

    nbytes (int, at least 1) -> (bytes of the block, "small" or "large", bytes of the segment that
    is asked of cudaMalloc).
    """
    borders = [1, 512, 513, MIB - 512, MIB, MIB + 1, 3 * MIB, 24 * MIB, 10 * MIB, 10 * MIB - 512]
    borders += [10 * MIB - 100, 10 * MIB + 1, 12 * MIB, 24 * MIB + 513, 25 * MIB]
    borders += [511, 1024, 4 * MIB + 513, 16 * MIB + 7, 18 * MIB + 1, 20 * MIB - 511, 20 * MIB]
    borders += [33 * MIB, 200 * MIB + 1, 3 * 1024 * MIB + 5]
    cases = [(nbytes,) for nbytes in borders + [drawn_bytes(draw) for _ in draw.cases(8)]]
    for (nbytes,), got in zip(cases, student.each("block_bytes", cases), strict=True):
        want = _sizes_as_named(got, rounded(nbytes))
        with saying(_what_rounds(got, want, nbytes)):
            expect_equal(got, want)


def _what_rounds(got: Any, want: Sizes, nbytes: int) -> str:
    """The rule of the first of the three that is wrong."""
    if not isinstance(got, (list, tuple)) or list(map(type, got)) != list(map(type, want)):
        return ""
    if got[0] != want[0]:
        times = rounded(nbytes) // ROUND
        return f"The block of {nbytes} bytes is the request, rounded up: {times} times {ROUND}."
    return (
        "The block is right. Its bytes say the rest: up to 1 MiB the small pool, and a segment of "
        "2 MiB; below 10 MiB the large pool, and 20 MiB; from there on the next multiple of 2 MiB."
    )


def _sizes_as_named(got: Any, block: int) -> Sizes:
    """What a right answer says; where no more than 1 MiB would be left over, which the large pool
    does not split off, the block may be the rounded bytes or all of the segment."""
    want = _sizes(block)
    _, pool, segment = want
    first = got[0] if isinstance(got, (list, tuple)) and got else None
    unsplit = pool == "large" and segment - block <= MIB
    is_whole = type(first) is int and first == segment
    return (segment, pool, segment) if is_whole and unsplit else want


def _sizes(block: int) -> Sizes:
    """What a right answer says of a request that was rounded to `block`."""
    return block, pool_of(block), segment_bytes(block)


def _up(n: int, step: int) -> int:
    return -(-n // step) * step


NOT_ROUNDED = (
    "The block has the bytes that were asked for. Every block is a multiple of 512 bytes, so that "
    "blocks begin at aligned addresses."
)
block_bytes.wrong(
    "not_rounded",
    NOT_ROUNDED,
    block_bytes=lambda nbytes: (nbytes, *_sizes(rounded(nbytes))[1:]),
)
block_bytes.wrong(
    "next_power_of_two",
    "The block was rounded to a power of two. The allocator does that only when "
    "`roundup_power2_divisions` is set; by default it rounds to 512 bytes.",
    block_bytes=lambda nbytes: _sizes(max(512, 1 << (nbytes - 1).bit_length())),
)
block_bytes.wrong(
    "one_more_512",
    "A request that is a multiple of 512 already was rounded further. It stays as it is.",
    block_bytes=lambda nbytes: _sizes(nbytes // 512 * 512 + 512),
)
block_bytes.wrong(
    "mib_is_large",
    "A block of 1 MiB exactly still belongs to the small pool.",
    block_bytes=lambda nbytes: (
        rounded(nbytes),
        "small" if nbytes < MIB else "large",
        2 * MIB if nbytes < MIB else segment_bytes(max(rounded(nbytes), MIB + 512)),
    ),
)
block_bytes.wrong(
    "segment_of_the_request",
    "The segment was chosen by the bytes that were asked for. The allocator rounds first: 10 MiB "
    "less 100 bytes is a block of 10 MiB, and such a block gets a segment of its own.",
    block_bytes=lambda nbytes: (
        rounded(nbytes),
        pool_of(nbytes),
        segment_bytes(nbytes) if nbytes > MIB else 2 * MIB,
    ),
)
block_bytes.wrong(
    "ten_is_shared",
    "A block of 10 MiB exactly gets a segment of its own; the segments of 20 MiB are for blocks "
    "below that.",
    block_bytes=lambda nbytes: (
        *_sizes(rounded(nbytes))[:2],
        20 * MIB if rounded(nbytes) == 10 * MIB else segment_bytes(rounded(nbytes)),
    ),
)
block_bytes.wrong(
    "segment_as_large_as_the_block",
    "The segment is as large as the block. Then the next small request would need a cudaMalloc of "
    "its own, which is what the allocator is there to avoid.",
    block_bytes=lambda nbytes: (*_sizes(rounded(nbytes))[:2], rounded(nbytes)),
)
block_bytes.wrong(
    "no_twenty",
    "Blocks between 1 and 10 MiB share segments of 20 MiB. Whole multiples of 2 MiB are for blocks "
    "of 10 MiB and more.",
    block_bytes=lambda nbytes: (*_sizes(rounded(nbytes))[:2], _up(rounded(nbytes), 2 * MIB)),
)
block_bytes.wrong(
    "own_segment_not_rounded",
    "A block of 10 MiB or more gets a segment of its own, and cudaMalloc is asked for the next "
    "multiple of 2 MiB, not for the block's bytes.",
    block_bytes=lambda nbytes: (
        *_sizes(rounded(nbytes))[:2],
        rounded(nbytes) if rounded(nbytes) > 10 * MIB else segment_bytes(rounded(nbytes)),
    ),
)
block_bytes.wrong(
    "megabytes",
    "These limits are 1,000,000 and its multiples. The allocator counts in MiB, which is 2**20 "
    "bytes.",
    block_bytes=lambda nbytes: (
        rounded(nbytes),
        "small" if rounded(nbytes) <= 10**6 else "large",
        2 * 10**6
        if rounded(nbytes) <= 10**6
        else 20 * 10**6
        if rounded(nbytes) < 10**7
        else _up(rounded(nbytes), 2 * 10**6),
    ),
)


block_bytes.wrong(
    "only_at_least_512",
    "A small request got 512 bytes, and a larger one as many as it asked for. Every block is a "
    "whole multiple of 512.",
    block_bytes=lambda nbytes: (max(512, nbytes), *_sizes(rounded(nbytes))[1:]),
)
block_bytes.wrong(
    "small_segment_as_the_block",
    "The segment of a small block is as large as the block. All small blocks share segments of "
    "2 MiB.",
    block_bytes=lambda nbytes: (
        (
            *_sizes(rounded(nbytes))[:2],
            min(rounded(nbytes), segment_bytes(rounded(nbytes))),
        )
        if rounded(nbytes) <= MIB
        else _sizes(rounded(nbytes))
    ),
)
block_bytes.wrong(
    "million_is_large",
    "The small pool ends too early here, as with a limit of a million bytes. It ends at 1 MiB, "
    "which is 2**20.",
    block_bytes=lambda nbytes: (
        rounded(nbytes),
        "small" if nbytes <= 10**6 else "large",
        2 * MIB if nbytes <= 10**6 else segment_bytes(max(rounded(nbytes), MIB + 512)),
    ),
)
block_bytes.wrong(
    "ten_for_twenty",
    "The segments that blocks below 10 MiB share are 20 MiB large, not 10: else two of more than "
    "5 MiB could not share one.",
    block_bytes=lambda nbytes: (
        *_sizes(rounded(nbytes))[:2],
        10 * MIB if MIB < rounded(nbytes) < 10 * MIB else segment_bytes(rounded(nbytes)),
    ),
)


block_bytes.wrong(
    "bytes_as_asked",
    NOT_ROUNDED,
    block_bytes=lambda nbytes: (nbytes, pool_of(nbytes), segment_bytes(nbytes)),
)


block_bytes.wrong(
    "rounded_down",
    "The request was rounded down, and does not fit into its block. Round up: -(-nbytes // 512) * "
    "512.",
    block_bytes=lambda nbytes: _sizes(nbytes // 512 * 512),
)


block_bytes.wrong(
    "steps_of_256",
    "The block was rounded to a multiple of 256 bytes. Blocks are multiples of 512.",
    block_bytes=lambda nbytes: _sizes(_up(nbytes, 256)),
)


block_bytes.wrong(
    "steps_of_1024",
    "The block was rounded to a multiple of 1024 bytes. Blocks are multiples of 512.",
    block_bytes=lambda nbytes: _sizes(_up(nbytes, 1024)),
)


@block_bytes.wrong(
    "always_twenty",
    "Every large block got a segment of 20 MiB. From 10 MiB on a block gets one of its own, the "
    "next multiple of 2 MiB.",
)
def _(nbytes: int) -> Sizes:
    block = rounded(nbytes)
    return block, pool_of(block), 2 * MIB if block <= MIB else 20 * MIB


@block_bytes.wrong(
    "shared_up_to_twenty",
    "A segment of 20 MiB was taken for blocks of 10 MiB and more too, where they fit into it. The "
    "border is 10 MiB: from there on a block gets a segment of its own.",
)
def _(nbytes: int) -> Sizes:
    block = rounded(nbytes)
    return (
        block,
        pool_of(block),
        segment_bytes(block)
        if block < MIB or block >= 20 * MIB
        else 2 * MIB
        if block <= MIB
        else 20 * MIB,
    )


@block_bytes.wrong(
    "own_segment_in_mib",
    "The segment was rounded to a multiple of 1 MiB. cudaMalloc is asked for multiples of 2 MiB.",
)
def _(nbytes: int) -> Sizes:
    block = rounded(nbytes)
    return block, pool_of(block), segment_bytes(block) if block < 10 * MIB else _up(block, MIB)


@block_bytes.wrong(
    "own_segment_one_more",
    "A block that is a multiple of 2 MiB already got 2 MiB more. It stays as it is.",
)
def _(nbytes: int) -> Sizes:
    block = rounded(nbytes)
    return (
        block,
        pool_of(block),
        segment_bytes(block) if block < 10 * MIB else (block // (2 * MIB) + 1) * 2 * MIB,
    )


@block_bytes.wrong(
    "own_segment_rounded_down",
    "The segment was rounded down, and the block does not fit into it. Round up to the next "
    "multiple of 2 MiB.",
)
def _(nbytes: int) -> Sizes:
    block = rounded(nbytes)
    return (
        block,
        pool_of(block),
        segment_bytes(block) if block < 10 * MIB else block // (2 * MIB) * 2 * MIB,
    )


@block_bytes.wrong(
    "own_segment_in_twenties",
    "A block of 10 MiB or more got a multiple of 20 MiB. Its own segment is the next multiple of "
    "2 MiB.",
)
def _(nbytes: int) -> Sizes:
    block = rounded(nbytes)
    return block, pool_of(block), segment_bytes(block) if block < 10 * MIB else _up(block, 20 * MIB)


@block_bytes.wrong(
    "small_segment_of_one",
    "A small block got a segment of 1 MiB. That is the most that a small block holds; the segment "
    "has 2 MiB.",
)
def _(nbytes: int) -> Sizes:
    block = rounded(nbytes)
    return block, pool_of(block), MIB if block <= MIB else segment_bytes(block)


@block_bytes.wrong(
    "small_up_to_two",
    "Blocks of more than 1 MiB were put into the small pool. 2 MiB is its segment; a small block "
    "has 1 MiB at most.",
)
def _(nbytes: int) -> Sizes:
    block = rounded(nbytes)
    return (
        block,
        "small" if block <= 2 * MIB else "large",
        2 * MIB if block <= 2 * MIB else segment_bytes(block),
    )


@block_bytes.wrong(
    "segment_in_mib",
    "The segment is counted in MiB. Bytes were asked for.",
)
def _(nbytes: int) -> Sizes:
    block = rounded(nbytes)
    return block, pool_of(block), segment_bytes(block) // MIB


block_bytes.wrong(
    "segment_first",
    "The three come in another order: (block, pool, segment) was asked for.",
    block_bytes=lambda nbytes: _sizes(rounded(nbytes))[::-1],
)


block_bytes.wrong(
    "segment_left_out",
    "The segment is missing: the third number is what cudaMalloc is asked for.",
    block_bytes=lambda nbytes: _sizes(rounded(nbytes))[:2],
)


block_bytes.wrong(
    "large_block_as_asked",
    "A large block has the bytes that were asked for. Every block is a multiple of 512 bytes, "
    "large ones too.",
    block_bytes=lambda nbytes: (
        (nbytes if nbytes > MIB else rounded(nbytes)),
        *_sizes(rounded(nbytes))[1:],
    ),
)


block_bytes.wrong(
    "block_as_large_as_its_segment",
    "From 10 MiB on the block has the size of its segment. The block is the rounded request; what "
    "is left of the segment, where it is more than 1 MiB, is another block.",
    block_bytes=lambda nbytes: (
        rounded(nbytes) if rounded(nbytes) < 10 * MIB else segment_bytes(rounded(nbytes)),
        *_sizes(rounded(nbytes))[1:],
    ),
)


@block_bytes.cost
def _(student: Student, draw: Draw) -> str:
    bias, logits = 600 * 4, 4096 * 600 * 4
    one, many = (student.call("block_bytes", n) for n in (bias, logits))
    return (
        f"the head's bias, {bias:,} bytes: a block of {one[0]:,} in a segment of {one[2]:,}; "
        f"logits of 4,096 tokens, {logits:,} bytes: a segment of {many[2]:,}"
    )
