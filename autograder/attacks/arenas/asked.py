"""A submission is asked a question from outside; undefended, by a question that is asked badly."""

from __future__ import annotations

from dataclasses import dataclass

from autograder.attacks.attack import Outcome
from autograder.attacks.ground import ALL, Ground, Walls
from autograder.judge import Question, State, ask

KNOWN_SEED = 42


@dataclass(frozen=True)
class Asked:
    """question: as in grading. instead: how it is asked without the defence; None for the same.
    known_seed: without the defence, everybody's inputs are the same and were given out."""

    question: Question
    instead: Question | None = None
    known_seed: bool = False

    def defended(self, submission: str, ground: Ground) -> Outcome:
        return asked(self.question, submission, ground, seed=ground.seed())

    def undefended(self, submission: str, ground: Ground) -> Outcome:
        seed = KNOWN_SEED if self.known_seed else ground.seed()
        return asked(self.instead or self.question, submission, ground, seed=seed)


def asked(
    question: Question, source: str, ground: Ground, *, seed: int, walls: Walls = ALL
) -> Outcome:
    """What the judge says of the cell `source`; it has succeeded when it passes."""
    with ground.open([source], walls) as student:
        verdict = ask(question, student, seed=seed, rounds=3)
    error = student.cells[0].error
    detail = f"{verdict.sentence} {verdict.got} {error or ''}".strip()
    return Outcome(str(verdict.state), verdict.state is State.PASS, detail)
