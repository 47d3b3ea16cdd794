"""A class that lives in nbgrader's exchange, with nbgrader's own command line on both sides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
from nbgrader.apps import NbGraderApp

from autograder.attacks.sample_class import LAB, NAME, ROOT, filled, right_answers
from autograder.classroom.intake.release import releases

RELEASE = releases(ROOT)[NAME]
WORDS = "Both share their floats."
FULL = sum(question.points for question in LAB)


@dataclass
class Side:
    """Somebody's home: a folder to work in, and nbgrader's configuration of the whole house."""

    home: Path
    folder: Path
    exchange: Path

    def __post_init__(self):
        (self.home / ".jupyter").mkdir(parents=True)
        self.folder.mkdir(exist_ok=True, parents=True)
        config = f"c = get_config()\nc.Exchange.root = {str(self.exchange)!r}\n"
        config += "c.CourseDirectory.course_id = 'inside'\n"
        (self.home / ".jupyter" / "nbgrader_config.py").write_text(config)

    def nbgrader(self, *command):
        """What `nbgrader COMMAND` does, typed here: its command line, in this process, because
        nothing of it takes as long as its start."""
        NbGraderApp.clear_instance()
        with pytest.MonkeyPatch.context() as here, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, folder in (("CONFIG", ".jupyter"), ("DATA", ".local")):
                here.setenv(f"JUPYTER_{name}_DIR", str(self.home / folder))
            here.chdir(self.folder)
            NbGraderApp.launch_instance([*command])

    def autograder(self, *command):
        done = subprocess.run(
            [sys.executable, "-m", "autograder.cli", *command, "--course", str(ROOT)],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr


class Exchange:
    """The instructor, and students who each have a home of their own."""

    def __init__(self, place):
        self.root = place / "exchange"
        self.root.mkdir()
        self.root.chmod(0o777)
        self.teacher = Side(place / "teacher", place / "teacher" / "work", self.root)
        self.grading = self.teacher.folder / "grading"
        self.grader = Side(place / "grader", self.grading, self.root)
        self.place = place

    def student(self, name):
        return Side(self.place / name, self.place / name / "work", self.root)


def submit(student, name, answers):
    """As a student does, in the notebook that was fetched."""
    path = student.folder / NAME / f"{NAME}.ipynb"
    path.write_text(json.dumps(filled(answers)), encoding="utf-8")
    student.nbgrader("submit", NAME, "--student", name)


@pytest.mark.jail
@pytest.mark.whole_class
def test_the_whole_circle(tmp_path):
    """Released, fetched, handed in, collected, graded, marked and given back; and once more."""
    class_ = Exchange(tmp_path)
    class_.teacher.autograder("release", NAME)
    released = class_.grading / "release" / NAME / f"{NAME}.ipynb"
    for _ in "ab":  # formgrader's button Generate is this command
        class_.grader.nbgrader("generate_assignment", NAME, "--force")
        assert released.read_bytes() == RELEASE.notebook
    class_.grader.nbgrader("release_assignment", NAME)

    students = {name: class_.student(name) for name in ("ada", "bob")}
    for name, student in students.items():
        student.nbgrader("fetch_assignment", NAME)
        assert (student.folder / NAME / f"{NAME}.ipynb").read_bytes() == RELEASE.notebook
        submit(student, name, {"why_silent": WORDS})

    class_.grader.nbgrader("collect", NAME)
    class_.teacher.autograder("grade", "grading/collected", "--lab", NAME)
    class_.grader.nbgrader("autograde", NAME, "--force")
    class_.grader.nbgrader("generate_feedback", NAME, "--force")
    class_.grader.nbgrader("release_feedback", NAME)
    assert ["<b>0</b> of" in page for page in pages(students["ada"])] == [True]

    submit(students["ada"], "ada", {**right_answers(), "why_silent": WORDS})
    class_.grader.nbgrader("collect", NAME, "--update")
    class_.grader.nbgrader("autograde", NAME, "--force")  # too early: nothing changes, nothing goes
    assert scores(class_) == {"ada": 0, "bob": 0}
    assert (class_.grading / "autograded" / "ada" / NAME / f"{NAME}.ipynb").is_file()
    class_.teacher.autograder("grade", "grading/collected", "--lab", NAME)
    class_.grader.nbgrader("release_feedback", NAME)
    assert scores(class_) == {"ada": FULL, "bob": 0}
    assert len(pages(students["ada"])) == 2
    assert len(pages(students["bob"])) == 1


def pages(student):
    """All pages of feedback that a student can fetch."""
    name = student.home.name
    student.nbgrader("fetch_feedback", NAME, "--student", name)
    return [page.read_text() for page in student.folder.glob(f"{NAME}/feedback/*/{NAME}.html")]


def scores(class_):
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{class_.grading / 'gradebook.db'}") as book:
        return {one.student_id: one.score for one in book.assignment_submissions(NAME)}
