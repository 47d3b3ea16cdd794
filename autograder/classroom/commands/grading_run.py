"""The whole way of a class, in three steps: intake, grading, publishing."""

import difflib
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UserError, the_one
from ..gradebook import late_policy
from ..gradebook.course import (
    STEPS,
    enrol,
    expect_no_pattern,
    in_one_line,
    keep_gradebook_at,
    quiet,
)
from ..gradebook.publish import Graded, Published, Publisher
from ..intake import enrolment
from ..intake.enrolment import Person
from ..intake.exchanged import COLLECTED
from ..intake.rebuild import Ungradable
from ..intake.release import Release, releases
from ..intake.submissions import Submission
from ..intake.taking import Refusal, Taken, take_again, take_in
from ..reports.results import NOTHING, grades
from ..reports.rows import Row, write_ungradable
from ..run import cluster
from ..run.grading import Grading, Means
from ..run.job import Fault, Job
from ..run.pool import processors
from ..store import changes, roster, seed_secret
from ..store.journal import Record

THE_GRADER_FAILED = "The grader failed, not the student: {reason}. Grade again."
NBGRADER_FAILED = "graded, but nbgrader refused the notebook: see grade.log"


@dataclass(frozen=True)
class Order:
    """What the instructor asked for. source: what was handed in; None for what was handed in
    before, from the bytes that were kept. out: the grading folder. lab: "" where the hand-in tells.
    gradebook: the address of a database, "" for a file in `out`. roster: the list of who is
    enrolled; None for the one that `out` remembers. anonymous: students go by pseudonyms. The rest:
    see `Means`."""

    source: Path | None
    out: Path
    course: Path
    lab: str = ""
    workers: int = 0
    trusting: bool = False
    cluster: str = ""
    gradebook: str = ""
    device: str = ""
    roster: Path | None = None
    anonymous: bool = False


class GradingRun:
    """One lab of one class in one grading folder; `rows` grow as its students are graded."""

    def __init__(self, order: Order) -> None:
        """Reads what was handed in. Raises UserError for what the instructor can put right."""
        self.order, self.rows = order, dict[str, Row]()
        self.grading_s, self.published = 0.0, Published()
        if order.cluster:
            cluster.expect_known(order.cluster)
        known = releases(order.course)
        late = late_policy.read(order.course / late_policy.NAME, labs=list(known))
        keep_gradebook_at(order.out, order.gradebook)
        self.people = enrolled(order)
        declared = order.course / late_policy.NAME
        self.late = late and late_policy.by_id(late, self.people, declared)
        received = order.out / "received"
        if order.source is None:
            taken = _taken_again(order, known[the_one(order.lab, list(known), "lab")], received)
        else:
            before = roster.students(order.out)
            taken = take_in(order.source, known, order.lab, received, self.people, before)
        self.release, self.entries = taken.release, taken.entries
        self.ignored = taken.ignored
        self.changes = changes.read(order.out, self.release.name)
        for one in taken.refusals:
            self.rows[one.submission.student] = Row(
                one.submission, ungradable=one.reason, note=one.note
            )
        means = Means(order.workers, order.trusting, order.cluster, order.device)
        self.grading = Grading(order.out, self.release, means)

    def look_up(self) -> list[Job]:
        """Takes what is in the journal already; the jobs that are left."""
        found, jobs = self.grading.look_up(self.entries)
        for record in found:
            self._keep(record, is_new=False)
        return jobs

    def _keep(self, record: Record, *, is_new: bool) -> Record:
        record = changes.applied(record, self.changes)
        entry = self.entries[record.student]
        note = "; ".join(entry.rebuilt.notes)
        self.rows[record.student] = Row(entry.submission, record, is_new=is_new, note=note)
        return record

    def grade(self, jobs: Sequence[Job], *, done: Callable[[str], None]) -> None:
        """Runs `jobs` and publishes each record, those of earlier runs first: meanwhile, where a
        second processor is there for it. `done` is called with each student whose verdict is in the
        journal, and with "" when only publishing is left. Raises what stopped it; what is in the
        journal stays there."""
        started = time.monotonic()
        beside = processors() > 1
        with Publisher(self.order.out, self.release, self.late, meanwhile=beside) as publisher:
            for row in self.rows.values():
                if row.record is not None:
                    publisher.add(Graded(row.record, self.entries[row.record.student]))
            for job, outcome in self.grading.run(jobs):
                self._settle(job, outcome, publisher)
                done(job.student)
            self.grading_s = time.monotonic() - started
            done("")
        self.published = publisher.published
        for student in self.published.refused & set(self.rows):
            self.rows[student] = replace(self.rows[student], note=NBGRADER_FAILED)
        self._remember()
        if self.order.roster and self.people:
            enrol(self.order.out, self.people)

    def _settle(self, job: Job, outcome: Record | Fault, publisher: Publisher) -> None:
        entry = self.entries[job.student]
        if isinstance(outcome, Fault):
            reason = THE_GRADER_FAILED.format(reason=outcome.reason)
            self.rows[job.student] = Row(entry.submission, ungradable=reason)
        else:
            publisher.add(Graded(self._keep(outcome, is_new=True), entry))

    def _remember(self) -> None:
        rows = list(self.rows.values())
        roster.update(self.order.out, self.release.name, map(self._line, rows))
        write_ungradable(self.order.out / "ungradable.csv", rows, self.release.name)

    def _line(self, row: Row) -> roster.Line:
        submission = row.submission
        note = "; ".join(filter(None, (submission.note, row.note)))
        line = roster.Line(
            submission.student, submission.origin, submission.submitted, note, row.ungradable
        )
        line = replace(line, secret=submission.secret, owner=submission.owner)
        if row.record is None:
            return line
        record = row.record
        return replace(line, key=record.key, sha256=record.sha256, version=self.release.version)

    @property
    def unknown_times(self) -> list[str]:
        """Names for which `times` of the late policy has a time, and of whom nothing came in."""
        lab, policy = self.release.name, self.late
        told = {student for name, student in policy.submitted if name == lab} if policy else set()
        known = roster.read(self.order.out, lab) if told else {}
        return [_with_advice(name, list(known)) for name in sorted(told - set(known))]

    def penalties(self) -> dict[str, float]:
        """What lateness costs, in points, as the gradebook has it; who pays nothing is left out."""
        if self.late is None:
            return {}
        with quiet(self.order.out / "grade.log") as log, in_one_line(self.order.out, log):
            owed = {
                n: grade.penalty for n, grade in grades(self.order.out, self.release.name).items()
            }
        return {name: penalty for name, penalty in owed.items() if penalty}

    @property
    def in_order(self) -> list[Row]:
        rows = self.rows | {student: _nothing(student) for student in self.absent}
        return [rows[student] for student in sorted(rows, key=str.casefold)]

    @property
    def absent(self) -> list[str]:
        """The enrolled who never handed in anything for this lab, in this run or before."""
        came = {*roster.read(self.order.out, self.release.name), *self.rows}
        return [person.folder_id for person in self.people if person.folder_id not in came]

    @property
    def not_enrolled(self) -> list[str]:
        known = {person.folder_id for person in self.people}
        return sorted(set(self.rows) - known) if known else []


def _nothing(student: str) -> Row:
    return Row(Submission(student, ""), note=NOTHING)


def enrolled(order: Order) -> list[Person]:
    """Who is enrolled, by the ids of the grading folder: from the list that the instructor gives,
    which the folder then remembers, or from the one that it has. Raises UserError."""
    before = enrolment.kept(order.out)
    if order.roster is None:
        if order.anonymous and not before:
            raise UserError("--anonymous needs to know who is enrolled: --roster FILE")
        people = before
    else:
        people = enrolment.known_as(enrolment.read(order.roster), before, origins(order.out))
    if order.anonymous or any(person.is_anonymous for person in before):
        graded = {person.folder_id for person in people} & set(origins(order.out))
        if any(not enrolment.is_pseudonym(student) for student in graded):
            raise UserError(
                f"{order.out} knows its students by name already. Grade into another folder: --out"
            )
        people = enrolment.pseudonyms(people, seed_secret.secret(order.out))
    if people != before:
        enrolment.keep(order.out, people)
    return people


def origins(out: Path) -> dict[str, str]:
    """By student, where the newest hand-in lay, of any lab."""
    labs = roster.labs(out)
    return {name: line.origin for lab in labs for name, line in roster.read(out, lab).items()}


def _with_advice(name: str, known: list[str]) -> str:
    close = [one for one in known if one.casefold().startswith(name.casefold())][:1]
    close = close or difflib.get_close_matches(name, known, n=1)
    return f"{name!r}, who may be {close[0]!r}" if close else repr(name)


def handed_in(line: roster.Line) -> Submission:
    """What came in, as the roster tells it."""
    return Submission(
        line.student,
        line.origin,
        sha256=line.sha256,
        submitted=line.submitted,
        note=line.note,
        secret=line.secret,
        owner=line.owner,
    )


def _taken_again(order: Order, release: Release, received: Path) -> Taken:
    """Everybody on the roster. Whose newest hand-in could not be graded keeps the reason."""
    taken = Taken(release)
    for student, line in roster.read(order.out, release.name).items():
        submission = handed_in(line)
        try:
            if line.ungradable:
                raise Ungradable(line.ungradable)
            entry = take_again(submission, release, received)
        except Ungradable as reason:
            taken.refusals.append(Refusal(submission, str(reason), reason.note))
            continue
        for said in (NBGRADER_FAILED, "; ".join(entry.rebuilt.notes)):  # and will be said again
            submission = replace(submission, note=submission.note.removesuffix(said).rstrip("; "))
        taken.entries[student] = replace(entry, submission=submission)
    return taken


def _is_collected(source: Path, out: Path) -> bool:
    """Whether it is the folder into which nbgrader collects here."""
    return source.resolve() == (out / COLLECTED).resolve()


def open_folder(out: Path, source: Path | None) -> None:
    """Makes the grading folder usable: there, ours, and without half-written files of a killed run.

    Call it with the folder's lock held. Raises UserError.
    """
    if source and source.resolve().is_relative_to(out.resolve()) and not _is_collected(source, out):
        raise UserError(f"{source} lies inside the grading folder {out}. Grade into another: --out")
    expect_no_pattern(out)
    shutil.rmtree(out / ".scratch", ignore_errors=True)
    of_labs = ["journal/*", "source/*", "release/*", "handouts/*/*", "handouts/*/*/*"]
    of_labs += [f"{step}/*/*" for step in STEPS]
    for folder in (".", "received", "roll", "variants", *of_labs):
        for partial in out.glob(f"{folder}/.*.tmp"):
            partial.unlink(missing_ok=True)
