"""The last step: from the journal into nbgrader's gradebook, and to a page of feedback for each.

nbgrader's own two converters do it, one submission at a time, with the course's steps among theirs
(`recorded`, `penalties`, `feedback`): its commands and formgrader's buttons make the same. Nothing
is executed, and what a verdict is comes from the journal alone.

Everything can be done again: what is whole stays, what a kill cut off is made anew, and grades that
a person gave are never touched.

It is done while others are still being graded, in a thread of its own: nbgrader is imported, and
pages are made, while the grader would only wait for its workers. There is one writer at a time, and
no verdict waits for it.
"""

from __future__ import annotations

import json
import logging
import queue
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder import atomic_write
from autograder.judge import in_language

from ..intake.exchanged import SECRET, TIMESTAMP
from ..intake.owners import LATE
from ..intake.personal import prose
from ..intake.rebuild import notebook
from ..intake.release import Release, graded
from ..intake.taking import Entry
from ..store import variants
from ..store.journal import Record, digest
from . import late_policy
from .course import database, in_one_line, lay_beside, prepare, quiet, stamp
from .lateness import put_in_force, tell_time

if TYPE_CHECKING:
    from .converters import Converters

OURS = "onelayer"


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

    prepare(folder, release)
    with Gradebook(database(folder)) as gradebook:
        changed = put_in_force(folder, gradebook, release.name, policy)
        known = {one.student_id for one in gradebook.find_assignment(release.name).submissions}
        converters = Converters(folder, release.name, log)
        given = variants.read(folder, release.lab)
        yield _Publishing(
            folder, release, policy, log, gradebook, converters, changed, known, given
        )


@dataclass
class _Publishing:
    """A lab's gradebook, open. changed: whose penalty is another one now, and whose page is not.
    known: who was in it when it was opened. variants: who has numbers of their own."""

    folder: Path
    release: Release
    policy: late_policy.Policy | None
    log: logging.Logger
    gradebook: Any
    converters: Converters
    changed: set[str]
    known: set[str]
    variants: Mapping[str, variants.Variant]

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
            settled = self._hand_in(one, submitted)
            with in_language(one.entry.rebuilt.language):
                self.converters.autograde(one.record, settled)
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

    def _hand_in(self, one: Graded, submitted: datetime | None) -> set[str]:
        """Puts the rebuilt notebook where nbgrader collects them, and clears what it made of an
        earlier one. The cells whose mark by a person stands, because the text is the same."""
        lab, student = self.release.name, one.record.student
        made = notebook(self.release, one.entry.rebuilt)
        settled = self._settled(one.record, made) if student in self.known else set()
        for step in ("autograded", "feedback"):
            shutil.rmtree(self.folder / step / student / lab, ignore_errors=True)
        made["metadata"][OURS] = {
            "lab": lab,
            "record": one.record.key,
            "language": one.entry.rebuilt.language,
            "told": self._told(student, one.entry.rebuilt.language),
        }
        data = json.dumps(made, ensure_ascii=False).encode()
        path = self._path("submitted", student, "ipynb")
        atomic_write.write(path, data, waits=False)
        if submitted or (path.parent / TIMESTAMP).exists():
            stamp(self.folder, student, lab, submitted)
        lay_beside(self.folder, student, lab, SECRET, one.entry.submission.secret)
        return settled

    def _told(self, student: str, language: str) -> dict[str, str]:
        """The prose of their page where it is not that of the English release, by cell."""
        told, variant = self.release.told_in(language), self.variants.get(student)
        return told | prose(self.release, variant, language) if variant else told

    def _settled(self, record: Record, made: Mapping[str, Any]) -> set[str]:
        """The cells that a person has marked and in which nothing changed: neither the free text
        nor the verdict. One that did is open again from now on, even if a kill comes next."""
        from .recorded import is_settled, verdicts  # it imports nbgrader

        lab, student, kept = self.release.name, record.student, set[str]()
        before, now = self._free_texts(self._handed_in(student)), self._free_texts(made)
        before, now = before | self._ours(student).get("verdicts", {}), now | verdicts(record)
        for grade in self.gradebook.find_submission_notebook(lab, lab, student).grades:
            if grade.name in now and is_settled(grade):
                if before.get(grade.name) == now[grade.name]:
                    kept.add(grade.name)
                else:
                    grade.needs_manual_grade = True
        self.gradebook.db.commit()
        return kept

    def _handed_in(self, student: str) -> Mapping[str, Any]:
        """The notebook before this one; nothing where there is none that can be read."""
        try:
            found: Mapping[str, Any] = json.loads(
                self._path("submitted", student, "ipynb").read_bytes()
            )
        except (OSError, ValueError):
            return {"cells": []}
        return found

    def _free_texts(self, made: Mapping[str, Any]) -> dict[str, str]:
        """What a person marks, by cell."""
        marked = {name for name, cell in self.release.answers.items() if graded(cell)["grade"]}
        return {cell["id"]: cell["source"] for cell in made["cells"] if cell["id"] in marked}

    def _is_recorded(self, record: Record) -> bool:
        """Whether the grades of exactly this record are in the gradebook: the notebook beside it
        says so, and is written after them."""
        return self._ours(record.student).get("graded") == digest(record.to_json())

    def _ours(self, student: str) -> Mapping[str, Any]:
        """What we noted in the notebook that was graded last; nothing where there is none."""
        try:
            data = self._path("autograded", student, "ipynb").read_bytes()
            ours: Mapping[str, Any] = json.loads(data)["metadata"][OURS]
        except (OSError, ValueError, KeyError):
            return {}
        return ours

    def _has_page(self, student: str) -> bool:
        """A whole one: a kill may have cut it off."""
        page = self._path("feedback", student, "html")
        return page.exists() and page.read_bytes().rstrip().endswith(b"</html>")

    def _path(self, step: str, student: str, kind: str) -> Path:
        lab = self.release.name
        return self.folder / step / student / lab / f"{lab}.{kind}"


class Publisher:
    """A context manager: at its end all that was `add`ed is published, and `published` says how it
    went; where an exception goes through it, the rest is left for the next run."""

    def __init__(self, folder: Path, release: Release, policy: late_policy.Policy | None) -> None:
        self._folder, self._release, self._policy = folder, release, policy
        self._waiting: queue.SimpleQueue[Graded | None] = queue.SimpleQueue()
        self.add = self._waiting.put
        self._beside = ThreadPoolExecutor(1, "publisher")
        self.published = Published()

    def __enter__(self) -> Publisher:
        self._done = self._beside.submit(self._run)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Raises what stopped it: UserError, OSError."""
        with suppress(queue.Empty):
            while error is not None:
                self._waiting.get_nowait()
        self._waiting.put(None)
        self._beside.shutdown()
        if error is None:
            self.published = self._done.result()

    def _run(self) -> Published:
        if (first := self._waiting.get()) is None:
            return Published()
        with quiet(self._folder / "grade.log") as log:
            every = chain([first], iter(self._waiting.get, None))
            return publish(self._folder, self._release, every, log, policy=self._policy)
