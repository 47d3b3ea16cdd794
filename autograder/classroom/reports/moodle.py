"""Grades as Moodle imports them: the grading worksheet of its assignment module.

Upload it under the assignment's "Upload grading worksheet", which reads Identifier, Grade and Last
modified (grade) and finds a student by the number in the Identifier
(`mod/assign/feedback/offline/importgradeslib.php` in moodle/moodle). Where the class did not come
from Moodle's assignment there is no such number: import the file under Grades, Import, and map
Username.
"""

from collections.abc import Sequence

from ..intake.enrolment import Person
from ..intake.owners import moodle_participant
from .results import Result
from .spreadsheet import written

HEADER = (
    "Identifier", "Full name", "Username", "Grade", "Maximum grade", "Last modified (grade)"
)  # fmt: skip


def moodle(graded: Sequence[Result], *, provisional: bool = False) -> bytes:
    """The file. provisional: also grades on which a person has still to look at something."""
    return written([HEADER, *(_row(result, provisional) for result in graded)])


def _row(result: Result, provisional: bool) -> list[str | float | None]:
    who = result.person or Person(result.student)
    name, number = moodle_participant(result.line.origin)
    number = who.moodle or number
    identifier = f"Participant {number}" if number else ""
    username = "" if number else who.login or who.student
    most = result.grade.max_points if result.grade else None
    return [identifier, who.name or name, username, result.counted(provisional), most, ""]
