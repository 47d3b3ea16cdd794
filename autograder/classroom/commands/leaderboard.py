"""`autograder leaderboard`: the right answers of a lab, raced against its references, on a page for
the class.

It reads what `autograder grade` left, runs each right answer in the jail as a grading does, and
changes no grade. Who spins, allocates or ends is left out, and costs nobody else anything.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import starmap
from pathlib import Path

import torch
from rich.console import Console

from autograder import atomic_write
from autograder.judge import (
    Flagged,
    GraderFault,
    NoAnswer,
    Question,
    Spread,
    State,
    Wrong,
    WroteInput,
)
from autograder.sandbox import Cell, Jail, Tier

from ..errors import UserError, the_one
from ..intake.rebuild import Ungradable
from ..intake.release import Release, releases
from ..intake.submissions import Submission
from ..intake.taking import take_again
from ..reports.leaderboard import Board, leaderboard_page, standings
from ..run.grading import job_for, safe_tier
from ..run.job import Job
from ..store import laps, roster, seed_secret
from ..store.journal import Journal, Record, key_of
from ..store.laps import Laps
from ..store.shown_names import shown_names
from .report import alone


@dataclass(frozen=True)
class Wanted:
    """What the instructor asked for. names: the file of those who agreed to be named."""

    folder: Path
    course: Path
    lab: str
    names: Path | None = None
    trusting: bool = False


@dataclass(frozen=True)
class _Class:
    """Who may be raced, in one grading folder."""

    folder: Path
    release: Release
    secret: bytes
    shown: Mapping[str, str]
    records: Mapping[str, Record]


def leaderboard(wanted: Wanted, console: Console) -> None:
    """Races whoever is not raced yet, writes the page, and says who leads. Raises UserError for
    what the instructor can put right."""
    known = releases(wanted.course)
    release = known[the_one(wanted.lab, list(known), "lab")]
    questions = [question for question in release.lab if question.race is not None]
    if not questions:
        raise UserError(f"{release.name} races nothing: {_raced_labs(known)}.")
    tier = safe_tier(wanted.trusting)
    roster.labs(wanted.folder)
    with alone(wanted.folder, "leaderboard"):
        raced = _class(wanted, release)
        boards = [_board(raced, question, tier, console) for question in questions]
        page = leaderboard_page(release.lab, boards, _machine(), datetime.now(UTC))
        path = wanted.folder / "reports" / release.name / "leaderboard.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write.write(path, page.encode("utf-8", "replace"), mode=0o600)
    for line in [*_said(boards), f"page  {path}"]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _raced_labs(known: Mapping[str, Release]) -> str:
    labs = [name for name, one in known.items() if any(q.race for q in one.lab)]
    return f"only {', '.join(labs)} does" if labs else "no lab of this course does"


def _class(wanted: Wanted, release: Release) -> _Class:
    lines = roster.read(wanted.folder, release.name)
    journal = Journal(wanted.folder / "journal" / release.name)
    secret = seed_secret.secret(wanted.folder)
    shown = shown_names(lines, secret, wanted.names)
    found = {name: journal.read(name, line.key) for name, line in lines.items() if line.key}
    records = {name: record for name, record in found.items() if record is not None}
    return _Class(wanted.folder, release, secret, shown, records)


def _board(raced: _Class, question: Question, tier: Tier, console: Console) -> Board:
    """Of the shown students whose answer is right, the standings of one question."""
    assert question.race is not None
    found: list[tuple[str, Spread]] = []
    left_out = 0
    with Jail(tier=tier) as jail:
        for student, record in raced.records.items():
            if student not in raced.shown or not _is_right(record, question):
                continue
            result = _laps(raced, question, record, jail)
            if result.why:
                left_out += 1
                said = f"{question.name}: {student} has no number: {result.why}"
                console.print(said, markup=False, highlight=False, soft_wrap=True)
            else:
                found.append((raced.shown[student], Spread.of(list(result.ratios))))
    peer = question.race.peer.partition(":")[2]
    return Board(question.name, question.title, peer, standings(found), left_out)


def _is_right(record: Record, question: Question) -> bool:
    return any(v.question == question.name and v.state is State.PASS for v in record.verdicts)


def _laps(raced: _Class, question: Question, record: Record, jail: Jail) -> Laps:
    """What is known already, or a race now. What is our own fault is not kept."""
    key = key_of(record.key, raced.release.version, question.name, torch.__version__)
    known = laps.read(raced.folder, key)
    if known is not None:
        return known
    try:
        job = _job(raced, record)
        result = Laps(tuple(_race(job, question, jail)))
    except (NoAnswer, Wrong, Flagged, WroteInput) as reason:
        result = Laps(why=" ".join(str(reason).split())[:200] or type(reason).__name__)
    except (GraderFault, Ungradable) as fault:
        return Laps(why=f"the grader failed, try again: {fault}")
    laps.write(raced.folder, key, result)
    return result


def _job(raced: _Class, record: Record) -> Job:
    submission = Submission(record.student, "", sha256=record.sha256)
    entry = take_again(submission, raced.release, raced.folder / "received")
    return job_for(entry, raced.release, key=record.key, secret=raced.secret)


def _race(job: Job, question: Question, jail: Jail) -> list[float]:
    assert question.race is not None
    limits = {"total_s": job.total_s, "extra_load_s": job.extra_s}
    with jail.open([*starmap(Cell, job.cells)], **limits, loopback=job.loopback) as student:
        seed = job.seeds[question.name]
        return question.race.run(student, seed=seed, budget_s=question.budget_s)


def _machine() -> str:
    return f"{os.cpu_count()} processors ({platform.machine()}), torch {torch.__version__}"


def _said(boards: Sequence[Board]) -> Iterator[str]:
    for board in boards:
        yield f"{board.question}, times {board.peer}"
        for one in board.standings:
            place, spread = f"{'=' if one.tied else ''}{one.place}", one.spread
            yield (
                f"{place:>5}  {spread.middle:5.2f}  "
                f"({spread.low:.2f} to {spread.high:.2f})  {one.name}"
            )
        if not board.standings:
            yield "       nobody yet"
