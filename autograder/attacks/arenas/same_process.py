"""A submission is asked in two processes, the second of which knows what crossed the wire;
undefended, both halves are asked in one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from autograder.attacks.attack import Outcome
from autograder.attacks.ground import Ground, Walls
from autograder.judge import Question, State, Student, ask
from autograder.sandbox import Cell, JailedStudent, Limits

ROOMY = Walls(limits=Limits())


class _Forever(JailedStudent):
    """Its process is never another one."""

    @contextmanager
    def afresh(self) -> Iterator[Student]:
        yield self


@dataclass(frozen=True)
class SameProcess:
    """question: as in grading."""

    question: Question

    def defended(self, submission: str, ground: Ground) -> Outcome:
        with ground.open([submission], ROOMY) as student:
            return self._asked(student, ground)

    def undefended(self, submission: str, ground: Ground) -> Outcome:
        jail = ground.jail(ROOMY)
        cells = [Cell("answer", submission)]
        with _Forever(jail._start, cells, limits=jail.limits, where=jail.where) as student:
            return self._asked(student, ground)

    def _asked(self, student: JailedStudent, ground: Ground) -> Outcome:
        verdict = ask(self.question, student, seed=ground.seed())
        detail = f"{verdict.sentence} {verdict.got}".strip()
        return Outcome(str(verdict.state), verdict.state is State.PASS, detail)
