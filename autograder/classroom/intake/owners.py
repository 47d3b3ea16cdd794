"""Whose notebook a file is, from where it lies. Never from what it says.

    ada/01_strides.ipynb, ada/01_strides/01_strides.ipynb           a folder per student
    submitted/ada/01_strides/01_strides.ipynb                       nbgrader, collected
    ada+01_strides+2026-11-20 10:00:00 UTC+x7f/01_strides.ipynb     nbgrader, inbound
    adalovelace_LATE_12345_67890_01_strides-1.ipynb                 Canvas
    Ada Lovelace_12345_assignsubmission_file_/01_strides.ipynb      Moodle

Folder and file names are made by the instructor's side: by hand or by the learning platform.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ..errors import UserError
from .files import Found

_INBOUND = re.compile(
    r"(?P<student>[^+]+)\+(?P<lab>[^+]+)\+"
    r"(?P<time>\d{4}-\d\d-\d\d \d\d[:_-]\d\d[:_-]\d\d)[^+]*(\+.*)?"
)
_MOODLE = re.compile(r"(?P<student>.+_\d+)_assignsubmission(_(file|onlinetext))?(_(?P<name>.*))?")
_CANVAS = re.compile(
    r"(?P<student>[^_]+)(?P<late>_LATE)?(?P<user>_\d+)_\d+_(?P<name>.+?)(-(?P<again>\d+))?", re.I
)
_ADDED = re.compile(r"^Copy of |( \(\d+\)|-Copy\d+)$")
MAX_ID = 48
MARKS = (0, 6, 12, 24)
"""Lengths of a mark, the next where one does not do."""
WRAPPERS = {"submitted", "inbound", "submissions"}
"""Outer folders that the instructor's side makes and that name nobody. A folder of any other name
may be a student's own, and what lies in it is theirs to name: it could name a neighbour."""


@dataclass(frozen=True)
class Claim:
    """A file that is one student's. stem: its name as the student knew it. newer: of two versions
    the larger is the later one. submitted: a time, where the layout tells one. is_copy: whether
    Colab, Jupyter or a browser added to the name."""

    owner: str
    file: Found
    stem: str
    newer: float = 0.0
    submitted: str = ""
    note: str = ""
    is_copy: bool = False


def claims(files: Sequence[Found], lab: str) -> list[Claim]:
    """Each file with its owner, as the layout says.

    Left out: what lies beside the students' folders, and what nbgrader's exchange holds for other
    labs. A notebook that lies there named as no platform names it is whose name it bears.
    """
    depth = _wrapping([file.path for file in files if file.path[-1].endswith(".ipynb")], lab)
    deeper = [file for file in files if len(file.path) > depth]
    return [claim for file in deeper if (claim := _claim(file, file.path[depth:], lab))]


def whose(path: tuple[str, ...]) -> str:
    """The owner of a path as far as the path alone tells: whose quota it counts against."""
    while len(path) > 1 and path[0].casefold() in WRAPPERS:
        path = path[1:]
    name = path[0].removesuffix(".ipynb")
    if known := _INBOUND.fullmatch(name) or _MOODLE.fullmatch(name):
        return known["student"]
    canvas = _CANVAS.fullmatch(name) if len(path) == 1 else None
    return canvas["student"] + canvas["user"] if canvas else name


def _wrapping(paths: Sequence[tuple[str, ...]], lab: str) -> int:
    """How many outer folders name nobody.

    Raises UserError where one folder of an unknown name holds several: it may be the class's, and
    it may be one student's.
    """
    depth = 0
    for outer, *others in zip(*[path[:-1] for path in paths], strict=False):
        if {outer, *others} != {outer}:
            break
        if outer.casefold() not in WRAPPERS:
            _expect_one_student(outer, [path[depth + 1 :] for path in paths], lab)
            break
        depth += 1
    return depth


def _expect_one_student(outer: str, inside: Sequence[tuple[str, ...]], lab: str) -> None:
    if _INBOUND.fullmatch(outer) or _MOODLE.fullmatch(outer):
        return
    if len({path[0] for path in inside if len(path) > 1 and path[0] != lab}) > 1:
        raise UserError(
            f"All notebooks lie in one folder, {outer!r}. If it holds the students' folders, "
            "grade that folder itself; if it is one student's, keep one notebook in it."
        )


def _claim(file: Found, path: tuple[str, ...], lab: str) -> Claim | None:
    first, last = path[0], path[-1].removesuffix(".ipynb")
    if inbound := _INBOUND.fullmatch(first.removesuffix(".ipynb")):
        if inbound["lab"] != lab:
            return None
        time = re.sub(r"(?<= \d\d)[_-](\d\d)[_-]", r":\1:", inbound["time"])  # a zip's, on Windows
        made = _named(inbound["student"], file, last if len(path) > 1 else lab)
        return replace(made, newer=_seconds(time), submitted=time)
    if len(path) > 1:
        moodle = _MOODLE.fullmatch(first)
        return _named(moodle["student"] if moodle else first, file, last)
    if first.endswith(".ipynb"):
        return _by_its_name(file, last)
    return None if file.is_file else replace(_by_its_name(file, first), is_copy=False)


def _named(owner: str, file: Found, name: str) -> Claim:
    """Without what Colab, Jupyter or a browser added to the name."""
    stem = _ADDED.sub("", _ADDED.sub("", name))
    return Claim(owner, file, stem, is_copy=stem != name)


def _by_its_name(file: Found, name: str) -> Claim:
    if moodle := _MOODLE.fullmatch(name):
        return _named(moodle["student"], file, moodle["name"] or "")
    if canvas := _CANVAS.fullmatch(name):
        note = "late, says Canvas" if canvas["late"] else ""
        again = float(canvas["again"] or 0)
        owner = canvas["student"] + canvas["user"]
        return replace(_named(owner, file, canvas["name"]), newer=again, note=note)
    return Claim(name, file, name)


def _seconds(time: str) -> float:
    try:
        return datetime.fromisoformat(time + "+00:00").timestamp()
    except (ValueError, OverflowError):
        return 0.0


def student_ids(owners: Sequence[str]) -> dict[str, str]:
    """For each owner an id that is safe as a folder, in a URL and in a CSV file, and still theirs
    at a glance.

    Owners whose ids would differ in capitals or in dropped characters only get a mark each; so does
    one whose name looks like the marked one of another.
    """
    plain = {owner: _plain(owner) for owner in dict.fromkeys(owners)}
    marks = {owner: 0 if name else 1 for owner, name in plain.items()}
    while True:
        ids = {owner: _marked(name, owner, MARKS[marks[owner]]) for owner, name in plain.items()}
        taken = Counter(map(str.casefold, ids.values()))
        clashing = [owner for owner, name in ids.items() if taken[name.casefold()] > 1]
        if not clashing:
            return ids
        shortest = min(marks[owner] for owner in clashing)
        for owner in clashing:
            marks[owner] += marks[owner] == shortest


def _plain(owner: str) -> str:
    text = unicodedata.normalize("NFKC", owner.encode("utf-8", "replace").decode())
    return re.sub(r"[^\w.@-]+", "_", text).strip("._-@")[:MAX_ID]


def _marked(name: str, owner: str, length: int) -> str:
    mark = hashlib.sha256(owner.encode("utf-8", "surrogateescape")).hexdigest()[:length]
    return f"{name or 'student'}-{mark}" if mark else name


def canvas_user(origin: str) -> tuple[str, str]:
    """The name and Canvas's number of the user whose file lay at `origin`; empty for others."""
    first, *deeper = _from_the_owner(origin)
    found = None if deeper else _CANVAS.fullmatch(first.removesuffix(".ipynb"))
    return (found["student"], found["user"].lstrip("_")) if found else ("", "")


def moodle_participant(origin: str) -> tuple[str, str]:
    """The name and the number of Moodle's participant whose file lay at `origin`; empty for
    others."""
    found = _MOODLE.fullmatch(_from_the_owner(origin)[0].removesuffix(".ipynb"))
    name, _, number = found["student"].rpartition("_") if found else ("", "", "")
    return name, number


def beside_hand_in(origin: str, page: str) -> str:
    """Where a page for the owner of `origin` lies, so that the platform that named the hand-in
    finds its student again. Only what the platform or the instructor named is kept."""
    first, *deeper = _from_the_owner(origin)
    return f"{first}/{page}" if deeper else f"{first.removesuffix('.ipynb')}.html"


def _from_the_owner(origin: str) -> list[str]:
    """The path without the outer folders that name nobody: only its first part is no student's."""
    parts = origin.split("/")
    while len(parts) > 1 and parts[0].casefold() in WRAPPERS:
        del parts[0]
    return parts
