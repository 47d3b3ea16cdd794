"""`autograder change`, as an instructor types it when grades are out and somebody complains."""

from __future__ import annotations

import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from nbgrader.api import Gradebook

from autograder import cli
from autograder.attacks.sample_class import NAME, ROOT
from autograder.classroom.gradebook.course import database
from autograder.classroom.store import changes, folder_lock
from autograder.judge import State
from tests.classroom.made_class import LAB, four_students, mark, record, verdict

pytestmark = pytest.mark.slow  # each changes a whole graded class

FIRST, SECOND, *_ = LAB.questions
WORTH, FULL = LAB.questions[FIRST].points, LAB.max_points
KNOWN = LAB.questions[FIRST].wrong_answers[0].name
WHY = ("--reason", "Its text was wrong")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return four_students(tmp_path_factory.mktemp("class") / "grading")


@pytest.fixture
def grading(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(whole, tmp_path / "grading"))


def change(*arguments, code=0):
    done = CliRunner().invoke(cli.main, ["change", *map(str, arguments)])
    assert done.exit_code == code, done.output
    if code:
        assert len(done.output.strip().splitlines()) == 1, done.output
    return done.output


def scores(folder):
    """What nbgrader has, by student: points, of how many."""
    with Gradebook(database(folder)) as book:
        found = book.find_assignment(NAME).submissions
        return {one.student_id: (one.score, one.max_score) for one in found}


def test_nothing_changes_before_the_instructor_is_sure(grading):
    before = scores(grading)
    said = change(NAME, "drop", FIRST, *WHY)
    assert f"The checks are worth {FULL - WORTH:g} points in all, and were worth {FULL:g}." in said
    assert "1 of 4 grades change:" in said
    assert f"  ada  {FULL:g} -> {FULL - WORTH:g}" in said
    assert "Add --yes to do it." in said
    assert scores(grading) == before
    assert changes.read(grading, NAME) == []
    assert "Nothing of 01_strides was changed" in change(NAME)


def test_a_dropped_question_counts_nowhere_and_a_persons_marks_stay(grading):
    change(NAME, "drop", FIRST, *WHY, "--yes")
    most = FULL - WORTH + 5
    ada, dee = scores(grading)["ada"], scores(grading)["dee"]
    assert ada == (FULL - WORTH, most)
    assert dee == (FULL - WORTH + 3, most)
    done = CliRunner().invoke(cli.main, ["report", NAME, "--provisional"])
    assert done.exit_code == 0, done.output
    place = grading / "reports" / NAME
    with open(place / "canvas.csv", encoding="utf-8") as file:
        _, *rows = csv.DictReader(file)
    assert {row["Student"]: float(row[NAME]) for row in rows}["dee"] == FULL - WORTH + 3
    assert f"{FULL - WORTH:g} points from the checks" in (place / "index.html").read_text()
    results = json.loads((place / "gradescope" / "ada" / "results.json").read_bytes())
    assert {t["max_score"] for t in results["tests"] if t["name"] == FIRST} == {0}
    page = grading / "feedback" / "ada" / NAME / f"{NAME}.html"
    assert f"{FULL - WORTH:g}" in page.read_text(encoding="utf-8")


def test_a_second_person_may_read_what_was_changed_while_somebody_grades(grading):
    with folder_lock.alone(grading, "grade"):
        assert "Nothing of 01_strides was changed" in change(NAME)
        assert "`autograder grade` of " in change(NAME, "drop", FIRST, *WHY, code=1)


def moved(said):
    """Whose grade changes, as it is said: before and after."""
    found = re.findall(r"^  (\w+)  (\S+) -> (\S+)$", said, re.MULTILINE)
    return {name: (float(was), float(now)) for name, was, now in found}


@pytest.mark.parametrize("what", [("drop", FIRST), ("accept", FIRST, "--answer", KNOWN)])
def test_what_is_said_of_a_grade_that_a_person_overrode_is_what_comes(grading, what):
    """A person gave Ada less than her right answer is worth, and Bob and Dee more. Nothing is left
    of that where the question is dropped, until it is undone."""
    check = f"{FIRST}_check"
    for name, points in {"ada": WORTH / 2, "bob": WORTH / 4, "dee": WORTH / 2}.items():
        mark(grading, name, points, cell=check)
    before = scores(grading)
    said = change(NAME, *what, *WHY)
    assert scores(grading) == before
    done = change(NAME, *what, *WHY, "--yes")
    after = scores(grading)
    assert moved(said) == moved(done)
    differing = {name for name in before if before[name][0] != after[name][0]}
    is_dropped = what[0] == "drop"
    assert set(moved(said)) == differing == ({"ada", "bob", "dee"} if is_dropped else {"cy"})
    assert f"{len(differing)} of 4 grades change" in said
    if is_dropped:
        assert f"  bob  {FIRST}: 0 of now 0, was {WORTH / 4:g} of {WORTH:g}\n" in said
    else:
        assert f"  bob  {FIRST}: {WORTH / 4:g} of now {WORTH:g}\n" in said
    with Gradebook(database(grading)) as book:
        marks = {name: book.find_grade(check, NAME, NAME, name) for name in ("ada", "bob", "dee")}
        assert {name: one.score for name, one in marks.items()} == {
            name: points * (not is_dropped)
            for name, points in {"ada": WORTH / 2, "bob": WORTH / 4, "dee": WORTH / 2}.items()
        }
        assert not any(one.needs_manual_grade for one in marks.values())
    change(NAME, "undo", "1", *WHY, "--yes")
    assert scores(grading) == before


def test_an_undone_change_leaves_the_grades_as_they_were_and_a_trace(grading):
    before = scores(grading)
    change(NAME, "points", SECOND, "--to", 100, *WHY, "--yes")
    worth = LAB.questions[SECOND].points
    assert scores(grading)["ada"] == (FULL - worth + 100, FULL - worth + 105)
    said = change(NAME, "undo", "1", "--reason", "Too many", "--yes")
    assert "4 of 4 grades changed:" in said
    assert scores(grading) == before
    (listed,) = change(NAME).splitlines()
    assert f"1  {SECOND}: 100 points, " in listed
    assert "Its text was wrong; undone " in listed
    assert "Too many" in listed
    assert "In force: none" in change(NAME, "undo", "1", *WHY, code=1)


def test_an_accepted_answer_counts_for_whom_it_was_accepted(grading):
    said = change(NAME, "accept", FIRST, "--answer", KNOWN.upper(), *WHY, "--yes")
    assert "2 of 4 grades changed:" in said
    points = {name: score for name, (score, _) in scores(grading).items()}
    assert points == {"ada": FULL, "bob": FULL, "cy": FULL, "dee": FULL - WORTH + 3}
    said = change(NAME, "accept", FIRST, "--student", "dee", *WHY, "--yes")
    assert f"  dee  {FULL - WORTH:g} -> {FULL:g}" in said
    assert scores(grading)["dee"] == (FULL + 3, FULL + 5)


def test_another_hand_in_of_the_same_student_is_judged_by_itself():
    wrong = record("bob", **{FIRST: verdict(FIRST, State.FAIL)})
    accepted = [changes.Change(FIRST, "why", "now", student="bob", sha256=wrong.sha256)]
    assert changes.applied(wrong, accepted).points == FULL
    later = replace(wrong, sha256="other")
    assert changes.applied(later, accepted) == later


def test_dropped_and_then_accepted_is_still_dropped():
    wrong = record("bob", **{FIRST: verdict(FIRST, State.FAIL)})
    made = [
        changes.Change(FIRST, "why", "now", points=0.0),
        changes.Change(FIRST, "why", "now", student="bob", sha256=wrong.sha256),
    ]
    assert changes.applied(wrong, made).points == FULL - WORTH
    assert changes.applied(wrong, [replace(one, undone="now") for one in made]) == wrong


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((NAME, "drop", FIRST), "Say why"),
        ((NAME, "drop", "nothing", *WHY), "There is no question 'nothing'"),
        ((NAME, "points", FIRST, *WHY), "Say what .* is worth"),
        ((NAME, "points", FIRST, "--to", "nan", *WHY), "Say what .* is worth"),
        ((NAME, "points", FIRST, "--to", "-1", *WHY), "Say what .* is worth"),
        ((NAME, "accept", FIRST, *WHY), "Say whose answer"),
        ((NAME, "accept", FIRST, "--student", "eve", *WHY), "There is no student with a verdict"),
        ((NAME, "accept", FIRST, "--answer", "nonsense", *WHY), "There is no wrong answer"),
        ((NAME, "undo", "7", *WHY), "no change '7'"),
        (("99", "drop", FIRST, *WHY), "There is no lab '99'"),
        ((NAME, "drop", FIRST, *WHY, "--out", "nowhere"), "There is no grading folder"),
    ],
)
def test_what_cannot_be_done_is_one_line(grading, arguments, says):
    assert re.search(says, change(*arguments, code=1))


@pytest.mark.parametrize(
    "words",
    [
        ("change", NAME, "drop", FIRST),
        ("regrade", NAME, "--student", "bob", "--question", FIRST),
    ],
    ids=" ".join,
)
def test_late_rules_that_cannot_be_read_stop_a_change_before_it_is_recorded(grading, words):
    """Else the list would say what the gradebook does not."""
    (grading.parent / "course").mkdir()
    (grading.parent / "course" / "labs").symlink_to(ROOT / "labs")
    (grading.parent / "course" / "late.toml").write_text("per_day = 10")
    before = scores(grading)
    done = CliRunner().invoke(cli.main, [*words, "--course", "course", *WHY, "--yes"])
    assert done.exit_code == 1
    (line,) = done.output.strip().splitlines()
    assert "late.toml" in line
    assert changes.read(grading, NAME) == []
    assert scores(grading) == before


def test_a_lost_notebook_stops_a_change_before_it_is_recorded(grading):
    lost = sorted((grading / "received").iterdir())[0]
    lost.unlink()
    before = scores(grading)
    for sure in ((), ("--yes",)):
        assert "only what is lost runs" in change(NAME, "drop", FIRST, *WHY, *sure, code=1)
    assert (changes.read(grading, NAME), scores(grading)) == ([], before)


def test_a_damaged_list_stops_everything_that_would_show_grades(grading):
    (grading / "changes").mkdir()
    (grading / "changes" / f"{NAME}.json").write_text('[{"question": 3')
    assert "is damaged" in change(NAME, code=1)
    done = CliRunner().invoke(cli.main, ["report", NAME])
    assert done.exit_code == 1
    assert "is damaged" in done.output
