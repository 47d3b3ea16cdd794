"""What the instructor reads at the end: a line per student, and who needs a look."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from autograder import atomic_write
from autograder.judge import State, Verdict

from ..intake.release import Release, graded
from ..intake.submissions import Submission
from ..store.journal import Record
from .spreadsheet import written

MARKS = {
    "pass": ("●", "green"),
    "fail": ("✗", "red"),
    "blank": ("·", "dim"),
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


def table(release: Release, rows: Iterable[Row]) -> Table:
    """Student, points, a mark per question, what happened."""
    made = Table(title=f"{release.name}, {release.lab.title}", caption=LEGEND, title_justify="left")
    made.add_column("student", overflow="fold")
    made.add_column(f"points of {release.lab.max_points:g}", justify="right")
    made.add_column("questions")
    made.add_column("state", overflow="fold")
    for row in rows:
        made.add_row(*_cells(release, row))
    return made


def _cells(release: Release, row: Row) -> tuple[Text, ...]:
    student = Text(row.submission.student)
    if row.record is None:
        text = "; ".join(filter(None, (row.ungradable, row.submission.note, row.note)))
        return student, Text("-"), Text(""), Text(f"ungradable: {text}", style="yellow")
    points = Text(f"{row.record.points:g}")
    marks = Text.assemble(*(_mark(verdict) for verdict in row.record.verdicts))
    return student, points, marks, Text("; ".join(_remarks(row, row.record)))


def mark_name(verdict: Verdict) -> str:
    """The key of MARKS for a verdict: its state, and whether the stub was touched at all."""
    return verdict.state.value if verdict.is_answered else "blank"


def _mark(verdict: Verdict) -> tuple[str, str]:
    return MARKS[mark_name(verdict)]


def _remarks(row: Row, record: Record) -> Iterable[str]:
    yield "graded" if row.is_new else "graded before"
    known = [verdict.misconception for verdict in record.verdicts if verdict.misconception]
    if known:
        yield "misconceptions: " + ", ".join(known)
    if open_ones := [v.question for v in record.verdicts if v.state is State.UNGRADABLE]:
        yield "the grader failed at " + ", ".join(open_ones)
    yield from filter(None, (row.submission.note, row.note))


def by_hand(release: Release) -> list[str]:
    """The questions that a person marks: their points come in formgrader."""
    return [
        f"{cell['id']} ({graded(cell)['points']:g} points)"
        for cell in release.answers
        if graded(cell).get("grade")
    ]


def write_ungradable(path: Path, rows: Sequence[Row], lab: str) -> None:
    """Everyone without a grade, for a mail merge; kept for all labs, this lab's lines are new."""
    kept = [line for line in _read(path) if line[:1] != [lab]]
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
