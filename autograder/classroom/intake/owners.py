"""Whose notebook a file is, from where it lies. Never from what it says.

    ada/01_strides.ipynb, ada/01_strides/01_strides.ipynb           a folder per student
    submitted/ada/01_strides/01_strides.ipynb                       nbgrader, collected
    ada+01_strides+2026-11-20 10:00:00 UTC+x7f/01_strides.ipynb     nbgrader, inbound
    adalovelace_LATE_12345_67890_01_strides-1.ipynb                 Canvas
    Ada Lovelace_12345_assignsubmission_file_/01_strides.ipynb      Moodle
    Lab 1_ada_attempt_2026-11-20-10-00-00_01_strides.ipynb          Blackboard
    assignment_1_export/submission_23/01_strides.ipynb              Gradescope, with its metadata
    lab-1-submissions/lab-1-ada/labs/01_strides/01_strides.ipynb    GitHub Classroom

Folder and file names are made by the instructor's side: by hand or by the learning platform. Of a
flat file only what stands before the platform's first mark is; the rest is what the student called
it, and may look like another platform's.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import repeat
from types import MappingProxyType

import yaml

from ..errors import UserError
from .files import Found, Unreadable

_INBOUND = re.compile(
    r"(?P<student>[^+]+)\+(?P<lab>[^+]+)\+"
    r"(?P<time>\d{4}-\d\d-\d\d \d\d[:_-]\d\d[:_-]\d\d)[^+]*(\+.*)?"
)
_MOODLE = re.compile(r"(?P<student>.+?_\d+)_assignsubmission(_(file|onlinetext))?(_(?P<name>.*))?")
_BLACKBOARD = re.compile(
    r"(?P<student>.+?)_attempt_(?P<time>\d{4}(-\d\d){5})(_(?P<name>.*)|\.txt)?"
)
_CANVAS = re.compile(
    r"(?P<student>[^_]+)(?P<late>_LATE)?(?P<user>_\d+)_(?P<file>\d+)_"
    r"(?P<name>.+?)(-(?P<again>\d+))?",
    re.I,
)
_EXPORT = re.compile(r"assignment_\d+_export")
_EXPORTED = re.compile(r"submission_\d+")
_ADDED = re.compile(r"^Copy of |( \(\d+\)|-Copy\d+)$")
MAX_ID = 48
NOBODY: Mapping[str, str] = MappingProxyType({})
MARKS = (0, 6, 12, 24)
"""Lengths of a mark, the next where one does not do."""
ATTEMPT = "_attempt"
"""What the name of a Blackboard owner ends in, which begins with the assignment's."""
CLONES = "-submissions"
METADATA = "submission_metadata.yml"
"""What Gradescope lays beside the folders of its export: who handed each of them in."""
LATE = "late, says Canvas"
ONE_NUMBER = (
    "{!r} and {!r} bear one number of Canvas's, which gives each file its own. Blackboard named "
    "them, and its assignment's name looks like Canvas: put each student's files into a folder."
)
WRAPPERS = {"submitted", "inbound", "submissions"}
"""Outer folders that the instructor's side makes and that name nobody. A folder of any other name
may be a student's own, and what lies in it is theirs to name: it could name a neighbour."""


@dataclass(frozen=True)
class Claim:
    """A file that is one student's. stem: its name as the student knew it. is_copy: whether Colab,
    Jupyter or a browser added to the name. newer: of two versions the larger is the later one.
    submitted: a time, where the layout tells one. of_another_lab: whether it lies where the
    instructor's side keeps another lab's."""

    owner: str
    file: Found
    stem: str
    is_copy: bool
    newer: float = 0.0
    submitted: str = ""
    note: str = ""
    of_another_lab: bool = False


def claims(files: Sequence[Found], lab: str) -> tuple[list[Claim], list[Found]]:
    """Each file with its owner, as the layout says, and the files that are nobody's: those that lie
    beside the students' folders and are named as no platform names a hand-in. Hidden ones are
    neither.

    A notebook that lies there is whose name it bears.
    """
    files = [file for file in files if not file.is_hidden]
    depth = _wrapping([file.path for file in files], lab)
    flat = [file.path[-1] for file in files if len(file.path) == depth + 1]
    if all(map(_BLACKBOARD.fullmatch, flat)):  # not where one student names two files so
        _expect_canvas_counted(flat)
    people, prefix = _submitters(files, depth), _classroom_prefix(files, depth)
    found, nobodys = list[Claim](), list[Found]()
    for file in files:
        path = file.path[depth:]
        claim = _claim(file, path, lab) if path else None
        if claim is None:
            nobodys.append(file)
        elif len(path) > 1 or not file.is_file:
            owner = people.get(claim.owner, claim.owner).removeprefix(prefix) or claim.owner
            found.append(replace(claim, owner=owner))
        else:
            found.append(claim)
    return found, nobodys


def _expect_canvas_counted(names: Sequence[str]) -> None:
    """Canvas gives a file's number once. Two files with one were named by Blackboard, whose name
    begins with the assignment's ("Lab_1_2"): all students would become one. Raises UserError."""
    first: dict[tuple[str, str], str] = {}
    for name in names:
        known = _flat(name)[1]
        if known is not None and known.re is _CANVAS:
            before = first.setdefault((known["user"], known["file"]), name)
            if before != name:
                raise UserError(ONE_NUMBER.format(before, name))


def _submitters(files: Sequence[Found], depth: int) -> dict[str, str]:
    """Who handed in each folder of Gradescope's export: the e-mail, else the number, else the name
    of its first submitter. {} where there is no metadata, or none that can be read."""
    for file in files:
        if file.path[depth:] == (METADATA,):
            with suppress(Unreadable, yaml.YAMLError, AttributeError, UnicodeDecodeError):
                entries = yaml.safe_load(file.read().decode()).items()
                return {str(name): who for name, entry in entries if (who := _first_of(entry))}
    return {}


def _first_of(entry: object) -> str:
    submitters = entry.get(":submitters") if isinstance(entry, dict) else None
    if not isinstance(submitters, list) or not submitters or not isinstance(submitters[0], dict):
        return ""
    told = (submitters[0].get(f":{key}") for key in ("email", "sid", "name"))
    return next((str(text) for text in told if text), "")


def _classroom_prefix(files: Sequence[Found], depth: int) -> str:
    """GitHub Classroom's tool clones `lab-1-ada` and its neighbours into `lab-1-submissions`."""
    notebook = next((file.path for file in files if file.path[-1].endswith(".ipynb")), ())
    name = "".join(notebook[:depth][-1:])
    return f"{name.removesuffix(CLONES)}-" if name.endswith(CLONES) else ""


def whose(path: tuple[str, ...]) -> str:
    """The owner of a path as far as the path alone tells: whose quota it counts against."""
    while len(path) > 1 and path[0].casefold() in WRAPPERS:
        path = path[1:]
    if len(path) == 1:
        return _flat(path[0])[0]
    known = _INBOUND.fullmatch(path[0]) or _MOODLE.fullmatch(path[0])
    return known["student"] if known else path[0]


def _flat(name: str) -> tuple[str, re.Match[str] | None]:
    """The owner of a file that lies in no folder, and the pattern that it fits. Of two marks the
    first is the platform's: it comes before all that a student can name."""
    name = name.removesuffix(".ipynb")
    patterns = (_CANVAS, _BLACKBOARD, _MOODLE, _INBOUND)
    fitting = filter(None, map(re.Pattern.fullmatch, patterns, repeat(name)))
    known = min(fitting, key=lambda fits: fits.end("student"), default=None)
    if known is None:
        return name, None
    if known.re is _CANVAS:
        return known["student"] + known["user"], known
    return known["student"] + (ATTEMPT if known.re is _BLACKBOARD else ""), known


def _wrapping(paths: Sequence[tuple[str, ...]], lab: str) -> int:
    """How many outer folders name nobody.

    Raises UserError where one folder of an unknown name holds several: it may be the class's, and
    it may be one student's.
    """
    depth = 0
    notebooks = [path for path in paths if path[-1].endswith(".ipynb")]
    for outer, *others in zip(*[path[:-1] for path in notebooks], strict=False):
        if {outer, *others} != {outer}:
            break
        inside = [path[depth + 1 :] for path in paths if path[depth : depth + 1] == (outer,)]
        if outer.casefold() not in WRAPPERS and not _is_the_class(outer, inside):
            _expect_one_student(outer, [path[depth + 1 :] for path in notebooks], lab)
            break
        depth += 1
    return depth


def _is_the_class(outer: str, inside: Sequence[tuple[str, ...]]) -> bool:
    """Whether Gradescope or GitHub Classroom made this folder, around those of the students."""
    if (METADATA,) in inside:
        return bool(_EXPORT.fullmatch(outer))
    return all(_is_clone(outer, path[0]) for path in inside if path)


def _is_clone(outer: str, name: str) -> bool:
    return outer.endswith(CLONES) and name.startswith(f"{outer.removesuffix(CLONES)}-")


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
    if len(path) == 1:
        return _by_its_name(file, first, lab)
    if inbound := _INBOUND.fullmatch(first):
        return _exchanged(inbound, file, last, lab)
    moodle = _MOODLE.fullmatch(first)
    return _named(moodle["student"] if moodle else first, file, last)


def _exchanged(inbound: re.Match[str], file: Found, name: str, lab: str) -> Claim:
    """As nbgrader's exchange names it."""
    time = re.sub(r"(?<= \d\d)[_-](\d\d)[_-]", r":\1:", inbound["time"])  # a zip's, on Windows
    made = _named(inbound["student"], file, name)
    other = inbound["lab"] != lab
    return replace(made, newer=_seconds(time), submitted=time, of_another_lab=other)


def _named(owner: str, file: Found, name: str) -> Claim:
    """Without what Colab, Jupyter or a browser added to the name; and the owner in one normal form:
    what macOS packs has "é" in two characters."""
    stem = _ADDED.sub("", _ADDED.sub("", name))
    return Claim(unicodedata.normalize("NFC", owner), file, stem, is_copy=stem != name)


def _by_its_name(file: Found, name: str, lab: str) -> Claim | None:
    """The claim of a file that lies in no folder; None for one that no platform named so and that
    is no notebook."""
    owner, known = _flat(name)
    if known is None:
        if file.is_file and not name.endswith(".ipynb"):
            return None
        plain = _named(owner, file, owner)
        # Two files called as the lab is may be two people's.
        return plain if plain.stem == lab else replace(plain, owner=plain.stem)
    if known.re is _INBOUND:
        return _exchanged(known, file, lab, lab)
    made = _named(owner, file, known["name"] or "")
    if known.re is _CANVAS:
        note = LATE if known["late"] else ""
        return replace(made, newer=float(known["again"] or 0), note=note)
    if known.re is _BLACKBOARD:
        day, clock = known["time"][:10], known["time"][11:].replace("-", ":")
        return replace(made, newer=_seconds(f"{day} {clock}"))
    return made


def _seconds(time: str) -> float:
    try:
        return datetime.fromisoformat(time + "+00:00").timestamp()
    except (ValueError, OverflowError):
        return 0.0


def student_ids(owners: Sequence[str], known: Mapping[str, str] = NOBODY) -> dict[str, str]:
    """For each owner an id that is safe as a folder, in a URL and in a CSV file, and still theirs
    at a glance.

    Owners whose ids would differ in capitals or in dropped characters only get a mark each; so does
    one whose name looks like the marked one of another. known: ids of owners who handed in before;
    they keep theirs, whoever comes now, and nobody else gets it.
    """
    plain = {owner: _plain(owner) for owner in dict.fromkeys(owners) if owner not in known}
    marks = {owner: 0 if name else 1 for owner, name in plain.items()}
    while True:
        ids = {owner: _marked(name, owner, MARKS[marks[owner]]) for owner, name in plain.items()}
        taken = Counter(map(str.casefold, [*ids.values(), *known.values()]))
        clashing = [owner for owner, name in ids.items() if taken[name.casefold()] > 1]
        if not clashing:
            return {owner: known.get(owner) or ids[owner] for owner in dict.fromkeys(owners)}
        shortest = min(marks[owner] for owner in clashing)
        for owner in clashing:
            marks[owner] += marks[owner] == shortest


def _plain(owner: str) -> str:
    """What is said of an owner at first sight. Blackboard puts the assignment before the user, who
    would be cut off."""
    if owner.endswith(ATTEMPT):
        owner = owner.removesuffix(ATTEMPT).rpartition("_")[2]
    text = unicodedata.normalize("NFKC", owner.encode("utf-8", "replace").decode())
    return re.sub(r"[^\w.@-]+", "_", text).strip("._-@")[:MAX_ID]


def _marked(name: str, owner: str, length: int) -> str:
    mark = hashlib.sha256(owner.encode("utf-8", "surrogateescape")).hexdigest()[:length]
    return f"{name or 'student'}-{mark}" if mark else name


def canvas_user(origin: str) -> tuple[str, str]:
    """The name and Canvas's number of the user whose file lay at `origin`; empty for others."""
    found = _of_platform(origin, _CANVAS)
    return (found["student"], found["user"].lstrip("_")) if found else ("", "")


def moodle_participant(origin: str) -> tuple[str, str]:
    """The name and the number of Moodle's participant whose file lay at `origin`; empty for
    others."""
    found = _of_platform(origin, _MOODLE)
    name, _, number = found["student"].rpartition("_") if found else ("", "", "")
    return name, number


def _of_platform(origin: str, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """What the platform of `pattern` wrote into the path, where that platform named it."""
    first, *deeper = _from_the_owner(origin)
    if deeper:
        return pattern.fullmatch(first) if pattern is _MOODLE else None
    known = _flat(first)[1]
    return known if known and known.re is pattern else None


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
    outer, *inside = parts
    if len(inside) > 1 and (_is_clone(outer, inside[0]) or _is_exported(outer, inside[0])):
        del parts[0]
    return parts


def _is_exported(outer: str, name: str) -> bool:
    return bool(_EXPORT.fullmatch(outer) and _EXPORTED.fullmatch(name))
