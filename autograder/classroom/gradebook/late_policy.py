"""What lateness costs, as the instructor declares it in `late.toml` in the course's folder:

    grace_minutes = 15
    per_day_percent = 10        # of the points earned, for each day begun after the due time
    cap_percent = 50            # never more than this
    times = "submitted.csv"     # optional: student, lab, submitted
    canvas_late_days = 1        # optional: who is "late, says Canvas", which tells no time

    [due]
    01_strides = 2026-11-20T23:59:00+01:00

    [extensions.01_strides]     # optional: who has a due time of their own
    ada = 2026-11-27T23:59:00+01:00

Times come from the instructor's side only: from the names that nbgrader's exchange gives, or from
the file `times`. A submission whose time nobody knows is not late, unless Canvas says that it is
and `canvas_late_days` says how much that is to count.
"""

import csv
import io
import json
import math
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..intake.enrolment import Person

NAME = "late.toml"
NUMBERS = {
    "grace_minutes": math.inf,
    "per_day_percent": 100.0,
    "cap_percent": 100.0,
    "canvas_late_days": 366.0,
}
"""The numbers of the file and the largest that each can be."""
DEFAULTS = {"grace_minutes": 0, "cap_percent": 100, "canvas_late_days": 0}
"""All can be lost, no grace is given, and what Canvas says costs nothing."""
KNOWN = (*NUMBERS, "times", "due", "extensions")
EXAMPLE_TIME = "2026-11-20T23:59:00+01:00"
COLUMNS = ("student", "lab", "submitted")
_DAY = timedelta(days=1)
_ZONE = re.compile(r"(Z| UTC|[+-]\d\d:?\d\d)$")


@dataclass(frozen=True)
class Policy:
    """What lateness costs. due: by lab. submitted: by (lab, student), where `times` tells it.
    canvas_late: by how much somebody is late of whom Canvas only says that they are. extensions: a
    due time by (lab, student)."""

    grace: timedelta = timedelta(0)
    per_day: float = 0.0
    cap: float = 1.0
    due: Mapping[str, datetime] = field(default_factory=dict)
    submitted: Mapping[tuple[str, str], datetime] = field(default_factory=dict)
    canvas_late: timedelta = timedelta(0)
    extensions: Mapping[tuple[str, str], datetime] = field(default_factory=dict)

    def extension(self, lab: str, student: str) -> timedelta | None:
        """How much later than the others the student may hand in."""
        due = self.extensions.get((lab, student))
        return due - self.due[lab] if due else None

    def taken_as(self, lab: str, student: str) -> datetime | None:
        """When somebody handed in of whom Canvas says that they were late, as far as this is to
        count."""
        due = self.extensions.get((lab, student), self.due.get(lab))
        return due + self.canvas_late if due and self.canvas_late else None

    def penalty(self, score: float, late: timedelta) -> float:
        """The points that `late` costs somebody who earned `score`.

        Within the grace time nothing; past it days count from the due time, a day begun as a day.
        """
        if late <= max(self.grace, timedelta(0)):
            return 0.0
        days = math.ceil(late / _DAY)
        return round(max(score, 0.0) * min(days * self.per_day, self.cap), 6)

    def __str__(self) -> str:
        return (
            f"{self.per_day * 100:g}% of the points per day begun, at most {self.cap * 100:g}%; "
            f"the first {self.grace.total_seconds() / 60:g} minutes are free"
        )


def moment(text: str) -> datetime | None:
    """The time that `text` says, in UTC where it names no zone; None where it says none."""
    try:
        time = datetime.fromisoformat(text.strip().removesuffix(" UTC"))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def written(policy: Policy) -> str:
    """`policy` as the file that nbgrader's own commands read; times stand in the gradebook."""
    lines = [
        f"# Made by `autograder grade` from the course's {NAME}: change that one and grade again.",
        f"grace_minutes = {policy.grace.total_seconds() / 60!r}",
        f"per_day_percent = {policy.per_day * 100!r}",
        f"cap_percent = {policy.cap * 100!r}",
        f"canvas_late_days = {policy.canvas_late / _DAY!r}",
        "[due]",
        *(f"{json.dumps(lab)} = {time.isoformat()}" for lab, time in policy.due.items()),
    ]
    return "\n".join([*lines, ""])


def by_id(policy: Policy, people: Sequence[Person], path: Path) -> Policy:
    """`policy` by the ids of the grading folder, for students whom it calls by another name of
    theirs. Raises UserError for an extension of somebody who is not on the class list `people`."""
    ids = {name: person.folder_id for person in people for name in person.ids}
    for lab, student in policy.extensions if people else ():
        if student.casefold() not in ids:
            raise UserError(f"{path}: [extensions.{lab}]: {student!r} is not on the class list.")

    def known(times: Mapping[tuple[str, str], datetime]) -> dict[tuple[str, str], datetime]:
        return {(lab, ids.get(who.casefold(), who)): time for (lab, who), time in times.items()}

    return replace(policy, submitted=known(policy.submitted), extensions=known(policy.extensions))


def read(path: Path, *, labs: Collection[str] = ()) -> Policy | None:
    """The policy at `path`; None where there is no such file.

    labs: all that the course has, to refuse a due time of a lab that it has not. Raises UserError
    for anything that is not as above: a penalty is never guessed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"Cannot read {path}: {error}.") from error
    try:
        declared = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not TOML: {error}.") from error
    if unknown := sorted(set(declared) - set(KNOWN)):
        raise UserError(f"{path}: there is no setting {unknown[0]!r}, only {', '.join(KNOWN)}.")
    numbers = {name: _number(path, declared, name) for name in NUMBERS}
    due = _due(f"{path}: [due]", declared.get("due", {}), labs)
    return Policy(
        timedelta(minutes=numbers["grace_minutes"]),
        numbers["per_day_percent"] / 100,
        numbers["cap_percent"] / 100,
        due,
        _times(path, declared.get("times", ""), labs),
        timedelta(days=numbers["canvas_late_days"]),
        dict(_extensions(path, declared.get("extensions", {}), due)),
    )


def _number(path: Path, declared: Mapping[str, Any], name: str) -> float:
    value = declared.get(name, DEFAULTS.get(name))
    if value is None:
        raise UserError(f"{path}: {name} is missing, as in {name} = 10.")
    most = NUMBERS[name]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and 0 <= value <= most and value < 1e9):
        limit = f"from 0 to {most:g}" if most < math.inf else "from 0"
        raise UserError(f"{path}: {name} must be a number {limit}, and is {value!r}.")
    return float(value)


def _due(source: str, declared: Any, labs: Collection[str]) -> dict[str, datetime]:
    if not isinstance(declared, Mapping):
        raise UserError(f"{source} must be a table, a line per lab: 01_strides = {EXAMPLE_TIME}")
    for lab in declared:
        _expect_lab(source, lab, labs)
    return {lab: _due_time(source, lab, time) for lab, time in declared.items()}


def _due_time(source: str, name: str, time: Any) -> datetime:
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise UserError(
            f"{source}: the due time of {name} needs a date, a time and a zone, without quotes, "
            f"as in {EXAMPLE_TIME}."
        )
    return time


def _extensions(
    path: Path, declared: Any, due: Mapping[str, datetime]
) -> Iterator[tuple[tuple[str, str], datetime]]:
    if not isinstance(declared, Mapping):
        raise UserError(
            f"{path}: extensions go by lab, under a line such as [extensions.01_strides]"
        )
    for lab, students in declared.items():
        source = f"{path}: [extensions.{lab}]"
        if lab not in due:
            raise UserError(f"{source}: {lab} has no due time under [due] that could be extended.")
        if not isinstance(students, Mapping):
            raise UserError(f"{source} must be a table, a line per student: ada = {EXAMPLE_TIME}")
        for student, told in students.items():
            time = _due_time(source, student, told)
            if time < due[lab]:
                raise UserError(f"{source}: the due time of {student} is before everybody's.")
            yield (lab, student), time


def _expect_lab(source: str, lab: str, labs: Collection[str]) -> None:
    if labs and lab not in labs:
        raise UserError(f"{source}: there is no lab {lab!r}. The course has: {', '.join(labs)}.")


def _times(path: Path, name: Any, labs: Collection[str]) -> dict[tuple[str, str], datetime]:
    if not isinstance(name, str):
        raise UserError(f"{path}: times must be the name of a CSV file, in quotes.")
    if not name:
        return {}
    source = path.parent / name
    try:
        text = source.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot read the times in {source}: {error}.") from error
    reader = csv.DictReader(io.StringIO(text, newline=""))
    if missing := [column for column in COLUMNS if column not in (reader.fieldnames or ())]:
        raise UserError(
            f"{source}: the first line must name {', '.join(COLUMNS)}; {missing[0]} is not there."
        )
    try:
        return dict(_time(source, reader.line_num, row, labs) for row in reader)
    except csv.Error as error:
        raise UserError(f"{source}, line {reader.line_num}: {error}.") from error


def _time(
    source: Path, line: int, row: Mapping[str, str | None], labs: Collection[str]
) -> tuple[tuple[str, str], datetime]:
    student, lab, text = ((row[column] or "").strip() for column in COLUMNS)
    _expect_lab(f"{source}, line {line}", lab, labs)
    time = moment(text) if _ZONE.search(text) else None
    if time is None:
        raise UserError(
            f"{source}, line {line}: {text!r} needs a date, a time and a zone, "
            f"as in {EXAMPLE_TIME}."
        )
    return (lab, student), time
