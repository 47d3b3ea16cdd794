"""A race: the time of a right answer as a share of a peer's, turn by turn, for nobody's points.

A question says what is raced; a class's leaderboard is made of it. The clock is the one of
`timing`: it stands on our side, the two take turns in one run, and each answer is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median, quantiles

from .draw import Draw
from .student import Student
from .timing import Turn, turns

WARM_UP, TURNS = 2, 11
RACE_S = 60.0
"""For all the turns of one answer, where its question declares nothing longer."""


@dataclass(frozen=True)
class Race:
    """function: whose time counts; peer: "module:function" of `onelayer`; turn: the inputs of one
    turn. entered: where the function is called, if not in the student's own process."""

    function: str
    peer: str
    turn: Callable[[Draw], Turn]
    entered: Callable[[Student], AbstractContextManager[Student]] = nullcontext

    def run(self, student: Student, *, seed: int, budget_s: float | None = None) -> list[float]:
        """The ratio of each turn, own seconds by the peer's; the first ones only warm up.

        Raises what `turns` and `Student.call` do: whoever is slow, wrong or gone has no ratio.
        """
        student.begin(may_write=False, budget_s=max(RACE_S, budget_s or 0.0), on_host=True)
        with self.entered(student) as racer:
            seconds = turns(racer, self.function, self.peer, self._turns(Draw(seed)))
            return [own / peer for own, peer in seconds][WARM_UP:]

    def _turns(self, draw: Draw) -> Iterator[Turn]:
        for _ in range(WARM_UP + TURNS):
            yield self.turn(draw)


@dataclass(frozen=True)
class Spread:
    """What a race came to: the median of its ratios, and between which two half of them lie."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, ratios: list[float]) -> Spread:
        low, _, high = quantiles(ratios, n=4, method="inclusive")
        return cls(low, median(ratios), high)
