"""What lateness costs, as the instructor declares it in `late.toml` in the course's folder:

    grace_minutes = 15
    per_day_percent = 10        # of the points earned, for each day begun after the due time
    cap_percent = 50            # never more than this
    times = "submitted.csv"     # optional: student, lab, submitted

    [due]
    01_strides = 2026-11-20T23:59:00+01:00

Times come from the instructor's side only: from the names that nbgrader's exchange gives, or from
the file `times`. A submission whose time nobody knows is not late.
"""

import csv
import io
import json
import math
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ..errors import UserError

NAME = "late.toml"
NUMBERS = {"grace_minutes": math.inf, "per_day_percent": 100.0, "cap_percent": 100.0}
"""The numbers of the file and the largest that each can be."""
KNOWN = (*NUMBERS, "times", "due")
EXAMPLE_TIME = "2026-11-20T23:59:00+01:00"
COLUMNS = ("student", "lab", "submitted")
_DAY = timedelta(days=1)
_ZONE = re.compile(r"(Z| UTC|[+-]\d\d:?\d\d)$")


@dataclass(frozen=True)
class Policy:
    """What lateness costs. due: by lab. submitted: by (lab, student), where `times` tells it."""

    grace: timedelta = timedelta(0)
    per_day: float = 0.0
    cap: float = 1.0
    due: Mapping[str, datetime] = field(default_factory=dict)
    submitted: Mapping[tuple[str, str], datetime] = field(default_factory=dict)

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
        "[due]",
        *(f"{json.dumps(lab)} = {time.isoformat()}" for lab, time in policy.due.items()),
    ]
    return "\n".join([*lines, ""])


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
    return Policy(
        timedelta(minutes=numbers["grace_minutes"]),
        numbers["per_day_percent"] / 100,
        numbers["cap_percent"] / 100,
        _due(path, declared.get("due", {}), labs),
        _times(path, declared.get("times", ""), labs),
    )


def _number(path: Path, declared: Mapping[str, Any], name: str) -> float:
    """`cap_percent` may be missing (all can be lost) and `grace_minutes` too (none is given)."""
    default = {"grace_minutes": 0, "cap_percent": 100}.get(name)
    value = declared.get(name, default)
    if value is None:
        raise UserError(f"{path}: {name} is missing, as in {name} = 10.")
    most = NUMBERS[name]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and 0 <= value <= most and value < 1e9):
        limit = f"from 0 to {most:g}" if most < math.inf else "from 0"
        raise UserError(f"{path}: {name} must be a number {limit}, and is {value!r}.")
    return float(value)


def _due(path: Path, declared: Any, labs: Collection[str]) -> dict[str, datetime]:
    if not isinstance(declared, Mapping):
        raise UserError(
            f"{path}: [due] must be a table, a line per lab: 01_strides = {EXAMPLE_TIME}"
        )
    for lab, time in declared.items():
        _expect_lab(f"{path}: [due]", lab, labs)
        if not isinstance(time, datetime) or time.tzinfo is None:
            raise UserError(
                f"{path}: the due time of {lab} needs a date, a time and a zone, without quotes, "
                f"as in {EXAMPLE_TIME}."
            )
    return dict(declared)


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
