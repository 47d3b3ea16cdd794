"""What was handed in: one `Submission` per student, with the bytes that will be graded.

Nothing here raises for what a student did. What cannot be graded becomes a submission that says
why, once for the student and once for the instructor.
"""

import hashlib
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UserError
from .archive import in_archive
from .files import Found, Quota, Unreadable, in_folder
from .owners import Claim, claims, student_ids, whose

NO_NOTEBOOK = "There is no notebook among the files you handed in."
ZIPPED = "You handed in an archive. Hand in the notebook in it, the file that ends in .ipynb."
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".rar", ".7z")
MAX_CANDIDATES = 4
"""Notebooks of one owner that are read to see whether they are the same."""
MAX_TOTAL_BYTES = 4 * 2**30
TOO_MUCH = "It was not read: all hand-ins together are larger than may be read at once."
IN_PARTS = "grade the class in two folders"


@dataclass(frozen=True)
class Submission:
    """One student's notebook for one lab.

    origin: where it lay, for the instructor. data: its bytes, and their sha256; empty where it is
    ungradable. ungradable: the sentence for the student; empty where all is well.
    """

    student: str
    origin: str
    data: bytes = b""
    sha256: str = ""
    submitted: str = ""
    note: str = ""
    ungradable: str = ""


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
    paths = "\n".join(["/".join(file.path) for file in files])
    return [lab for lab in known if lab in paths]


def submissions(files: Sequence[Found], lab: str, known: Sequence[str]) -> Iterator[Submission]:
    """One submission per student, in the order of their ids.

    known: all labs of the course, so that another lab's notebook is not taken for this one's.
    """
    by_owner: dict[str, list[Claim]] = {}
    others = [name for name in known if name != lab]
    for claim in claims(files, lab):
        claimed = by_owner.setdefault(claim.owner, [])
        if not _is_of(claim, others):
            claimed.append(claim)
    ids, reading = student_ids(list(by_owner)), _Reading()
    owners = {student.casefold(): owner for owner, student in ids.items()}
    for name in sorted(owners):
        if claimed := by_owner[owners[name]]:
            yield _submission(ids[owners[name]], claimed, lab, reading)


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


def _is_of(claim: Claim, labs: Iterable[str]) -> bool:
    """Whether the file's name, or the folder it lies in, is that of one of these labs."""
    return any(lab in claim.stem or lab in claim.file.path[:-1] for lab in labs)


def _submission(student: str, claimed: Sequence[Claim], lab: str, read: _Reading) -> Submission:
    claim, *others = _candidates(claimed, lab) or claimed[:1]
    if others:
        claim, *others = _without_copies([claim, *others])
    made = Submission(student, _origin(claim), submitted=claim.submitted, note=claim.note)
    for one in claimed:
        if one.file.spoils:
            return replace(made, ungradable=one.file.spoils)
    if not _may_be_a_notebook(claim):
        archived = any(one.file.path[-1].lower().endswith(ARCHIVES) for one in claimed)
        return replace(made, ungradable=ZIPPED if archived else NO_NOTEBOOK)
    if len(others) >= MAX_CANDIDATES:
        return replace(made, ungradable=_several([claim, *others]))
    try:
        data = read(claim)
        different = [one for one in others if read(one) != data]
    except Unreadable as reason:
        note = IN_PARTS if str(reason) == TOO_MUCH else made.note
        return replace(made, ungradable=str(reason), note=note)
    if different:
        return replace(made, ungradable=_several([claim, *different]))
    return replace(made, data=data, sha256=hashlib.sha256(data).hexdigest())


def _several(claims: Sequence[Claim]) -> str:
    names = sorted(_origin(claim)[:80] for claim in claims)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"There are several notebooks ({shown}). Hand in one."


def _may_be_a_notebook(claim: Claim) -> bool:
    """By its name; what is no file may have been meant as one."""
    return claim.file.path[-1].endswith(".ipynb") or not claim.file.is_file


def _candidates(claimed: Sequence[Claim], lab: str) -> list[Claim]:
    """The notebooks that may be this lab's: the best named ones, and of those the newest."""
    fits: dict[tuple[bool, bool, float], list[Claim]] = {}
    for claim in claimed:
        if _may_be_a_notebook(claim):
            fit = claim.stem == lab, lab in claim.stem, claim.newer
            fits.setdefault(fit, []).append(claim)
    return fits[max(fits)] if fits else []


def _without_copies(fits: list[Claim]) -> list[Claim]:
    """Those whose name is as it was given out, where there are any; a note names the others."""
    exact = [claim for claim in fits if not claim.is_copy]
    if not exact or len(exact) == len(fits):
        return fits
    copy = next(claim for claim in fits if claim.is_copy)
    beside = f"{_origin(copy)[:80]} lay beside it and was not read"
    note = "; ".join(filter(None, (exact[0].note, beside)))
    return [replace(claim, note=note) for claim in exact]


def _origin(claim: Claim) -> str:
    """Where the file lay, printable whatever its name is made of."""
    path = "/".join(claim.file.path)
    if path.isprintable():
        return path
    return "".join(c if c.isprintable() else "?" for c in path)
