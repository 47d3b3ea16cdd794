"""A known wrong answer is followed by the section that cures it, and no line is out of date."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from pathlib import Path

from autograder.checks import find, lab_of, labs
from autograder.checks.next_lines import FILE, next_lines
from autograder.judge import KnownAnswer, Text, ask

ROOT = Path(__file__).resolve().parents[2]
TABLES = tomllib.loads(FILE.read_text("utf-8"))
SECTIONS = TABLES.pop("sections")


def headings() -> dict[str, str]:
    """The title of each section of each chapter, as its notebook has it."""
    found = {}
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            first = "".join(cell["source"]).partition("\n")[0]
            if cell["cell_type"] == "markdown" and first.startswith("##"):
                found[f"{path.name[:2]}#{cell['id']}"] = first.lstrip("# ")
    return found


def test_a_section_is_called_as_its_chapter_calls_it() -> None:
    titles = headings()
    assert {name: titles.get(name) for name in SECTIONS} == SECTIONS


def test_every_section_cures_something() -> None:
    assert set(SECTIONS) == {section for cures in TABLES.values() for section in cures} - {""}


def test_every_line_follows_a_wrong_answer_that_is_known_and_only_one_does() -> None:
    for name, cures in TABLES.items():
        known = {wrong.name for wrong in find(name).wrong_answers}
        listed = Counter(wrong for names in cures.values() for wrong in names)
        assert set(listed) <= known, name
        assert set(listed.values()) == {1}, name


def test_nobody_is_sent_to_a_chapter_behind_the_lab() -> None:
    for name, cures in TABLES.items():
        number = lab_of(name).name[:2]
        assert [section for section in cures if section[:2] > number] == [], name


def test_most_wrong_answers_have_a_section_of_their_own() -> None:
    known = sum(len(question.wrong_answers) for lab in labs() for question in lab)
    led = sum(bool(line) for lines in next_lines().values() for line in lines.values())
    assert led > 0.8 * known


def test_two_mistakes_in_one_question_lead_to_two_sections() -> None:
    question = find("address")
    wrong = {one.name: one.functions for one in question.wrong_answers}
    said = {
        name: ask(question, KnownAnswer(wrong[name]), seed=3).next_step
        for name in ("offset_forgotten", "sizes_for_strides")
    }
    assert all(isinstance(line, Text) for line in said.values())
    assert said["offset_forgotten"] != said["sizes_for_strides"]
    assert str(said["offset_forgotten"]) == 'Look again at "One column" in chapter 01.'
