"""Each tempting wrong guess gets its own line; a right one gets none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import autograder
from autograder.notebook import guess_lines
from autograder.notebook.guess import plain, written
from autograder.notebook.guess_lines import lines_for

ROOT = Path(__file__).resolve().parents[2]
LINED = sorted(page.stem for page in (ROOT / "notebooks").glob("[0-9]*.py"))


def asked(chapter: str) -> Iterator[tuple[str, list[str]]]:
    """The key and the choices of every guess, as a reader sees them."""
    tree = ast.parse((ROOT / "notebooks" / f"{chapter}.py").read_text("utf-8"))
    values = {
        node.targets[0].id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "predict":
            (choices,) = (word.value for word in node.keywords if word.arg == "choices")
            assert isinstance(choices, ast.List)
            made = [values[c.id] if isinstance(c, ast.Name) else c.value for c in choices.elts]  # type: ignore[attr-defined]
            yield ast.literal_eval(node.args[0]), [written(plain(choice)) for choice in made]


GUESSES = {key: choices for chapter in LINED for key, choices in asked(chapter)}


def test_the_chapters_were_read() -> None:
    assert len(GUESSES) > 140


@pytest.mark.parametrize("key", GUESSES)
def test_every_wrong_choice_has_its_line(key: str) -> None:
    """All but one; a guess at what is measured may have a line for each."""
    lines = lines_for(key)
    assert set(lines) <= set(GUESSES[key])
    assert len(lines) >= len(GUESSES[key]) - 1


def test_no_line_belongs_to_a_guess_that_is_gone() -> None:
    assert set(guess_lines._lines()) <= set(GUESSES)


def test_a_wrong_guess_is_told_its_line(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("ONELAYER_HOME", str(tmp_path))
    key, (right, wrong) = "bias_or_transpose", GUESSES["bias_or_transpose"]
    autograder.predict(key, choices=[right, wrong], guess=wrong)
    shown = autograder.reveal(key, right)
    line = lines_for(key)[wrong]
    assert line in shown.text
    assert line in re.sub(r"</?code>", "`", shown.html)


def test_a_right_guess_and_none_are_told_no_line(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("ONELAYER_HOME", str(tmp_path))
    key, (right, wrong) = "bias_or_transpose", GUESSES["bias_or_transpose"]
    line = lines_for(key)[wrong]
    unguessed = autograder.reveal(key, right)
    assert line not in unguessed.text
    assert f'data-guess="{wrong}" hidden' in unguessed.html  # for the site, which has no kernel
    autograder.predict(key, choices=[right, wrong], guess=right)
    assert line not in autograder.reveal(key, right).html


def test_what_is_right_here_has_no_line_here(monkeypatch: Any, tmp_path: Path) -> None:
    """Where the answer is measured, each choice has a line, and one of them is right."""
    monkeypatch.setenv("ONELAYER_HOME", str(tmp_path))
    shown = autograder.reveal("which_is_faster", "lean")
    assert 'data-guess="eager"' in shown.html
    assert 'data-guess="lean"' not in shown.html
