"""`autograder change`: what an instructor decides when grades are out. It says first whose grade
changes; with --yes it is done, recorded, and published. Nothing runs again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from rich.console import Console

from autograder.judge import Verdict

from ..errors import UserError, the_one
from ..gradebook import late_policy
from ..gradebook.course import in_one_line, quiet
from ..gradebook.marks import Marks, give
from ..gradebook.publish import Graded, Publisher
from ..gradebook.shares import Share, shares
from ..intake import enrolment
from ..intake.rebuild import Ungradable
from ..intake.release import Release, releases
from ..intake.taking import Entry, take_again
from ..store import changes, roster
from ..store.changes import Change
from ..store.journal import Journal, Record
from .grading_run import handed_in
from .report import alone

KINDS = ("drop", "points", "accept", "undo")
MOST_NAMES = 12
AGAIN = "Add --yes to do it."
NO_MARKS: Marks = MappingProxyType({})
Overrides = Mapping[tuple[str, str], Share]
"""See `shares`."""


@dataclass(frozen=True)
class Decision:
    """What the instructor asked for. kind: of KINDS, "" to see what was changed. what: a question,
    or the number of a change to be undone. to: points. student, answer: whose answer is accepted,
    or which wrong one of everybody's, by its name. sure: do it."""

    folder: Path
    course: Path
    lab: str
    kind: str = ""
    what: str = ""
    to: float | None = None
    student: str = ""
    answer: str = ""
    reason: str = ""
    sure: bool = False


def change(decision: Decision, console: Console) -> None:
    """Shows what changes, and makes it so. Raises UserError for what the instructor can put
    right."""
    known = releases(decision.course)
    release = known[the_one(decision.lab, list(known), "lab")]
    roster.labs(decision.folder)
    before = changes.read(decision.folder, release.name)
    if not decision.kind:
        lines = [f"{number}  {one}" for number, one in enumerate(before, 1)]
        say(console, lines or [f"Nothing of {release.name} was changed after its grading."])
        return
    with alone(decision.folder, "change"):
        late_rules(decision.folder, decision.course)  # what is recorded can be published
        expect_kept(decision.folder, release)
        records = dict(with_a_verdict(decision.folder, release))
        after = _decided(decision, release, before, records)
        given = overrides_of(decision.folder, release)
        found = list(records.values())
        say(console, differences(found, before, after, given, sure=decision.sure))
        if decision.sure:
            changes.write(decision.folder, release.name, after)
            publish_again(decision.folder, decision.course, release, console)
        else:
            say(console, [AGAIN])


def say(console: Console, lines: Sequence[str] | Iterator[str]) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def with_a_verdict(folder: Path, release: Release) -> Iterator[tuple[roster.Line, Record]]:
    """Everybody with a verdict."""
    journal = Journal(folder / "journal" / release.name)
    for line in roster.read(folder, release.name).values():
        record = journal.read(line.student, line.key) if line.key else None
        if record is not None:
            yield line, record


def expect_kept(folder: Path, release: Release) -> None:
    """Raises UserError where a notebook that has a verdict is not there to be published again."""
    for line, record in with_a_verdict(folder, release):
        handed_in_then(folder, release, line, record)


def _decided(
    decision: Decision,
    release: Release,
    before: Sequence[Change],
    records: dict[roster.Line, Record],
) -> list[Change]:
    """The changes as they are then."""
    expect_reason(decision.reason)
    now = moment()
    if decision.kind == "undo":
        number = _number(decision.what, before)
        undone = replace(before[number], undone=f"{now}: {decision.reason}")
        return [*before[:number], undone, *before[number + 1 :]]
    question = the_one(decision.what, list(release.lab.questions), "question")
    made = Change(question, decision.reason, now)
    if decision.kind == "accept":
        return [*before, _accepted(decision, made, release, records)]
    worth = 0.0 if decision.kind == "drop" else decision.to
    if worth is None or not 0 <= worth < 1e6:
        raise UserError(f"Say what {question} is worth from now on, from 0: --to 3")
    return [*before, replace(made, points=worth)]


def expect_reason(reason: str) -> None:
    if not reason.strip():
        raise UserError('Say why, for whoever asks next year: --reason "..."')


def moment() -> str:
    """Now, as it is written down beside a change."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def _number(what: str, before: Sequence[Change]) -> int:
    open_ones = [str(n) for n, one in enumerate(before, 1) if not one.undone]
    if what not in open_ones:
        there = ", ".join(open_ones) or "none"
        raise UserError(f"There is no change {what!r} to be undone. In force: {there}.")
    return int(what) - 1


def _accepted(
    decision: Decision, made: Change, release: Release, records: dict[roster.Line, Record]
) -> Change:
    if bool(decision.student) == bool(decision.answer):
        raise UserError("Say whose answer is accepted, --student, or which one of all, --answer.")
    if decision.answer:
        wrong = [one.name for one in release.lab.questions[made.question].wrong_answers]
        return replace(made, misconception=the_one(decision.answer, wrong, "wrong answer"))
    graded = {line.student: record for line, record in records.items()}
    student = the_one(decision.student, list(graded), "student with a verdict")
    return replace(made, student=student, sha256=graded[student].sha256)


def overrides_of(folder: Path, release: Release) -> Overrides:
    """Raises UserError where the gradebook cannot be read."""
    with quiet(folder / "grade.log") as log, in_one_line(folder, log):
        return shares(folder, release.name)


def differences(
    records: Sequence[Record],
    before: Sequence[Change],
    after: Sequence[Change],
    given: Overrides,
    *,
    sure: bool,
) -> Iterator[str]:
    """Whose grade changes, or changed where that is `sure`; and which marks that a person gave to a
    check count on, though its verdict or its worth is another one."""
    moved, kept = list[str](), list[str]()
    for record in records:
        old, new = changes.applied(record, before), changes.applied(record, after)
        was, now = _points(old, given), _points(new, given)
        if was != now:
            moved.append(f"  {record.student}  {was:g} -> {now:g}")
        kept += _kept(old, new, given)
    most_before, most_after = _most(records, before), _most(records, after)
    if most_before != most_after:
        yield f"The checks are worth {most_after:g} points in all, and were worth {most_before:g}."
    verb = "changed" if sure else "change"
    colon = ":" if moved else "."
    yield f"{len(moved)} of {len(records)} grades {verb}{colon}"
    yield from shortened(moved)
    if kept:
        yield "What a person gave in formgrader keeps its share of the points:"
        yield from shortened(kept)


def _points(record: Record, given: Overrides) -> float:
    """As the gradebook counts the checks: what a person gave goes before a verdict."""
    return round(sum(_counted(record.student, v, given) for v in record.verdicts), 6)


def _counted(student: str, verdict: Verdict, given: Overrides) -> float:
    share = given.get((student, verdict.question))
    return verdict.points if share is None else share.at(verdict.max_points)


def _kept(old: Record, new: Record, given: Overrides) -> Iterator[str]:
    """The marks by a person of checks that are about to be worth something else."""
    was = {v.question: v for v in old.verdicts}
    for v in new.verdicts:
        share, before = given.get((new.student, v.question)), was[v.question]
        if share is not None and (before.points, before.max_points) != (v.points, v.max_points):
            line = (
                f"  {new.student}  {v.question}: {share.at(v.max_points):g} of now {v.max_points:g}"
            )
            most = before.max_points
            yield line if most == v.max_points else f"{line}, was {share.at(most):g} of {most:g}"


def shortened(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:MOST_NAMES]
    if len(lines) > MOST_NAMES:
        yield f"  and {len(lines) - MOST_NAMES} more"


def _most(records: Sequence[Record], made: Sequence[Change]) -> float:
    every = (changes.applied(record, made) for record in records)
    return max((sum(v.max_points for v in one.verdicts) for one in every), default=0.0)


def publish_again(
    folder: Path, course: Path, release: Release, console: Console, given: Marks = NO_MARKS
) -> None:
    """Everybody's verdict from the journal into the gradebook, as it counts now, and says so; marks
    that a person gave stay. given: marks that come from another folder."""
    written = _published(folder, course, release)
    if given:
        with quiet(folder / "grade.log") as log, in_one_line(folder, log):
            give(folder, release, given)
        _published(folder, course, release)
    say(console, [f"Published: {written} in the gradebook, with their pages."])
    say(console, [f"report      autograder report {release.name} --out {folder}"])


def _published(folder: Path, course: Path, release: Release) -> int:
    policy, made = late_rules(folder, course), changes.read(folder, release.name)
    with Publisher(folder, release, policy) as publisher:
        for line, record in with_a_verdict(folder, release):
            entry = handed_in_then(folder, release, line, record)
            publisher.add(Graded(changes.applied(record, made), entry))
    if refused := sorted(publisher.published.refused):
        raise UserError(
            f"It is recorded, but nbgrader refused {len(refused)} notebooks, the first of "
            f"{refused[0]}: see grade.log, then type autograder regrade {release.name}"
        )
    return publisher.published.written


def late_rules(folder: Path, course: Path) -> late_policy.Policy | None:
    """What late.toml beside the labs says, by the ids of the grading folder. Raises UserError."""
    declared = course / late_policy.NAME
    policy = late_policy.read(declared)
    return policy and late_policy.by_id(policy, enrolment.kept(folder), declared)


def handed_in_then(folder: Path, release: Release, line: roster.Line, record: Record) -> Entry:
    """The notebook that `record` speaks for, which may be an earlier one. Raises UserError."""
    submission = replace(handed_in(line), sha256=record.sha256)
    try:
        return take_again(submission, release, folder / "received")
    except Ungradable as reason:
        raise UserError(f"{line.student}: {reason} Use the course as it was.") from reason
