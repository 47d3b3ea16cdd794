"""`autograder report`: the page, the files for the learning platforms, and where they lie."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from autograder import atomic_write

from ..errors import UserError, the_one
from ..gradebook.course import in_one_line, quiet
from ..gradebook.lateness import charge_again
from ..gradebook.publish import language_of
from ..intake.rebuild import Ungradable
from ..intake.release import Release, releases
from ..intake.submissions import Submission
from ..intake.taking import take_again
from ..reports.alike_page import alike_page
from ..reports.canvas import canvas
from ..reports.gradescope import gradescope
from ..reports.moodle import moodle
from ..reports.page import Report, page
from ..reports.results import Result, expect_one_each, results
from ..reports.returned import give_back
from ..store import changes, folder_lock, roster
from .grade import DISK

ALIKE = "alike.html"


@dataclass(frozen=True)
class Wanted:
    """What the instructor asked for. lab: "" for every lab that has been graded. title: of the
    assignment in Canvas, "" where it is called as the lab is. provisional: also grades on which a
    person has still to look at something. alike: also the page of answers that are alike."""

    folder: Path
    course: Path
    lab: str = ""
    title: str = ""
    provisional: bool = False
    alike: bool = False


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
    with alone(wanted.folder, "report"):
        for name in names:
            _report_one(wanted, known[name], console)


@contextmanager
def alone(folder: Path, command: str) -> Iterator[None]:
    """The grading folder while nobody grades into it; trouble with the disk in one line."""
    try:
        with folder_lock.alone(folder, command):
            yield
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
    lab = changes.changed(release.lab, changes.read(wanted.folder, release.name))
    now = datetime.now(UTC)
    if wanted.alike:
        made = alike_page(release, _answers(wanted.folder, release, people), now)
        atomic_write.write(folder / ALIKE, made.encode("utf-8", "replace"), mode=0o600)
    alike = ALIKE if (folder / ALIKE).exists() else ""
    changed = replace(release, lab=lab)
    _write(folder, Report(changed, wanted.folder, people, policy, now, alike), wanted)
    for line in _say(folder, people, wanted):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _answers(
    folder: Path, release: Release, people: Sequence[Result]
) -> dict[str, Mapping[str, str]]:
    """What everybody with a verdict wrote, by student and cell. Raises UserError where a notebook
    is gone."""
    found: dict[str, Mapping[str, str]] = {}
    for one in people:
        if one.record is not None:
            handed_in = Submission(one.student, one.line.origin, sha256=one.record.sha256)
            with suppress(Ungradable):  # the lab has changed since
                found[one.student] = take_again(
                    handed_in, release, folder / "received"
                ).rebuilt.answers
    return found


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
        language = language_of(wanted.folder, lab, one.student)
        (target / "results.json").write_bytes(gradescope(one, language))


def _say(folder: Path, people: list[Result], wanted: Wanted) -> Iterator[str]:
    yield f"page        {folder}/index.html"
    if wanted.alike:
        yield f"alike       {folder}/{ALIKE}: a reason to look, and no verdict"
    yield f"platforms   {folder}/canvas.csv, moodle.csv, gradescope/STUDENT/results.json"
    yield f"return      {folder}/feedback.zip, for Canvas and Moodle"
    came = [one for one in people if one.came]
    left_blank = sum(one.counted(wanted.provisional) is None for one in came)
    if len(came) < len(people):
        yield f"absent      {len(people) - len(came)} of {len(people)} handed in nothing"
    if left_blank:
        advice = "" if wanted.provisional else "; --provisional writes what stands so far"
        yield (
            f"blank       {left_blank} of {len(came)} have no final grade yet: "
            f"their cells in the CSV files are empty{advice}"
        )
