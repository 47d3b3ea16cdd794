"""An ordinary user grades what came from Canvas, in the jail, and gives it back; two of them bring
the halves of a class together and change a grade; a teacher and a student meet in nbgrader's
exchange. No step needs root, or reads what is another's.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autograder.attacks.sample_class import (
    LAB,
    NAME,
    PUPILS,
    QUESTIONS,
    ROOT,
    filled,
    right_answers,
)
from autograder.classroom.store import roster
from autograder.judge import State
from autograder.sandbox.engines import bubblewrap, privileges
from tests.classroom import exports
from tests.classroom.commands.test_leaderboard import NAME as RACED
from tests.classroom.commands.test_leaderboard import RIGHT, handed_in
from tests.classroom.commands.test_merge import folder_of
from tests.classroom.made_class import record, verdict

pytestmark = [pytest.mark.whole_class, pytest.mark.timeout(900)]
LIMIT_S = 600
FIRST = next(iter(LAB.questions))
FULL = LAB.max_points
MARKS = """
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db") as book:
    grade = book.find_grade("why_silent", "{lab}", "{lab}", "{student}")
    grade.manual_score, grade.needs_manual_grade = {points}, False
    book.db.commit()
"""


@dataclass(frozen=True)
class User:
    """Somebody without rights of their own; whoever is no root is the only one that there is."""

    number: int
    home: Path

    @property
    def name(self) -> str:
        """By which nbgrader knows who this is; one that this machine has no name for hands in
        nothing."""
        with contextlib.suppress(KeyError):
            return pwd.getpwuid(self.number).pw_name
        return self.home.name

    def run(self, *command: object, folder: str = "") -> subprocess.CompletedProcess[str]:
        words = [sys.executable, *map(str, command)]
        words = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', str(self.home / folder), *words]
        if os.geteuid() == 0:  # also where this Python lies below root's home
            readable = bubblewrap.visible([ROOT])
            spec = {"uid": self.number, "readable": readable, "command": words}
            words = [sys.executable, "-I", "-S", privileges.__file__, json.dumps(spec)]
        return subprocess.run(
            words,
            env={
                "HOME": str(self.home),
                "USER": self.name,
                "TMPDIR": str(self.home),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "COLUMNS": "200",
            },
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def autograder(self, *command: object) -> str:
        done = self.run("-m", "autograder.cli", *command, "--course", ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def nbgrader(self, *command: str, folder: str = "") -> None:
        done = self.run("-m", "nbgrader", *command, folder=folder)
        assert done.returncode == 0, done.stderr

    def mark(self, grading: str, student: str, points: float) -> None:
        """As formgrader does it."""
        script = MARKS.format(lab=NAME, student=student, points=points)
        done = self.run("-c", script, folder=grading)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def assistants() -> Iterator[tuple[User, User]]:
    """Two homes that are their owner's alone."""
    place = Path(tempfile.mkdtemp(prefix="assistants-"))
    place.chmod(0o755)
    numbers = (65533, 65534) if os.geteuid() == 0 else (os.geteuid(),) * 2
    made = []
    for number, name in zip(numbers, ("one", "two"), strict=True):
        (place / name).mkdir(mode=0o700)
        made.append(User(number, place / name))
    yield made[0], made[1]
    shutil.rmtree(place)


def own(user: User) -> None:
    if os.geteuid() == 0:
        for path in (user.home, *user.home.rglob("*")):
            os.chown(path, user.number, user.number)


def test_two_halves_are_merged_changed_and_given_back(assistants: tuple[User, User]) -> None:
    one, two = assistants
    texts = {name: f"Says {name}." for name in ("ada", "dee", "kim")}
    wrong = {FIRST: verdict(FIRST, State.FAIL)}
    folder_of(one.home / "grading", [record("ada"), record("kim")], texts)
    folder_of(two.home / "grading", [record("dee", **wrong), record("kim")], texts)
    own(one)
    own(two)
    one.mark("grading", "ada", 5)
    two.mark("grading", "dee", 3)
    two.mark("grading", "kim", 4)
    if one.number != two.number:
        refused = one.run("-m", "autograder.cli", "merge", two.home / "grading", "--course", ROOT)
        assert refused.returncode == 1
        assert "Permission denied. Ask its owner for a copy of" in refused.stderr
    shutil.copytree(two.home / "grading", one.home / "theirs")  # as if it was sent
    own(one)
    assert "1 come, 1 are in both" in one.autograder("merge", "theirs", "--yes")
    why = ("--reason", "An appeal", "--yes")
    one.autograder("change", NAME, "accept", FIRST, "--student", "dee", *why)
    one.autograder("report", NAME, "--alike")
    with open(one.home / "grading" / "reports" / NAME / "canvas.csv", encoding="utf-8") as file:
        _, *rows = csv.DictReader(file)
    points = {row["Student"]: float(row[NAME]) for row in rows}
    assert points == {"ada": FULL + 5, "dee": FULL + 3, "kim": FULL + 4}
    mine = {path.stat().st_uid for path in (one.home / "grading").rglob("*")}
    assert mine == {one.number}


CLASS = ("ada-all-right", "ben-half", "gus-wrong-1", "max-loops", "uma-sends-script", "vic-cut-off")
ADA, _, GUS, *_, VIC = (f"{name}_{number}" for number, name in enumerate(CLASS, 100))
MARKED = 4.0


def earned(name: str) -> float:
    expected = PUPILS[name].expected
    return sum(LAB.questions[q].points for q in QUESTIONS if expected[q] == "pass")


def download(home: Path) -> None:
    """What Canvas gives."""
    with zipfile.ZipFile(home / "submissions.zip", "w") as archive:
        for number, name in enumerate(CLASS, 100):
            PUPILS[name].write(home)
            made = home / f"{NAME}.ipynb"
            archive.write(made, f"{name}_{number}_7{number}_{NAME}.ipynb")
            made.unlink()


@pytest.mark.jail
def test_a_class_is_graded_marked_and_given_back(assistants: tuple[User, User]) -> None:
    user, _ = assistants
    download(user.home)
    own(user)
    assert "bubblewrap" in user.run("-m", "autograder.cli", "doctor").stdout
    words = ("--lab", NAME, "--workers", "1")
    said = user.autograder("grade", "submissions.zip", *words)
    assert "ungradable  1" in said
    again = user.autograder("grade", "submissions.zip", *words)
    assert f"{len(CLASS) - 1} already graded, 0 to grade" in again
    user.mark("grading", ADA, MARKED)
    for command in (("generate_feedback", "--force", NAME), ("export",)):
        user.nbgrader(*command, folder="grading")
    user.autograder("report", NAME, "--provisional")

    wanted = {f"{n}_{number}": earned(n) for number, n in enumerate(CLASS[:-1], 100)}
    wanted[ADA] += MARKED
    found = exports.everywhere(user.home / "grading")
    for place in ("canvas", "moodle", "report"):
        assert found[place] == wanted | {VIC: None}, place
    assert found["gradescope"] == found["page"] == wanted
    assert exports.of_nbgrader(user.home / "grading" / "grades.csv") == wanted
    for student in (ADA, GUS):
        explained = user.autograder("explain", student, NAME, QUESTIONS[0])
        assert "The same verdict as recorded." in explained
    everything = list((user.home / "grading").rglob("*"))
    assert {path.stat().st_uid for path in everything} == {user.number}


@pytest.mark.jail
def test_a_teacher_and_a_student_meet_in_the_exchange(assistants: tuple[User, User]) -> None:
    """With a roster, Gradescope's zip and a copy of a lab for each student."""
    teacher, student = assistants
    exchange = teacher.home.parent / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)
    for user in assistants:
        (user.home / ".jupyter").mkdir()
        (user.home / ".jupyter" / "nbgrader_config.py").write_text(
            f"c = get_config()\nc.Exchange.root = {str(exchange)!r}\n"
            "c.CourseDirectory.course_id = 'inside'\n"
        )
    enrolled = f"id,name\n{student.name},Somebody\nkim,Kim\n"
    (teacher.home / "class.csv").write_text(enrolled)
    own(teacher)
    own(student)
    teacher.autograder("release", NAME)
    teacher.nbgrader("release_assignment", NAME, folder="grading")
    student.nbgrader("fetch_assignment", NAME)
    (notebook,) = student.home.glob(f"{NAME}/{NAME}.ipynb")
    notebook.write_text(json.dumps(filled(right_answers())), encoding="utf-8")
    student.nbgrader("submit", NAME, "--student", student.name)

    teacher.nbgrader("collect", NAME, folder="grading")
    said = teacher.autograder("grade", "grading/collected", "--lab", NAME, "--roster", "class.csv")
    assert "handed in nothing" in said  # kim
    teacher.nbgrader("release_feedback", NAME, folder="grading")
    student.nbgrader("fetch_feedback", NAME, "--student", student.name)
    (page,) = student.home.glob(f"{NAME}/feedback/*/{NAME}.html")
    assert f"<b>{FULL:g}</b> of" in page.read_text("utf-8")

    teacher.autograder("gradescope", NAME)
    teacher.autograder("release", "05", "--variants", "class.csv", "--out", "variants")
    (handouts,) = (teacher.home / "variants" / "handouts").iterdir()
    assert {path.name for path in handouts.iterdir()} == {"Somebody", "Kim"}
    everything = [*(teacher.home / "grading").rglob("*"), *(teacher.home / "variants").rglob("*")]
    assert [path for path in everything if path.suffix == ".zip"]
    assert {path.stat().st_uid for path in everything} == {teacher.number}


@pytest.mark.jail
def test_right_answers_are_raced(assistants: tuple[User, User]) -> None:
    user, _ = assistants
    folder = user.home / "grading"
    folder.mkdir()
    roster.update(folder, RACED, [handed_in(folder, "ada", RIGHT)])
    own(user)
    assert "anonymous " in user.autograder("leaderboard", RACED)
    assert {path.stat().st_uid for path in folder.rglob("*")} == {user.number}
