"""Records into nbgrader's gradebook, and feedback out of it: one writer, once for the class.

nbgrader's own converters spend half a second on a submission, mostly on commits and on validating
what we made ourselves. Their steps are taken here one submission at a time, with their code where
it decides something: grades, comments, and the page. Its own commands still do the same.

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

from .. import atomic_write
from ..intake.rebuild import notebook
from ..intake.release import Release
from ..run.job import Entry
from ..store.journal import Record
from . import late_policy
from .course import database, hand_in, has_gradebook, in_one_line, prepare
from .lateness import put_in_force

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
    policy: late_policy.Policy | None = None,
) -> set[str]:
    """Writes grades and feedback of everyone whose newest are not there yet, and what lateness
    costs by `policy`; the students for whom nbgrader refused.

    Raises UserError where the gradebook cannot be used at all.
    """
    wanted = {one.record.student: one for one in graded}
    with in_one_line(folder, log):
        done = _recorded(folder, release.name, wanted)
        prepare(folder, release)
        written = done | _record_missing(folder, release, wanted, done, log)
        times = {student: one.entry.submission.submitted for student, one in wanted.items()}
        charged = put_in_force(folder, release.name, policy, times)
    _drop_pages(folder, release.name, written, changed=charged)
    if missing := {one for one in written if not _page(folder, release.name, one).exists()}:
        with in_one_line(folder, log):
            _write_pages(folder, release.name, missing, log)
    return set(wanted) - written


def _record_missing(
    folder: Path,
    release: Release,
    wanted: Mapping[str, Graded],
    done: set[str],
    log: logging.Logger,
) -> set[str]:
    """Writes the grades of those who are not `done`; who that was. A notebook that is refused costs
    its student an entry in the log, and no neighbour anything.

    Raises OSError or OperationalError where nothing can be written: the next one fares no better.
    """
    from sqlalchemy.exc import OperationalError

    from .rows import opened

    written = set()
    if missing := sorted(set(wanted) - done):
        with opened(database(folder)) as gradebook:
            for student in missing:
                try:
                    _record(folder, release, wanted[student], gradebook)
                    written.add(student)
                except (OSError, OperationalError):
                    raise
                except Exception as error:
                    gradebook.db.rollback()
                    log.error("grades of %s: %s: %s", student, type(error).__name__, error)
    return written


def publish(folder: Path, release: Release, one: Graded, gradebook: Any, pages: Any) -> None:
    """Grades and page of one submission; what nbgrader refuses is left to `record_all`, which says
    so. Raises OSError or OperationalError, as above."""
    from sqlalchemy.exc import OperationalError

    lab, student = release.name, one.record.student
    try:
        _record(folder, release, one, gradebook)
        _write_page(folder, lab, student, gradebook, pages)
    except (OSError, OperationalError):
        raise
    except Exception:
        gradebook.db.rollback()
    else:
        gradebook.db.commit()  # an open transaction would keep others from writing


def _record(folder: Path, release: Release, one: Graded, gradebook: Any) -> None:
    """Hands one submission in and writes its grades, then the notebook that says so."""
    import nbformat
    from nbgrader.preprocessors import LimitOutput

    from .recorded import SaveRecorded, judged, show_verdicts
    from .rows import Rows, submission_of

    lab, student = release.name, one.record.student
    record = judged(folder, lab, student, one.record.key)
    made = _handed_in(release, one)
    hand_in(folder, student, made, submitted=one.entry.submission.submitted)
    notebook = nbformat.from_dict(made)  # type: ignore[no-untyped-call]
    show_verdicts(notebook, record)
    notebook, _ = LimitOutput().preprocess(notebook, {})
    rows = Rows(submission_of(gradebook, lab, student, timestamp=_time(folder, lab, student)))
    SaveRecorded().save(notebook, record, rows)
    gradebook.db.commit()
    text = json.dumps(notebook, ensure_ascii=False)  # an indent would take Python's own encoder
    atomic_write.write(_autograded(folder, lab, student), text.encode(), mode=0o444, waits=False)


def _time(folder: Path, lab: str, student: str) -> str:
    try:
        path = folder / "submitted" / student / lab / "timestamp.txt"
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _handed_in(release: Release, one: Graded) -> dict[str, Any]:
    made = notebook(release, one.entry.rebuilt)
    made["metadata"][OURS] = {"lab": release.name, "record": one.record.key}
    return made


def _recorded(folder: Path, lab: str, wanted: Mapping[str, Graded]) -> set[str]:
    """Those whose grades of exactly this record are in the gradebook: the notebook beside it says
    so, and is written after them."""
    if not has_gradebook(folder):
        return set()
    from nbgrader.api import Assignment, Gradebook, SubmittedAssignment

    with Gradebook(database(folder)) as gradebook:
        submissions = gradebook.db.query(SubmittedAssignment.student_id)
        submissions = submissions.join(Assignment).filter(Assignment.name == lab)
        known = {student for (student,) in submissions}
    return {
        student
        for student, one in wanted.items()
        if student in known and _graded(folder, student, lab) == one.record.digest
    }


def _autograded(folder: Path, lab: str, student: str) -> Path:
    return folder / "autograded" / student / lab / f"{lab}.ipynb"


def _graded(folder: Path, student: str, lab: str) -> str:
    try:
        data = _autograded(folder, lab, student).read_bytes()
        digest: str = json.loads(data)["metadata"][OURS]["graded"]
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


def _write_pages(folder: Path, lab: str, students: set[str], log: logging.Logger) -> None:
    """A page of feedback for each of `students`; one that cannot be made costs no other.

    Raises OSError or OperationalError, as above.
    """
    from sqlalchemy.exc import OperationalError

    from .pages import Pages
    from .rows import opened

    pages = Pages(folder, lab, log)
    with opened(database(folder)) as gradebook:
        for student in sorted(students):
            try:
                _write_page(folder, lab, student, gradebook, pages)
            except (OSError, OperationalError):
                raise
            except Exception as error:
                log.error("feedback of %s: %s: %s", student, type(error).__name__, error)


def _write_page(folder: Path, lab: str, student: str, gradebook: Any, pages: Any) -> None:
    submission = gradebook.find_submission(lab, student)
    page = pages.page(_autograded(folder, lab, student).read_bytes(), submission)
    atomic_write.write(_page(folder, lab, student), page.encode(), waits=False)
