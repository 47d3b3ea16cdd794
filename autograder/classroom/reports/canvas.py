"""Grades as Canvas imports them (Grades, Import): its gradebook's columns, one assignment.

Canvas finds a student by ID, else by SIS login, else by name, and an assignment by its title
(`lib/gradebook_importer.rb` in instructure/canvas-lms). It wants Student, ID, the two SIS columns
and Section in this order, then "Points Possible" under the assignment. An empty cell leaves a
student who has no grade as they are.
"""

from collections.abc import Iterator, Sequence

from ..intake.enrolment import Person
from ..intake.owners import canvas_user
from .results import Result
from .spreadsheet import written

HEADER = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")


def canvas(title: str, graded: Sequence[Result], *, provisional: bool = False) -> bytes:
    """The file. provisional: also grades on which a person has still to look at something."""
    most = max((r.grade.max_points for r in graded if r.grade), default=0.0)
    rows: list[Sequence[str | float | None]] = [
        [*HEADER, title],
        ["    Points Possible", *[""] * (len(HEADER) - 1), most],
    ]
    return written([*rows, *_students(graded, provisional)])


def _students(graded: Sequence[Result], provisional: bool) -> Iterator[list[str | float | None]]:
    for result in graded:
        who = result.person or Person(result.student)
        name, number = canvas_user(result.line.origin)
        number = who.canvas or number
        login = who.login or ("" if number else who.student)
        named = who.name or name or who.student
        yield [named, number, who.number, login, who.section, result.counted(provisional)]
