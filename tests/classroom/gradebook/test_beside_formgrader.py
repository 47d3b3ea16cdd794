"""A person marks in formgrader while a command has the same grading folder: two processes, one
gradebook, and a kill in the middle."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from nbgrader.api import Gradebook

from autograder import cli
from autograder.attacks.sample_class import NAME, ROOT
from autograder.classroom.gradebook import course
from autograder.classroom.gradebook.course import database
from autograder.classroom.store import changes
from tests import samples
from tests.classroom.made_class import FREE_TEXT, LAB, four_students, mark

FIRST, SECOND, *_ = LAB.questions
CHECK = f"{FIRST}_check"
pytestmark = pytest.mark.whole_class
PATIENCE_S = 300


@pytest.fixture
def grading(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return four_students(tmp_path / "grading")


def worth(points: float) -> list[str]:
    return ["change", NAME, "points", SECOND, "--to", str(points), "--reason", "Why", "--yes"]


def started(folder: Path, points: float) -> subprocess.Popen[str]:
    """`autograder change`, in a process of its own, in the folder where the class is."""
    return subprocess.Popen(
        [sys.executable, "-m", "autograder.cli", *worth(points), "--course", str(ROOT)],
        cwd=folder.parent,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def is_running(process: subprocess.Popen[str]) -> bool:
    """Leaves it a moment of the processor, as a person does who thinks before the next mark."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.02)
    return process.returncode is None


class Formgrader:
    """As its server holds the gradebook: opened once, by the address that nbgrader makes itself,
    and asked as its pages ask."""

    def __init__(self, folder: Path) -> None:
        self.book = Gradebook(f"sqlite:///{folder / 'gradebook.db'}")

    def shows(self, student: str, cell: str) -> float:
        points: float = self.book.find_grade(cell, NAME, NAME, student).manual_score
        return points

    def save(self, student: str, cell: str, points: float) -> None:
        """What the handler of PUT /formgrader/api/grade/ID does."""
        grade = self.book.find_grade_by_id(self.book.find_grade(cell, NAME, NAME, student).id)
        grade.manual_score, grade.extra_credit = points, None
        grade.needs_manual_grade = False
        self.book.db.commit()


def stored(folder):
    """By student and cell what a person gave, whether it waits, and what the check gave."""
    with Gradebook(database(folder)) as book:
        return {
            (one.student_id, grade.name): (
                grade.manual_score,
                grade.needs_manual_grade,
                grade.auto_score,
            )
            for one in book.find_assignment(NAME).submissions
            for notebook in one.notebooks
            for grade in notebook.grades
        }


@pytest.mark.parametrize(
    "killed", samples.sample([False, True], [True]), ids=["to its end", "killed"]
)
def test_neither_a_mark_nor_a_verdict_is_lost(grading, killed):
    """Somebody marks for as long as the command runs, and it may be killed amid its publishing."""
    was, drawn = stored(grading), random.Random(7)
    formgrader, given = Formgrader(grading), dict[tuple[str, str], float]()
    at_work, marked_beside = started(grading, 9), 0
    left = drawn.randrange(30)  # marks until the kill, once it has begun to publish
    while is_running(at_work) and not (killed and marked_beside > left):
        key = drawn.choice(["ada", "bob", "cy", "dee"]), drawn.choice([FREE_TEXT, CHECK])
        if key in given:
            assert formgrader.shows(*key) == given[key]
        given[key] = drawn.randrange(9) / 4
        formgrader.save(*key, given[key])  # raises where the gradebook is locked
        marked_beside += bool(changes.read(grading, NAME))
    if killed:
        at_work.kill()
    said, _ = at_work.communicate(timeout=PATIENCE_S)
    assert marked_beside, said
    assert "Traceback" not in said
    if killed:
        assert at_work.returncode == -signal.SIGKILL
        again = CliRunner().invoke(cli.main, worth(9))
        assert again.exit_code == 0, again.output
    else:
        assert at_work.returncode == 0, said
        assert "Published: 4 in the gradebook" in said
    found = stored(grading)
    assert {key: found[key][:2] for key in given} == {
        key: (points, False) for key, points in given.items()
    }
    for (student, cell), (_, _, score) in was.items():
        wanted = 9.0 if cell == f"{SECOND}_check" else score
        assert found[student, cell][2] == wanted, (student, cell)
    with sqlite3.connect(grading / "gradebook.db") as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_command_that_finds_the_gradebook_held_says_so_in_one_line(grading, monkeypatch):
    monkeypatch.setattr(course, "LOCKED_S", 0.2)
    held = sqlite3.connect(grading / "gradebook.db", isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    for sure in ([], ["--yes"]):
        done = CliRunner().invoke(
            cli.main, ["change", NAME, "drop", FIRST, "--reason", "Why", *sure]
        )
        assert done.exit_code == 1
        (line,) = done.output.strip().splitlines()
        assert "gradebook.db is in use: close formgrader" in line
    held.execute("COMMIT")
    held.close()
    mark(grading, "bob", 1.0)
    done = CliRunner().invoke(cli.main, ["change", NAME, "drop", FIRST, "--reason", "Why", "--yes"])
    assert done.exit_code == 0, done.output
    assert stored(grading)["bob", FREE_TEXT][:2] == (1.0, False)
