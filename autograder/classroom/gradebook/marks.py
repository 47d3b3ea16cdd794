"""What a person gave in formgrader: points, extra points and words, by student and cell."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..intake.release import CHECK_SUFFIX
from .course import database, has_gradebook


@dataclass(frozen=True)
class Given:
    """Of one cell. points: None where nobody marked it, or where the mark was for another text."""

    points: float | None = None
    extra: float | None = None
    comment: str = ""

    def __str__(self) -> str:
        points = "no points" if self.points is None else f"{self.points:g} points"
        extra = f" and {self.extra:g} extra" if self.extra else ""
        return points + extra + (f", {self.comment!r}" if self.comment else "")


Marks = Mapping[str, Mapping[str, Given]]


def marks(folder: Path, lab: str) -> dict[str, dict[str, Given]]:
    """By student and cell, where a person gave anything; nothing where there is no gradebook."""
    found: dict[str, dict[str, Given]] = {}
    if not has_gradebook(folder):
        return found
    from nbgrader.api import Comment, Grade, Gradebook

    with Gradebook(database(folder)) as gradebook:
        words = {
            (student, cell): text or ""
            for student, cell, text in _of(gradebook, lab, Comment, Comment.manual_comment)
        }
        told = Grade.manual_score, Grade.extra_credit, Grade.needs_manual_grade
        for student, cell, points, extra, is_open in _of(gradebook, lab, Grade, *told):
            points = None if is_open else points
            one = Given(points, extra or None, words.get((student, cell), ""))
            if one != Given():
                found.setdefault(student, {})[cell] = one
    return found


def overrides(folder: Path, lab: str) -> dict[tuple[str, str], float]:
    """By student and question, the points that a person gave to a check: they count whatever its
    verdict is, also while they wait for a second look. Nothing where there is no gradebook."""
    if not has_gradebook(folder):
        return {}
    from nbgrader.api import Grade, Gradebook

    with Gradebook(database(folder)) as gradebook:
        return {
            (student, cell.removesuffix(CHECK_SUFFIX)): points
            for student, cell, points in _of(gradebook, lab, Grade, Grade.manual_score)
            if points is not None and cell.endswith(CHECK_SUFFIX)
        }


def _of(gradebook: Any, lab: str, table: Any, *columns: Any) -> Any:
    """Student, cell and these columns of every row, in one query: nbgrader's objects one by one
    take a second for twenty students."""
    from nbgrader.api import Assignment, BaseCell, SubmittedAssignment, SubmittedNotebook

    return (
        gradebook.db.query(SubmittedAssignment.student_id, BaseCell.name, *columns)
        .select_from(table)
        .join(SubmittedNotebook, SubmittedNotebook.id == table.notebook_id)
        .join(SubmittedAssignment, SubmittedAssignment.id == SubmittedNotebook.assignment_id)
        .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
        .join(BaseCell, BaseCell.id == table.cell_id)
        .filter(Assignment.name == lab)
        .all()
    )


def give(folder: Path, lab: str, given: Marks) -> None:
    """Writes these marks down, at the end and all at once: formgrader waits for five seconds. Their
    students' pages of feedback go, so that the next publishing makes them anew, whenever it
    comes."""
    from nbgrader.api import Gradebook

    with Gradebook(database(folder)) as gradebook, gradebook.db.no_autoflush:
        for student, cells in given.items():
            (folder / "feedback" / student / lab / f"{lab}.html").unlink(missing_ok=True)
            for cell, one in cells.items():
                grade = gradebook.find_grade(cell, lab, lab, student)
                if one.points is not None:
                    grade.manual_score, grade.needs_manual_grade = one.points, False
                if one.extra is not None:
                    grade.extra_credit = one.extra
                if one.comment:
                    comment = gradebook.find_comment(cell, lab, lab, student)
                    comment.manual_comment = one.comment
        gradebook.db.commit()
