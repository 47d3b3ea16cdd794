"""A submission forges the evidence of how it computed; undefended, the harness that tells it runs
in the student's own process, as a cell of ours before theirs, and takes any text."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from unittest.mock import patch

from autograder.attacks.attack import Outcome
from autograder.attacks.ground import Ground, Walls
from autograder.judge import Question, State, Student, ask
from autograder.sandbox import Cell, JailedStudent, Limits

ROOMY = Walls(limits=Limits(load_s=60.0))
"""A compiler needs more than most attacks do."""


class _OwnRoom(JailedStudent):
    """Its clean room is the process of the student."""

    is_grading = False

    @contextmanager
    def clean_room(self, harness: str) -> Iterator[Student]:
        yield self._entered(self)

    def hand_over(self, room: Student, name: str) -> None:
        """It is there already."""


@dataclass(frozen=True)
class BelievedHarness:
    """question: as in grading; its harness; setup: cells of the page before the answer."""

    question: Question
    harness: ModuleType
    setup: str = ""

    def defended(self, submission: str, ground: Ground) -> Outcome:
        cells = [Cell("setup", self.setup), Cell("answer", submission)]
        with ground.jail(ROOMY).open(cells, loopback=self.question.loopback) as student:
            return self._asked(student, ground)

    def undefended(self, submission: str, ground: Ground) -> Outcome:
        sources = [inspect.getsource(self.harness), self.setup, submission]
        cells = [Cell(f"cell-{k}", source) for k, source in enumerate(sources)]
        jail = ground.jail(ROOMY)
        with _OwnRoom(jail._start, cells, limits=jail.limits, where=jail.where) as student:
            return self._asked(student, ground)

    def _asked(self, student: JailedStudent, ground: Ground) -> Outcome:
        verdict = ask(self.question, student, seed=ground.seed())
        errors = [cell.error for cell in student.cells if cell.error]
        detail = f"{verdict.sentence} {verdict.got} {errors or ''}".strip()
        return Outcome(str(verdict.state), verdict.state is State.PASS, detail)


class AdmittedUnread(BelievedHarness):
    """Undefended, a clean room takes whatever text stands in the cell."""

    def undefended(self, submission: str, ground: Ground) -> Outcome:
        room = importlib.import_module("autograder.judge.clean_room")  # its function has its name
        with patch.object(room, "not_admitted", lambda source, rules: ()):
            return self.defended(submission, ground)


@dataclass(frozen=True)
class Overlooked(BelievedHarness):
    """Undefended, the check does not look: its function `look`, in its own module, does nothing."""

    look: str = ""

    def undefended(self, submission: str, ground: Ground) -> Outcome:
        check = importlib.import_module(self.question.check.__module__)
        with patch.object(check, self.look, lambda *_: None):
            return self.defended(submission, ground)
