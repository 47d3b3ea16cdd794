"""A page shows what a cell does, and not the lines that ask for a guess or print its answer."""

from __future__ import annotations

import json

import pytest

from autograder.authoring.plan import plan
from book.no_guess import without_guesses
from book.unit import ROOT, cells, units


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ('y = f(x)\nreveal("k", y.n)', "y = f(x)"),
        ('reveal(\n    "k",\n    1,\n)\n\nprint(2)', "print(2)"),
        ('n = n_of(x)\nword = "few" if n < 3 else "many"\nreveal("k", word)', "n = n_of(x)"),
        ('near = {1: "all"}\nword = f"{near} it"\nreveal("k", word)', ""),
        ('picked = W[rows, columns]\nreveal("k", picked)', "picked = W[rows, columns]"),
        ('d = ""\nfor s in t:\n    d += s\nreveal("k", d)', 'd = ""\nfor s in t:\n    d += s'),
        ("%matplotlib inline",) * 2,
        ('print(reveal("k", 1))',) * 2,
        ('word = "few"',) * 2,
    ],
)
def test_the_lines_of_a_guess_are_gone_and_no_other(source: str, shown: str) -> None:
    assert without_guesses([source]) == [shown]


def test_words_that_another_cell_reads_stay() -> None:
    first = 'word = "few"'
    assert without_guesses([f'{first}\nreveal("k", word)', "print(word)"])[0] == first


@pytest.mark.slow
def test_no_chapter_shows_such_a_line_and_each_was_asked() -> None:
    found = 0
    for unit in units(plan(ROOT)):
        code = ["".join(c["source"]) for c in cells(unit.chapter) if c["cell_type"] == "code"]
        found += sum("reveal(" in source for source in code)
        assert "reveal(" not in json.dumps(without_guesses(code)), unit.name
    assert found > 100
