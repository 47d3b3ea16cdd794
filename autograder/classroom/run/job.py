"""One submission to be graded: the cells to replay, the questions to ask, nothing of the notebook
else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from autograder.judge import Numbers

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
    extra_s: what its questions' own budgets add to the usual limits. total_s: for everything that
    its code does. loopback: as the lab says. device_share: of one GPU.
    first: what was found when it was asked beside others; only the questions that it names as timed
    out are then asked, once more. only: the questions to be asked, none of them for all of the lab.
    quiet: nothing else runs on the machine, so that questions which time something are asked too.
    variant: by question, the numbers in its text that are this student's own.
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
    total_s: float = SUBMISSION_S
    loopback: bool = False
    device_share: float = 0.0
    first: Record | None = None
    only: tuple[str, ...] = ()
    quiet: bool = False
    variant: dict[str, Numbers] = field(default_factory=dict)

    def again(self, first: Record) -> Job:
        """The job that asks once more what timed out."""
        return replace(self, first=first, total_s=self.extra_s + AGAIN_S)


@dataclass(frozen=True)
class Fault:
    """A submission could not be graded, through no fault of its own; the reason is for a person."""

    reason: str
