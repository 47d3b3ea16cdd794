"""The grading folder as an ordinary nbgrader course: its configuration, its database, its lab.

nbgrader takes seconds to import, so it is imported where it is used.
"""

import glob
import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from autograder import atomic_write

from ..errors import UserError
from ..intake.enrolment import Person
from ..intake.exchanged import TIMESTAMP
from ..intake.release import CHECK_SUFFIX, Release
from ..store import changes

LOCKED_S = 30.0
"""How long to wait for somebody else's transaction."""
STEPS = ("submitted", "autograded", "feedback")
"""nbgrader's folders for a student's notebook, in the order in which they are made."""
NO_ANSWER = "does not answer, or does not let you in (see grade.log)"
BROKEN = (
    "is damaged. Put back a copy of yours, or move it away: a new one is made, without the points "
    "that people gave"
)
TROUBLE = {
    "is locked": "is in use: close formgrader, or whatever else works on it",
    "disk is full": "cannot be written, because the disk is full",
    "unable to open database": "cannot be opened: does its folder exist, and is it yours?",
    "readonly database": "cannot be written: it belongs to somebody else",
    "not a database": BROKEN,
    "malformed": BROKEN,
    "connection failed": NO_ANSWER,
    "connection is bad": NO_ANSWER,
}
DAMAGED = "is damaged or in use (see grade.log)"
URL_FILE = "gradebook.url"
"""Names the gradebook where it is not the file gradebook.db; readable for its owner only."""

CONFIG = '''\
"""This folder is graded by `autograder grade`. nbgrader's own commands work in it, and none of them
executes a submission: verdicts come from the journal."""

import os

c = get_config()  # noqa: F821
c.CourseDirectory.root = os.path.dirname(os.path.abspath(__file__))
elsewhere = os.path.join(c.CourseDirectory.root, "gradebook.url")
if os.path.exists(elsewhere):
    with open(elsewhere) as file:
        c.CourseDirectory.db_url = file.read().strip()
    c.CourseDirectory.course_id = "default_course"
c.GenerateAssignment.preprocessors = [  # source/ is the release already
    "autograder.classroom.gradebook.lab_cells.SaveLab",
]
c.ExchangeFactory.collect = "autograder.classroom.gradebook.exchange.Collect"
c.ExchangeFactory.release_feedback = "autograder.classroom.gradebook.exchange.ReleaseFeedback"
c.Autograde.sanitize_preprocessors = [  # nbgrader's, but for CheckCellMetadata: cells are our own
    "nbgrader.preprocessors.ClearOutput",
    "nbgrader.preprocessors.DeduplicateIds",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
]
c.Autograde.autograde_preprocessors = [
    "autograder.classroom.gradebook.recorded.RecordedVerdicts",
    "nbgrader.preprocessors.LimitOutput",
    "autograder.classroom.gradebook.recorded.SaveGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
]
c.RecordedVerdicts.folder = c.CourseDirectory.root
c.GenerateFeedback.exporter_class = "autograder.classroom.gradebook.feedback.FeedbackPage"
c.GenerateFeedback.preprocessors = [
    "nbgrader.preprocessors.AssignLatePenalties",  # a person may have marked since
    "nbgrader.preprocessors.GetGrades",
    "autograder.classroom.gradebook.feedback.OpenMarks",
]
c.AssignLatePenalties.plugin_class = "autograder.classroom.gradebook.penalties.LatePenalty"
c.LatePenalty.file = os.path.join(c.CourseDirectory.root, "late.toml")
c.ExportApp.plugin_class = "autograder.classroom.gradebook.penalties.ExportWithPenalties"
'''


class _Log(logging.FileHandler):
    """A log that cannot be written is no news beside what then cannot be written either."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        pass


@contextmanager
def quiet(log: Path) -> Iterator[logging.Logger]:
    """A logger for nbgrader that writes to `log` only."""
    logger = logging.Logger("autograder.nbgrader", logging.INFO)
    handler = _Log(log, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nbgrader's own deprecations
            yield logger
    finally:
        handler.close()


def expect_no_pattern(folder: Path) -> None:
    """Raises UserError where the path of the grading folder is a pattern to nbgrader."""
    if glob.escape(str(folder.resolve())) != str(folder.resolve()):
        raise UserError(
            f"nbgrader cannot work in {folder}: its path contains one of * ? [. "
            "Name another folder: --out"
        )


def prepare(folder: Path, release: Release) -> None:
    """Makes `folder` a course that knows this lab.

    Raises UserError where nbgrader cannot work: its cells changed since the first grading, or the
    folder's path is a pattern.
    """
    expect_no_pattern(folder)
    configure(folder)
    for step in ("source", "release"):
        atomic_write.write(folder / step / release.name / f"{release.name}.ipynb", release.notebook)
    _make_database(folder)
    _save_cells(folder, release)


def configure(folder: Path) -> None:
    """Writes nbgrader's configuration, as it is today: a folder of an earlier version of this
    program names steps by which they are not called any more."""
    atomic_write.write(folder / "nbgrader_config.py", CONFIG.encode())


def database(folder: Path) -> str:
    return _elsewhere(folder) or (
        f"sqlite:///{(folder / 'gradebook.db').resolve()}?timeout={LOCKED_S}"
    )


def has_gradebook(folder: Path) -> bool:
    return bool(_elsewhere(folder)) or (folder / "gradebook.db").exists()


def has_tables(folder: Path) -> bool:
    """Whether the gradebook was made already: to open one without tables starts a command that must
    be on the PATH."""
    import sqlalchemy

    if not has_gradebook(folder):
        return False
    engine = sqlalchemy.create_engine(database(folder))
    try:
        return bool(sqlalchemy.inspect(engine).get_table_names())
    finally:
        engine.dispose()


def _elsewhere(folder: Path) -> str:
    """The address of a gradebook on a database server; "" where it is a file of the folder."""
    try:
        return (folder / URL_FILE).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def keep_gradebook_at(folder: Path, url: str) -> None:
    """From now on the gradebook of `folder` is at `url`; "" changes nothing.

    Raises UserError where `url` is none that works here, and where the folder has another already.
    """
    if not url or url == _elsewhere(folder):
        return
    import sqlalchemy

    try:
        sqlalchemy.make_url(url).get_dialect().import_dbapi()
    except ImportError as error:
        raise UserError(f"That database needs a driver: pip install {error.name}.") from error
    except sqlalchemy.exc.ArgumentError:
        raise UserError(
            f"{_shown(url)} is no address of a database. Say "
            "postgresql+psycopg://USER:PASSWORD@HOST/NAME."
        ) from None
    if has_gradebook(folder):
        raise UserError(
            f"The grades in {folder} are kept in {_shown(database(folder))}. "
            "Grade into a new folder: --out"
        )
    atomic_write.write(folder / URL_FILE, url.encode(), mode=0o600)


def _shown(url: str) -> str:
    """An address without its password."""
    import sqlalchemy

    try:
        return sqlalchemy.make_url(url).render_as_string(hide_password=True)
    except sqlalchemy.exc.ArgumentError:
        return url.partition(":")[0] + ":..."


@contextmanager
def in_one_line(folder: Path, log: logging.Logger) -> Iterator[None]:
    """Turns what a database can say into a UserError, and into a line of the log."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        log.error("the gradebook: %s", error)
        reason = next((text for name, text in TROUBLE.items() if name in str(error)), DAMAGED)
        raise UserError(
            f"nbgrader's gradebook {_name(folder)} {reason}. "
            "The verdicts are safe: the same command goes on."
        ) from error


def _name(folder: Path) -> str:
    url = _elsewhere(folder)
    return _shown(url) if url else str(folder / "gradebook.db")


def _make_database(folder: Path) -> None:
    """A gradebook that is whole or absent: nbgrader would not finish one that was begun. (A server
    does so by itself.)"""
    path = folder / "gradebook.db"
    if _elsewhere(folder):
        _make_tables(database(folder))
    elif not path.exists():
        for left_behind in folder.glob(".gradebook.begun*"):  # SQLite's journal too
            left_behind.unlink()
        begun = folder / ".gradebook.begun"
        _make_tables(f"sqlite:///{begun.resolve()}")
        atomic_write.write(path, begun.read_bytes())
        begun.unlink()
    elif not path.stat().st_size:  # to SQLite an empty file is an empty database
        _make_tables(database(folder))


def _make_tables(url: str) -> None:
    """nbgrader's own tables, where there are none. They bear the newest revision, noted down by
    Alembic itself; where it is missing nbgrader starts a command to learn it, which takes seconds
    and must be on the PATH."""
    import sqlalchemy
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from nbgrader.api import Gradebook
    from nbgrader.dbutil import ALEMBIC_DIR

    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        if not sqlalchemy.inspect(connection).get_table_names():
            context = MigrationContext.configure(connection)
            context.stamp(ScriptDirectory(ALEMBIC_DIR), "head")
    engine.dispose()
    Gradebook(url).close()


def _save_cells(folder: Path, release: Release) -> None:
    """The lab's cells and points into the gradebook, by the step of nbgrader that does it."""
    import nbformat
    from nbgrader.api import Gradebook

    from .lab_cells import SaveLab

    notebook = nbformat.reads(  # type: ignore[no-untyped-call]
        release.notebook.decode(), as_version=4
    )
    _revalue(notebook, changes.points(changes.read(folder, release.name)))
    names = {"notebook": release.name, "assignment": release.name, "db_url": database(folder)}
    with Gradebook(database(folder)) as gradebook:
        gradebook.update_or_create_assignment(release.name)
    try:
        SaveLab().preprocess(notebook, {"nbgrader": names})
    except RuntimeError as error:
        raise UserError(
            f"{release.name} has other cells now than when {folder} was graded first. "
            "Grade into a new folder: --out"
        ) from error


def _revalue(notebook: Any, points: Mapping[str, float]) -> None:
    """Gives the checks of these questions the points that they are worth now; nbgrader counts a
    cell's points among what nobody may change, so its checksum is another one then."""
    from nbgrader.utils import compute_checksum

    now = {question + CHECK_SUFFIX: worth for question, worth in points.items()}
    for cell in notebook.cells:
        told = cell.metadata.get("nbgrader", {})
        if told.get("grade_id") in now:
            told["points"] = now[told["grade_id"]]
            told["checksum"] = compute_checksum(cell)


def enrol(folder: Path, people: Iterable[Person]) -> None:
    """Everybody on the class list into the gradebook, so that nbgrader's export and formgrader know
    their names; a pseudonym has none."""
    from nbgrader.api import Gradebook

    configure(folder)
    _make_database(folder)
    with Gradebook(database(folder)) as gradebook:
        for person in people:
            gradebook.update_or_create_student(person.folder_id, **_names(person))


def _names(person: Person) -> dict[str, str]:
    if person.is_anonymous:
        return {}
    last, comma, first = person.name.partition(",")
    if not comma:
        first, _, last = person.name.rpartition(" ")
    names = {"first_name": first.strip(), "last_name": last.strip(), "email": person.email}
    return {key: text for key, text in names.items() if text}


def stamp(folder: Path, student: str, lab: str, submitted: datetime | None) -> None:
    """Writes down when a notebook was handed in where nbgrader looks for it; nothing where that is
    not known, so that no earlier hand-in's time stays."""
    text = f"{submitted:%Y-%m-%d %H:%M:%S} UTC\n" if submitted else ""
    lay_beside(folder, student, lab, TIMESTAMP, text)


def lay_beside(folder: Path, student: str, lab: str, name: str, text: str) -> None:
    """Writes the file `name` beside a student's notebook, in each of nbgrader's steps that has one;
    "" takes it away."""
    for step in STEPS:
        path = folder / step / student / lab / name
        if not text:
            path.unlink(missing_ok=True)
        elif path.parent.is_dir() and not (path.is_file() and path.read_text("utf-8") == text):
            atomic_write.write(path, text.encode(), mode=0o600, waits=False)
