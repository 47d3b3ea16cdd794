"""The check runs beside the student's code, in the student's process, and is believed.

That is how notebook graders work: a hidden cell with assertions, and no error means points. Here it
runs in a jail, so that nothing is lost by believing it.
"""

from __future__ import annotations

from dataclasses import dataclass

from autograder.attacks.attack import PASS, Outcome
from autograder.attacks.ground import Ground
from autograder.judge import Question

from .asked import asked


@dataclass(frozen=True)
class Beside:
    """question: as in grading. cell: the hidden test that is run in its place."""

    question: Question
    cell: str

    def defended(self, submission: str, ground: Ground) -> Outcome:
        return asked(self.question, submission, ground, seed=ground.seed())

    def undefended(self, submission: str, ground: Ground) -> Outcome:
        with ground.open([submission, self.cell]) as student:
            error = student.cells[1].error
        return Outcome(PASS if error is None else "fail", error is None, str(error or ""))
