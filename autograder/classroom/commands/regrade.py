"""`autograder regrade` of one student or one question: judged anew from the notebooks that were
kept, even where the journal knows the answer. It says first whose grade changes; with --yes that is
recorded as a change, and published.

What was judged stays in the journal. The new verdicts lie beside it, under keys of their own, so
that --yes records what was shown and judges nothing a second time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from autograder.judge import State, Verdict

from ..errors import UserError, the_one
from ..intake.release import Release, releases
from ..run.grading import TORCH, Grading, Means, job_for
from ..run.job import Job
from ..store import changes, roster, variants
from ..store.changes import Change, Judged
from ..store.journal import Record, key_of
from .changes import (
    AGAIN,
    differences,
    expect_reason,
    handed_in_then,
    late_rules,
    moment,
    overrides_of,
    publish_again,
    say,
    shortened,
    with_a_verdict,
)
from .grade import our_own, progress
from .grading_run import Order

SAME = "No verdict comes out otherwise: there is nothing to change."
FAULT = "{}: the grader failed, so what counts stays: {}"


@dataclass(frozen=True)
class Again:
    """What the instructor asked for: `student` in every question, `question` of everybody, or that
    question of that student. sure: do it."""

    folder: Path
    course: Path
    lab: str
    student: str = ""
    question: str = ""
    reason: str = ""
    sure: bool = False
    means: Means = field(default_factory=Means)


def regrade(again: Again, console: Console) -> None:
    """Shows what comes out otherwise, and makes it so. Raises UserError for what the instructor can
    put right."""
    known = releases(again.course)
    release = known[the_one(again.lab, list(known), "lab")]
    roster.labs(again.folder)
    expect_reason(again.reason)
    order = Order(None, again.folder.absolute(), again.course)
    with our_own(order):
        late_rules(order.out, order.course)  # what is recorded can be published
        _regrade(_named(replace(again, folder=order.out), release), release, console)


def _regrade(again: Again, release: Release, console: Console) -> None:
    before = changes.read(again.folder, release.name)
    records = dict(with_a_verdict(again.folder, release))
    chosen = {line: r for line, r in records.items() if again.student in ("", line.student)}
    said = list(_judged(again, release, chosen, before, console))
    say(console, [one for one in said if isinstance(one, str)])
    found = [one for one in said if isinstance(one, Judged)]
    if not found:
        say(console, [SAME])
        return
    made = Change(again.question, again.reason, moment(), student=again.student)
    after = [*before, replace(made, judged=tuple(found))]
    say(console, _marks(found, (changes.newest(r, before) for r in chosen.values())))
    given = overrides_of(again.folder, release)
    say(console, differences(list(records.values()), before, after, given, sure=again.sure))
    if again.sure:
        changes.write(again.folder, release.name, after)
        publish_again(again.folder, again.course, release, console)
    else:
        say(console, [AGAIN])


def _named(again: Again, release: Release) -> Again:
    """With the names as they are. Raises UserError for one that is none."""
    lines = roster.read(again.folder, release.name)
    if again.student:
        student = the_one(
            again.student, list(lines), "student", f" on the roster of {release.name}"
        )
        if not lines[student].key:
            why = lines[student].ungradable or "nothing was handed in."
            raise UserError(f"{student} has no verdict that could be judged again: {why}")
        again = replace(again, student=student)
    if again.question:
        again = replace(
            again, question=the_one(again.question, list(release.lab.questions), "question")
        )
    return again


def _judged(
    again: Again,
    release: Release,
    chosen: Mapping[roster.Line, Record],
    before: Sequence[Change],
    console: Console,
) -> Iterator[Judged | str]:
    """What comes out otherwise than it was judged the last time; a sentence for what could not be
    judged."""
    grading = Grading(again.folder, release, again.means)
    anew: dict[str, Record] = {}
    jobs = []
    for line, record in chosen.items():
        job = _job(again, grading, line, record, made=len(before))
        shown = grading.journal.read(line.student, job.key) if again.sure else None
        if shown is not None and shown.is_final:
            anew[line.student] = shown
        else:
            jobs.append(job)
    with progress(console) as bars:
        bar = bars.add_task("judging", total=len(jobs), visible=bool(jobs))
        for job, outcome in grading.run(jobs):
            bars.update(bar, advance=1, description=job.student)
            if isinstance(outcome, Record):
                anew[job.student] = outcome
            else:
                yield FAULT.format(job.student, outcome.reason)
    for record in chosen.values():
        if record.student in anew:
            yield from _otherwise(changes.newest(record, before), anew[record.student], again)


def _job(again: Again, grading: Grading, line: roster.Line, record: Record, *, made: int) -> Job:
    """The same submission with the inputs on record, in whichever folder it was judged. A question
    is asked after those before it, as it was the first time. made: how many changes there are, so
    that nothing that was judged for one of them counts for the next."""
    release, names = grading.release, list(grading.release.lab.questions)
    only = tuple(names[: names.index(again.question) + 1]) if again.question else ()
    variant = grading.variants.get(line.student, {})
    asked = (*only, *variants.in_key(variant))
    key = key_of(record.key, release.version, TORCH, str(made), *asked)
    entry = handed_in_then(again.folder, release, line, record)
    job = job_for(entry, release, key=key, secret=grading.secret, variant=variant)
    seeds = job.seeds | {verdict.question: verdict.seed for verdict in record.verdicts}
    return replace(job, only=only, seeds=seeds, device_share=grading.device_share)


def _otherwise(record: Record, anew: Record, again: Again) -> Iterator[Judged | str]:
    last = {verdict.question: verdict for verdict in record.verdicts}
    for verdict in anew.verdicts:
        if verdict.question not in last or again.question not in ("", verdict.question):
            continue
        if verdict.state is State.UNGRADABLE:
            yield FAULT.format(record.student, f"{verdict.question}: {verdict.explanation}")
        elif _outcome(verdict) != _outcome(last[verdict.question]):
            yield Judged(record.student, record.key, verdict)


def _outcome(verdict: Verdict) -> tuple[object, ...]:
    return verdict.cause, verdict.points, verdict.max_points, verdict.misconception


def _marks(found: Sequence[Judged], records: Iterable[Record]) -> Iterator[str]:
    """Which verdicts are others now, where that is no change of points."""
    was = {(r.student, v.question): v for r in records for v in r.verdicts}
    lines = []
    for one in found:
        student, now = one.student, one.verdict
        before = was[student, now.question]
        lines.append(f"  {student}  {now.question}: {_shown(before)} -> {_shown(now)}")
    yield f"{len(found)} {'verdict comes' if len(found) == 1 else 'verdicts come'} out otherwise:"
    yield from shortened(lines)


def _shown(verdict: Verdict) -> str:
    return f"{verdict.mark} ({verdict.misconception})" if verdict.misconception else verdict.mark
