"""The last step: from the journal into nbgrader's gradebook, and to a page of feedback for each.

nbgrader's own two converters do it, one submission at a time, with the course's steps among theirs
(`recorded`, `penalties`, `feedback`): its commands and formgrader's buttons make the same. Nothing
is executed, and what a verdict is comes from the journal alone.

Everything can be done again: what is whole stays, what a kill cut off is made anew, and grades that
a person gave are never touched.

It is done while others are still being graded, in a thread of its own: nbgrader is imported, and
pages are made, while the grader would only wait for its workers. There is one writer at a time, and
no verdict waits for it: where there is one processor for both, the pages come after the verdicts.
"""

from __future__ import annotations

import json
import logging
import queue
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder import atomic_write
from autograder.judge import in_language

from ..intake.enrolment import is_pseudonym
from ..intake.exchanged import SECRET, TIMESTAMP
from ..intake.owners import LATE
from ..intake.personal import prose
from ..intake.rebuild import notebook
from ..intake.release import CHECK_SUFFIX, Release
from ..intake.taking import Entry
from ..store import changes, variants
from ..store.journal import Journal, Record, digest
from . import late_policy, shares
from .course import database, in_one_line, lay_beside, prepare, quiet, stamp
from .lateness import put_in_force, tell_time

if TYPE_CHECKING:
    from .converters import Converters

OURS, FOUND = "onelayer", "found"


@dataclass(frozen=True)
class Graded:
    """A record of the journal and the submission that it speaks for."""

    record: Record
    entry: Entry


@dataclass
class Published:
    """What became of them. written: how many were not there yet; refused: the students whom
    nbgrader refused; cpu_s: processor seconds of all that."""

    written: int = 0
    refused: set[str] = field(default_factory=set)
    cpu_s: float = 0.0


def publish(
    folder: Path,
    release: Release,
    graded: Iterable[Graded],
    log: logging.Logger,
    *,
    policy: late_policy.Policy | None = None,
) -> Published:
    """Writes grades and feedback of each of `graded` as it comes, unless they are there already,
    and what lateness costs by `policy`. A notebook that is refused costs its student an entry in
    the log, and no neighbour anything.

    Raises UserError where the gradebook cannot be used at all, and OSError where the disk cannot.
    """
    made, started = Published(), time.thread_time()
    with in_one_line(folder, log), _publishing(folder, release, policy, log) as publishing:
        for one in graded:
            with publishing.not_refused(one.record.student, made.refused):
                made.written += publishing.publish(one)
        for student in sorted(publishing.changed):  # of an earlier run
            with publishing.not_refused(student, made.refused):
                publishing.converters.feedback(student)
    made.cpu_s = time.thread_time() - started
    return made


@contextmanager
def _publishing(
    folder: Path, release: Release, policy: late_policy.Policy | None, log: logging.Logger
) -> Iterator[_Publishing]:
    from nbgrader.api import Gradebook

    from .converters import Converters

    shares.keep(folder, release)
    prepare(folder, release)
    with Gradebook(database(folder)) as gradebook:
        changed = put_in_force(folder, gradebook, release.name, policy)
        known = {one.student_id for one in gradebook.find_assignment(release.name).submissions}
        converters = Converters(folder, release.name, log)
        own = variants.read(folder, release.lab)
        made = changes.read(folder, release.name)
        yield _Publishing(
            folder, release, policy, log, gradebook, converters, changed, known, own, made
        )


@dataclass
class _Publishing:
    """A lab's gradebook, open. changed: whose penalty is another one now, and whose page is not.
    known: who was in it when it was opened. variants: who has numbers of their own. changes: what
    was changed after the grading."""

    folder: Path
    release: Release
    policy: late_policy.Policy | None
    log: logging.Logger
    gradebook: Any
    converters: Converters
    changed: set[str]
    known: set[str]
    variants: Mapping[str, variants.Variant]
    changes: Sequence[changes.Change]

    @contextmanager
    def not_refused(self, student: str, refused: set[str]) -> Iterator[None]:
        """Raises OSError or OperationalError where nothing can be written: the next one fares no
        better."""
        from sqlalchemy.exc import OperationalError

        try:
            yield
        except (OSError, OperationalError):
            raise
        except Exception as error:
            self.gradebook.db.rollback()
            self.log.error("%s: %s: %s", student, type(error).__name__, error)
            refused.add(student)

    def publish(self, one: Graded) -> bool:
        """Whether the grades of `one` were not there yet."""
        student, submitted = one.record.student, self._submitted(one)
        is_new = student not in self.known or not self._is_recorded(one.record)
        if is_new:
            self._hand_in(one, submitted)
            with in_language(one.entry.rebuilt.language):
                self.converters.autograde(one.record)
        if self._may_differ(student) and self._tell_time(student, submitted):
            self.changed.add(student)
        if not is_new:  # the same again may have come by another way
            lab, secret = self.release.name, one.entry.submission.secret
            lay_beside(self.folder, student, lab, SECRET, secret)
        if is_new or student in self.changed or not self._has_page(student):
            self.converters.feedback(student)
            self.changed.discard(student)
        return is_new

    def _may_differ(self, student: str) -> bool:
        """Whether nbgrader's autograding alone does not know what lateness is about here."""
        extended = self.policy and (self.release.name, student) in self.policy.extensions
        return student in self.known or bool(extended)

    def _submitted(self, one: Graded) -> datetime | None:
        handed_in = one.entry.submission
        submitted = late_policy.moment(handed_in.submitted) if handed_in.submitted else None
        if self.policy is None:
            return submitted
        named = (self.release.name, one.record.student)
        if submitted is None and LATE in handed_in.note:
            submitted = self.policy.taken_as(*named)
        return self.policy.submitted.get(named, submitted)

    def _tell_time(self, student: str, submitted: datetime | None) -> bool:
        lab = self.release.name
        return tell_time(self.folder, self.gradebook, lab, student, self.policy, submitted)

    def _hand_in(self, one: Graded, submitted: datetime | None) -> None:
        """Puts the rebuilt notebook where nbgrader collects them, and clears what it made of an
        earlier one."""
        lab, student = self.release.name, one.record.student
        made = notebook(self.release, one.entry.rebuilt)
        made["metadata"][OURS] = {
            "lab": lab,
            "record": one.record.key,
            "language": one.entry.rebuilt.language,
            "told": self._told(student, one.entry.rebuilt.language),
            "file": _file_of(one),
            FOUND: self._found(one.record),
        }
        if student in self.known:
            self._open_again(student, made)
        for step in ("autograded", "feedback"):
            shutil.rmtree(self.folder / step / student / lab, ignore_errors=True)
        data = json.dumps(made, ensure_ascii=False).encode()
        path = self._path("submitted", student, "ipynb")
        atomic_write.write(path, data, waits=False)
        if submitted or (path.parent / TIMESTAMP).exists():
            stamp(self.folder, student, lab, submitted)
        lay_beside(self.folder, student, lab, SECRET, one.entry.submission.secret)

    def _told(self, student: str, language: str) -> dict[str, str]:
        """The prose of their page where it is not that of the English release, by cell."""
        told, variant = self.release.told_in(language), self.variants.get(student)
        return told | prose(self.release, variant, language) if variant else told

    def _found(self, record: Record) -> dict[str, str]:
        """By check what was judged of it, the last time: not what an instructor made of that, for
        a mark that a person gave stays through such a change."""
        if self.changes:
            judged = Journal(self.folder / "journal" / record.lab).read(record.student, record.key)
            record = changes.newest(judged or record, self.changes)
        return {v.question + CHECK_SUFFIX: f"{v.cause} {v.misconception}" for v in record.verdicts}

    def _open_again(self, student: str, made: Mapping[str, Any]) -> None:
        """Of the cells that a person has marked, those in which something changed: the text, or
        what was judged of it. The mark of every other one stands, though a kill comes next."""
        from .recorded import is_settled  # it imports nbgrader

        lab, before, now = self.release.name, _seen(self._handed_in(student)), _seen(made)
        grades = self.gradebook.find_submission_notebook(lab, lab, student).grades
        differing = [g for g in grades if before.get(g.name) != now.get(g.name) and is_settled(g)]
        for grade in differing:
            grade.needs_manual_grade = True
        self.gradebook.db.commit()

    def _handed_in(self, student: str) -> Mapping[str, Any]:
        """The notebook before this one; nothing where there is none that can be read."""
        try:
            found: Mapping[str, Any] = json.loads(
                self._path("submitted", student, "ipynb").read_bytes()
            )
        except (OSError, ValueError):
            return {"cells": []}
        return found

    def _is_recorded(self, record: Record) -> bool:
        """Whether the grades of exactly this record are in the gradebook: the notebook beside it
        says so, and is written after them."""
        ours = _ours(self.folder, self.release.name, record.student)
        return ours.get("graded") == digest(record.to_json())

    def _has_page(self, student: str) -> bool:
        """A whole one: a kill may have cut it off."""
        page = self._path("feedback", student, "html")
        return page.exists() and page.read_bytes().rstrip().endswith(b"</html>")

    def _path(self, step: str, student: str, kind: str) -> Path:
        lab = self.release.name
        return self.folder / step / student / lab / f"{lab}.{kind}"


def _file_of(one: Graded) -> str:
    """The name of the file that was graded; "" where it could name a student who is anonymous."""
    origin = one.entry.submission.origin
    return "" if is_pseudonym(one.record.student) else origin.rpartition("/")[2]


def _ours(folder: Path, lab: str, student: str) -> Mapping[str, Any]:
    """What we noted in the notebook that was graded last; nothing where there is none."""
    try:
        data = (folder / "autograded" / student / lab / f"{lab}.ipynb").read_bytes()
        ours: Mapping[str, Any] = json.loads(data)["metadata"][OURS]
    except (OSError, ValueError, KeyError):
        return {}
    return ours


def language_of(folder: Path, lab: str, student: str) -> str:
    """The code of the language in which a student is told their grade: of the hand-in that it is
    for, as on their page of feedback."""
    return str(_ours(folder, lab, student).get("language", "en"))


def _seen(made: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """What a person has before them who marks a cell of this notebook: its text; of a check, the
    answer and what was found."""
    texts = {cell["id"]: (cell["source"],) for cell in made["cells"]}
    found = made.get("metadata", {}).get(OURS, {}).get(FOUND, {})
    checks = {c: (*texts.get(c.removesuffix(CHECK_SUFFIX), ()), one) for c, one in found.items()}
    return texts | checks


class Publisher:
    """A context manager: at its end all that was `add`ed is published, and `published` says how it
    went; where an exception goes through it, the rest is left for the next run. meanwhile: whether
    to begin before that end."""

    def __init__(
        self,
        folder: Path,
        release: Release,
        policy: late_policy.Policy | None,
        *,
        meanwhile: bool = True,
    ) -> None:
        self._folder, self._release, self._policy = folder, release, policy
        self._waiting: queue.SimpleQueue[Graded | None] = queue.SimpleQueue()
        self.add = self._waiting.put
        self._beside = ThreadPoolExecutor(1, "publisher") if meanwhile else None
        self.published = Published()

    def __enter__(self) -> Publisher:
        if self._beside:
            self._done = self._beside.submit(self._run)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Raises what stopped it: UserError, OSError."""
        with suppress(queue.Empty):
            while error is not None:
                self._waiting.get_nowait()
        self._waiting.put(None)
        if self._beside:
            self._beside.shutdown()
        if error is None:
            self.published = self._done.result() if self._beside else self._run()

    def _run(self) -> Published:
        if (first := self._waiting.get()) is None:
            return Published()
        with quiet(self._folder / "grade.log") as log:
            every = chain([first], iter(self._waiting.get, None))
            return publish(self._folder, self._release, every, log, policy=self._policy)
