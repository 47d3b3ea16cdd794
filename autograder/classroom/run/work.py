"""Grading one submission: a jail opened on its cells, and every question asked from outside.

A question whose time ran out while other submissions ran may have been starved by them. It is asked
once more, alone on the machine, before that verdict stands. One that times something is asked for
the first time then.
"""

import contextlib
import importlib
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import starmap
from pathlib import Path

from autograder.judge import (
    Cause,
    GraderFault,
    Lab,
    Question,
    Raised,
    Said,
    State,
    Text,
    Verdict,
    ask,
    text,
    unasked,
)
from autograder.sandbox import Cell, CellResult, Jail, JailedStudent

from ..store.journal import CellReport, Record
from .health import expect_healthy, expect_returned
from .job import Job

ROUNDS = 3
MAX_SHOWN = 4_000
PAGE_BYTES = 4096
RESET = "5"  # proc(5), clear_refs: the high-water mark becomes what is resident now


def grade(job: Job, lab: Lab, jail: Jail) -> Record:
    """Every question of `lab` (of a job with a first finding: every one that timed out), asked
    of the submission in a jail of its own.

    Raises GraderFault where the grader or its machine failed, DeviceLost where a GPU did.
    """
    if jail.without:
        raise GraderFault(f"a jail without {', '.join(sorted(jail.without))} is not for grading")
    if jail.gpu:
        expect_returned(jail)
    if lab.preloads:
        _preload(lab.preloads, jail)
    started = time.monotonic()
    verdicts, late = [], []
    limits = {"total_s": job.total_s, "extra_load_s": job.extra_s}
    with jail.open([*starmap(Cell, job.cells)], **limits, loopback=job.loopback) as student:
        for result in student.cells[: job.setup]:
            if result.error is not None:
                raise GraderFault(f"the lab's own cell {result.name!r} failed: {result.error}")
        expect_healthy_after_a_loss(jail, student, job)  # in a cell, before any question
        for verdict, timed_out in _verdicts(job, lab, student, until=started + job.total_s):
            verdicts.append(verdict)
            late += [verdict.question] if timed_out else []
            expect_healthy_after_a_loss(jail, student, job)
        reports = tuple(map(_reported, student.cells))
    return Record(
        job.student,
        lab.name,
        job.key,
        job.sha256,
        tuple(verdicts),
        reports,
        wall_s=time.monotonic() - started + (job.first.wall_s if job.first else 0.0),
        timed_out=tuple(late),
    )


def _preload(names: Sequence[str], jail: Jail) -> None:
    """The modules `names`, imported here and in the jail at the same time; once."""
    with ThreadPoolExecutor(1) as beside:
        there = beside.submit(jail.preload, names)
        for name in names:
            importlib.import_module(name)
        there.result()


def _verdicts(
    job: Job, lab: Lab, student: JailedStudent, *, until: float
) -> Iterator[tuple[Verdict, bool]]:
    """Each question's verdict, and whether more time could have changed it."""
    known = {verdict.question: verdict for verdict in job.first.verdicts} if job.first else {}
    for question in lab.questions.values():
        if job.only and question.name not in job.only:
            continue
        before = known.get(question.name)
        if before is not None and job.first and question.name not in job.first.timed_out:
            yield before, False
        elif question.alone and job.first is None and not job.quiet:
            yield _unasked(question, student, job, Cause.PUT_OFF, text("put_off")), True
        elif time.monotonic() >= until:
            if before is None:
                why = text("used_up", seconds=job.total_s)
                yield _unasked(question, student, job, Cause.TIMED_OUT, why), True
            else:
                yield _remarked(before, text("not_asked_again")), True
        else:
            verdict, timed_out = _asked(question, student, job), False
            if verdict.state is State.FAIL:
                verdict = explained(verdict, job, student)
                timed_out = _timed_out(student, question)
            if before is not None and not question.alone:
                verdict = _once_more(verdict, before)
            yield verdict, timed_out


def expect_healthy_after_a_loss(jail: Jail, student: JailedStudent, job: Job) -> None:
    """What a submission's process did to the GPU when it was lost is nobody else's to suffer."""
    if student.suspects_device:
        student.suspects_device = False
        expect_healthy(jail, f"after the submission of {job.student}")


def _asked(question: Question, student: JailedStudent, job: Job) -> Verdict:
    """The verdict, with the memory that the question took: by how much the process that answered
    grew at most, a page at least; 0 where it cannot be known, as it was lost or this system does
    not tell. Linux keeps a process's high-water mark and lets its owner set it back: the student's
    code is not asked."""
    pid, before = student.pid, resident_bytes(student.pid, "VmRSS")
    try:
        Path(f"/proc/{pid}/clear_refs").write_text(RESET, encoding="ascii")
    except OSError:
        before = 0
    numbers = job.variant.get(question.name, {})
    verdict = ask(question, student, seed=job.seeds[question.name], rounds=ROUNDS, numbers=numbers)
    if not before or student.pid != pid:
        return verdict
    return replace(verdict, peak_bytes=max(PAGE_BYTES, resident_bytes(pid, "VmHWM") - before))


def resident_bytes(pid: int | None, kind: str) -> int:
    """Of process `pid`, "VmRSS" now or at most ("VmHWM") since its mark was set back; 0 where
    nobody tells."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        if found := re.search(rf"^{kind}:\s+(\d+) kB$", status, re.MULTILINE):
            return int(found[1]) * 1024
    return 0


def _timed_out(student: JailedStudent, question: Question) -> bool:
    """Whether more time could have changed a wrong answer: a call or a cell was not waited for,
    and nothing of its own kept the processor from it."""
    if student.times_left_running:
        return False
    raised = [call.outcome for call in student.calls if isinstance(call.outcome, Raised)]
    if raised and (raised[-1].kind is Cause.MISSING or raised[-1].error == "NameError"):
        raised += [cell.error for cell in student.cells if cell.error]  # one may have been too late
    if question.loopback:
        raised = [replace(r, kind=Cause.TIMED_OUT) if _waited_for_ranks(r) else r for r in raised]
    return any(one.kind is Cause.TIMED_OUT for one in raised)


def _waited_for_ranks(one: Raised) -> bool:
    """Whether a rank was not back in the seconds that ranks have by their own clock, which goes on
    while other programs keep the processors."""
    return one.error in ("RanksFailed", "RanksWait") and "not back after" in one.message


def _once_more(verdict: Verdict, before: Verdict) -> Verdict:
    """A question that was asked twice says so."""
    wall_s, cpu_s = verdict.wall_s + before.wall_s, verdict.cpu_s + before.cpu_s
    return replace(_remarked(verdict, text("asked_twice")), wall_s=wall_s, cpu_s=cpu_s)


def _unasked(
    question: Question, student: JailedStudent, job: Job, cause: Cause, why: Said
) -> Verdict:
    """No call is made for a question that waits, or whose turn came too late."""
    seed = job.seeds[question.name]
    return unasked(question, cause, seed=seed, tier=student.where, sentence=why)


def _remarked(verdict: Verdict, remark: Said) -> Verdict:
    return replace(verdict, remarks=(*verdict.remarks, remark))


def explained(verdict: Verdict, job: Job, student: JailedStudent) -> Verdict:
    """`verdict` with what grading knows and the judge cannot: a cell that stopped, and names that
    stand in cells which are not run."""
    if verdict.state is not State.FAIL or verdict.misconception:
        return verdict
    raised = student.calls[-1].outcome if student.calls else None
    cells = student.cells
    stopped = next((c.error for c in cells if c.name == verdict.question and c.error), None)
    if verdict.cause is Cause.MISSING and stopped is not None:
        raised = stopped
        verdict = replace(verdict, cause=stopped.kind, got=stopped.told, where=stopped.where)
        verdict = replace(verdict, sentence=_why_missing(stopped))
    elif stopped is not None and _overran(stopped):
        verdict = _remarked(verdict, _line_stopped(stopped))
    elif verdict.cause is Cause.TIMED_OUT and student.times_left_running:
        verdict = _remarked(verdict, text("less_time"))
    elif stopped is not None and stopped.error == "ModuleNotFoundError":
        verdict = _remarked(verdict, text("no_package", message=stopped.message))
    if isinstance(raised, Raised) and raised.name in job.left_out:
        return replace(verdict, sentence=text("name_left_out", name=raised.name))
    if verdict.cause is Cause.BLANK and verdict.question in job.left_out:
        return _remarked(verdict, text("answered_elsewhere"))
    return verdict


def _overran(stopped: Raised) -> bool:
    """Whether single lines of the cell were stopped, and the others ran."""
    return stopped.kind is Cause.TIMED_OUT and bool(stopped.lines)


def _why_missing(stopped: Raised) -> Text:
    if _overran(stopped):
        return _line_stopped(stopped)
    if stopped.kind in (Cause.TIMED_OUT, Cause.DIED):
        return text("cell_lost")
    return text("cell_stopped")


def _line_stopped(stopped: Raised) -> Text:
    line, source = stopped.lines[0]
    return text("line_stopped", line=line, source=source)


def _reported(result: CellResult) -> CellReport:
    error = "" if result.error is None else str(result.error)
    return CellReport(result.name, error[:MAX_SHOWN], result.output[:MAX_SHOWN])
