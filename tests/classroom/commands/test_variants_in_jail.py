"""Numbers of one's own, typed from the release to an appeal: the answers run in the real jail."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autograder import checks
from autograder.attacks.sample_class import ROOT
from autograder.judge import Lab, Question
from tests import samples
from tests.classroom.commands.sample_grading import LIMIT_S, SEED
from tests.classroom.commands.test_variants_graded import answer as overlap_plan

pytestmark = [pytest.mark.jail, pytest.mark.whole_class, pytest.mark.timeout(3 * LIMIT_S)]
STUDENTS = ("ada", "bob", "cy", "dee")
WORDS = {3: "three buffers", 4: "four buffers", 2: "two bytes each", 8: "eight bytes each"}
"""What a text says for a number."""


def step_bytes(itemsize: int) -> str:
    """A right one for numbers of so many bytes."""
    return f"""
def step_bytes(plan, v, d, n, w):
    rows = -(-v // w) * w
    numbers = {{"ddp": 2 * v * d, "fsdp": 3 * rows * d, "fsdp_kept": 2 * rows * d}}
    return {itemsize} * numbers.get(plan, 2 * n * (d + 3)) * (w - 1) / w
"""


ANSWERS = {"05": overlap_plan, "11": step_bytes}


@dataclass(frozen=True)
class Class:
    """Ada and Bob answer for their own numbers, Cy for those of `neighbour`, who has others, and
    Dee for the public ones."""

    place: Path
    lab: Lab
    asked: Question
    number: str
    own: Mapping[str, int]
    neighbour: str

    def verdict(self, student: str) -> dict[str, Any]:
        for path in (self.place / "grading" / "journal" / self.lab.name).glob("*.json"):
            record = json.loads(path.read_text("utf-8").split("\n")[1])
            if record["student"] == student:
                (found,) = (v for v in record["verdicts"] if v["question"] == self.asked.name)
                assert found["tier"] == "bubblewrap"
                return dict(found)
        raise LookupError(student)

    def page(self, student: str) -> str:
        name = self.lab.name
        path = self.place / "grading" / "feedback" / student / name / f"{name}.html"
        return path.read_text("utf-8")

    def refusal(self, student: str) -> str:
        """What somebody reads who answered for other numbers."""
        theirs = self.own[self.neighbour] if student == "cy" else self.asked.variant[self.number][0]
        asked = f"{self.number} = {self.own[student]}"
        return f"right for {self.number} = {theirs}. Asked is {asked}"


def autograder(place: Path, *words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "autograder.cli", *map(str, words), "--course", str(ROOT)],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=samples.sample(ANSWERS, ["05"]))
def class_(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Class:
    """Given out, answered in the own copies, handed in and graded."""
    place, lab = tmp_path_factory.mktemp("variants"), checks.lab(request.param)
    (place / "class.csv").write_text("\n".join(["student", *STUDENTS]))
    (place / "grading").mkdir()
    (place / "grading" / "seed").write_bytes(SEED)
    autograder(place, "release", lab.name, "--variants", "class.csv")
    (asked,) = (question for question in lab if question.variant)
    (number,) = asked.variant
    told = json.loads((place / "grading" / "variants" / f"{lab.name}.json").read_bytes())
    own = {student: told[student][asked.name][number] for student in STUDENTS}
    others = [student for student in ("ada", "bob") if own[student] != own["cy"]]
    assert others, "choose another SEED: somebody's numbers must not be Cy's"
    class_ = Class(place, lab, asked, number, own, others[0])
    public = asked.variant[number][0]
    for student, value in (own | {"cy": own[others[0]], "dee": public}).items():
        hand_in(class_, student, ANSWERS[request.param](value))
    autograder(place, "grade", "hand_in", "--lab", lab.name, "--workers", "1")
    return class_


def hand_in(class_: Class, student: str, answer: str) -> None:
    name = f"{class_.lab.name}.ipynb"
    handouts = class_.place / "grading" / "handouts" / class_.lab.name
    made = json.loads((handouts / student / name).read_bytes())
    (cell,) = (cell for cell in made["cells"] if cell["id"] == class_.asked.name)
    cell["source"] = answer
    (class_.place / "hand_in" / student).mkdir(parents=True)
    (class_.place / "hand_in" / student / name).write_text(json.dumps(made), "utf-8")


def test_who_answers_for_their_own_numbers_passes_and_nobody_else(class_: Class) -> None:
    for student in ("ada", "bob"):
        found = class_.verdict(student)
        assert (found["cause"], found["points"]) == ("passed", class_.asked.points), found
    for student in ("cy", "dee"):
        found = class_.verdict(student)
        assert (found["cause"], found["points"]) == ("wrong", 0.0), found
        name, told = found["sentence"]
        assert (name, told["own"]) == ("other_numbers", f"{class_.number} = {class_.own[student]}")


def test_the_page_says_the_own_numbers_and_why_another_answer_is_none(class_: Class) -> None:
    for student in STUDENTS:
        page = class_.page(student)
        assert WORDS[class_.own[student]] in page
        if student in ("cy", "dee"):
            assert class_.refusal(student) in page


@pytest.mark.thorough
def test_an_appeal_comes_out_the_same(class_: Class) -> None:
    for student in ("ada", "cy"):
        said = autograder(class_.place, "explain", student, class_.lab.name, class_.asked.name)
        assert "The same verdict as recorded.\n" in said
        assert (class_.refusal("cy") in said) == (student == "cy")


@pytest.mark.thorough
def test_the_points_are_what_the_verdicts_say(class_: Class) -> None:
    autograder(class_.place, "report", class_.lab.name, "--provisional")
    place = class_.place / "grading" / "reports" / class_.lab.name
    with open(place / "moodle.csv", encoding="utf-8-sig") as file:
        points = {row["Username"]: float(row["Grade"]) for row in csv.DictReader(file)}
    right = float(class_.asked.points)
    assert points == {"ada": right, "bob": right, "cy": 0.0, "dee": 0.0}
