"""The leaderboard of a lab: one HTML file that a class may see, with shown names and no others.

Who cannot be told apart shares a place: half of the ratios of a race lie between two numbers, and
two answers are apart where these halves do not touch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from markupsafe import Markup

from autograder.judge import Lab, Spread

from .page import HERE, environment


@dataclass(frozen=True)
class Standing:
    """One line of the board. place: from 1, the same for those who are tied."""

    place: int
    name: str
    spread: Spread
    tied: bool


def standings(raced: Sequence[tuple[str, Spread]]) -> list[Standing]:
    """Everybody by name, the quickest first. The first of a place is beaten by nobody in it; who
    reaches into the half of that first one is tied with it."""
    left = sorted(raced, key=lambda one: (one[1].middle, one[0]))
    board: list[Standing] = []
    while left:
        here, place = left[: _tied(left)], len(board) + 1
        board += [Standing(place, name, spread, len(here) > 1) for name, spread in here]
        left = left[len(here) :]
    return board


def _tied(left: Sequence[tuple[str, Spread]]) -> int:
    """How many of these, from the first, cannot be told from it."""
    reach = left[0][1].high
    return sum(1 for _ in takewhile(lambda one: one[1].low <= reach, left))


@dataclass(frozen=True)
class Board:
    """What was raced for one question. peer: whose time is 1; left_out: how many right answers
    have no ratio."""

    question: str
    title: str
    peer: str
    standings: Sequence[Standing]
    left_out: int

    @property
    def widest(self) -> float:
        """The ratio at the right edge of the bars."""
        return max([1.0, *(one.spread.middle for one in self.standings)])


def leaderboard_page(lab: Lab, boards: Sequence[Board], machine: str, now: datetime) -> str:
    """The HTML text. machine: what it was raced on, in words."""
    return (
        environment()
        .get_template("leaderboard.html.j2")
        .render(
            lab=lab,
            number=int(lab.name[:2]),
            style=Markup((HERE / "page.css").read_text(encoding="utf-8")),
            boards=boards,
            machine=machine,
            now=f"{now:%Y-%m-%d %H:%M} UTC",
        )
    )
