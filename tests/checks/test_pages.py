"""The built page of each lab: its questions in the order and under the number that the judge gives
them, and no more work than two hours."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from autograder import checks
from autograder.judge import Lab

ROOT = Path(__file__).resolve().parents[2]
LABS = {lab.name: lab for lab in checks.labs()}


def page(lab: Lab) -> str:
    """The student's page as one text."""
    notebook = json.loads((ROOT / "labs" / lab.name / f"{lab.name}.ipynb").read_text("utf-8"))
    return "\n".join("".join(cell["source"]) for cell in notebook["cells"])


@pytest.mark.parametrize("name", LABS)
def test_the_page_numbers_the_questions_as_the_judge_does(name: str) -> None:
    asked = {
        question: section
        for section in re.split(r"^## ", page(LABS[name]), flags=re.MULTILINE)
        for question in re.findall(r'^check\("(\w+)', section, re.MULTILINE)
    }
    assert list(asked) == list(LABS[name].questions)
    for question in LABS[name]:
        assert asked[question.name].startswith(question.title.removeprefix("Lab ") + " ")


@pytest.mark.parametrize("name", LABS)
def test_the_lab_takes_no_more_than_two_hours(name: str) -> None:
    minutes = [int(n) for n in re.findall(r"^\*(\d+) minutes", page(LABS[name]), re.MULTILINE)]
    assert minutes[:-1] == [question.minutes for question in LABS[name]]  # then the free text
    assert sum(minutes) <= 120
