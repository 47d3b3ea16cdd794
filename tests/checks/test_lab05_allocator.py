"""The model of the caching allocator: what must hold of it whatever is asked.

That it is torch's own allocator, block for block, is asked in
tests/onelayer/mock_cuda/test_allocator.py.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from autograder.checks.lab05_memory_and_time.allocator_model import (
    MIB,
    Allocator,
    OutOfMemory,
    pool_of,
    rounded,
    segment_bytes,
)
from autograder.checks.lab05_memory_and_time.broken_rules import broken_rule
from autograder.checks.lab05_memory_and_time.requests import Plain
from tests.onelayer.memory.drawn_requests import drawn_requests


@pytest.mark.parametrize("seed", range(30))
def test_blocks_fill_their_segments_and_no_two_free_ones_touch(seed: int) -> None:
    allocator, held = Allocator(), {}
    for verb, *arguments in drawn_requests(random.Random(seed)):
        allocator.run([(verb, *arguments)])
        if verb == "alloc":
            held[arguments[0]] = arguments[1]
        elif verb == "free":
            del held[arguments[0]]
        blocks = [block for segment in allocator.segments for block in segment.blocks]
        assert {b.name: b.asked for b in blocks if b.name is not None} == held
        assert all(b.bytes >= rounded(b.asked) for b in blocks if b.name is not None)
        assert allocator.allocated <= allocator.reserved <= allocator.peak_reserved
        for segment in allocator.segments:
            free = [block.name is None for block in segment.blocks]
            assert not any(a and b for a, b in pairwise(free))
            assert segment.bytes % (2 * MIB) == 0
            assert all(block.bytes % 512 == 0 for block in segment.blocks)


def test_three_sizes_at_their_borders() -> None:
    assert [rounded(n) for n in (1, 512, 513)] == [512, 512, 1024]
    assert [pool_of(n) for n in (MIB, MIB + 512)] == ["small", "large"]
    assert [segment_bytes(n) for n in (MIB, MIB + 512)] == [2 * MIB, 20 * MIB]
    assert [segment_bytes(n) for n in (10 * MIB - 512, 10 * MIB)] == [20 * MIB, 10 * MIB]


def test_a_full_device_gets_back_what_is_whole_and_no_more() -> None:
    requests = [("alloc", "a", 24 * MIB, 0), ("alloc", "b", 3 * MIB, 0), ("free", "a")]
    allocator = Allocator(capacity=46 * MIB).run(requests)  # 44 MiB reserved: 24 whole and free
    assert allocator.alloc("c", 26 * MIB) == "after release"
    with pytest.raises(OutOfMemory):
        allocator.alloc("d", 18 * MIB)
    assert allocator.alloc("e", 17 * MIB) == "cached"


def test_a_segment_taken_over_is_the_one_that_was_told() -> None:
    first = Allocator().run(drawn_requests(random.Random(5)))
    second = Allocator()
    for segment in first.segments:
        second.adopt(*segment.plain())
    assert [s.plain() for s in second.segments] == [s.plain() for s in first.segments]


def test_what_is_not_there_cannot_be_freed() -> None:
    with pytest.raises(KeyError):
        Allocator().free("nobody")


def test_a_name_may_be_given_and_freed_twice() -> None:
    requests = [("alloc", "a", 512, 0), ("free", "a"), ("alloc", "a", 512, 0), ("free", "a")]
    held = [(0, "small", [(512, "a"), (2 * MIB - 512, None)])]
    told = broken_rule(held, [(0, "small", [(2 * MIB, None)])], requests)
    assert told == "a is no tensor that is alive. The name in a free block is None."


def test_a_segment_of_another_size_is_told() -> None:
    requests = [("alloc", "a", 10 * MIB, 0), ("alloc", "b", 11 * MIB, 0)]
    want: Plain = [(0, "large", [(10 * MIB, "a")]), (0, "large", [(12 * MIB, "b")])]
    alike = [(0, "large", [(10 * MIB, "a"), (10 * MIB, None)]), want[1]]
    assert "add up to 20971520" in broken_rule(alike, want, requests)
    moved = [want[1], alike[0]]
    assert "with 20971520 bytes: 1 here" in broken_rule(moved, want, requests)
