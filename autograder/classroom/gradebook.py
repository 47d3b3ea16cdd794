"""Records into nbgrader's gradebook, and feedback out of it: one writer, once for the class.

Everything can be done again: what is whole stays, what a kill cut off is made anew, and grades that
a person gave are never touched.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import late
from .job import Entry
from .journal import Record
from .lateness import put_in_force
from .nbcourse import converter, database, hand_in, in_one_line, prepare
from .rebuild import notebook
from .release import Release

OURS = "onelayer"


@dataclass(frozen=True)
class Graded:
    """A record and the submission that it speaks for."""

    record: Record
    entry: Entry


def record_all(
    folder: Path,
    release: Release,
    graded: Iterable[Graded],
    log: logging.Logger,
    *,
    policy: late.Policy | None = None,
) -> set[str]:
    """Writes grades and feedback of everyone whose newest are not there yet, and what lateness
    costs by `policy`; the students for whom nbgrader refused.

    Raises Mistake where the gradebook cannot be used at all.
    """
    wanted = {one.record.student: one for one in graded}
    with in_one_line(folder, log):
        done = _recorded(folder, release.name, wanted)
        prepare(folder, release)
        _record_missing(folder, release, wanted, done, log)
        written = _recorded(folder, release.name, wanted)
        times = {student: one.entry.submission.submitted for student, one in wanted.items()}
        charged = put_in_force(folder, release.name, policy, times)
    _drop_pages(folder, release.name, written, changed=charged)
    if missing := {one for one in written if not _page(folder, release.name, one).exists()}:
        _convert("GenerateFeedback", folder, release.name, missing, log)
    return set(wanted) - written


def _record_missing(
    folder: Path,
    release: Release,
    wanted: Mapping[str, Graded],
    done: set[str],
    log: logging.Logger,
) -> None:
    missing = set(wanted) - done
    for student in missing:
        one = wanted[student]
        submitted = one.entry.submission.submitted
        hand_in(folder, student, _handed_in(release, one), submitted=submitted)
    if missing:
        _convert("Autograde", folder, release.name, missing, log)


def _handed_in(release: Release, one: Graded) -> dict[str, Any]:
    made = notebook(release, one.entry.rebuilt)
    made["metadata"][OURS] = {"lab": release.name, "record": one.record.key}
    return made


def _recorded(folder: Path, lab: str, wanted: Mapping[str, Graded]) -> set[str]:
    """Those whose grades of exactly this record are in the gradebook: the notebook beside it says
    so, and is written after them."""
    if not (folder / "gradebook.db").exists():
        return set()
    from nbgrader.api import Gradebook

    with Gradebook(database(folder)) as gradebook:
        known = {
            submission.student.id
            for assignment in gradebook.assignments
            if assignment.name == lab
            for submission in assignment.submissions
        }
    return {
        student
        for student, one in wanted.items()
        if student in known and _graded(folder, student, lab) == one.record.digest
    }


def _graded(folder: Path, student: str, lab: str) -> str:
    try:
        path = folder / "autograded" / student / lab / f"{lab}.ipynb"
        digest: str = json.loads(path.read_bytes())["metadata"][OURS]["graded"]
    except (OSError, ValueError, KeyError):
        return ""
    return digest


def _page(folder: Path, lab: str, student: str) -> Path:
    return folder / "feedback" / student / lab / f"{lab}.html"


def _drop_pages(folder: Path, lab: str, students: Iterable[str], *, changed: set[str]) -> None:
    """Those that a kill cut off, and those that show a penalty which is no longer so."""
    for student in students:
        page = _page(folder, lab, student)
        is_whole = page.exists() and page.read_bytes().rstrip().endswith(b"</html>")
        if page.exists() and (student in changed or not is_whole):
            shutil.rmtree(page.parent)


def _convert(name: str, folder: Path, lab: str, students: set[str], log: logging.Logger) -> None:
    """Runs one of nbgrader's converters over all that it has not done yet.

    It passes over a notebook that fails and goes on with the next. When it gave up altogether,
    everyone gets an attempt of their own; nobody's grade depends on a neighbour's notebook.
    """
    try:
        converter(name, folder, lab, log).start()
        return
    except Exception as error:
        log.error("%s: %s", name, error)
    for student in sorted(students):
        try:
            converter(name, folder, lab, log, student=student).start()
        except Exception as error:
            log.error("%s of %s: %s", name, student, error)
