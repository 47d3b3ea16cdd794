"""The first step: a folder or an archive of hand-ins becomes entries, and sentences for the rest.

Every file that a verdict will come from is kept as it was, under the hash of its bytes.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore

from autograder import atomic_write

from ..errors import UserError, the_one
from .enrolment import Person
from .exchanged import COLLECTED
from .owners import NOBODY
from .rebuild import Rebuilt, Ungradable, language_named_in, rebuild, untouched_in
from .release import Release
from .submissions import Submission, files_in, ignored, labs_named, submissions

AGAIN = "Grade the class again: only what is lost runs."
KEEPERS = 8  # at a time: a disk that must not forget is slow to one and quick to many


@dataclass(frozen=True)
class Entry:
    """A submission that can be graded: its answers, and the hash of the bytes they came from."""

    submission: Submission
    rebuilt: Rebuilt
    sha256: str


@dataclass(frozen=True)
class Refusal:
    """A submission that cannot be graded; `reason` for its student, `note` for the instructor.
    language: in which the student has the lab, where the notebook says so."""

    submission: Submission
    reason: str
    note: str = ""
    language: str = "en"


@dataclass
class Taken:
    """What was handed in for one lab, by student. ignored: files of nobody, by the rule."""

    release: Release
    entries: dict[str, Entry] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    ignored: dict[str, list[str]] = field(default_factory=dict)


def take_in(
    source: Path,
    known: Mapping[str, Release],
    lab: str,
    kept: Path,
    people: Sequence[Person] = (),
    before: Mapping[str, str] = NOBODY,
) -> Taken:
    """All hand-ins in `source` for `lab` (""; where the hand-in tells), their bytes in the folder
    `kept`. people: who is enrolled. before: the students of earlier hand-ins by owner. Raises
    UserError for what the instructor can put right."""
    files = files_in(source)
    notebooks = (file.path[-1].endswith(".ipynb") and not file.is_hidden for file in files)
    if not any(notebooks) and not lab:
        raise UserError(f"There is no notebook in {source}. Name the folder of hand-ins.")
    name = _the_lab(lab, list(known), labs_named(files, list(known)))
    taken = Taken(known[name], ignored=ignored(files, name, list(known)))
    collected = source.resolve() == kept.with_name(COLLECTED).resolve()
    found = submissions(
        files,
        name,
        list(known),
        people,
        before=before,
        collected=collected,
        untouched_in=partial(untouched_in, release=known[name]),
    )
    _take_all(found, taken, kept)
    if not taken.entries and not taken.refusals:
        raise UserError(f"There is no notebook of {name} in {source}.")
    return taken


def _the_lab(asked: str, known: Sequence[str], named: Sequence[str]) -> str:
    if asked:
        return the_one(asked, known, "lab")
    every = ", ".join(known) or "none"
    for candidates in (known, named):
        if len(candidates) == 1:
            return candidates[0]
    raise UserError(f"Say which lab to grade with --lab. The course has: {every}.")


def _sort(submission: Submission, taken: Taken) -> bool:
    """Whether there are bytes to be kept."""
    without_data = replace(submission, data=b"")
    if submission.ungradable:
        taken.refusals.append(Refusal(without_data, submission.ungradable))
        return False
    try:
        rebuilt = rebuild(submission.data, taken.release)
    except Ungradable as reason:
        language = language_named_in(submission.data, taken.release)
        taken.refusals.append(Refusal(without_data, str(reason), reason.note, language))
    else:
        taken.entries[submission.student] = Entry(without_data, rebuilt, submission.sha256)
    return True


def take_again(submission: Submission, release: Release, kept: Path) -> Entry:
    """The entry of a submission that was taken in before: `sha256` says which of the bytes in the
    folder `kept` are its own. Raises UserError where they are not there any more, and Ungradable
    where the lab has changed so much since."""
    path = kept / f"{submission.sha256}.ipynb"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"The notebook {path} cannot be read: {error.strerror}. {AGAIN}") from error
    if hashlib.sha256(data).hexdigest() != submission.sha256:
        raise UserError(f"{path} is not the notebook that was graded: its hash differs. {AGAIN}")
    return Entry(submission, rebuild(data, release), submission.sha256)


def _take_all(handed_in: Iterable[Submission], taken: Taken, folder: Path) -> None:
    """Keeps the bytes of each on the disk, which may be slower than we read: whoever waits for it
    waits with few of them in memory."""
    room = BoundedSemaphore(2 * KEEPERS)
    kept = []
    with ThreadPoolExecutor(KEEPERS) as keepers:
        for submission in handed_in:
            if _sort(submission, taken):
                room.acquire()
                kept.append(keepers.submit(_keep, submission, folder, room))
    for one in kept:
        one.result()


def _keep(submission: Submission, folder: Path, room: BoundedSemaphore) -> None:
    try:
        path = folder / f"{submission.sha256}.ipynb"
        if not path.exists():
            atomic_write.write(path, submission.data, mode=0o600)
    finally:
        room.release()
