"""Under which name a student stands on a page that the class sees: the one that they agreed to, or
one that says nothing.

A file of two columns, student and name, holds who agreed. An empty name leaves a student out. All
others get a pseudonym, drawn with the folder's secret: the same on every page of this class, and
nobody without the secret can work it out.
"""

import csv
import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path

from ..errors import UserError

MAX_NAME = 60


def shown_names(students: Iterable[str], secret: bytes, agreed: Path | None) -> dict[str, str]:
    """The name of each student who is shown. Raises UserError for a file that cannot be read, or
    that names somebody else."""
    names = {student: _pseudonym(student, secret) for student in students}
    names |= _agreed(agreed, set(names)) if agreed else {}
    return {student: name for student, name in names.items() if name}


def _pseudonym(student: str, secret: bytes) -> str:
    drawn = hmac.new(secret, f"pseudonym {student}".encode(), hashlib.sha256).hexdigest()
    return f"anonymous {drawn[:6]}"


def _agreed(path: Path, known: set[str]) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            rows = [(reader.line_num, row) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} is no file of names: {error}.") from error
    for number, row in rows:
        if len(row) != 2 or row[0].strip() not in known:
            raise UserError(
                f"{path}, line {number}: a student of the roster and the name to be shown are "
                f"needed, as in `adalovelace_12345,Ada`; got {','.join(row)[:80]!r}."
            )
    return {student.strip(): " ".join(name.split())[:MAX_NAME] for _, (student, name) in rows}
