"""Grading one submission: a jail opened on its cells, and every question asked from outside.

A question whose time ran out while other submissions ran may have been starved by them. It is asked
once more, alone on the machine, before that verdict stands. One that times something is asked for
the first time then.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from autograder.judge import GraderFault, Lab, Question, Raised, State, Verdict, ask
from autograder.sandbox import Cell, CellResult, Jail, JailedStudent

from ..store.journal import CellReport, Record, is_blank
from .health import expect_healthy, expect_returned
from .job import Job
from .peak_memory import Peak

ROUNDS = 3
MAX_SHOWN = 4_000
ASKED_TWICE = (
    "It ran out of time beside other submissions, so it was asked a second time, alone on the "
    "machine; this is that answer."
)
NOT_AGAIN = (
    "It ran out of time beside other submissions. It was to be asked a second time, alone on the "
    "machine, but the questions before it used up the time for that."
)
NOT_YET = "It times something, so it is asked when nothing else runs on the machine."

_NO_SUCH_NAME = re.compile(r"NameError: name '(\w+)' is not defined")
_NO_SUCH_FUNCTION = "there is no function"


def grade(job: Job, lab: Lab, jail: Jail) -> Record:
    """Every question of `lab` (of a job with a first finding: every late one), asked of the
    submission in a jail of its own.

    Raises GraderFault where the grader or its machine failed, DeviceLost where a GPU did.
    """
    if jail.without:
        raise GraderFault(f"a jail without {', '.join(sorted(jail.without))} is not for grading")
    expect_returned(jail)
    started = time.monotonic()
    cells = [Cell(name, source) for name, source in job.cells]
    limits = {"total_s": job.total_s, "extra_load_s": job.extra_s}
    with jail.open(cells, **limits, loopback=lab.loopback) as student:
        _our_own_cells_ran(student.cells[: job.setup])
        expect_healthy_after_a_loss(jail, student, job)  # in a cell, before any question
        found = []
        for verdict, is_late in _verdicts(job, lab, student, until=started + job.total_s):
            found.append((verdict, is_late))
            expect_healthy_after_a_loss(jail, student, job)
        reports = tuple(_reported(result) for result in student.cells)
    return Record(
        job.student,
        lab.name,
        job.key,
        job.sha256,
        tuple(verdict for verdict, _ in found),
        reports,
        wall_s=time.monotonic() - started + (job.first.wall_s if job.first else 0.0),
        late=tuple(verdict.question for verdict, is_late in found if is_late),
    )


def _verdicts(
    job: Job, lab: Lab, student: JailedStudent, *, until: float
) -> Iterator[tuple[Verdict, bool]]:
    """Each question's verdict, and whether more time could have changed it."""
    known = {verdict.question: verdict for verdict in job.first.verdicts} if job.first else {}
    for question in lab:
        if job.only not in ("", question.name):
            continue
        before = known.get(question.name)
        if before is not None and job.first and question.name not in job.first.late:
            yield before, False
        elif question.alone and job.first is None:
            yield _not_yet(question, student, job), True
        elif time.monotonic() >= until:
            yield _out_of_time(question, student, job, before), True
        else:
            verdict = _asked(question, student, job)
            again = _once_more(verdict, None if question.alone else before)
            yield again, _timed_out(verdict, student)


def expect_healthy_after_a_loss(jail: Jail, student: JailedStudent, job: Job) -> None:
    """What a submission's process did to the GPU when it was lost is nobody else's to suffer."""
    if student.suspects_device:
        student.suspects_device = False
        expect_healthy(jail, f"after the submission of {job.student}")


def _our_own_cells_ran(results: Sequence[CellResult]) -> None:
    for result in results:
        if result.error is not None:
            raise GraderFault(f"the lab's own cell {result.name!r} failed: {result.error}")


def _asked(question: Question, student: JailedStudent, job: Job) -> Verdict:
    peak = Peak(student)
    verdict = ask(question, student, seed=job.seeds[question.name], rounds=ROUNDS)
    return explained(replace(verdict, peak_bytes=peak.grown()), job, student.cells)


def _timed_out(verdict: Verdict, student: JailedStudent) -> bool:
    """Whether more time could have changed the verdict: a call or a cell was not waited for."""
    if verdict.state is not State.FAIL:
        return False
    raised = [call.outcome for call in student.calls if isinstance(call.outcome, Raised)]
    if raised and (raised[-1].kind == "missing" or raised[-1].error == "NameError"):
        raised += [cell.error for cell in student.cells if cell.error]  # one may have been too late
    return any(one.kind == "timeout" for one in raised)


def _once_more(verdict: Verdict, before: Verdict | None) -> Verdict:
    """A question that was asked twice says so."""
    if before is None:
        return verdict
    sentence = " ".join(filter(None, (verdict.sentence, ASKED_TWICE)))
    wall_s, cpu_s = verdict.wall_s + before.wall_s, verdict.cpu_s + before.cpu_s
    return replace(verdict, sentence=sentence, wall_s=wall_s, cpu_s=cpu_s)


def _not_yet(question: Question, student: JailedStudent, job: Job) -> Verdict:
    """The place of a question that is asked when nothing else runs."""
    return Verdict(
        question.name,
        State.UNGRADABLE,
        0.0,
        question.points,
        job.seeds[question.name],
        title=question.title,
        sentence=NOT_YET,
        tier=student.where,
    )


def _out_of_time(
    question: Question, student: JailedStudent, job: Job, before: Verdict | None
) -> Verdict:
    """No call is made for a question whose turn came too late."""
    if before is not None:
        return replace(before, sentence=" ".join(filter(None, (before.sentence, NOT_AGAIN))))
    sentence = f"The questions before this one had used up the notebook's {job.total_s:g} seconds."
    seed = job.seeds[question.name]
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
