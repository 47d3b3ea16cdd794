"""What came of each student, as the instructor's tables show it, and who could not be graded."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder import atomic_write
from autograder.judge.verdict import one_line

from ..intake.submissions import Submission
from ..store.journal import Record
from .spreadsheet import inert, written

MARKS = {  # by the mark of a verdict
    "pass": ("●", "green"),
    "fail": ("✗", "red"),
    "not yet": ("·", "dim"),
    "ungradable": ("?", "yellow"),
    "flagged": ("!", "yellow"),
}
LEGEND = "● passed  ✗ wrong  · not answered  ? for a person: the grader failed  ! flagged"


@dataclass(frozen=True)
class Row:
    """One student's outcome: a record, or the sentence that says why there is none.

    is_new: graded in this run. note: for the instructor.
    """

    submission: Submission
    record: Record | None = None
    ungradable: str = ""
    is_new: bool = False
    note: str = ""


def write_ungradable(path: Path, rows: Sequence[Row], lab: str) -> None:
    """Everyone without a grade, for a mail merge. The lines of other labs, and of whoever is not
    among `rows`, stay."""
    ours = {inert(one_line(row.submission.student)) for row in rows}  # as the file has them
    kept = [line for line in _read(path) if line[0] != lab or line[1] not in ours]
    fresh = [[lab, *_ungradable(row)] for row in rows if row.record is None]
    header = ["lab", "student", "file", "reason", "for the instructor"]
    atomic_write.write(path, written([header, *sorted([*kept, *fresh])]))


def _ungradable(row: Row) -> tuple[str, ...]:
    note = "; ".join(filter(None, (row.submission.note, row.note)))
    return row.submission.student, row.submission.origin, row.ungradable, note


def _read(path: Path) -> list[list[str]]:
    try:
        lines = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, ValueError, csv.Error):
        return []
    return [line for line in lines[1:] if len(line) == 5]
