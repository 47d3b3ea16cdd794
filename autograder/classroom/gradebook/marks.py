"""What a person gave in formgrader: points, extra points and words, by student and cell."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..intake.release import CHECK_SUFFIX, Release
from .course import database, has_gradebook
from .shares import Noted, Share, read, rows_of, shares, write


@dataclass(frozen=True)
class Given:
    """Of one cell. points: None where nobody marked it, or where the mark was for another text; of
    a check, out of what its question is worth in the release, so that two folders agree on them
    that gave it different points since."""

    points: float | None = None
    extra: float | None = None
    comment: str = ""

    def __str__(self) -> str:
        points = "no points" if self.points is None else f"{self.points:g} points"
        extra = f" and {self.extra:g} extra" if self.extra else ""
        return points + extra + (f", {self.comment!r}" if self.comment else "")


Marks = Mapping[str, Mapping[str, Given]]


def marks(folder: Path, release: Release) -> dict[str, dict[str, Given]]:
    """By student and cell, where a person gave anything; nothing where there is no gradebook."""
    lab, found = release.name, dict[str, dict[str, Given]]()
    if not has_gradebook(folder):
        return found
    from nbgrader.api import Comment, Grade, Gradebook

    of_checks = {
        (student, question + CHECK_SUFFIX): share.at(release.lab.questions[question].points)
        for (student, question), share in shares(folder, lab).items()
        if question in release.lab.questions
    }
    with Gradebook(database(folder)) as gradebook:
        words = {
            (student, cell): text or ""
            for student, cell, text in rows_of(gradebook, lab, Comment, Comment.manual_comment)
        }
        told = Grade.manual_score, Grade.extra_credit, Grade.needs_manual_grade
        for student, cell, points, extra, is_open in rows_of(gradebook, lab, Grade, *told):
            points = None if is_open else of_checks.get((student, cell), points)
            one = Given(points, extra or None, words.get((student, cell), ""))
            if one != Given():
                found.setdefault(student, {})[cell] = one
    return found


def give(folder: Path, release: Release, given: Marks) -> None:
    """Writes these marks down, at the end and all at once: formgrader waits for five seconds. Their
    students' pages of feedback go, so that the next publishing makes them anew, whenever it
    comes."""
    from nbgrader.api import Gradebook

    lab, notes = release.name, read(folder, release.name)
    with Gradebook(database(folder)) as gradebook, gradebook.db.no_autoflush:
        for student, cells in given.items():
            (folder / "feedback" / student / lab / f"{lab}.html").unlink(missing_ok=True)
            for cell, one in cells.items():
                grade = gradebook.find_grade(cell, lab, lab, student)
                if one.points is not None:
                    noted = _noted(release, cell, one.points, worth=grade.max_score)
                    if noted.ours != (one.points,):
                        notes[student, cell.removesuffix(CHECK_SUFFIX)] = noted
                    (grade.manual_score,), grade.needs_manual_grade = noted.ours, False
                if one.extra is not None:
                    grade.extra_credit = one.extra
                if one.comment:
                    comment = gradebook.find_comment(cell, lab, lab, student)
                    comment.manual_comment = one.comment
        if notes:
            write(folder, lab, notes)
        gradebook.db.commit()


def _noted(release: Release, cell: str, points: float, *, worth: float) -> Noted:
    """What stands for the mark `points` of `cell`, which is worth `worth` here; a free text is
    worth the same everywhere."""
    question = release.lab.questions.get(cell.removesuffix(CHECK_SUFFIX))
    share = Share(points, question.points if question else worth)
    return Noted(share, (share.at(worth),))
