"""What a person gave to a check, as a share of what its question is worth: when a question is
dropped or worth something else, the mark is as much of it as it was, and comes back with an undo.

nbgrader keeps points alone, and of 0 out of 0 nobody can tell what it was. So what was given, and
out of how many, is noted down beside the changes. Who marks the check again decides anew.
"""

import json
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from autograder import atomic_write

from ..errors import UserError
from ..intake.release import CHECK_SUFFIX, Release
from ..store import changes
from .course import database, has_tables

Key = tuple[str, str]
"""A student and a question."""


@dataclass(frozen=True)
class Share:
    """given: the points that a person gave, out of `of`."""

    given: float
    of: float

    def at(self, worth: float) -> float:
        """Its points where the question is worth `worth`. Out of nothing it is no share, and stays
        as it is."""
        if not self.of or worth == self.of:
            return self.given
        return round(self.given / self.of * worth, 6)


@dataclass(frozen=True)
class Noted:
    """ours: the points that stand for `share` in the gradebook because we wrote them, two while
    they are being written; any others are a person's."""

    share: Share
    ours: tuple[float, ...]


def shares(folder: Path, lab: str) -> dict[Key, Share]:
    """By student and question, what a person gave to a check: it counts whatever the verdict is,
    also while it waits for a second look. Nothing where there is no gradebook. Raises UserError for
    damaged notes."""
    return {key: share for key, (share, _) in _stored(folder, lab).items()}


def _stored(folder: Path, lab: str) -> dict[Key, tuple[Share, float]]:
    """The shares, and the points that stand for them in the gradebook."""
    found = dict[Key, tuple[Share, float]]()
    if not has_tables(folder):
        return found
    from nbgrader.api import Grade, Gradebook

    notes = read(folder, lab)
    with Gradebook(database(folder)) as gradebook:
        told = Grade.manual_score, Grade.max_score
        for student, cell, points, most in rows_of(gradebook, lab, Grade, *told):
            if points is not None and cell.endswith(CHECK_SUFFIX):
                key = student, cell.removesuffix(CHECK_SUFFIX)
                noted = notes.get(key)
                is_ours = noted is not None and points in noted.ours
                found[key] = noted.share if noted and is_ours else Share(points, most), points
    return found


def keep(folder: Path, release: Release) -> None:
    """Gives every mark of a check its share of what the question is worth now. Before the gradebook
    learns that worth: until then it says out of how many a new mark was given.

    A kill in the middle loses nothing, for the notes come first. A mark that somebody saves
    meanwhile stays as they saved it. Raises UserError for damaged notes."""
    lab, stored = release.name, _stored(folder, release.name)
    now = changes.changed(release.lab, changes.read(folder, lab)).questions
    worth = {key: now[key[1]].points for key in stored if key[1] in now}
    moved = {
        key: (stored[key][0], stored[key][1], stored[key][0].at(most))
        for key, most in worth.items()
        if stored[key][0].at(most) != stored[key][1]
    }
    before = read(folder, lab)
    notes = {
        key: Noted(one.share, (stored[key][1],))  # a kill may have left two points, one in no use
        for key, one in before.items()
        if key in stored and stored[key][1] in one.ours
    }
    if moved:
        begun = {key: Noted(share, (was, new)) for key, (share, was, new) in moved.items()}
        write(folder, lab, notes | begun)
        _move(folder, lab, {key: (was, new) for key, (_, was, new) in moved.items()})
    notes |= {key: Noted(share, (new,)) for key, (share, _, new) in moved.items()}
    if notes != before:
        write(folder, lab, notes)


def _move(folder: Path, lab: str, moved: dict[Key, tuple[float, float]]) -> None:
    """All at once; in statements that ask for what was read, because a person may be marking."""
    from nbgrader.api import Grade, Gradebook

    with Gradebook(database(folder)) as gradebook:
        known = {
            key: gradebook.find_grade(key[1] + CHECK_SUFFIX, lab, lab, key[0]).id for key in moved
        }
        for key, (was, new) in moved.items():
            (folder / "feedback" / key[0] / lab / f"{lab}.html").unlink(missing_ok=True)
            ours = gradebook.db.query(Grade).filter_by(id=known[key], manual_score=was)
            ours.update({Grade.manual_score: new}, synchronize_session=False)
        gradebook.db.commit()


def rows_of(gradebook: Any, lab: str, table: Any, *columns: Any) -> Any:
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


def read(folder: Path, lab: str) -> dict[Key, Noted]:
    """Raises UserError where they are damaged: grades are not guessed."""
    path = _path(folder, lab)
    try:
        return {
            (student, question): Noted(Share(given, of), tuple(ours))
            for student, question, given, of, ours in json.loads(path.read_bytes())
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{path}, which says what people gave to questions that are worth something else now, "
            "is damaged. Put a copy back."
        ) from error


def write(folder: Path, lab: str, notes: dict[Key, Noted]) -> None:
    told = [[*key, *astuple(one.share), one.ours] for key, one in sorted(notes.items())]
    data = json.dumps(told, ensure_ascii=False, indent=1)
    atomic_write.write(_path(folder, lab), data.encode(), mode=0o600)


def _path(folder: Path, lab: str) -> Path:
    return folder / "changes" / f"{lab}.marks.json"
