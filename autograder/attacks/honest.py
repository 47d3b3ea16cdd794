"""Programs that look like trouble and are none: each must pass, whatever stops attacks."""

from __future__ import annotations

from dataclasses import dataclass, field

from autograder.judge import Question
from autograder.sandbox import Limits

from .arenas.asked import asked
from .attack import Outcome
from .ground import Ground, Walls
from .questions import double


@dataclass(frozen=True)
class HonestProgram:
    """name: what it does that could be mistaken. source: a right answer that does it."""

    name: str
    source: str
    question: Question = field(default_factory=lambda: double)

    def asked(self, ground: Ground) -> Outcome:
        """With the limits of grading, not the small ones of the attacks."""
        walls = Walls(limits=Limits())
        return asked(self.question, self.source, ground, seed=ground.seed(), walls=walls)
