"""Who stands where on a leaderboard, and the page that shows it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from autograder.checks.lab12_ship_it import lab
from autograder.classroom.reports.leaderboard import Board, leaderboard_page, standings
from autograder.judge import Spread
from tests.classroom.made_class import SCRIPT

RACED = [
    ("slow", Spread(1.9, 2.0, 2.1)),
    ("first", Spread(0.4, 0.5, 0.6)),
    ("near", Spread(0.55, 0.7, 0.8)),
    ("behind", Spread(0.75, 0.9, 1.0)),
]


def test_who_cannot_be_told_apart_shares_a_place() -> None:
    board = standings(RACED)
    assert [(one.place, one.name, one.tied) for one in board] == [
        (1, "first", True),
        (1, "near", True),  # begins below where the first one's half ends
        (3, "behind", False),  # touches "near", and not the first of the place
        (4, "slow", False),
    ]
    assert standings([]) == []
    same = Spread(1.0, 1.0, 1.0)
    assert [one.place for one in standings([("a", same), ("b", same)])] == [1, 1]


def test_the_page_shows_names_as_text_and_loads_nothing() -> None:
    boards = [Board("loss_options", "Lab 12.5", "peer", standings([(SCRIPT, RACED[0][1])]), 2)]
    boards.append(Board("head_wheel", "Lab 12.8", "peer", [], 0))
    page = leaderboard_page(lab, boards, "2 processors", datetime(2026, 1, 1, tzinfo=UTC))
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert "2 right answers have no number" in page
    assert "Nobody" in page
    assert "<h1>Lab 12:" in page
    assert "Raced on 2 processors. Written 2026-01-01 00:00 UTC." in page


@pytest.mark.parametrize(("middles", "widest"), [((), 1.0), ((0.5,), 1.0), ((0.5, 2.5), 2.5)])
def test_the_bars_end_at_the_slowest_or_at_the_reference(
    middles: tuple[float, ...], widest: float
) -> None:
    raced = [(f"{middle}", Spread(middle, middle, middle)) for middle in middles]
    assert Board("q", "Lab 12.5", "peer", standings(raced), 0).widest == widest


def test_who_is_as_quick_stands_by_name() -> None:
    same = Spread(1.0, 1.0, 1.0)
    assert [one.name for one in standings([("b", same), ("a", same), ("c", same)])] == [*"abc"]


def test_touching_the_half_of_the_first_is_a_tie() -> None:
    raced = [("a", Spread(0.5, 1.0, 1.5)), ("b", Spread(1.5, 2.0, 2.5))]
    assert [(one.place, one.tied) for one in standings(raced)] == [(1, True), (1, True)]
