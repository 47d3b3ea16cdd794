"""The room of the questions: a package per lab, a file per question, and grades that follow."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

from autograder import checks
from autograder.classroom.intake.release import _deciding_files

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
    deciding = {path.resolve() for path in _deciding_files(name)}
    package = Path(inspect.getfile(import_module(f"autograder.checks.lab{name}"))).resolve()
    beside = set(package.parent.glob("*.py")) if name in PACKAGES else {package}
    assert len(beside) > len(LABS[name].questions) or name not in PACKAGES
    assert beside <= deciding
