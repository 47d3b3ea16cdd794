"""One lab of a class, read back: who handed in, what the checks found, what the gradebook says."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autograder.judge import State, Verdict

from ..errors import UserError
from ..gradebook.course import database, has_gradebook, in_one_line
from ..intake import enrolment
from ..intake.enrolment import Person, identified
from ..intake.owners import canvas_user, moodle_participant
from ..intake.release import Release
from ..store import changes, roster
from ..store.journal import Journal, Record

NOTHING = "handed in nothing"
STRANGER = "not enrolled"
LOST = "The verdict is missing or damaged. Grade the class again: only what is lost runs."


@dataclass(frozen=True)
class Mark:
    """A graded cell in nbgrader's gradebook. points: what counts now; is_open: a person has to
    look."""

    points: float
    max_points: float
    is_open: bool


@dataclass(frozen=True)
class Grade:
    """A student's grade in nbgrader's gradebook: marks by cell, and what lateness costs."""

    marks: dict[str, Mark] = field(default_factory=dict)
    penalty: float = 0.0
    late_s: float = 0.0

    @property
    def points(self) -> float:
        return max(0.0, sum(mark.points for mark in self.marks.values()) - self.penalty)

    @property
    def max_points(self) -> float:
        return sum(mark.max_points for mark in self.marks.values())

    @property
    def open_cells(self) -> tuple[str, ...]:
        return tuple(name for name, mark in self.marks.items() if mark.is_open)


@dataclass(frozen=True)
class Result:
    """A student. record, grade: None where there is none. reason: why the newest hand-in has no
    verdict, "" where it has one. person: as on the class list; None for who is not on it, and
    where there is no list. enrolment: what the list says of somebody for whom it is not as usual.
    """

    line: roster.Line
    record: Record | None = None
    grade: Grade | None = None
    reason: str = ""
    person: Person | None = None
    enrolment: str = ""

    @property
    def came(self) -> bool:
        """Whether anything was handed in."""
        return self.enrolment != NOTHING

    @property
    def is_anonymous(self) -> bool:
        return self.person is not None and self.person.is_anonymous

    @property
    def student(self) -> str:
        return self.line.student

    @property
    def settled(self) -> float | None:
        """The points of a grade that nobody has to look at any more."""
        if self.grade is None or self.reason or self.grade.open_cells:
            return None
        return self.grade.points

    def counted(self, provisional: bool) -> float | None:
        """The points for a learning platform: settled ones; where `provisional`, all that stand."""
        if not provisional or self.grade is None:
            return self.settled
        return self.grade.points

    def verdicts(self, state: State) -> Sequence[Verdict]:
        return [v for v in self.record.verdicts if v.state is state] if self.record else ()


def results(folder: Path, release: Release, log: logging.Logger) -> list[Result]:
    """Everybody who handed in or is enrolled, by name. Raises UserError where the lab was never
    graded here."""
    lines = roster.read(folder, release.name)
    journal = Journal(folder / "journal" / release.name)
    with in_one_line(folder, log):
        stored = grades(folder, release.name)
    made = changes.read(folder, release.name)
    found = [_result(line, journal, stored.get(line.student)) for line in lines.values()]
    found = [replace(r, record=r.record and changes.applied(r.record, made)) for r in found]
    people = enrolment.kept(folder)
    return _with_people(found, people) if people else found


def _with_people(found: Sequence[Result], people: Sequence[Person]) -> list[Result]:
    """Who is who on the class list; whoever is on it and handed in nothing has a row too."""
    known = identified(people, {one.student: one.line.origin for one in found})
    known |= {person.folder_id: person for person in people}
    rows = [replace(one, person=known.get(one.student)) for one in found]
    rows = [one if one.person else replace(one, enrolment=STRANGER) for one in rows]
    came = {one.person for one in rows}
    rows += [
        Result(roster.Line(person.folder_id), person=person, enrolment=NOTHING)
        for person in people
        if person not in came
    ]
    return sorted(rows, key=lambda one: one.student.casefold())


def expect_one_each(people: Sequence[Result]) -> None:
    """Raises UserError where a platform would take two students for one: a grade would land at the
    wrong person."""
    for platform, known in (("Canvas", canvas_user), ("Moodle", moodle_participant)):
        first: dict[str, str] = {}
        for one in people:
            number = known(one.line.origin)[1]
            other = first.setdefault(number, one.line.origin) if number else ""
            if other and other != one.line.origin:
                raise UserError(
                    f"Two hand-ins bear {platform}'s number {number}: {other!r} and "
                    f"{one.line.origin!r}. Take out the one that is not its owner's, and grade "
                    "into a new folder."
                )


def _result(line: roster.Line, journal: Journal, grade: Grade | None) -> Result:
    record = journal.read(line.student, line.key)
    lost = LOST if line.key and record is None else ""
    return Result(line, record, grade, line.ungradable or lost)


def grades(folder: Path, lab: str) -> dict[str, Grade]:
    """By student, what stands in nbgrader's gradebook; nothing where there is no gradebook yet."""
    if not has_gradebook(folder):
        return {}
    from nbgrader.api import Gradebook

    with Gradebook(database(folder)) as gradebook:
        marks = _marks(gradebook, lab)
        submissions = [s for a in gradebook.assignments if a.name == lab for s in a.submissions]
        return {
            submission.student_id: Grade(
                marks.get(submission.student_id, {}),
                submission.late_submission_penalty,
                submission.total_seconds_late,
            )
            for submission in submissions
        }


def _marks(gradebook: Any, lab: str) -> dict[str, dict[str, Mark]]:
    """By student and cell, in one query: asking nbgrader's objects one by one takes a second for
    twenty students."""
    from nbgrader import api

    rows = (
        gradebook.db.query(
            api.SubmittedAssignment.student_id,
            api.BaseCell.name,
            api.Grade.score,
            api.Grade.max_score,
            api.Grade.needs_manual_grade,
        )
        .select_from(api.Grade)
        .join(api.SubmittedNotebook, api.SubmittedNotebook.id == api.Grade.notebook_id)
        .join(
            api.SubmittedAssignment,
            api.SubmittedAssignment.id == api.SubmittedNotebook.assignment_id,
        )
        .join(api.Assignment, api.Assignment.id == api.SubmittedAssignment.assignment_id)
        .join(api.BaseCell, api.BaseCell.id == api.Grade.cell_id)
        .filter(api.Assignment.name == lab)
        .order_by(api.BaseCell.name)
    )
    found: dict[str, dict[str, Mark]] = {}
    for student, cell, points, max_points, is_open in rows:
        found.setdefault(student, {})[cell] = Mark(points, max_points, bool(is_open))
    return found
