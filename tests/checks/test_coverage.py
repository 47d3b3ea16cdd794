"""docs/coverage.md tells the truth: every section and every question that it names is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.checks import labs

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "coverage.md").read_text("utf-8")
NAME = re.compile(r"`([\w#-]+)`")


def headings(*paths: Path) -> set[str]:
    """Return `NN#id` of every cell with a heading in these notebooks, whose names begin with NN."""
    found = set()
    for path in paths:
        notebook: Any = nbformat.reads(path.read_text("utf-8"), as_version=4)  # type: ignore[no-untyped-call]
        found |= {
            f"{path.name[:2]}#{cell.id}"
            for cell in notebook.cells
            if cell.cell_type == "markdown" and cell.source.startswith("#")
        }
    return found


CHAPTERS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
SECTIONS = headings(*CHAPTERS)
BY_HAND = headings(*(ROOT / "labs").glob("*/*.ipynb"))
ASKED = {name: lab.name[:2] for lab in labs() for name in lab.questions}


def rows(page: str) -> list[list[str]]:
    """Return the cells of each row of the page's tables, without heads and rules."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "topic" and not row[0].startswith("---")]


def faults(page: str) -> list[str]:
    """Return a sentence for each promise of the page that the course does not keep."""
    found, covered, units = [], set(), set()
    for topic, *places in rows(page):
        sections = NAME.findall(places[1 if len(places) == 3 else 0])
        found += [f"{topic}: no section"] * (not sections)
        found += [f"{topic}: no section {name}" for name in sections if name not in SECTIONS]
        if len(places) == 3:
            asked = NAME.findall(places[2])
            found += [f"{topic}: no question"] * (not asked)
            found += [f"{topic}: no question {n}" for n in asked if n not in {*ASKED, *BY_HAND}]
            covered |= set(asked)
            of = {name[:2] if "#" in name else ASKED.get(name) for name in asked}
            taught = {name[:2] for name in sections}
            for unit in places[0].split(", "):
                units.add(unit)
                found += [f"{topic}: unit {unit} has no section here"] * (unit not in taught)
                found += [f"{topic}: unit {unit} asks nothing of it"] * (unit not in of)
    found += [f"{name} covers nothing" for name in sorted(set(ASKED) - covered)]
    return found + [f"unit {p.name[:2]} has no row" for p in CHAPTERS if p.name[:2] not in units]


def test_every_topic_has_its_sections_and_its_questions() -> None:
    assert len(rows(PAGE)) > 40
    assert faults(PAGE) == []


@pytest.mark.parametrize(
    ("was", "instead", "fault"),
    [
        ("`02#meta`", "`02#gone`", "no section 02#gone"),
        ("`read_schema`", "`read_scheme`", "no question read_scheme"),
        ("`01#why-silent`", "`01#silent`", "no question 01#silent"),
        ("`embedding_backward`", "", "embedding_backward covers nothing"),
        ("`01#broadcasting` `01#overlap` |", "|", "broadcasting as stride 0: no section"),
        ("| 04 |", "| 03 |", "unit 04 has no row"),
        ("| 00, 02, 03 |", "| 00, 01, 02, 03 |", "unit 01 has no section here"),
    ],
)
def test_what_is_gone_is_named(was: str, instead: str, fault: str) -> None:
    assert was in PAGE
    (named, *_) = [found for found in faults(PAGE.replace(was, instead)) if fault in found]
    assert named
