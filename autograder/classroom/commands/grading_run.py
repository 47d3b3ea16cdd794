"""The whole way of a class: intake, rebuild, journal, workers, gradebook."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import BoundedSemaphore

from autograder.sandbox import BUBBLEWRAP, DEFAULT_SHARE, Tier, probe

from .. import atomic_write
from ..errors import UserError, the_one
from ..gradebook import late_policy
from ..gradebook.course import expect_no_pattern, keep_gradebook_at, quiet
from ..gradebook.gradebook import Graded, record_all
from ..gradebook.publisher import Publisher
from ..intake.rebuild import Ungradable, rebuild
from ..intake.release import Release, releases
from ..intake.submissions import Submission, files_in, labs_named, submissions
from ..reports.table import Row, write_ungradable
from ..run import cluster, devices, pool
from ..run.job import Entry, Fault, Job, job_for
from ..run.worker import Setting
from ..store import roster, seed_secret
from ..store.journal import Journal, Record, key_of

NOT_SAFE = (
    "Other people's code is not run here without walls. {reason} "
    "Put that right, or pass --i-trust-students to run it with your own rights."
)
THE_GRADER_FAILED = "The grader failed, not the student: {reason}. Grade again."
NO_GPU = "There is no NVIDIA GPU here (no /dev/nvidia0), so nothing can be graded on cuda."
TORCH = importlib.metadata.version("torch")
KEEPERS = 8  # at a time: a disk that must not forget is slow to one and quick to many
STEPS = ("submitted", "autograded", "feedback")
NBGRADER_FAILED = "graded, but nbgrader refused the notebook: see grade.log"


@dataclass(frozen=True)
class Order:
    """What the instructor asked for. out: the grading folder. lab: "" where the hand-in tells.
    cluster: "" for this machine, else as `cluster.graded` reads it. gradebook: the address of a
    database, "" for a file in `out`. device: "cpu", "cuda", or "" for a GPU where a question of the
    lab asks for one and it is there."""

    source: Path
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
        self.order = order
        if order.cluster:
            cluster.expect_known(order.cluster)
        files = files_in(order.source)
        if not any(file.path[-1].endswith(".ipynb") for file in files) and not order.lab:
            raise UserError(f"There is no notebook in {order.source}. Name the folder of hand-ins.")
        known = releases(order.course)
        named = labs_named(files, list(known))
        self.release: Release = known[_the_lab(order.lab, list(known), named)]
        self.late = late_policy.read(order.course / late_policy.NAME, labs=list(known))
        keep_gradebook_at(order.out, order.gradebook)
        self.secret = seed_secret.secret(order.out)
        self.journal = Journal(order.out / "journal" / self.release.name)
        self.rows: dict[str, Row] = {}
        self.entries: dict[str, Entry] = {}
        handed_in = submissions(files, self.release.name, list(known))
        self._keep_all(one for one in handed_in if self._take_in(one))
        if not self.rows and not self.entries:
            raise UserError(f"There is no notebook of {self.release.name} in {order.source}.")

    def _take_in(self, submission: Submission) -> bool:
        """Whether there are bytes to be kept."""
        told = replace(submission, data=b"")
        if submission.ungradable:
            self._give_up(told, submission.ungradable)
            return False
        try:
            rebuilt = rebuild(submission.data, self.release)
        except Ungradable as reason:
            self._give_up(told, str(reason), reason.note)
        else:
            self.entries[submission.student] = Entry(told, rebuilt, submission.sha256)
        return True

    def _keep_all(self, taken: Iterator[Submission]) -> None:
        """Keeps the bytes of each on the disk, which may be slower than we read: whoever waits for
        it waits with few of them in memory."""
        room = BoundedSemaphore(2 * KEEPERS)
        kept = []
        with ThreadPoolExecutor(KEEPERS) as keepers:
            for submission in taken:
                room.acquire()
                kept.append(keepers.submit(self._keep_bytes, submission))
                kept[-1].add_done_callback(lambda _: room.release())
        for one in kept:
            one.result()

    def _keep_bytes(self, submission: Submission) -> None:
        received = self.order.out / "received" / f"{submission.sha256}.ipynb"
        if not received.exists():
            atomic_write.write(received, submission.data, mode=0o600)

    def _give_up(self, submission: Submission, reason: str, note: str = "") -> None:
        self.rows[submission.student] = Row(submission, ungradable=reason, note=note)

    def look_up(self) -> list[Job]:
        """Takes what is in the journal already; the jobs that are left."""
        jobs = self._look_up(BUBBLEWRAP)  # probing takes a while: only where something is left
        if not jobs:
            return jobs
        tier = self.tier
        return jobs if tier == BUBBLEWRAP else self._look_up(tier)

    @property
    def tier(self) -> Tier:
        """The sandbox of this machine. Raises UserError where it is none and nobody said that this
        is all right."""
        tier = probe()
        if not tier.safe and not self.order.trusting:
            raise UserError(NOT_SAFE.format(reason=tier.reason.rstrip(".") + "."))
        return tier

    def _look_up(self, tier: Tier) -> list[Job]:
        jobs = []
        for student, entry in self.entries.items():
            key = self._key(entry, tier)
            record = self.journal.read(student, key)
            if record is not None and record.is_final:
                self._keep(record, is_new=False)
            else:
                share, secret = self._device_share, self.secret
                job = job_for(entry, self.release, key=key, secret=secret, device_share=share)
                jobs.append(job)
        return jobs

    @property
    def _device_share(self) -> float:
        """Of one GPU, for each submission; 0 where everything stays on the CPU."""
        if self.order.device == "cpu":
            return 0.0
        return self.release.lab.device_share or (DEFAULT_SHARE if self._on_gpu else 0.0)

    @property
    def _on_gpu(self) -> bool:
        return self.order.device == "cuda"

    def _key(self, entry: Entry, tier: Tier) -> str:
        seed_name = seed_secret.name_of(self.secret)
        where = [tier.name, *(["cuda"] if self._on_gpu else [])]
        return key_of(entry.sha256, self.release.version, TORCH, seed_name, *where)

    def _keep(self, record: Record, *, is_new: bool) -> None:
        entry = self.entries[record.student]
        note = "; ".join(entry.rebuilt.notes)
        self.rows[record.student] = Row(entry.submission, record, is_new=is_new, note=note)

    def grade(self, jobs: Sequence[Job], *, done: Callable[[str], None]) -> None:
        """Runs `jobs`; each verdict is in the journal before `done` is called with its student."""
        if not jobs:
            return
        outcomes = self._on_cluster(jobs) if self.order.cluster else self._here(jobs)
        with Publisher(self.order.out, self.release) as publisher:
            for job, outcome in outcomes:
                self._settle(job, outcome)
                if isinstance(outcome, Record):
                    publisher.add(Graded(outcome, self.entries[job.student]))
                done(job.student)

    def _here(self, jobs: Sequence[Job]) -> Iterator[pool.Outcome]:
        out = self.order.out
        setting = Setting(self.tier, out / "grade.log", _scratch(out), os.getpid())
        workers = self.order.workers or pool.processors()
        gpus = devices.lent() if jobs[0].device_share else ()
        if self._on_gpu and not gpus:
            raise UserError(NO_GPU)
        if gpus:
            workers = min(workers, devices.slots(gpus, jobs[0].device_share))
        try:
            for job, outcome in pool.graded(jobs, setting, workers=workers, devices=gpus):
                if isinstance(outcome, Record):
                    self.journal.write(outcome)
                yield job, outcome
        finally:
            shutil.rmtree(setting.scratch, ignore_errors=True)

    def _on_cluster(self, jobs: Sequence[Job]) -> Iterator[pool.Outcome]:
        place = cluster.Place(self.order.out, seed_secret.name_of(self.secret), TORCH, self.tier)
        return cluster.graded(jobs, place, spec=self.order.cluster)

    def _settle(self, job: Job, outcome: Record | Fault) -> None:
        if isinstance(outcome, Fault):
            reason = THE_GRADER_FAILED.format(reason=outcome.reason)
            self._give_up(self.entries[job.student].submission, reason)
        else:
            self._keep(outcome, is_new=True)

    def publish(self) -> None:
        """Everything that is graded into the gradebook and into feedback; the rest into a list."""
        graded = [
            Graded(row.record, self.entries[student])
            for student, row in self.rows.items()
            if row.record is not None
        ]
        with quiet(self.order.out / "grade.log") as log:
            refused = (
                record_all(self.order.out, self.release, graded, log, policy=self.late)
                if graded
                else set()
            )
        for student in refused:
            self.rows[student] = replace(self.rows[student], note=NBGRADER_FAILED)
        rows = list(self.rows.values())
        roster.update(self.order.out, self.release.name, map(self._line, rows))
        write_ungradable(self.order.out / "ungradable.csv", rows, self.release.name)

    def _line(self, row: Row) -> roster.Line:
        said = row.submission
        note = "; ".join(filter(None, (said.note, row.note)))
        line = roster.Line(said.student, said.origin, said.submitted, note, row.ungradable)
        if row.record is None:
            return line
        record = row.record
        return replace(line, key=record.key, sha256=record.sha256, version=self.release.version)

    @property
    def in_order(self) -> list[Row]:
        return [self.rows[student] for student in sorted(self.rows, key=str.casefold)]


def _scratch(out: Path) -> Path:
    folder = out / ".scratch"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _the_lab(asked: str, known: Sequence[str], named: Sequence[str]) -> str:
    if asked:
        return the_one(asked, known, "lab")
    every = ", ".join(known) or "none"
    for candidates in (known, named):
        if len(candidates) == 1:
            return candidates[0]
    raise UserError(f"Say which lab to grade with --lab. The course has: {every}.")


def open_folder(out: Path, source: Path) -> None:
    """Makes the grading folder usable: there, ours, and without half-written files of a killed run.

    Call it with the folder's lock held. Raises UserError.
    """
    if source.resolve().is_relative_to(out.resolve()):
        raise UserError(f"{source} lies inside the grading folder {out}. Grade into another: --out")
    expect_no_pattern(out)
    shutil.rmtree(out / ".scratch", ignore_errors=True)
    of_labs = ("journal/*", "source/*", "release/*", *(f"{step}/*/*" for step in STEPS))
    for folder in (".", "received", "roll", *of_labs):
        for partial in out.glob(f"{folder}/.*.tmp"):
            partial.unlink(missing_ok=True)
