"""The whole way of a class, in three steps: intake, grading, publishing."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UserError, the_one
from ..gradebook import late_policy
from ..gradebook.course import expect_no_pattern, keep_gradebook_at
from ..gradebook.publish import Graded, Published, Publisher
from ..intake.rebuild import Ungradable
from ..intake.release import Release, releases
from ..intake.submissions import Submission
from ..intake.taking import Refusal, Taken, take_again, take_in
from ..reports.rows import Row, write_ungradable
from ..run import cluster
from ..run.grading import Grading, Means
from ..run.job import Fault, Job
from ..store import roster
from ..store.journal import Record

THE_GRADER_FAILED = "The grader failed, not the student: {reason}. Grade again."
STEPS = ("submitted", "autograded", "feedback")
NBGRADER_FAILED = "graded, but nbgrader refused the notebook: see grade.log"


@dataclass(frozen=True)
class Order:
    """What the instructor asked for. source: what was handed in; None for what was handed in
    before, from the bytes that were kept. out: the grading folder. lab: "" where the hand-in tells.
    gradebook: the address of a database, "" for a file in `out`. The rest: see `Means`."""

    source: Path | None
    out: Path
    course: Path
    lab: str = ""
    workers: int = 0
    trusting: bool = False
    cluster: str = ""
    gradebook: str = ""
    device: str = ""


class GradingRun:
    """One lab of one class in one grading folder; `rows` grow as its students are graded."""

    def __init__(self, order: Order) -> None:
        """Reads what was handed in. Raises UserError for what the instructor can put right."""
        self.order, self.rows = order, dict[str, Row]()
        self.grading_s, self.published = 0.0, Published()
        if order.cluster:
            cluster.expect_known(order.cluster)
        known = releases(order.course)
        self.late = late_policy.read(order.course / late_policy.NAME, labs=list(known))
        keep_gradebook_at(order.out, order.gradebook)
        received = order.out / "received"
        if order.source is None:
            taken = _taken_again(order, known[the_one(order.lab, list(known), "lab")], received)
        else:
            taken = take_in(order.source, known, order.lab, received)
        self.release, self.entries = taken.release, taken.entries
        self.ignored = taken.ignored
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

    def _keep(self, record: Record, *, is_new: bool) -> None:
        entry = self.entries[record.student]
        note = "; ".join(entry.rebuilt.notes)
        self.rows[record.student] = Row(entry.submission, record, is_new=is_new, note=note)

    def grade(self, jobs: Sequence[Job], *, done: Callable[[str], None]) -> None:
        """Runs `jobs`, and publishes each record meanwhile, those of earlier runs first. `done` is
        called with each student whose verdict is in the journal, and with "" when only publishing
        is left. Raises what stopped it; what is in the journal stays there."""
        started = time.monotonic()
        with Publisher(self.order.out, self.release, self.late) as publisher:
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

    def _settle(self, job: Job, outcome: Record | Fault, publisher: Publisher) -> None:
        entry = self.entries[job.student]
        if isinstance(outcome, Fault):
            reason = THE_GRADER_FAILED.format(reason=outcome.reason)
            self.rows[job.student] = Row(entry.submission, ungradable=reason)
        else:
            self._keep(outcome, is_new=True)
            publisher.add(Graded(outcome, entry))

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
        if row.record is None:
            return line
        record = row.record
        return replace(line, key=record.key, sha256=record.sha256, version=self.release.version)

    @property
    def in_order(self) -> list[Row]:
        return [self.rows[student] for student in sorted(self.rows, key=str.casefold)]


def _taken_again(order: Order, release: Release, received: Path) -> Taken:
    """Everybody on the roster. Whose newest hand-in could not be graded keeps the reason."""
    taken = Taken(release)
    for student, line in roster.read(order.out, release.name).items():
        origin, time = line.origin, line.submitted
        submission = Submission(student, origin, submitted=time, sha256=line.sha256, note=line.note)
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


def open_folder(out: Path, source: Path | None) -> None:
    """Makes the grading folder usable: there, ours, and without half-written files of a killed run.

    Call it with the folder's lock held. Raises UserError.
    """
    if source and source.resolve().is_relative_to(out.resolve()):
        raise UserError(f"{source} lies inside the grading folder {out}. Grade into another: --out")
    expect_no_pattern(out)
    shutil.rmtree(out / ".scratch", ignore_errors=True)
    of_labs = ("journal/*", "source/*", "release/*", *(f"{step}/*/*" for step in STEPS))
    for folder in (".", "received", "roll", *of_labs):
        for partial in out.glob(f"{folder}/.*.tmp"):
            partial.unlink(missing_ok=True)
