"""A whole class through the real jail: what everybody gets, and who is told what."""

from __future__ import annotations

import csv

import pytest

from autograder.attacks.sample_class import NAME, PUPILS, QUESTIONS
from tests.classroom.commands.sample_grading import (
    GRADED,
    LAB,
    LIMIT_S,
    UNGRADABLE,
    cgroups_left,
    feedback,
    outcome,
    records,
)

pytestmark = [pytest.mark.jail, pytest.mark.whole_class, pytest.mark.timeout(LIMIT_S + 60)]


@pytest.mark.parametrize("name", GRADED)
def test_everybody_gets_what_they_earned(graded, gradebook, name):
    record = records(graded / "out")[name]
    expected = dict(PUPILS[name].expected)
    assert {v["question"]: outcome(v) for v in record["verdicts"]} == expected
    points = sum(LAB.questions[q].points for q in QUESTIONS if expected[q] == "pass")
    assert sum(v["points"] for v in record["verdicts"]) == points
    assert float(gradebook[name]["score"]) == points
    assert float(gradebook[name]["max_score"]) > LAB.max_points
    assert all(v["tier"] == "bubblewrap" for v in record["verdicts"])


@pytest.mark.parametrize("name", [name for name in GRADED if PUPILS[name].says])
def test_feedback_says_why(graded, name):
    assert PUPILS[name].says in feedback(graded, name)


@pytest.mark.parametrize(("name", "told"), [("cleo-nothing", True), ("ada-all-right", False)])
def test_a_text_that_nobody_wrote_is_told_so(graded, name, told):
    row = feedback(graded, name).partition("1.11 In your own words")[2].partition("</tr>")[0]
    assert ("not answered" in row) is told
    assert ("a person will look at it" in row) is not told


@pytest.mark.parametrize("name", GRADED)
def test_feedback_opens_without_a_network_and_runs_nothing(graded, name):
    page = feedback(graded, name)
    assert page.rstrip().endswith("</html>")
    assert "Content-Security-Policy" in page
    assert "default-src 'none'" in page
    for harmful in ("<script", 'href="javascript:', "cdnjs", "onerror="):
        assert harmful not in page


def test_no_seed_is_told_to_a_student(graded):
    for name in GRADED:
        page = feedback(graded, name)
        for verdict in records(graded / "out")[name]["verdicts"]:
            assert str(verdict["seed"]) not in page


def test_a_wrong_answer_is_told_its_own_sentence(graded):
    for turn, name in enumerate(n for n in GRADED if n.startswith("gus")):
        for verdict in records(graded / "out")[name]["verdicts"]:
            known = LAB.questions[verdict["question"]].wrong_answers
            if turn < len(known):
                assert verdict["sentence"] == known[turn].sentence


@pytest.mark.parametrize("name", UNGRADABLE)
def test_who_cannot_be_graded_is_named_with_a_reason(graded, gradebook, name):
    with open(graded / "out" / "ungradable.csv", encoding="utf-8") as file:
        reasons = {row["student"]: row["reason"] for row in csv.DictReader(file)}
    assert PUPILS[name].ungradable in reasons[name]
    assert name not in gradebook
    assert name not in records(graded / "out")
    assert set(reasons) == set(UNGRADABLE)


def test_nobodys_feedback_shows_the_inputs_of_another(graded):
    """Two hand-ins meet other inputs, and so does the same student's next one."""
    graded_ones = records(graded / "out").values()
    seeds = {tuple(verdict["seed"] for verdict in one["verdicts"]) for one in graded_ones}
    assert len(seeds) == len({one["sha256"] for one in graded_ones})


def test_a_person_marks_the_free_text_and_nothing_else(graded):
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{graded / 'out' / 'gradebook.db'}") as book:
        for name, open_cells in (("ada-all-right", ["why_silent"]), ("ben-half", [])):
            (notebook,) = book.find_submission(NAME, name).notebooks
            assert [g.name for g in notebook.grades if g.needs_manual_grade] == open_cells


def test_nothing_is_left_behind(graded):
    assert cgroups_left() == []
    assert list((graded / "scratch").iterdir()) == []
    assert not list((graded / "out").rglob("*.tmp"))
    assert not list((graded / "out").rglob("*.damaged"))
    assert {path.name for path in (graded / "hand_in").iterdir()} == set(PUPILS)


def test_the_graded_bytes_are_kept(graded):
    import hashlib

    for path in (graded / "out" / "received").iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.stem
    for record in records(graded / "out").values():
        assert (graded / "out" / "received" / f"{record['sha256']}.ipynb").is_file()
