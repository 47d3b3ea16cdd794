"""The room of the questions: a package per lab, a file per question, and grades that follow."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from autograder import checks
from autograder.classroom.intake.deciding import deciding_files
from onelayer.distributed.ranks import PRELOADED

LABS = {lab.name: lab for lab in checks.labs()}
PACKAGES = [
    name for name in LABS if hasattr(import_module(f"autograder.checks.lab{name}"), "__path__")
]


def test_there_are_labs_to_look_at() -> None:
    assert {"00_open_the_hood", "01_strides"} <= set(PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_each_question_has_a_file_of_its_name(name: str) -> None:
    files = {question.name: Path(inspect.getfile(question.check)) for question in LABS[name]}
    stems = {name: re.sub(r"^q\d\d_", "", file.stem) for name, file in files.items()}
    assert stems == {name: name for name in files}


@pytest.mark.parametrize("name", LABS)
def test_a_change_of_any_file_of_a_question_is_a_change_of_the_release(name: str) -> None:
    deciding = {path.resolve() for path in deciding_files(name)}
    package = Path(inspect.getfile(import_module(f"autograder.checks.lab{name}"))).resolve()
    beside = set(package.parent.glob("*.py")) if name in PACKAGES else {package}
    assert len(beside) > len(LABS[name].questions) or name not in PACKAGES
    assert beside <= deciding


def sections(name: str) -> list[str]:
    """The text of a lab as students get it, from each heading to the next."""
    path = Path(__file__).parents[2] / "labs" / name / f"{name}.ipynb"
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return re.split(r"^## ", "\n".join("".join(cell["source"]) for cell in cells), flags=re.M)[1:]


@pytest.mark.parametrize("name", LABS)
def test_a_lab_takes_no_more_than_two_hours(name: str) -> None:
    minutes = re.findall(r"^\*(\d+) minutes", "\n".join(sections(name)), re.MULTILINE)
    assert len(minutes) == len(LABS[name].questions) + 1  # the free text
    assert sum(map(int, minutes)) <= 120


@pytest.mark.parametrize("name", LABS)
def test_the_page_numbers_the_questions_as_the_judge_does(name: str) -> None:
    asked_in = {
        question: text
        for text in sections(name)
        for question in re.findall(r'^check\("(\w+)', text, re.MULTILINE)
    }
    assert list(asked_in) == list(LABS[name].questions)
    for question in LABS[name]:
        number = question.title.removeprefix("Lab ")
        assert asked_in[question.name].startswith(number + " "), question.title


@pytest.mark.slow
def test_listing_the_labs_imports_no_compiler() -> None:
    """Every command lists them. Dynamo takes seconds, and leaves a folder where it was imported."""
    asked = "import sys, autograder.checks as c; c.labs(); print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


ANSWERED = """
import json, linecache, sys
import torch
import autograder.checks as checks
from autograder.judge import LocalStudent, ask
for lab in checks.labs():
    if lab.preloads:
        continue
    answers = {}
    for cell in json.load(open(f"solutions/{lab.name}/{lab.name}.ipynb"))["cells"]:
        if "setup" in cell["metadata"].get("tags", []) or cell["id"] in lab.questions:
            source = "".join(cell["source"])
            linecache.cache[cell["id"]] = len(source), None, source.splitlines(True), cell["id"]
            exec(compile(source, cell["id"], "exec"), answers)
    for question in lab:
        ask(question, LocalStudent(answers), seed=1)
        assert "torch._dynamo" not in sys.modules, question.title
    print(lab.name)
"""


@pytest.mark.compiler  # some answers call Dynamo, which looks for one
@pytest.mark.slow
def test_a_lab_that_needs_dynamo_says_so() -> None:
    """Else the first answer that imports it waits for that, inside its own limit of time."""
    done = subprocess.run([sys.executable, "-c", ANSWERED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [lab.name for lab in LABS.values() if not lab.preloads]


def test_what_a_rank_needs_is_imported_before_it_is_forked() -> None:
    """In a notebook a server has it. A right answer on a busy machine ran out of time while each of
    its ranks imported 869 modules."""
    needed = {name for name in PRELOADED if not name.startswith("onelayer.")}
    of_ranks = [lab for lab in LABS.values() if lab.loopback]
    assert needed
    assert of_ranks
    for lab in of_ranks:
        assert needed <= set(lab.preloads), lab.name
