"""One submission after another: what the first leaves behind, and whether the second finds it."""

from __future__ import annotations

from dataclasses import dataclass

from autograder.attacks.attack import PASS, Outcome
from autograder.attacks.ground import ALL, Ground, Walls
from autograder.judge import NoAnswer

from .reach import HONEST, SETUP


@dataclass(frozen=True)
class NextStudent:
    """The same source runs in two submissions, one after the other. `attempt()` returns True where
    it finds what an earlier one has left. off: the walls that are left without the defence."""

    off: Walls

    def defended(self, submission: str, ground: Ground) -> Outcome:
        return self._in_turn(submission, ground, ALL)

    def undefended(self, submission: str, ground: Ground) -> Outcome:
        return self._in_turn(submission, ground, self.off)

    def _in_turn(self, source: str, ground: Ground, walls: Walls) -> Outcome:
        found = [self._attempted(source, ground, walls) for _ in range(2)][1]
        taken = found is True
        word = "reached" if taken else PASS if found == HONEST else "refused"
        return Outcome(word, taken, repr(found)[:200])

    def _attempted(self, source: str, ground: Ground, walls: Walls) -> object:
        with ground.open([SETUP + source], walls) as student:
            student.begin(may_write=False)
            try:
                answer: object = student.call("attempt")
            except NoAnswer as none:
                return str(none.raised)
            return answer
