from __future__ import annotations

from datetime import UTC, datetime

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
