"""The line under each title: how long, after what, how hard, on which torch, and two doors."""

from __future__ import annotations

import re
from functools import cache
from os.path import relpath
from pathlib import Path
from urllib.parse import quote

from autograder.authoring.address import BRANCH, REPOSITORY
from book.unit import READING, ROOT, Unit


def lines(units: list[Unit]) -> dict[str, str]:
    """Markdown for each page of `units`, by its notebook's path."""
    by_number = {unit.number: unit for unit in units}
    found = {}
    for unit in units:
        after = [by_number[number] for number in unit.after]
        found[unit.chapter] = _chapter(unit, after)
        if unit.lab:
            found[unit.lab] = _lab(unit)
    return found


def placed(text: str, line: str) -> str:
    """A page's first cell, whose title gets its line; the line of links stays below it. How long
    it reads is in that line, and is not said again."""
    title, _, rest = READING.sub("", text).rstrip().partition("\n")
    return f"{title}\n\n{line}\n{rest}"


def _chapter(unit: Unit, after: list[Unit]) -> str:
    read = ", ".join(f"[{one.name}]({_seen(one.chapter, unit.chapter)})" for one in after)
    facts = [unit.reading, f"after {read}" if read else ""]
    if unit.lab:
        facts.append(
            f"[its lab]({_seen(unit.lab, unit.chapter)}): {unit.lab_minutes} minutes, "
            f"difficulty {unit.difficulty} of 5"
        )
    return _line(facts, unit.chapter, unit.title)


def _lab(unit: Unit) -> str:
    assert unit.lab is not None
    chapter = f"after [chapter {unit.number}]({_seen(unit.chapter, unit.lab)})"
    facts = [f"{unit.lab_minutes} minutes", f"difficulty {unit.difficulty} of 5", chapter]
    return _line(facts, unit.lab, f"Lab {unit.number}")


def _line(facts: list[str], path: str, title: str) -> str:
    edit = f"[Edit]({REPOSITORY}/edit/{BRANCH}/{_source(path)})"
    discuss = f"[Discuss]({REPOSITORY}/issues/new?title={quote(title)})"
    return " · ".join([*filter(None, facts), torch_versions(), edit, discuss])


def _source(path: str) -> str:
    """What an author edits: the text that the notebook is built from."""
    return str(Path(path.replace("labs/", "solutions/", 1)).with_suffix(".py"))


def _seen(path: str, page: str) -> str:
    return relpath(path, Path(page).parent)


@cache
def torch_versions() -> str:
    """ "torch 2.11 to 2.15", as pyproject.toml has it."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    bounds = re.search(r'"torch>=2\.(\d+),<2\.(\d+)"', text)
    if not bounds:
        raise ValueError("pyproject.toml does not say which torch is supported")
    return f"torch 2.{bounds[1]} to 2.{int(bounds[2]) - 1}"
