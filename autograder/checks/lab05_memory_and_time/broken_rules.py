"""Which rule of the allocator an answer's segments break, seen in the segments alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from .allocator_model import LARGE_SEGMENT, MIB, OWN_SEGMENT, PAGE, SMALL_SEGMENT, rounded
from .requests import Plain, Requests

Place = tuple[int, int, int]
"""Of a tensor: the segment, the bytes before it there, the bytes of its block."""


def broken_rule(got: Any, want: Plain, requests: Requests) -> str:
    """A sentence that is true of `got`, whoever made it; "" where it is no list of segments."""
    held = _read(got)
    if held is None:
        return ""
    alive: dict[str, tuple[int, int]] = {}
    through: set[str] = set()  # what was alive when the cache was emptied
    for verb, *rest in requests:  # in their order: a name that was freed can be given again
        if verb == "alloc":
            alive[rest[0]] = rest[1], rest[2]
        elif verb == "free":
            del alive[rest[0]]
        through = {*alive} if verb == "empty_cache" else through & {*alive}
    alone = {blocks[0][1] for *_, blocks in want if len(blocks) == 1}
    filling = {name for name in through if name in alone}
    return next(_emptied(held, filling), "") or next(_broken(held, want, alive), "")


def _emptied(held: Plain, filling: set[str]) -> Iterator[str]:
    """filling: those that fill a segment each, and were there when the cache was emptied."""
    there = {name for *_, blocks in held for _, name in blocks}
    for name in sorted(filling - there):
        yield (
            f"{name} fills a segment, was not freed, and is gone. empty_cache gives back segments "
            "that are one free block, and none with a tensor in it."
        )


def _read(got: Any) -> Plain | None:
    """`got` as segments; None where it has another form."""
    try:
        held = [(stream, pool, [(n, name) for n, name in blocks]) for stream, pool, blocks in got]
    except (TypeError, ValueError):
        return None
    sizes = [n for *_, blocks in held for n, _ in blocks]
    return held if all(type(n) is int for n in sizes) else None


def _broken(held: Plain, want: Plain, alive: dict[str, tuple[int, int]]) -> Iterator[str]:
    yield from _lost_or_kept(held, alive)
    for stream, pool, blocks in held:
        yield from _of_tensors(stream, pool, blocks, alive)
        yield from _of_a_segment(pool, blocks)
    if sorted(map(repr, held)) == sorted(map(repr, want)):
        yield "These are the right segments in another order: the oldest comes first."
    yield from _of_their_number(held, want)
    mine, right = _places(held), _places(want)
    if any(mine[name][:2] != place[:2] for name, place in right.items()):
        yield from _of_their_sizes(held, want)
    for name, place in right.items():
        if place[:2] == mine[name][:2] and place[2] > mine[name][2]:
            yield (
                f"Too little is left over behind {name} for a block of its own, so the tensor "
                "keeps the whole block."
            )
    if moved := [name for name, place in right.items() if mine[name][:2] != place[:2]]:
        yield (
            f"{moved[0]} lies in another place than the allocator gives it: in the smallest free "
            "block that is large enough, of equal ones in that of the oldest segment, there in the "
            "first, and at its beginning."
        )
    for number, (mine_there, right_there) in enumerate(zip(held, want, strict=False)):
        made, got = (sum(size for size, _ in blocks) for *_, blocks in (right_there, mine_there))
        if made != got:
            yield (
                f"The blocks of segment {number} add up to {got} bytes. The allocator asks "
                f"cudaMalloc for {made} there. A segment keeps its size: either one has not, or a "
                "request went to another segment than the allocator's."
            )


def _lost_or_kept(held: Plain, alive: dict[str, tuple[int, int]]) -> Iterator[str]:
    there = Counter(name for *_, blocks in held for _, name in blocks if name is not None)
    for name in alive:
        if name not in there:
            yield f"{name} was asked for and not freed, and no block has its name."
    for name, times in there.items():
        if name not in alive:
            yield f"{name} is no tensor that is alive. The name in a free block is None."
        elif times > 1:
            yield f"{name} stands in several blocks. A tensor lies in one."


def _of_tensors(
    stream: int, pool: str, blocks: list[tuple[int, str | None]], alive: dict[str, tuple[int, int]]
) -> Iterator[str]:
    for size, name in blocks:
        if name is None:
            continue
        asked, own = alive[name]
        needed = rounded(asked)
        if pool != ("small" if needed <= MIB else "large"):
            yield (
                f"{name} takes {needed} bytes, and lies in the other pool: what takes up to 1 MiB "
                "is small, what takes more is large."
            )
        if stream != own:
            yield f"{name} was asked for on stream {own}, and lies in a segment of another one."
        if size < needed or size % 512:
            yield (
                f"{name} asked for {asked} bytes. Rounded up to whole 512 bytes these are "
                f"{needed}, and its block has {size}."
            )
        if pool == "small" and size > needed:
            yield (
                f"{name} needs {needed} bytes, rounded up to whole 512 bytes, and its block has "
                f"{size}. What is left over, if it is 512 bytes or more, is a block of its own in "
                "the small pool."
            )
        if size - needed > MIB:
            yield (
                f"{name} needs {needed} bytes, and its block has {size}. More than 1 MiB is left "
                "over, so that is a block of its own."
            )


def _of_a_segment(pool: str, blocks: list[tuple[int, str | None]]) -> Iterator[str]:
    total = sum(size for size, _ in blocks)
    own = total >= OWN_SEGMENT and total % PAGE == 0
    fits = total == SMALL_SEGMENT if pool == "small" else total == LARGE_SEGMENT or own
    if not fits:
        yield (
            f'The blocks of a segment of the pool "{pool}" add up to {total} bytes. cudaMalloc is '
            "asked for 2 MiB in the small pool; in the large one for 20 MiB, and from 10 MiB on "
            "for the request in whole 2 MiB."
        )
    if any(a is None and b is None for (_, a), (_, b) in pairwise(blocks)):
        yield (
            "Two free blocks lie side by side. When a tensor goes, its block is joined with the "
            "free blocks before and behind it."
        )


def _of_their_number(held: Plain, want: Plain) -> Iterator[str]:
    if len(held) > len(want):
        yield (
            "There are more segments than the allocator holds: a free block serves a request for "
            "which cudaMalloc was asked here, or empty_cache gives one back that was kept here."
        )
    if len(held) < len(want):
        yield (
            "There are fewer segments than the allocator holds: a request finds no free block of "
            "its stream and pool that is large enough and gets a new segment, and a free one stays "
            "until empty_cache."
        )


def _of_their_sizes(held: Plain, want: Plain) -> Iterator[str]:
    mine, right = _sizes(held), _sizes(want)
    for (pool, total), times in (mine - right).items():
        yield (
            f'Segments of the pool "{pool}" with {total} bytes: {right[pool, total] + times} here, '
            f"{right[pool, total]} in the allocator. "
            "cudaMalloc was asked for another one here, or empty_cache kept one that goes."
        )


def _sizes(segments: Plain) -> Counter[tuple[str, int]]:
    return Counter((pool, sum(size for size, _ in blocks)) for _, pool, blocks in segments)


def _places(segments: Plain) -> dict[str, Place]:
    found = {}
    for number, (_, _, blocks) in enumerate(segments):
        begin = 0
        for size, name in blocks:
            if name is not None:
                found[name] = number, begin, size
            begin += size
    return found
