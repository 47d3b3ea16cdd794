"""A grading folder of an earlier version opens. `old_folder.zip` was graded by this program as it
was on 2026-11-22, before publishing went through nbgrader's converters: two students of lab 01,
without the feedback and the release, which are made anew."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from nbgrader.api import Gradebook

from autograder.attacks.sample_class import NAME, PUPILS, ROOT
from autograder.classroom.gradebook.course import CONFIG
from autograder.classroom.store import roster
from autograder.cli import main

pytestmark = pytest.mark.whole_class

ADA, GUS = "ada-all-right", "gus-wrong-2"
POINTS = {ADA: 30.0, GUS: 0.0}


@pytest.fixture
def old(tmp_path):
    folder = tmp_path / "grading"
    with zipfile.ZipFile(Path(__file__).parent / "old_folder.zip") as archive:
        archive.extractall(folder)
    return folder


def autograder(*arguments: object) -> str:
    command = [*map(str, arguments), "--course", str(ROOT)]
    done = CliRunner().invoke(main, command, catch_exceptions=False)
    assert "Traceback" not in done.output
    return done.output


def scores(folder):
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as book:
        return {student: book.find_submission(NAME, student).score for student in (ADA, GUS)}


def test_its_report_is_written_and_every_grade_stays(old):
    """Where its records have another form now, the page says whose verdict is to be made again."""
    assert "index.html" in autograder("report", NAME, "--out", old)
    assert (old / "reports" / NAME / "index.html").is_file()
    assert set(roster.read(old, NAME)) == {ADA, GUS}
    assert scores(old) == POINTS


def test_its_buttons_work_after_the_first_command(old):
    """nbgrader's configuration named steps that are called otherwise now."""
    assert (old / "nbgrader_config.py").read_text() != CONFIG
    autograder("report", NAME, "--out", old)
    assert (old / "nbgrader_config.py").read_text() == CONFIG


@pytest.mark.parametrize("question", ["address"])
def test_a_verdict_of_it_is_explained_or_it_says_what_to_do(old, question):
    output = autograder("explain", ADA, NAME, question, "--out", old)
    assert "The same verdict as recorded" in output or "Grade the class again" in output


def test_grading_into_it_again_makes_every_verdict_anew_and_loses_nothing(old, tmp_path):
    for student in (ADA, GUS):
        (tmp_path / "hand_in" / student).mkdir(parents=True)
        PUPILS[student].write(tmp_path / "hand_in" / student)
    with Gradebook(f"sqlite:///{old / 'gradebook.db'}") as book:
        (notebook,) = book.find_submission(NAME, ADA).notebooks
        (grade,) = [grade for grade in notebook.grades if grade.name == "why_silent"]
        grade.manual_score = 3.0
        book.db.commit()
    autograder("grade", tmp_path / "hand_in", "--out", old, "--workers", 1)
    assert scores(old) == {ADA: POINTS[ADA] + 3, GUS: POINTS[GUS]}
    for student in (ADA, GUS):
        page = old / "feedback" / student / NAME / f"{NAME}.html"
        assert page.read_text().rstrip().endswith("</html>")
