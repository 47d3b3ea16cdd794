"""Every unit, what it asks and what its lab takes: the page `units`, the margin's list, and the
rows of the README, which `python -m book.map_of_units` writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.authoring.plan import Plan, plan
from book.pages import HOME, ROOT, write_if_new

HEAD = """# The units

Each unit is a chapter to read and a lab to solve. All of them look at the same layer.
"""
ROWS = re.compile(r"(<!-- units:.*?-->\n).*?(<!-- end of units -->)", re.DOTALL)
WORTH = re.compile(r"\*(\d+) minutes · difficulty (\d) of 5 · ([\d.]+) points?")
"""What stands below the title of each question in a lab."""


@dataclass(frozen=True)
class Unit:
    """A chapter and its lab, if it has one: paths from the repository's root."""

    chapter: str
    lab: str | None

    @property
    def title(self) -> str:
        """The chapter's, with its number: "01 Strides: why moving nothing is free"."""
        return _first_words(ROOT / self.chapter)[0]

    @property
    def opening(self) -> str:
        """The chapter's first paragraph: what its reader could not explain before."""
        return _first_words(ROOT / self.chapter)[1]

    def asks(self) -> str:
        """What the lab takes: "11 questions, 120 minutes, difficulty 1 to 4"; "" without a lab."""
        if self.lab is None:
            return ""
        texts = ("".join(cell["source"]) for cell in _cells(ROOT / self.lab))
        worth = [match for text in texts for match in WORTH.finditer(text)]
        minutes, hard = sum(int(one[1]) for one in worth), sorted(int(one[2]) for one in worth)
        return f"{len(worth)} questions, {minutes} minutes, difficulty {hard[0]} to {hard[-1]}"


def units(made: Plan) -> list[Unit]:
    """The units in their order. Raises ValueError where there is none to list."""
    labs = {lab.name: lab.student for lab in made.labs}
    chapters = [one.notebook for one in made.chapters if one.notebook != HOME]
    if not chapters:
        raise ValueError("there is no chapter, so there is no book")
    return [Unit(chapter, labs.get(Path(chapter).stem)) for chapter in chapters]


def write(made: Plan, folder: Path) -> None:
    """Writes `units.md` into `folder`. Raises ValueError where there is no unit to list."""
    all_of_them = units(made)
    text = "\n".join([HEAD, *map(_entry, all_of_them), _contents(all_of_them)])
    write_if_new(folder / "units.md", text)


def rows(made: Plan) -> str:
    """The units as the README shows them."""
    lines = ["| unit | what it answers | its lab |", "|---|---|---|"]
    for unit in units(made):
        name, _, promise = unit.title.partition(": ")
        lab = f"[{unit.asks()}]({unit.lab})" if unit.lab else ""
        lines.append(f"| [{name}]({unit.chapter}) | {promise} | {lab} |")
    return "\n" + "\n".join(lines) + "\n\n"


def in_readme(text: str, made: Plan) -> str:
    """`text` of the README with its rows as they must be."""
    return ROWS.sub(lambda found: found[1] + rows(made) + found[2], text)


def _entry(unit: Unit) -> str:
    links = f"[Read the chapter]({unit.chapter})"
    if unit.lab:
        links += f" · [Solve the lab]({unit.lab}): {unit.asks()}"
    return f"## {unit.title}\n\n{unit.opening}\n\n{links}\n"


def _first_words(path: Path) -> tuple[str, str]:
    """A chapter's title, and its first paragraph that is no line of links."""
    text = "".join(_cells(path)[0]["source"])
    title, _, rest = text.partition("\n")
    parts = [part.strip() for part in re.split(r"\n\s*\n", rest)]
    opening = next(part for part in parts if part and not part.startswith("["))
    return title.removeprefix("# ").strip(), " ".join(opening.split())


def _cells(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    return cells


def _contents(all_of_them: list[Unit]) -> str:
    """The margin: each chapter with its lab below it, so that the lab is what comes next."""

    def pages() -> Iterator[str]:
        for unit in all_of_them:
            yield unit.chapter
            if unit.lab:
                yield unit.lab

    listed = "\n".join(page.removesuffix(".ipynb") for page in pages())
    return f"```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


if __name__ == "__main__":
    readme = ROOT / "README.md"
    write_if_new(readme, in_readme(readme.read_text("utf-8"), plan(ROOT)))
