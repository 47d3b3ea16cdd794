"""What a student gets back: a row for each question, and one total wherever it stands."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from autograder.attacks.sample_class import NAME
from autograder.classroom.gradebook import late_policy
from autograder.classroom.gradebook.course import quiet
from autograder.classroom.gradebook.recorded import OURS
from autograder.classroom.intake.enrolment import ANONYMOUS
from autograder.classroom.reports.results import results
from autograder.judge import Cause, State
from tests.classroom.made_class import LAB, RELEASE, grading_folder, record, verdict

BLANK, KNOWN, OTHER, RAISED, FLAGGED, *_ = LAB.questions
MISCONCEPTION = next(iter(LAB.questions[KNOWN].wrong_answers))
DUE = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def class_(tmp_path_factory):
    """Ada in time, Ben a day late; both with one answer of each kind."""
    known = {"misconception": MISCONCEPTION.name, "sentence": MISCONCEPTION.sentence}
    answers = {
        BLANK: verdict(BLANK, State.FAIL, blank=True),
        KNOWN: verdict(KNOWN, State.FAIL, **known),
        OTHER: verdict(OTHER, State.FAIL),
        RAISED: verdict(RAISED, State.FAIL, cause=Cause.RAISED),
        FLAGGED: verdict(FLAGGED, State.FLAGGED),
    }
    policy = late_policy.Policy(timedelta(0), 0.1, 1.0, {NAME: DUE})
    times = {"ada": "2026-11-20 11:00:00", "ben": "2026-11-20 13:00:00"}
    records = [record(name, **answers) for name in times]
    place = tmp_path_factory.mktemp("feedback") / "grading"
    return grading_folder(place, records, policy=policy, submitted=times)


def page(folder, student):
    return (folder / "feedback" / student / NAME / f"{NAME}.html").read_text(encoding="utf-8")


def rows(text):
    """The table: title, where its link leads, points, what came of it."""
    row = r'<tr class="[^"]*"><td><a href="#(.*?)">(.*?)</a></td><td.*?>(.*?)</td><td>(.*?)</td>'
    return {
        link: (title, points, unescape(why)) for link, title, points, why in re.findall(row, text)
    }


def test_each_question_has_a_row_that_leads_to_its_cell(class_):
    text = page(class_, "ada")
    found = rows(text)
    assert list(found) == [*(f"{name}_check" for name in LAB.questions), "why_silent"]
    assert all(text.count(f'id="{link}"') == 1 for link in found)
    assert "Test cell" not in text


def test_a_row_says_what_came_of_it(class_):
    found = {link.removesuffix("_check"): row for link, row in rows(page(class_, "ada")).items()}
    title, points, why = found[KNOWN]
    assert (title, points) == ("1.2 The address of an index", "0 of 2")
    assert why.startswith("wrong. Why? The offset is missing")
    assert [found[one][2] for one in (BLANK, OTHER, RAISED)] == [
        "not answered", "wrong", "it raised an error",
    ]  # fmt: skip
    assert found[FLAGGED][2] == found["why_silent"][2] == "a person will look at it"
    assert found["centre_windows"][1:] == ("3 of 3", "passed")


def test_of_several_files_it_says_which_one_was_graded(class_):
    """By its name alone: the folders above it are the instructor's."""
    assert f"The file that was graded: <code>{NAME}.ipynb</code>" in page(class_, "ada")


def test_the_file_of_who_is_anonymous_is_not_named(tmp_path):
    """A platform writes its student's name into it."""
    student = f"{ANONYMOUS}4711"
    folder = grading_folder(tmp_path / "grading", [record(student)])
    assert "The file that was graded" not in page(folder, student)
    handed_in = folder / "submitted" / student / NAME / f"{NAME}.ipynb"
    assert json.loads(handed_in.read_bytes())["metadata"][OURS]["file"] == ""


def test_what_is_no_question_is_not_on_the_page(class_):
    """Planted: without its heading a cell belongs to no question."""
    text = page(class_, "ada")
    assert "bring-the-course" in RELEASE.notebook.decode()
    assert "find_spec" not in text
    assert "Colab" not in text


def test_the_total_is_the_same_on_the_page_in_the_report_and_in_the_gradebook(class_):
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{class_ / 'gradebook.db'}") as book:
        owned = {
            one.student_id: one.score - one.late_submission_penalty
            for one in book.assignment_submissions(NAME)
        }
    with quiet(class_ / "grade.log") as log:
        reported = {one.student: one.grade.points for one in results(class_, RELEASE, log)}
    shown = {name: total(page(class_, name)) for name in owned}
    assert owned == reported == shown
    assert shown["ada"] > shown["ben"]
    assert "Handed in late" in page(class_, "ben")
    assert "Handed in late" not in page(class_, "ada")


def total(text):
    return float(re.search(r'<p class="score"><b>(.*?)</b>', text)[1])


@pytest.mark.parametrize("teacher", ["en", "es"])
@pytest.mark.parametrize(
    ("student", "says"), [("en", "it raised an error"), ("es", "lanzó un error")]
)
def test_a_page_speaks_the_language_of_the_hand_in_and_not_the_teachers(
    tmp_path, monkeypatch, teacher, student, says
):
    monkeypatch.setenv("ONELAYER_LANGUAGE", teacher)
    raised = verdict(RAISED, State.FAIL, cause=Cause.RAISED)
    folder = grading_folder(tmp_path, [record("ada", **{RAISED: raised})], language=student)
    text = page(folder, "ada")
    assert rows(text)[f"{RAISED}_check"][2] == says
    assert f'lang="{student}"' in text
