"""A class in which each student has numbers of their own, from the release to an appeal."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from autograder import checks, cli
from autograder.attacks.sample_class import ROOT
from autograder.authoring.language import others
from autograder.classroom.commands import explain, regrade
from autograder.classroom.commands.grade import grade as grade_class
from autograder.classroom.commands.grading_run import Order
from autograder.classroom.run import grading, work
from autograder.classroom.store import roster
from autograder.classroom.store.journal import Journal, Record
from autograder.sandbox import Tier
from tests.classroom.commands.sample_grading import SEED
from tests.classroom.run.test_work import OpenJail

pytestmark = pytest.mark.slow  # each changes a whole graded class

LAB = checks.lab("05")
ASKED = "overlap_plan"
ENROLLED = ("ada", "bob", "cy", "dee", "fay")
GUEST = "gus"


def answer(buffers: int) -> str:
    """A right one for so many buffers."""
    return f"""
def overlap_plan(batches):
    plan = []
    for i in range(len(batches)):
        if i >= {buffers}:
            plan.append(("wait", f"kernel{{i - {buffers}}}", 0))
        plan += [("in", i, 0), ("record", f"in{{i}}", 0)]
        plan += [("wait", f"in{{i}}", 1), ("kernel", i, 1), ("record", f"kernel{{i}}", 1)]
        plan += [("wait", f"kernel{{i}}", 2), ("out", i, 2)]
    return plan
"""


def filled(notebook: Path, buffers: int, **edited: str) -> str:
    """The notebook with that answer, and with other cells as a student may have edited them."""
    made = json.loads(notebook.read_bytes())
    for cell in made["cells"]:
        if cell["id"] == ASKED:
            cell["source"] = answer(buffers)
        cell["source"] = edited.get(cell["id"], cell["source"])
    return json.dumps(made)


@pytest.fixture(scope="module", autouse=True)
def here() -> Iterator[None]:
    """All answers are our own, so they run in this very process, in no jail."""

    def run(of: grading.Grading, jobs: list[Any]) -> Iterator[Any]:
        for job in jobs:
            record = work.grade(job, of.release.lab, OpenJail())
            of.journal.write(record)
            yield job, record

    made = Tier("made", "for a test", safe=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grading, "probe", lambda: made)
        patch.setattr(grading.Grading, "run", run)
        patch.setattr(explain, "safe_tier", lambda trusting: made)
        patch.setattr(explain, "Jail", lambda **options: nullcontext(OpenJail()))
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Given out: copies below grading/handouts."""
    place = tmp_path_factory.mktemp("variants")
    with (place / "class.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["student"], *([name] for name in ENROLLED)])
    (place / "grading").mkdir()
    (place / "grading" / "seed").write_bytes(SEED)
    release(place)
    return place


def release(place: Path) -> str:
    told = ("release", "05", "--variants", place / "class.csv", "--out", place / "grading")
    done = CliRunner().invoke(cli.main, [*map(str, told), "--course", str(ROOT)])
    assert done.exit_code == 0, done.output
    return done.output


def own(place: Path) -> dict[str, int]:
    told = json.loads((place / "grading" / "variants" / f"{LAB.name}.json").read_bytes())
    return {student: variant[ASKED]["buffers"] for student, variant in told.items()}


def handout(place: Path, student: str) -> Path:
    return place / "grading" / "handouts" / LAB.name / student / f"{LAB.name}.ipynb"


@pytest.fixture(scope="module")
def graded(place: Path) -> Path:
    """ada answers for her numbers; bob and cy hand in each other's notebook; dee has the public
    solution and edits what the notebook says of its numbers; fay has nothing; gus, whom nobody
    enrolled, has the public lab."""
    numbers, hand_in = own(place), place / "hand_in"
    assert numbers["bob"] != numbers["cy"], "choose another SEED: the two must differ"
    edits = {f"{ASKED}_check": 'check("overlap_plan", buffers=2)', "setup": "buffers = 2"}
    public = ROOT / "labs" / LAB.name / f"{LAB.name}.ipynb"
    handed_in = {
        "ada": filled(handout(place, "ada"), numbers["ada"]),
        "bob": filled(handout(place, "cy"), numbers["cy"]),
        "cy": filled(handout(place, "bob"), numbers["bob"]),
        "dee": filled(handout(place, "dee"), 2, **edits, **{"copies-beside-kernels": "two"}),
        "fay": handout(place, "fay").read_text("utf-8"),
        GUEST: filled(public, 2),
    }
    for student, notebook in handed_in.items():
        (hand_in / student).mkdir(parents=True)
        (hand_in / student / f"{LAB.name}.ipynb").write_text(notebook, "utf-8")
    grade(place)
    return place


def grade(place: Path) -> str:
    said = StringIO()
    order = Order(place / "hand_in", place / "grading", ROOT, lab="05")
    grade_class(order, Console(file=said, width=200))
    return said.getvalue()


def records(place: Path) -> dict[str, Record]:
    journal = Journal(place / "grading" / "journal" / LAB.name)
    found = {n: journal.read(n, k) for n, k in roster.keys(place / "grading", LAB.name).items()}
    return {name: record for name, record in found.items() if record}


def asked(place: Path, student: str) -> tuple[str, str]:
    """The mark of the question, and what its student is told."""
    (verdict,) = (v for v in records(place)[student].verdicts if v.question == ASKED)
    return verdict.mark, verdict.explanation


def test_the_same_command_gives_the_same_bytes(place: Path) -> None:
    def files() -> dict[Path, bytes]:
        folders = (place / "grading" / name for name in ("handouts", "variants"))
        return {p: p.read_bytes() for f in folders for p in f.rglob("*") if p.is_file()}

    before = files()
    editions = 1 + len(others(ROOT))  # English, and each other language
    assert len(before) == editions * len(ENROLLED) + 1
    release(place)
    assert files() == before
    (place / "grading" / "variants" / f"{LAB.name}.json").unlink()
    release(place)
    assert files() == before


def test_everybody_is_asked_for_their_own_numbers(graded: Path) -> None:
    numbers = own(graded)
    assert asked(graded, "ada")[0] == "pass"
    assert asked(graded, GUEST)[0] == "pass"
    assert asked(graded, "fay")[0] == "not yet"
    for student, theirs in (("bob", numbers["cy"]), ("cy", numbers["bob"]), ("dee", 2)):
        mark, told = asked(graded, student)
        assert mark == "fail"
        assert f"right for buffers = {theirs}. Asked is buffers = {numbers[student]}" in told


def test_the_page_of_feedback_asks_what_the_own_copy_asked(graded: Path) -> None:
    words = {3: "three buffers", 4: "four buffers"}
    for student in ("ada", "dee"):
        path = graded / "grading" / "feedback" / student / LAB.name / f"{LAB.name}.html"
        assert words[own(graded)[student]] in path.read_text("utf-8")


def test_an_appeal_is_judged_with_the_same_numbers(graded: Path) -> None:
    before, said = records(graded), StringIO()
    console, folder = Console(file=said, width=200), graded / "grading"
    for student in ("ada", "bob"):
        again = regrade.Again(folder, ROOT, LAB.name, student, ASKED, reason="An appeal")
        regrade.regrade(again, console)
        assert explain.explain(explain.Asked(folder, ROOT, student, LAB.name, ASKED), console)
    assert said.getvalue().count(regrade.SAME) == 2
    assert said.getvalue().count("The same verdict as recorded") == 2
    assert records(graded) == before


def test_a_new_hand_in_is_asked_for_the_same_numbers(graded: Path) -> None:
    for student in ("bob", "cy"):
        notebook = filled(handout(graded, student), own(graded)[student])
        (graded / "hand_in" / student / f"{LAB.name}.ipynb").write_text(notebook, "utf-8")
    said = grade(graded)
    assert "4 already graded, 2 to grade" in said
    assert [asked(graded, student)[0] for student in ("bob", "cy", "dee")] == [
        "pass",
        "pass",
        "fail",
    ]
