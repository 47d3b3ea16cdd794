"""One submission to be graded: the cells to replay, the questions to ask, nothing of the notebook
else."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..intake.rebuild import to_run
from ..intake.release import Release
from ..intake.taking import Entry
from ..store import seed_secret
from ..store.journal import Record

SUBMISSION_S = 180.0
"""For all cells and questions of a notebook together, in wall time. A question has its own limit;
this one holds whoever reaches that limit again and again."""
AGAIN_S = 60.0
"""For asking again, alone, what timed out beside other submissions."""


@dataclass(frozen=True)
class Job:
    """Everything that a worker needs. It crosses to another process, so it is plain data.

    cells: name and source, in order. setup: how many of them come before the first answer and are
    ours. seeds: one per question. left_out: names that only cells outside the answers define.
    extra_s: what its questions' own budgets add to the usual limits. device_share: of one GPU.
    first: what was found when it was asked beside others; only the questions that it names as timed
    out are then asked, once more. only: the questions to be asked, none of them for all of the lab.
    quiet: nothing else runs on the machine, so that questions which time something are asked too.
    """

    student: str
    lab: str
    key: str
    sha256: str
    cells: tuple[tuple[str, str], ...]
    setup: int
    seeds: dict[str, int]
    left_out: frozenset[str]
    extra_s: float = 0.0
    device_share: float = 0.0
    first: Record | None = None
    only: tuple[str, ...] = ()
    quiet: bool = False

    @property
    def total_s(self) -> float:
        """For everything that its code does."""
        return self.extra_s + (AGAIN_S if self.first else SUBMISSION_S)

    def again(self, first: Record) -> Job:
        """The job that asks once more what timed out."""
        return replace(self, first=first)


@dataclass(frozen=True)
class Fault:
    """A submission could not be graded, through no fault of its own; the reason is for a person."""

    reason: str


def job_for(
    entry: Entry, release: Release, *, key: str, secret: bytes, device_share: float | None = None
) -> Job:
    """The job that grades `entry`, with the seeds of this secret. device_share: of one GPU, where
    it is not the lab's own."""
    cells = tuple(to_run(release, entry.rebuilt))
    answers = {cell["id"] for cell in release.answers}
    setup = next((n for n, (name, _) in enumerate(cells) if name in answers), len(cells))
    questions = release.lab.questions
    budgets_s = sum(question.budget_s or 0.0 for question in release.lab)
    seeds = {name: seed_secret.seed(secret, release.name, name, entry.sha256) for name in questions}
    return Job(
        entry.submission.student,
        release.name,
        key,
        entry.sha256,
        cells,
        setup,
        seeds,
        entry.rebuilt.left_out,
        budgets_s,
        release.lab.device_share if device_share is None else device_share,
    )
