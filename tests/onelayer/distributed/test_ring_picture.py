"""show_ring: which slice came, in turns that end with every rank holding every sum."""

from __future__ import annotations

import pytest

import onelayer


def ring(n: int) -> list[list[list[int]]]:
    """The turns of an all-reduce, in sets of ranks, so that nothing is counted twice."""
    held = [[{rank} for _ in range(n)] for rank in range(n)]
    turns = [held]
    for turn in range(2 * (n - 1)):
        new = [list(row) for row in turns[-1]]
        for rank in range(n):
            place, to = (rank - turn) % n, (rank + 1) % n
            sent = turns[-1][rank][place]
            if turn < n - 1:
                assert not sent & turns[-1][to][place]
                sent = sent | turns[-1][to][place]
            new[to][place] = sent
        turns.append(new)
    return [[[len(ranks) for ranks in row] for row in held] for held in turns]


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_each_turn_brings_each_rank_one_slice(n: int) -> None:
    picture = onelayer.show_ring(ring(n))
    assert len(picture.came) == 2 * (n - 1)
    for came in picture.came:
        assert {rank for rank, _ in came} == set(range(n))
        assert len(came) == n
    assert {number for rank in picture.turns[-1] for number in rank} == {n}
    assert picture.images[0] != picture.images[1]


def test_the_text_marks_what_came() -> None:
    assert repr(onelayer.show_ring(ring(2))).splitlines() == [
        "turn 1: 1 2* | 2* 1",
        "turn 2: 2* 2 | 2 2*",
        "* came in this turn",
    ]


@pytest.mark.parametrize(
    "turns", [[], [[[1], [1]]], [[[1]], [[1]]], [[[1, 1], [1]], [[1, 1], [1]]]]
)
def test_what_is_no_ring_is_refused(turns) -> None:
    with pytest.raises(ValueError, match="two ranks or more"):
        onelayer.show_ring(turns)
