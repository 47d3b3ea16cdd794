"""Every unit as a card, the margin's list, and the rows of the README, which
`python -m book.map_of_units` writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from autograder.authoring.plan import Plan, plan
from book.pages import write_if_new
from book.pictures import picture
from book.unit import ROOT, Unit, units

HEAD = """# The units

Each unit is a chapter to read and a lab to solve. All of them look at the same layer. This browser
remembers what you guessed, and which labs you ticked.
"""
ROWS = re.compile(r"(<!-- units:.*?-->\n).*?(<!-- end of units -->)", re.DOTALL)


def write(made: Plan, folder: Path) -> None:
    """Writes `units.md` into `folder`. Raises ValueError where there is no unit to list."""
    all_of_them = units(made)
    text = "\n".join([HEAD, *map(card, all_of_them), _contents(all_of_them)])
    write_if_new(folder / "units.md", text)


def rows(made: Plan) -> str:
    """The units as the README shows them."""
    lines = ["| unit | what it answers | to read, by evening | its lab |", "|---|---|---|---|"]
    for unit in units(made):
        promise = unit.title.partition(": ")[2]
        lab = f"[{unit.asks()}]({unit.lab})" if unit.lab else ""
        read = " + ".join(map(str, unit.evenings))
        lines.append(f"| [{unit.name}]({unit.chapter}) | {promise} | {read} minutes | {lab} |")
    return "\n" + "\n".join(lines) + "\n\n"


def in_readme(text: str, made: Plan) -> str:
    """`text` of the README with its rows as they must be."""
    return ROWS.sub(lambda found: found[1] + rows(made) + found[2], text)


def card(unit: Unit) -> str:
    """A picture, the promise, minutes and difficulty, what comes before, what the reader did."""
    links = f"[Read the chapter]({unit.chapter}): {unit.reading_minutes} minutes"
    if unit.lab:
        links += f"\n\n[Solve the lab]({unit.lab}): {unit.asks()}"
    before = ", ".join(unit.after)
    done = (
        f'<p class="ol-done" data-unit="{unit.number}" '
        f'data-guesses="{escape(" ".join(unit.guesses))}"></p>'
    )
    return "\n\n".join(
        [
            f"## {unit.title}",
            _raw(picture(unit.number)),
            unit.opening,
            links,
            f"After {before}." if before else "Nothing comes before.",
            _raw(done),
        ]
    )


def _raw(html: str) -> str:
    return f"```{{raw}} html\n{html}\n```"


def _contents(all_of_them: list[Unit]) -> str:
    """The margin: each chapter with its lab below it, so that the lab is what comes next."""

    def pages() -> Iterator[str]:
        for unit in all_of_them:
            yield unit.chapter
            if unit.lab:
                yield unit.lab

    listed = "\n".join(page.removesuffix(".ipynb") for page in pages())
    return f"\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


if __name__ == "__main__":
    readme = ROOT / "README.md"
    write_if_new(readme, in_readme(readme.read_text("utf-8"), plan(ROOT)))
