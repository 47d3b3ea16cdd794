"""The built page of each lab: its questions in the order and under the number that the judge gives
them, and no more work than two hours. And of each chapter: how long its reading takes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from autograder import checks
from autograder.judge import Lab

ROOT = Path(__file__).resolve().parents[2]
LABS = {lab.name: lab for lab in checks.labs()}
CHAPTERS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
BREAK = "first-evening-ends"
"""`id=` of the cell with which the second evening of a long chapter begins."""
MOST_MINUTES = 60
KINDS = ("markdown", "code")
NEAR = 8  # minutes that a chapter may say more or less than we count


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


def evenings(notebook: Path) -> list[list[dict[str, str]]]:
    """The cells of a chapter, but for its sources, in one part or in two."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    cells = [cell for cell in cells if cell["id"] != "sources"]
    where = [n for n, cell in enumerate(cells) if cell["id"] == BREAK]
    return [cells[: where[0]], cells[where[0] :]] if where else [cells]


def reading_minutes(cells: list[dict[str, str]]) -> float:
    """150 words a minute, 4 seconds a line of code, 8 to look at what a cell shows, 15 a guess."""
    texts = {kind: [c["source"] for c in cells if c["cell_type"] == kind] for kind in KINDS}
    prose = re.sub(r"\(https?://[^)]*\)", "", "\n".join(map("".join, texts["markdown"])))
    lines = "".join(line for source in texts["code"] for line in [*source, "\n"]).splitlines()
    code = [line for line in lines if line.strip() and not line.startswith(("predict(", "reveal("))]
    guesses = sum(line.startswith("predict(") for line in lines)
    seconds = 4 * len(code) + 8 * len(texts["code"]) + 15 * guesses
    return len(prose.split()) / 150 + seconds / 60


@pytest.mark.parametrize("notebook", CHAPTERS, ids=lambda path: path.stem)
def test_the_chapter_says_how_long_it_reads(notebook: Path) -> None:
    parts = evenings(notebook)
    title = "".join(parts[0][0]["source"])
    (said,) = re.findall(r"^\*Reading: (.*) minutes\.\*$", title, re.MULTILINE)
    minutes = [int(n) for n in re.findall(r"\d+", said)]
    assert len(minutes) == len(parts)
    assert ("two evenings" in said) == (len(parts) == 2)
    for told, cells in zip(minutes, parts, strict=True):
        assert told <= MOST_MINUTES
        assert abs(told - reading_minutes(cells)) <= NEAR
