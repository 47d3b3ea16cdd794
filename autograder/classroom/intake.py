"""What was handed in: one `Submission` per student, with the bytes that will be graded.

Nothing here raises for what a student did. What cannot be graded becomes a submission that says
why, once for the student and once for the instructor.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .found import Found, Unreadable, in_folder
from .layout import Claim, claims, student_ids
from .mistake import Mistake
from .zipped import in_archive

NO_NOTEBOOK = "There is no notebook among the files you handed in."


@dataclass(frozen=True)
class Submission:
    """One student's notebook for one lab.

    origin: where it lay, for the instructor. data: its bytes; empty where it is ungradable.
    ungradable: the sentence for the student; empty where all is well.
    """

    student: str
    origin: str
    data: bytes = b""
    submitted: str = ""
    note: str = ""
    ungradable: str = ""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def files_in(source: Path) -> list[Found]:
    """The files of a folder or a zip archive. Raises Mistake where there is neither."""
    try:
        mode = source.stat().st_mode
    except OSError as error:
        raise Mistake(f"There is no folder or zip archive {source}.") from error
    if stat.S_ISDIR(mode):
        return list(in_folder(source))
    found = list(in_archive(source))
    # Who zips the folder "class" gets class.zip with class/ in front of every name.
    if found and all(len(file.path) > 1 and file.path[0] == source.stem for file in found):
        return [replace(file, path=file.path[1:]) for file in found]
    return found


def labs_named(files: Iterable[Found], known: Sequence[str]) -> list[str]:
    """Those of the `known` labs whose name occurs in a path of the hand-in."""
    paths = ["/".join(file.path) for file in files]
    return [lab for lab in known if any(lab in path for path in paths)]


def submissions(files: Sequence[Found], lab: str, known: Sequence[str]) -> Iterator[Submission]:
    """One submission per student, in the order of their ids.

    known: all labs of the course, so that another lab's notebook is not taken for this one's.
    """
    by_owner: dict[str, list[Claim]] = {}
    for claim in claims(files, lab):
        by_owner.setdefault(claim.owner, []).append(claim)
    ids = student_ids(list(by_owner))
    others = [name for name in known if name != lab]
    for owner in sorted(by_owner, key=lambda owner: ids[owner].casefold()):
        claimed = [claim for claim in by_owner[owner] if not _is_of(claim, others)]
        if claimed:
            yield _submission(ids[owner], claimed, lab)


def _is_of(claim: Claim, labs: Iterable[str]) -> bool:
    """Whether the file's name, or the folder it lies in, is that of one of these labs."""
    return any(lab in claim.stem or lab in claim.file.path[:-1] for lab in labs)


def _submission(student: str, claimed: Sequence[Claim], lab: str) -> Submission:
    candidates = _candidates(claimed, lab)
    if not candidates:
        return Submission(student, _origin(claimed[0]), ungradable=NO_NOTEBOOK)
    claim = candidates[0]
    made = Submission(student, _origin(claim), submitted=claim.submitted, note=claim.note)
    try:
        different = {candidate.file.read(): candidate for candidate in candidates}
    except Unreadable as reason:
        return replace(made, ungradable=str(reason))
    if len(different) > 1:
        names = sorted(_origin(candidate)[:80] for candidate in different.values())
        told = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return replace(made, ungradable=f"There are several notebooks ({told}). Hand in one.")
    return replace(made, data=next(iter(different)))


def _candidates(claimed: Sequence[Claim], lab: str) -> list[Claim]:
    """The notebooks that may be this lab's: the best named ones, and of those the newest."""
    notebooks = [
        claim
        for claim in claimed
        if claim.file.path[-1].endswith(".ipynb") or not claim.file.is_file
    ]
    for fits in (
        [claim for claim in notebooks if claim.stem == lab],
        [claim for claim in notebooks if lab in claim.stem],
        notebooks,
    ):
        if fits:
            newest = max(claim.newer for claim in fits)
            return [claim for claim in fits if claim.newer == newest]
    return []


def _origin(claim: Claim) -> str:
    """Where the file lay, printable whatever its name is made of."""
    path = "/".join(claim.file.path)
    return "".join(c if c.isprintable() else "?" for c in path)
