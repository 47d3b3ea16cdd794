"""`autograder selftest --mutants`: the course's own solutions with one thing changed, asked its own
questions.

What a student writes of every question is changed in one place at a time (`autograder.mutants`)
and asked with each of SEEDS. A mutant that passes every time is a wrong answer that no case tells
from the right one, or it is equivalent: then `bench/equivalent_answers.toml` says why. One that
passes with some seeds is worse: a notebook and the grade would disagree about it.
"""

from __future__ import annotations

import ast
import re
import signal
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from autograder.judge import (
    Draw,
    Lab,
    LocalStudent,
    NoAnswer,
    Question,
    TooFast,
    Wrong,
    WroteInput,
)
from autograder.mutants import Mutant, mutants
from autograder.selftest import Namespace, answer_source, compiled, execute, setup_namespace

SEEDS = (11, 12, 13)
SECONDS = 20
"""For one mutant and one seed: a loop that never ends is noticed, too."""
EQUIVALENT = Path("bench") / "equivalent_answers.toml"


@dataclass(frozen=True)
class Outcome:
    """What became of the mutants of one question. made: how many. alive: the names of those that
    passed with every seed, and that nobody has explained; explained: of those that somebody has.
    lottery: that passed with some seeds. ours: at which the check itself failed."""

    question: str
    made: int
    alive: tuple[str, ...]
    explained: tuple[str, ...]
    lottery: tuple[str, ...]
    ours: tuple[str, ...]

    @property
    def faults(self) -> list[str]:
        return [
            *(f"{self.question}: no case notices: {name}" for name in self.alive),
            *(f"{self.question}: some seeds notice: {name}" for name in self.lottery),
            *(f"{self.question}: the check itself fails: {name}" for name in self.ours),
        ]

    def __str__(self) -> str:
        rejected = self.made - len(self.alive) - len(self.explained) - len(self.lottery)
        return (
            f"{self.question}: {self.made} mutants, {rejected} rejected, "
            f"{len(self.explained)} equivalent, {len(self.alive)} alive, "
            f"{len(self.lottery)} by some seeds only"
        )


def run(root: Path, lab: Lab, console: Console | None = None, *, only: str = "") -> int:
    """Asks the mutants of every question of `lab`, or of the one question `only`; prints what is
    found. Returns the number of faults."""
    console = console or Console(emoji=False)
    faults = 0
    for question in lab:
        if only in ("", question.name):
            outcome = outcome_of(root, lab, question)
            faults += len(outcome.faults)
            for line in (str(outcome), *outcome.faults):
                console.print(line, markup=False, highlight=False, soft_wrap=True)
    return faults


def outcome_of(root: Path, lab: Lab, question: Question) -> Outcome:
    """Every mutant of the solution of `question`, asked. Raises KeyError where there is none."""
    notebook = root / "solutions" / lab.name / f"{lab.name}.ipynb"
    source, setup = answer_source(notebook, question.name), setup_namespace(notebook)
    answers = {name: value for name, value in execute(notebook).items() if name not in setup}
    lines = _written(source)
    made = [m for m in mutants(source) if m.line in lines and not _is_the_same(m, source)]
    found = [(m.name, _passes(question, m, setup, answers)) for m in made]
    known = _explained(root, question.name)
    always = [name for name, passes in found if passes == {"pass"}]
    return Outcome(
        question.name,
        len(made),
        tuple(name for name in always if name not in known),
        tuple(name for name in always if name in known),
        tuple(name for name, passes in found if "pass" in passes and passes != {"pass"}),
        tuple(name for name, passes in found if "fault" in passes),
    )


def _written(source: str) -> set[int]:
    """The lines that a student writes: the others are given out."""
    written, inside = set(), False
    for number, line in enumerate(source.splitlines(), start=1):
        inside = (inside or "BEGIN SOLUTION" in line) and "END SOLUTION" not in line
        written |= {number} if inside else set()
    return written


_STRICT = re.compile(r",\s*strict=(?:True|False)")
_COMMUTES = re.compile(r"(?:max|min|set|dict)\(.* with its first two swapped$")


def _is_the_same(mutant: Mutant, source: str) -> bool:
    """Whether the change is none for any answer: `strict` only says what its author expects, and
    max(a, b) is max(b, a)."""
    before, after = (_STRICT.sub("", ast.unparse(ast.parse(s))) for s in (source, mutant.source))
    return before == after or _COMMUTES.match(mutant.what) is not None


def _explained(root: Path, question: str) -> dict[str, str]:
    path = root / EQUIVALENT
    found = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
    return dict(found.get(question, {}))


def _passes(question: Question, mutant: Mutant, setup: Namespace, answers: Namespace) -> set[str]:
    """What came of it, over all seeds: "pass", "fail" and "fault"."""
    namespace = {**setup, **answers}
    try:
        exec(compiled(mutant.source, question.name), namespace)
    except Exception:  # it does not even define a function
        return {"fail"}
    return {_asked(question, namespace, seed) for seed in SEEDS}


def _asked(question: Question, namespace: dict[str, Any], seed: int) -> str:
    student = LocalStudent(namespace)
    student.begin(may_write=question.may_write, budget_s=question.budget_s)
    quiet = StringIO()
    try:
        with _at_most(SECONDS), redirect_stdout(quiet), redirect_stderr(quiet):
            question.check(student, Draw(seed))
    except (Wrong, NoAnswer, WroteInput, TooFast, TimeoutError):
        return "fail"
    except Exception:  # of the check: a strange answer is to be wrong
        return "fault"
    return "pass"


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    """Raises TimeoutError in whatever runs inside, once the time is over."""

    def over(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before: Callable[..., Any] | int | None = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
