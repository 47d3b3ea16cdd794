"""The last step: from the journal into nbgrader's gradebook, and to a page of feedback for each.

nbgrader's own two converters do it, one submission at a time, with the course's steps among theirs
(`recorded`, `penalties`, `feedback`): its commands and formgrader's buttons make the same. Nothing
is executed, and what a verdict is comes from the journal alone.

Everything can be done again: what is whole stays, what a kill cut off is made anew, and grades that
a person gave are never touched.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..intake.rebuild import notebook
from ..intake.release import Release
from ..intake.taking import Entry
from ..store.journal import Record
from . import late_policy
from .course import database, hand_in, in_one_line, prepare
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
        converters = Converters(folder, release.name, log)
        yield _Publishing(folder, release, policy, log, gradebook, converters, changed)


@dataclass
class _Publishing:
    """A lab's gradebook, open. changed: whose penalty is another one now, and whose page is not."""

    folder: Path
    release: Release
    policy: late_policy.Policy | None
    log: logging.Logger
    gradebook: Any
    converters: Converters
    changed: set[str]

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
        lab, student = self.release.name, one.record.student
        submitted = late_policy.moment(one.entry.submission.submitted)
        if self.policy:
            submitted = self.policy.submitted.get((lab, student), submitted)
        is_new = not self._is_recorded(one)
        if is_new:
            hand_in(self.folder, student, self._notebook(one), submitted=submitted)
            self.converters.autograde(student)
        if tell_time(self.folder, self.gradebook, lab, student, self.policy, submitted):
            self.changed.add(student)
        if is_new or student in self.changed or not self._has_page(student):
            self.converters.feedback(student)
            self.changed.discard(student)
        return is_new

    def _notebook(self, one: Graded) -> dict[str, Any]:
        made = notebook(self.release, one.entry.rebuilt)
        made["metadata"][OURS] = {"lab": self.release.name, "record": one.record.key}
        return made

    def _is_recorded(self, one: Graded) -> bool:
        """Whether the grades of exactly this record are in the gradebook: the notebook beside it
        says so, and is written after them."""
        from nbgrader.api import MissingEntry

        lab, student = self.release.name, one.record.student
        if _metadata(self._path("autograded", student, "ipynb")).get("graded") != one.record.digest:
            return False
        try:
            return bool(self.gradebook.find_submission(lab, student))
        except MissingEntry:
            return False

    def _has_page(self, student: str) -> bool:
        """A whole one: a kill may have cut it off."""
        page = self._path("feedback", student, "html")
        return page.exists() and page.read_bytes().rstrip().endswith(b"</html>")

    def _path(self, step: str, student: str, kind: str) -> Path:
        lab = self.release.name
        return self.folder / step / student / lab / f"{lab}.{kind}"


def _metadata(path: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(path.read_bytes())["metadata"][OURS]
    except (OSError, ValueError, KeyError):
        return {}
    return found
