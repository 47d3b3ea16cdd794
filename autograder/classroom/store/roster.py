"""The roster of a lab: who handed in what, and which record of the journal speaks for them.

`autograder grade` writes it; reports and explanations read it. It is one file per lab, so that
several runs into one grading folder (the class, then the late ones) add up.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from unicodedata import normalize

from autograder import atomic_write

from ..errors import UserError


@dataclass(frozen=True)
class Line:
    """One student. origin: where the newest hand-in lay. submitted: its time in UTC, where the
    instructor's side knows one. ungradable: why the newest hand-in has no verdict. key: of the
    record that speaks for the student, and version: of the lab that it was judged by; "" where
    there was never one. secret: by which nbgrader's exchange gives them their feedback back.
    owner: the name from which the student's id was made.
    """

    student: str
    origin: str = ""
    submitted: str = ""
    note: str = ""
    ungradable: str = ""
    key: str = ""
    sha256: str = ""
    version: str = ""
    secret: str = ""
    owner: str = ""


def read(folder: Path, lab: str) -> dict[str, Line]:
    """The lines by student, in the order of their names. Raises UserError where there is no
    roster or it is damaged."""
    path = _path(folder, lab)
    if not path.exists():
        raise UserError(
            f"{lab} has not been graded in {folder}. First type: "
            f"autograder grade DIR_OR_ZIP --lab {lab} --out {folder}"
        )
    try:
        lines = [Line(**line) for line in json.loads(path.read_bytes())]
        if not all(isinstance(value, str) for line in lines for value in asdict(line).values()):
            raise TypeError("not a text")
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} is damaged. Remove it and grade every hand-in again: what is graded stays."
        ) from error
    return {line.student: line for line in sorted(lines, key=lambda line: line.student.casefold())}


def keys(folder: Path, lab: str) -> dict[str, str]:
    """By student the key of the record that speaks for them; nothing where there is no roster."""
    lines = read(folder, lab) if _path(folder, lab).exists() else {}
    return {student: line.key for student, line in lines.items() if line.key}


def students(folder: Path) -> dict[str, str]:
    """Everybody who ever handed in a lab, by owner: whoever comes again keeps the id. An older
    folder may have an owner in another normal form of Unicode."""
    known = labs(folder) if folder.is_dir() else []
    lines = [line for lab in known for line in read(folder, lab).values()]
    return {normalize("NFC", line.owner): line.student for line in lines if line.owner}


def labs(folder: Path) -> list[str]:
    """The labs that have a roster in this grading folder. Raises UserError where it is none."""
    if not folder.is_dir():
        raise UserError(
            f"There is no grading folder {folder}. Name the one of your class: --out DIR"
        )
    return sorted(path.stem for path in (folder / "roll").glob("*.json"))


def update(folder: Path, lab: str, lines: Iterable[Line]) -> None:
    """Adds `lines` to the roster. A hand-in that cannot be graded leaves the record of an earlier
    one in force."""
    known = read(folder, lab) if _path(folder, lab).exists() else {}
    for line in lines:
        old = known.get(line.student)
        if old is not None and not line.key:
            line = replace(line, key=old.key, sha256=old.sha256, version=old.version)
        known[line.student] = line
    body = [asdict(known[student]) for student in sorted(known)]
    data = json.dumps(body, ensure_ascii=False, indent=1)
    # Of a folder's name that is no UTF-8, as an old archive leaves it, each stray byte is escaped.
    encoded = data.encode(errors="backslashreplace")
    atomic_write.write(_path(folder, lab), encoded, mode=0o600)


def _path(folder: Path, lab: str) -> Path:
    """The folder is called `roll`, as it always was: old grading folders stay readable."""
    return folder / "roll" / f"{lab}.json"
