"""What was handed in: one `Submission` per student, with the bytes that will be graded.

Nothing here raises for what a student did. What cannot be graded becomes a submission that says
why, once for the student and once for the instructor.
"""

import hashlib
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UserError
from . import exchanged
from .archive import in_archive
from .enrolment import Person, identified
from .files import Found, Quota, Unreadable, in_folder
from .owners import NOBODY, Claim, claims, student_ids, whose

NO_NOTEBOOK = "There is no notebook among the files you handed in."
ZIPPED = "You handed in an archive. Hand in the notebook in it, the file that ends in .ipynb."
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".rar", ".7z")
MAX_CANDIDATES = 4
"""Notebooks of one owner that are read to see whether they are the same."""
MAX_TOTAL_BYTES = 4 * 2**30
TOO_MUCH = "It was not read: all hand-ins together are larger than may be read at once."
OTHER_LAB = "You handed in the notebook of {}. Hand in {}.ipynb."
BESIDE = "beside the students' hand-ins"
HIDDEN = "hidden, as tools leave them behind"
ELSEWHERE = "kept for another lab"
IN_PARTS = "grade the class in two folders"


@dataclass(frozen=True)
class Submission:
    """One student's notebook for one lab.

    origin: where it lay, for the instructor. data: its bytes, and their sha256; empty where it is
    ungradable. ungradable: the sentence for the student; empty where all is well. secret: by which
    nbgrader's exchange gives them their feedback back. owner: as the layout names the student.
    """

    student: str
    origin: str
    data: bytes = b""
    sha256: str = ""
    submitted: str = ""
    note: str = ""
    ungradable: str = ""
    secret: str = ""
    owner: str = ""


def files_in(source: Path) -> list[Found]:
    """The files of a folder or a zip archive. Raises UserError where there is neither."""
    try:
        mode = source.stat().st_mode
    except OSError as error:
        raise UserError(f"There is no folder or zip archive {source}.") from error
    quota = Quota(source, whose)
    if stat.S_ISDIR(mode):
        return list(in_folder(source, quota))
    if source.suffix == ".ipynb":
        raise UserError(f"{source} is one notebook. Name the folder that it lies in.")
    return list(in_archive(source, quota))


def labs_named(files: Iterable[Found], known: Sequence[str]) -> list[str]:
    """Those of the `known` labs whose name occurs in a path of the hand-in."""
    paths = "\n".join(["/".join(file.path) for file in files if not file.is_hidden])
    return [lab for lab in known if lab in paths]


def submissions(
    files: Sequence[Found],
    lab: str,
    known: Sequence[str],
    people: Sequence[Person] = (),
    *,
    before: Mapping[str, str] = NOBODY,
    collected: bool = False,
    untouched_in: Callable[[bytes], str] = lambda _: "",
) -> Iterator[Submission]:
    """One submission per student, in the order of their ids.

    known: all labs of the course, so that another lab's notebook is not taken for this one's.
    people: who is enrolled; what is theirs goes by their id, wherever it came from.
    before: the students of earlier hand-ins by owner. collected: by nbgrader, into the grading
    folder: it tells the time. untouched_in: the language of a notebook whose answers are all as
    they were given out, "" for every other; it is asked where one student's notebooks differ.
    """
    by_owner: dict[str, list[Claim]] = {}
    for claim in claims(files, lab)[0]:
        if not _is_kept_for_another(claim, lab, known):
            by_owner.setdefault(claim.owner, []).append(claim)
    by_student, reading = _by_student(by_owner, people, before), _Reading()
    for student in sorted(by_student, key=str.casefold):
        own = by_student[student]
        yield _submission(student, own, (lab, known), reading, untouched_in, collected=collected)


def _by_student(
    by_owner: Mapping[str, list[Claim]], people: Sequence[Person], before: Mapping[str, str]
) -> dict[str, list[Claim]]:
    """What several owners hold may be one person's: a number here, an e-mail there."""
    persons = identified(people, {owner: _shown(own[0].file) for owner, own in by_owner.items()})
    taken = [person.folder_id for person in people]
    ids = student_ids([*taken, *(owner for owner in by_owner if owner not in persons)], before)
    ids |= {owner: person.folder_id for owner, person in persons.items()}
    found: dict[str, list[Claim]] = {}
    for owner, own in by_owner.items():
        found.setdefault(ids[owner], []).extend(own)
    return found


def ignored(files: Sequence[Found], lab: str, known: Sequence[str]) -> dict[str, list[str]]:
    """The files that no submission comes from, by the rule that says so."""
    found, nobodys = claims(files, lab)
    others = [claim.file for claim in found if _is_kept_for_another(claim, lab, known)]
    left_behind = [file for file in files if file.is_hidden]
    rules = {BESIDE: nobodys, ELSEWHERE: others, HIDDEN: left_behind}
    return {rule: list(map(_shown, files)) for rule, files in rules.items() if files}


def _is_kept_for_another(claim: Claim, lab: str, known: Sequence[str]) -> bool:
    """Whether the file lies where a class keeps another lab: that is no mistake of the student."""
    path = claim.file.path
    folders = path if claim.file.is_empty_folder else path[:-1]
    others = set(known) - {lab, claim.owner}
    return claim.of_another_lab or bool(others.intersection(folders))


class _Reading:
    """Reads files, of which so many are left to be read."""

    def __init__(self) -> None:
        self.left_bytes = MAX_TOTAL_BYTES

    def __call__(self, claim: Claim) -> bytes:
        """Raises Unreadable."""
        if self.left_bytes <= 0:
            raise Unreadable(TOO_MUCH)
        data = claim.file.read()
        self.left_bytes -= len(data)
        return data


def _submission(
    student: str,
    claimed: Sequence[Claim],
    labs: tuple[str, Sequence[str]],
    read: _Reading,
    untouched_in: Callable[[bytes], str],
    *,
    collected: bool,
) -> Submission:
    lab, known = labs
    claimed = [one for one in claimed if not one.file.is_empty_folder] or claimed
    strays = {one.file: name for one in claimed if (name := _other_lab(one, lab, known))}
    ours = [one for one in claimed if one.file not in strays]
    fits = _candidates(ours, lab) or _candidates(claimed, lab) or claimed
    named = [one for one in fits if not one.is_copy] or fits
    claim = named[0]
    made = _from(claim, student, claimed, collected=collected)
    for one in claimed:
        if one.file.spoils:
            return replace(made, ungradable=one.file.spoils)
    if claim.file in strays:
        return replace(made, ungradable=OTHER_LAB.format(strays[claim.file], lab))
    if not _may_be_a_notebook(claim):
        archived = any(one.file.path[-1].lower().endswith(ARCHIVES) for one in claimed)
        return replace(made, ungradable=ZIPPED if archived else NO_NOTEBOOK)
    if len(named) > MAX_CANDIDATES:
        return replace(made, ungradable=_several(named))
    try:
        notebooks = {one: read(one) for one in named}
        if len(named) < len(fits) and all(map(untouched_in, notebooks.values())):
            notebooks |= _copies(fits, named, read)
    except Unreadable as reason:
        note = IN_PARTS if str(reason) == TOO_MUCH else made.note
        return replace(made, ungradable=str(reason), note=note)
    if len(notebooks) > 1:
        claim, *different = _handed_in(notebooks, untouched_in)
        made = _from(claim, student, claimed, collected=collected)
        if different:
            return replace(made, ungradable=_several([claim, *different]))
    unread = [one for one in claimed if one not in notebooks and _may_be_a_notebook(one)]
    note = "; ".join(filter(None, (made.note, _unread(unread))))
    data = notebooks[claim]
    return replace(made, note=note, data=data, sha256=hashlib.sha256(data).hexdigest())


def _from(claim: Claim, student: str, claimed: Sequence[Claim], *, collected: bool) -> Submission:
    """What is known of a submission before its file is read."""
    beside = [one.file for one in claimed if one.file.path[:-1] == claim.file.path[:-1]]
    return Submission(
        student,
        _shown(claim.file),
        submitted=claim.submitted or (exchanged.time(beside) if collected else ""),
        note=claim.note,
        secret=exchanged.secret(beside),
        owner=claim.owner,
    )


def _copies(fits: Sequence[Claim], named: Sequence[Claim], read: _Reading) -> dict[Claim, bytes]:
    """What may count beside notebooks named as they were given out, in which nobody has answered:
    who downloads the lab again gets its name back, with a number. Raises Unreadable."""
    copies = [one for one in fits if one not in named]
    if len(copies) > MAX_CANDIDATES:
        raise Unreadable(_several(fits))
    return {one: read(one) for one in copies}


def _handed_in(
    notebooks: Mapping[Claim, bytes], untouched_in: Callable[[bytes], str]
) -> list[Claim]:
    """The notebooks that differ, without those that nobody has answered in: a copy of the whole
    course holds the lab once in each language. Of nothing but such ones the English one counts.
    """
    first: dict[bytes, Claim] = {}
    for claim, data in notebooks.items():
        first.setdefault(data, claim)
    if len(first) == 1:
        return list(first.values())
    languages = {claim: untouched_in(data) for data, claim in first.items()}
    answered = [claim for claim, language in languages.items() if not language]
    return answered or [min(languages, key=lambda claim: languages[claim] != "en")]


def _other_lab(claim: Claim, lab: str, known: Sequence[str]) -> str:
    """Which lab's notebook a file is by its name, where it is another's; "" for all others."""
    return next((name for name in known if name != lab and name in claim.stem), "")


def _unread(beside: Sequence[Claim]) -> str:
    """Which notebooks of the student did not count."""
    names = sorted(_shown(one.file)[:80] for one in beside)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more} lay beside it and was not read" if names else ""


def _several(claims: Sequence[Claim]) -> str:
    names = sorted(_shown(claim.file)[:80] for claim in claims)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"There are several notebooks ({shown}). Hand in one."


def _may_be_a_notebook(claim: Claim) -> bool:
    """By its name; what is no file may have been meant as one."""
    return claim.file.path[-1].endswith(".ipynb") or not claim.file.is_file


def _candidates(claimed: Sequence[Claim], lab: str) -> list[Claim]:
    """The notebooks that may be this lab's: the best named ones, and of those the newest."""
    fits: dict[tuple[bool, bool, bool, float], list[Claim]] = {}
    given_out = ("labs", lab, f"{lab}.ipynb")  # where it lies in a copy of the whole course
    for claim in claimed:
        if _may_be_a_notebook(claim):
            path = claim.file.path
            fit = path[-3:] == given_out, claim.stem == lab, lab in claim.stem, claim.newer
            fits.setdefault(fit, []).append(claim)
    return fits[max(fits)] if fits else []


def _shown(file: Found) -> str:
    """Where the file lay, printable whatever its name is made of."""
    path = "/".join(file.path)
    return path if path.isprintable() else "".join(c if c.isprintable() else "?" for c in path)
