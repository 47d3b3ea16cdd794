"""A mark that a person gave to a check, where its question is worth something else after that."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from nbgrader.api import Gradebook

from autograder import cli
from autograder.attacks.sample_class import NAME
from autograder.classroom.gradebook import publish, shares
from autograder.classroom.gradebook.course import database
from autograder.classroom.gradebook.shares import Share
from tests.classroom.made_class import LAB, four_students, mark

pytestmark = pytest.mark.whole_class

FIRST, SECOND, *_ = LAB.questions
CHECK, WORTH = f"{FIRST}_check", LAB.questions[FIRST].points
WHY = ("--reason", "Why")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = four_students(tmp_path_factory.mktemp("class") / "grading")
    mark(folder, "bob", WORTH / 4, cell=CHECK)
    return folder


@pytest.fixture
def grading(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(whole, tmp_path / "grading"))


def change(*arguments, code=0):
    done = CliRunner().invoke(cli.main, ["change", NAME, *map(str, arguments), *WHY, "--yes"])
    assert done.exit_code == code, done.output
    return done.output


def given(folder, student="bob"):
    """The person's points in the gradebook, and out of how many."""
    with Gradebook(database(folder)) as book:
        grade = book.find_grade(CHECK, NAME, NAME, student)
        assert not grade.needs_manual_grade
        return grade.manual_score, grade.max_score


def test_a_mark_is_as_much_of_its_question_as_it_was(grading):
    change("points", FIRST, "--to", 8)
    assert given(grading) == (2, 8)
    change("drop", FIRST)
    assert given(grading) == (0, 0)
    change("points", SECOND, "--to", 7)  # another question takes nothing from it
    assert given(grading) == (0, 0)
    change("undo", 2)
    assert given(grading) == (2, 8)
    change("undo", 1)
    assert given(grading) == (WORTH / 4, WORTH)


def test_who_marks_it_again_decides_anew(grading):
    change("points", FIRST, "--to", 8)
    mark(grading, "bob", 6, cell=CHECK)
    change("points", FIRST, "--to", 4)
    assert given(grading) == (3, 4)
    change("drop", FIRST)
    mark(grading, "bob", 1, cell=CHECK)  # out of nothing: these points and no share
    change("undo", 3)
    assert given(grading) == (1, 4)
    mark(grading, "bob", 0, cell=CHECK)
    change("drop", FIRST)
    change("undo", 4)
    assert given(grading) == (0, 4)


@pytest.mark.parametrize("moment", ["noted", "moved", "before the gradebook knew"])
def test_a_kill_in_the_middle_costs_nobody_their_share(grading, monkeypatch, moment):
    """While it is dropped, and while that is undone."""
    move = shares._move

    def killed(*given):
        if moment == "moved":
            move(*given)
        raise KeyboardInterrupt

    for what in (["drop", FIRST], ["undo", 1]):
        with monkeypatch.context() as patched:
            if moment == "before the gradebook knew":
                patched.setattr(publish, "prepare", killed)
            else:
                patched.setattr(shares, "_move", killed)
            change(*what, code=1)
        change("points", SECOND, "--to", 7)
        assert given(grading) == ((0, 0) if what[0] == "drop" else (WORTH / 4, WORTH))


def test_after_a_kill_that_was_undone_no_points_are_taken_for_ours(grading, monkeypatch):
    """They would have stood for his share, had the command come to its end."""

    def killed(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shares, "_move", killed)
        change("drop", FIRST, code=1)
    change("undo", 1)
    mark(grading, "bob", 0, cell=CHECK)
    change("points", SECOND, "--to", 7)
    assert given(grading) == (0, WORTH)


def test_a_mark_that_is_saved_meanwhile_stays_as_it_was_saved(grading, monkeypatch):
    move = shares._move

    def meanwhile(*given):
        mark(grading, "bob", 1.25, cell=CHECK)
        move(*given)

    with monkeypatch.context() as patched:
        patched.setattr(shares, "_move", meanwhile)
        change("points", FIRST, "--to", 8)
    assert given(grading) == (1.25, 8)
    change("points", FIRST, "--to", 4)
    assert given(grading) == (0.625, 4)


def test_damaged_notes_stop_what_would_guess(grading):
    change("drop", FIRST)
    (path,) = (grading / "changes").glob("*.marks.json")
    path.write_text("[[3")
    (line,) = change("undo", 1, code=1).strip().splitlines()
    assert "is damaged. Put a copy back." in line


def test_a_share_of_nothing_is_the_points_themselves():
    assert [Share(1.5, 3).at(worth) for worth in (3, 6, 0)] == [1.5, 3, 0]
    assert [Share(1.5, 0).at(worth) for worth in (3, 0)] == [1.5, 1.5]
    assert Share(1 / 3, 3).at(3) == 1 / 3
