"""A unit, read from its notebooks: what it is called, how long it takes, what comes before."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from autograder.authoring.plan import Plan

ROOT = Path(__file__).resolve().parents[1]
HOME = "notebooks/home.ipynb"  # JupyterLab's front page; the site has one of its own

WORTH = re.compile(r"\*(\d+) minutes · difficulty (\d) of 5 · ([\d.]+) points?")
"""What stands below the title of each question in a lab."""

READING = re.compile(r"^\*Reading: (.+) minutes\.\*$", re.MULTILINE)
"""What stands below the title of a chapter: one number, or one for each of two evenings."""

AFTER = {
    "00": (),
    "01": ("00",),
    "02": ("00",),
    "03": ("00",),
    "04": ("03",),
    "05": ("00",),
    "06": ("02", "04"),
    "07": ("01", "05"),
    "08": ("02", "04"),
    "09": ("05",),
    "10": ("02", "03"),
    "11": ("03",),
    "12": ("06", "08"),
}
"""The units whose chapters a unit takes as read."""


@dataclass(frozen=True)
class Unit:
    """A chapter and its lab, if it has one: paths from the repository's root."""

    chapter: str
    lab: str | None

    @property
    def number(self) -> str:
        return Path(self.chapter).name[:2]

    @property
    def title(self) -> str:
        """The chapter's, with its number: "01 Strides: why moving nothing is free"."""
        return self._first_words[0]

    @property
    def name(self) -> str:
        """The title up to its promise: "01 Strides"."""
        return self.title.partition(": ")[0]

    @property
    def opening(self) -> str:
        """The chapter's first paragraph: what its reader could not explain before."""
        return self._first_words[1]

    @property
    def after(self) -> tuple[str, ...]:
        return AFTER.get(self.number, ())

    @cached_property
    def guesses(self) -> list[str]:
        """The keys of the chapter's guesses, in their order."""
        code = (_text(cell) for cell in cells(self.chapter) if cell["cell_type"] == "code")
        return [key for text in code for key in re.findall(r'\bpredict\(\s*"([^"]+)"', text)]

    @cached_property
    def reading_minutes(self) -> int:
        """What reading the chapter takes, by its own words; 0 where it does not say."""
        return sum(self.evenings)

    @property
    def reading(self) -> str:
        """As much in words: "65 minutes to read, 30 and 35 on two evenings"."""
        parts = " and ".join(map(str, self.evenings))
        evenings = f", {parts} on two evenings" if len(self.evenings) > 1 else ""
        return f"{self.reading_minutes} minutes to read{evenings}"

    @cached_property
    def evenings(self) -> list[int]:
        """Minutes of reading on each evening; [] where the chapter does not say."""
        said = READING.search(_text(cells(self.chapter)[0]))
        return list(map(int, re.findall(r"\d+", said[1]))) if said else []

    @cached_property
    def worths(self) -> list[tuple[int, int]]:
        """Minutes and difficulty of each question of the lab; [] without one."""
        if self.lab is None:
            return []
        found = (one for cell in cells(self.lab) for one in WORTH.finditer(_text(cell)))
        return [(int(one[1]), int(one[2])) for one in found]

    @property
    def lab_minutes(self) -> int:
        return sum(minutes for minutes, _ in self.worths)

    @property
    def difficulty(self) -> str:
        """Of the lab's questions, out of 5: "1 to 4"; "" without a lab."""
        hard = sorted({difficulty for _, difficulty in self.worths})
        return " to ".join(map(str, {hard[0]: 0, hard[-1]: 0})) if hard else ""

    def asks(self) -> str:
        """What the lab takes: "11 questions, 120 minutes, difficulty 1 to 4"; "" without a lab."""
        if not self.worths:
            return ""
        asked = f"{len(self.worths)} questions, {self.lab_minutes} minutes"
        return f"{asked}, difficulty {self.difficulty}"

    @cached_property
    def _first_words(self) -> tuple[str, str]:
        """The title, and the first paragraph that is no line of links."""
        title, _, rest = _text(cells(self.chapter)[0]).partition("\n")
        parts = [part.strip() for part in re.split(r"\n\s*\n", rest)]
        opening = next(part for part in parts if part and not part.startswith("["))
        return title.removeprefix("# ").strip(), " ".join(opening.split())


def units(made: Plan) -> list[Unit]:
    """The units in their order. Raises ValueError where there is none to list."""
    labs = {lab.name: lab.student for lab in made.labs}
    chapters = [one.notebook for one in made.chapters if one.notebook != HOME]
    if not chapters:
        raise ValueError("there is no chapter, so there is no book")
    return [Unit(chapter, labs.get(Path(chapter).stem)) for chapter in chapters]


def cells(path: str) -> list[dict[str, Any]]:
    """The cells of the notebook at `path`, from the repository's root."""
    found: list[dict[str, Any]] = json.loads((ROOT / path).read_text("utf-8"))["cells"]
    return found


def _text(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])
