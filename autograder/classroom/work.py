"""Grading one submission: a jail opened on its cells, and every question asked from outside."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace

from autograder.judge import GraderFault, Lab, Question, State, Verdict, ask
from autograder.sandbox import Cell, CellResult, Jail, JailedStudent

from .job import Job
from .journal import CellReport, Record, is_blank

ROUNDS = 3
SUBMISSION_S = 180.0
"""For all questions together, in wall time. A question has its own limit; this one holds whoever
reaches that limit again and again."""
MAX_SHOWN = 4_000

_NO_SUCH_NAME = re.compile(r"NameError: name '(\w+)' is not defined")
_NO_SUCH_FUNCTION = "there is no function"


def grade(job: Job, lab: Lab, jail: Jail) -> Record:
    """Every question of `lab`, asked of the submission in a jail of its own.

    Raises GraderFault where the grader or its machine failed.
    """
    if jail.without:
        raise GraderFault(f"a jail without {', '.join(sorted(jail.without))} is not for grading")
    started = time.monotonic()
    with jail.open([Cell(name, source) for name, source in job.cells]) as student:
        _our_own_cells_ran(student.cells[: job.setup])
        verdicts = [
            _asked(question, student, job, spent_s=time.monotonic() - started) for question in lab
        ]
        cells = tuple(_reported(result) for result in student.cells)
    wall_s = time.monotonic() - started
    return Record(job.student, lab.name, job.key, job.sha256, tuple(verdicts), cells, wall_s)


def _our_own_cells_ran(results: Sequence[CellResult]) -> None:
    for result in results:
        if result.error is not None:
            raise GraderFault(f"the lab's own cell {result.name!r} failed: {result.error}")


def _asked(question: Question, student: JailedStudent, job: Job, *, spent_s: float) -> Verdict:
    seed = job.seeds[question.name]
    if spent_s > SUBMISSION_S:
        return _out_of_time(question, student, seed)
    verdict = ask(question, student, seed=seed, rounds=ROUNDS)
    return explained(verdict, job, student.cells)


def _out_of_time(question: Question, student: JailedStudent, seed: int) -> Verdict:
    """No call is made for a question whose turn came too late."""
    sentence = f"The questions before this one had used up the notebook's {SUBMISSION_S:g} seconds."
    return Verdict(
        question.name,
        State.FAIL,
        0.0,
        question.points,
        seed,
        title=question.title,
        sentence=sentence,
        tier=student.where,
    )


def explained(verdict: Verdict, job: Job, cells: Sequence[CellResult]) -> Verdict:
    """`verdict` with what grading knows and the judge cannot: a cell that stopped, and names that
    stand in cells which are not run."""
    if verdict.state is not State.FAIL or verdict.misconception:
        return verdict
    stopped = next((c.error for c in cells if c.name == verdict.question and c.error), None)
    if stopped is not None and verdict.got.startswith(_NO_SUCH_FUNCTION):
        verdict = replace(verdict, got=str(stopped)[:MAX_SHOWN], where=_lines(stopped.lines))
        verdict = replace(verdict, sentence="The cell stopped before its function was made.")
    missing = _NO_SUCH_NAME.search(verdict.got)
    if missing and missing[1] in job.left_out:
        sentence = (
            f"`{missing[1]}` stands in a cell that is not graded: "
            "put it into the cell of the answer that uses it."
        )
        return replace(verdict, sentence=sentence)
    if is_blank(verdict) and verdict.question in job.left_out:
        sentence = "Another cell of the notebook answers it, but only its own cell is graded."
        return replace(verdict, sentence=f"{verdict.sentence} {sentence}")
    return verdict


def _lines(lines: Sequence[tuple[int, str]]) -> str:
    return "; ".join(f"line {number}: {source}" for number, source in lines)


def _reported(result: CellResult) -> CellReport:
    error = "" if result.error is None else str(result.error)
    return CellReport(result.name, error[:MAX_SHOWN], result.output[:MAX_SHOWN])
