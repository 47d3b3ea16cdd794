"""What a unit says of itself, from its notebooks: minutes, difficulty, what comes before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autograder.authoring.plan import plan
from book import map_of_units, pictures, under_title, unit

UNITS = unit.units(plan(unit.ROOT))


def made(folder: Path, below_title: str, guesses: int = 0) -> unit.Unit:
    code = "".join(f'predict("key{k}", [1])\n' for k in range(guesses))
    sources = [("markdown", f"# 00 Made: a unit\n\n{below_title}"), ("code", code)]
    cells = [{"cell_type": kind, "source": [text]} for kind, text in sources]
    (folder / "00_made.ipynb").write_text(json.dumps({"cells": cells}))
    return unit.Unit(str(folder / "00_made.ipynb"), None)


def test_every_unit_says_what_comes_before_it() -> None:
    numbers = [one.number for one in UNITS]
    assert set(numbers) == set(unit.AFTER)
    for one in UNITS:
        assert all(before in numbers and before < one.number for before in one.after)


def test_every_unit_has_a_picture_of_its_own() -> None:
    drawn = [pictures.picture(one.number) for one in UNITS]
    assert len(set(drawn)) == len(UNITS)
    assert pictures.picture("99") == pictures.picture("00")  # a unit that has none yet


@pytest.mark.parametrize(
    ("said", "minutes"),
    [
        ("Words.\n\n*Reading: about 45 minutes.*", 45),
        ("*Reading: two evenings, about 30 and 35 minutes.*\n", 65),
        ("Nobody said: 7 minutes.", 0),
    ],
)
def test_a_chapter_says_how_long_it_reads(tmp_path: Path, said: str, minutes: int) -> None:
    assert made(tmp_path, said).reading_minutes == minutes


def test_a_unit_without_a_lab_asks_nothing(tmp_path: Path) -> None:
    lone = made(tmp_path, "Words.", 2)
    assert (lone.asks(), lone.difficulty, lone.lab_minutes) == ("", "", 0)
    assert lone.guesses == ["key0", "key1"]
    assert "Solve the lab" not in map_of_units.card(lone)


def test_a_card_and_a_title_say_the_same_minutes() -> None:
    lines = under_title.lines(UNITS)
    for one in UNITS:
        card = map_of_units.card(one)
        for minutes in (one.reading_minutes, one.lab_minutes):
            assert f"{minutes} minutes" in card
            assert f"{minutes} minutes" in lines[one.chapter]
        assert all(key in card for key in one.guesses)


@pytest.mark.parametrize("page", under_title.lines(UNITS))
def test_the_line_below_a_title_leads_to_what_is_there(page: str) -> None:
    line = under_title.lines(UNITS)[page]
    assert under_title.torch_versions() in line
    _, _, source = line.partition("/edit/main/")
    assert (unit.ROOT / source.partition(")")[0]).is_file()


def test_the_line_goes_between_the_title_and_the_rest() -> None:
    assert under_title.placed("# T\n\nrest", "line") == "# T\n\nline\n\nrest"
    assert under_title.placed("# T", "line") == "# T\n\nline\n"


def test_a_page_says_once_how_long_it_reads() -> None:
    text = "# T\n\nWords.\n\n*Reading: about 45 minutes.*"
    assert under_title.placed(text, "45 minutes to read") == "# T\n\n45 minutes to read\n\nWords."


def test_two_evenings_are_told_apart(tmp_path: Path) -> None:
    two = made(tmp_path, "*Reading: two evenings, about 30 and 35 minutes.*")
    assert two.reading == "65 minutes to read, 30 and 35 on two evenings"
