"""`autograder explain`: one verdict asked again, from the bytes, the seed and the question that it
came from, the same way as a class is graded.

What is recorded is not changed. The seed stays on the instructor's side: students never see this.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.console import Console

from autograder.judge import GraderFault, State, Verdict
from autograder.sandbox import MOCKED, SIMULATED, Gpu, Jail, Tier

from ..errors import UserError, the_one
from ..intake.rebuild import Ungradable
from ..intake.release import Release, releases
from ..intake.submissions import Submission
from ..intake.taking import AGAIN, take_again
from ..run import devices, work
from ..run.grading import job_for, safe_tier
from ..run.job import Job
from ..run.worker import lent_gpu
from ..store import changes, roster, variants
from ..store.journal import Journal, Record


@dataclass(frozen=True)
class Asked:
    """Which verdict is to be explained, and where it lies."""

    folder: Path
    course: Path
    student: str
    lab: str
    question: str
    trusting: bool = False


@dataclass(frozen=True)
class _Case:
    """All that a verdict came from."""

    line: roster.Line
    record: Record
    verdict: Verdict
    release: Release
    job: Job


def explain(asked: Asked, console: Console) -> bool:
    """Shows the card and whether the verdict is the recorded one; True where it is.

    Raises UserError for what the instructor can put right.
    """
    case, tier = _case(asked), safe_tier(asked.trusting)
    try:
        again = _asked_again(case, tier, (case.verdict.question,))
        same = _is_same(again, case.verdict)
        in_turn = again if same else _asked_again(case, tier, _up_to(case))
    except GraderFault as fault:
        raise UserError(f"The grader failed, not the student: {fault}. Try again.") from fault
    for line in _card(case, again, in_turn, tier):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return _is_same(in_turn, case.verdict)


def _case(asked: Asked) -> _Case:
    known = releases(asked.course)
    release = known[the_one(asked.lab, list(known), "lab")]
    roster.labs(asked.folder)
    lines = roster.read(asked.folder, release.name)
    student = the_one(asked.student, list(lines), "student", f" on the roster of {release.name}")
    line = lines[student]
    if not line.key:
        reason = line.ungradable or "nothing was handed in."
        raise UserError(f"{line.student} has no verdict, so there is none to replay: {reason}")
    record = Journal(asked.folder / "journal" / release.name).read(line.student, line.key)
    if record is None:
        raise UserError(f"The record of {line.student} is missing or damaged. {AGAIN}")
    record = changes.newest(record, changes.read(asked.folder, release.name))
    verdicts = {verdict.question: verdict for verdict in record.verdicts}
    verdict = verdicts[the_one(asked.question, list(verdicts), "question")]
    if verdict.question not in release.lab.questions:
        raise UserError(
            f"{release.name} no longer asks {verdict.question!r}: use the course as it was."
        )
    return _Case(line, record, verdict, release, _job(asked.folder, line, record, release))


def _job(folder: Path, line: roster.Line, record: Record, release: Release) -> Job:
    """What was run then, from the bytes that were kept."""
    submission = Submission(line.student, line.origin, sha256=record.sha256)
    try:
        entry = take_again(submission, release, folder / "received")
    except Ungradable as reason:
        raise UserError(f"The lab's notebook has changed since the grading: {reason}") from reason
    variant = variants.read(folder, release.lab).get(line.student, {})
    job = job_for(entry, release, key=record.key, secret=b"", variant=variant)
    return replace(job, seeds={v.question: v.seed for v in record.verdicts}, quiet=True)


def _up_to(case: _Case) -> tuple[str, ...]:
    """The question, after those that came before it."""
    names = [verdict.question for verdict in case.record.verdicts]
    return tuple(names[: names.index(case.verdict.question) + 1])


def _asked_again(case: _Case, tier: Tier, names: tuple[str, ...]) -> Verdict:
    """The verdict as it is now, of the last of `names`."""
    with Jail(tier=tier, gpu=_gpu(case)) as jail:
        return work.grade(replace(case.job, only=names), case.release.lab, jail).verdicts[-1]


def _gpu(case: _Case) -> Gpu | None:
    """One of this machine's, where the verdict was earned on one."""
    device = case.verdict.device
    if device.startswith(MOCKED):
        return lent_gpu(MOCKED, alone=True)
    lent = devices.lent() if device not in ("cpu", SIMULATED) else ()
    return lent_gpu(lent[0], alone=True) if lent else None


def _is_same(one: Verdict, other: Verdict) -> bool:
    return (one.state, one.points, one.misconception) == (
        other.state,
        other.points,
        other.misconception,
    )


def _card(case: _Case, again: Verdict, in_turn: Verdict, tier: Tier) -> Iterator[str]:
    recorded, line = case.verdict, case.line
    yield f"{line.student}, {case.release.name}, {recorded.question}"
    yield f"  notebook  {line.origin}, sha256 {case.record.sha256[:16]}…"
    yield ""
    yield str(in_turn)
    yield ""
    yield _compared(recorded, again, in_turn)
    if differences := list(_differences(case, tier, in_turn)):
        yield f"Not everything is as it was: {'; '.join(differences)}."
    if not _is_same(in_turn, recorded):
        yield ""
        yield "The verdict on record:"
        yield str(recorded)
    if line.ungradable:
        yield f"This is an earlier hand-in; the newest has no verdict: {line.ungradable}"


def _compared(recorded: Verdict, again: Verdict, in_turn: Verdict) -> str:
    if _is_same(again, recorded):
        same_words = str(again) == str(recorded)
        return "The same verdict as recorded" + ("." if same_words else ", in other words.")
    if _is_same(in_turn, recorded):
        return (
            "The same verdict as recorded, but only after the questions before it: asked alone it "
            f"is {again.state}. The answer keeps something from one call to the next."
        )
    if State.UNGRADABLE in (recorded.state, in_turn.state):
        return (
            f"Another verdict than recorded ({recorded.state}): the grader failed one of the times."
        )
    return (
        f"Another verdict than recorded ({recorded.state}, {recorded.score}): the answer depends "
        "on chance or time, or on what differs now."
    )


def _differences(case: _Case, tier: Tier, now: Verdict) -> Iterator[str]:
    recorded = case.verdict
    if recorded.torch != torch.__version__:
        yield f"torch was {recorded.torch} and is {torch.__version__}"
    if case.line.version and case.line.version != case.release.version:
        yield "the lab's notebook, its checks or the judge have changed since"
    if recorded.tier != tier.name:
        yield f"it ran in {recorded.tier} and now in {tier.name}"
    if recorded.device != now.device:
        yield f"it ran on {recorded.device} and now on {now.device}"
