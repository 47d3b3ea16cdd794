"""The page of answers that are alike: two and two side by side, for the instructor.

It says what is common and how rare that is. It names nobody a cheat: two who worked together, or
from the same page, write alike, and whoever reads it has to ask.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from markupsafe import Markup

from ..intake.release import Release
from .fingerprints import Alike, alike
from .page import HERE, environment

MOST_PAIRS = 60
"""On the page; the most striking come first."""


@dataclass(frozen=True)
class Side:
    """One of two answers: each line, and whether both have it."""

    student: str
    lines: tuple[tuple[str, bool], ...]


def alike_page(release: Release, answers: Mapping[str, Mapping[str, str]], now: datetime) -> str:
    """The HTML text. answers: by student and cell, as they were handed in."""
    found = sorted(pairs(release, answers), key=lambda one: -one.shared * one.share)
    return (
        environment()
        .get_template("alike.html.j2")
        .render(
            {
                "lab": release.lab,
                "number": int(release.name[:2]),
                "style": Markup((HERE / "page.css").read_text(encoding="utf-8")),
                "students": len(answers),
                "found": len(found),
                "pairs": [(one, _sides(one, answers)) for one in found[:MOST_PAIRS]],
                "now": f"{now:%Y-%m-%d %H:%M} UTC",
            }
        )
    )


def pairs(release: Release, answers: Mapping[str, Mapping[str, str]]) -> Iterator[Alike]:
    """Of every cell that is the student's, code and free text. What the stub and our own solution
    say needs no explanation."""
    solved = _solved(release)
    for name, cell in release.answers.items():
        own = {student: cells[name] for student, cells in answers.items() if name in cells}
        is_code = cell["cell_type"] == "code"
        yield from alike(name, own, [cell["source"], solved.get(name, "")], is_code=is_code)


def _solved(release: Release) -> dict[str, str]:
    cells = json.loads(release.instructor)["cells"] if release.instructor else []
    return {cell["id"]: "".join(cell["source"]) for cell in cells}


def _sides(one: Alike, answers: Mapping[str, Mapping[str, Any]]) -> list[Side]:
    return [
        _side(student, answers[student][one.question], lines)
        for student, lines in zip((one.one, one.other), one.lines, strict=True)
    ]


def _side(student: str, text: str, common: frozenset[int]) -> Side:
    lines = enumerate(text.splitlines())
    return Side(student, tuple((line, number in common) for number, line in lines))
