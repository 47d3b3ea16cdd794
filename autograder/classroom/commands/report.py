"""`autograder report`: the page, the files for the learning platforms, and where they lie."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console

from autograder import atomic_write

from ..errors import UserError, the_one
from ..gradebook.course import in_one_line, quiet
from ..gradebook.lateness import charge_again
from ..intake.release import Release, releases
from ..reports.canvas import canvas
from ..reports.gradescope import gradescope
from ..reports.moodle import moodle
from ..reports.page import Report, page
from ..reports.results import Result, expect_one_each, results
from ..reports.returned import give_back
from ..store import roster
from .grade import DISK


@dataclass(frozen=True)
class Wanted:
    """What the instructor asked for. lab: "" for every lab that has been graded. title: of the
    assignment in Canvas, "" where it is called as the lab is. provisional: also grades on which a
    person has still to look at something."""

    folder: Path
    course: Path
    lab: str = ""
    title: str = ""
    provisional: bool = False


def report(wanted: Wanted, console: Console) -> None:
    """Writes the reports and says where they lie. Raises UserError for what the instructor can put
    right."""
    known = releases(wanted.course)
    done = roster.labs(wanted.folder)
    if wanted.lab:
        names = [the_one(wanted.lab, list(known), "lab")]
    elif names := [lab for lab in done if lab in known]:
        pass
    else:
        raise UserError(f"No lab has been graded in {wanted.folder}: autograder grade DIR_OR_ZIP")
    with _alone(wanted.folder):
        for name in names:
            _report_one(wanted, known[name], console)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """The grading folder while nobody grades into it; trouble with the disk in one line."""
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout:
        raise UserError(
            f"`autograder grade` is at work in {folder}. Wait until it is done."
        ) from None
    except OSError as error:
        if error.errno not in DISK:
            raise
        raise UserError(f"Cannot write into {folder}: {error.strerror}.") from error


def _report_one(wanted: Wanted, release: Release, console: Console) -> None:
    roster.read(wanted.folder, release.name)
    with quiet(wanted.folder / "grade.log") as log:
        with in_one_line(wanted.folder, log):
            policy = charge_again(wanted.folder, release.name)
        people = results(wanted.folder, release, log)
    expect_one_each(people)
    folder = wanted.folder / "reports" / release.name
    _write(folder, Report(release, wanted.folder, people, policy, datetime.now(UTC)), wanted)
    for line in _say(folder, people, wanted):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _write(folder: Path, report: Report, wanted: Wanted) -> None:
    title = wanted.title or report.release.name
    atomic_write.write(folder / "index.html", page(report).encode("utf-8", "replace"), mode=0o600)
    graded, only = report.people, wanted.provisional
    atomic_write.write(folder / "canvas.csv", canvas(title, graded, provisional=only), mode=0o600)
    atomic_write.write(folder / "moodle.csv", moodle(graded, provisional=only), mode=0o600)
    lab = report.release.name
    give_back(folder / "feedback.zip", wanted.folder, lab, graded, provisional=only)
    shutil.rmtree(folder / "gradescope", ignore_errors=True)
    for one in graded:
        if one.counted(only) is None or one.record is None:  # a grade without its verdicts is held
            continue
        target = folder / "gradescope" / one.student
        target.mkdir(parents=True)
        (target / "results.json").write_bytes(gradescope(one))


def _say(folder: Path, people: list[Result], wanted: Wanted) -> Iterator[str]:
    yield f"page        {folder}/index.html"
    yield f"platforms   {folder}/canvas.csv, moodle.csv, gradescope/STUDENT/results.json"
    yield f"return      {folder}/feedback.zip, for Canvas and Moodle"
    left_blank = sum(one.counted(wanted.provisional) is None for one in people)
    if left_blank:
        advice = "" if wanted.provisional else "; --provisional writes what stands so far"
        yield (
            f"blank       {left_blank} of {len(people)} have no final grade yet: "
            f"their cells in the CSV files are empty{advice}"
        )
