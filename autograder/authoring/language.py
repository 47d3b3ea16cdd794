"""The languages in which the course is written besides English: a folder each, named after its
code, with a `language.toml` and the sidecars of the sources, laid out as these are."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

from autograder.authoring.problem import Problem, Refused

CODE = re.compile(r"[a-z]{2}")


@dataclass(frozen=True)
class Language:
    """What a build writes into notebooks by itself, in one language. The defaults are English; a
    `language.toml` says all of them."""

    code: str = "en"
    name: str = "English"
    open_in: str = "Open in {place}"
    worth: str = "*{minutes} minutes · difficulty {difficulty} of 5 · {points}{marked}*"
    one_point: str = "1 point"
    points: str = "{points:g} points"
    marked: str = ", marked by a person"
    units: str = "unit"
    about: str = "about"
    read: str = "read"
    solve: str = "solve"
    chapter: str = "chapter {number}"
    lab: str = "lab {number}"
    lab_title: str = "Lab "
    one_line: str = "about 1 line"
    lines: str = "about {lines} lines"
    in_all: str = " in all"
    arrival: str = (
        "Colab, Kaggle and Binder get the course here. Where it is installed, this does nothing."
    )
    nothing_installed: str = "This Python has no onelayer. In the course's folder: make lab"
    answer_here: str = "*Your answer here.*"
    after_guess: str = "Open this after your guess"

    @property
    def prefix(self) -> str:
        """In front of a path of the English course, to get to its twin."""
        return "" if self == ENGLISH else f"{self.code}/"


ENGLISH = Language()


def others(root: Path) -> tuple[Language, ...]:
    """The languages that the course at `root` has besides English.

    Raises:
        Refused: a `language.toml` that does not say exactly what is asked.
    """
    found = sorted(root.glob("*/language.toml"))
    return tuple(_language(path) for path in found if CODE.fullmatch(path.parent.name))


def _language(path: Path) -> Language:
    where = f"{path.parent.name}/{path.name}"
    try:
        said = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise Refused(Problem(where, f"cannot be read: {error}")) from error
    asked = {field.name for field in fields(Language)} - {"code"}
    problems = [Problem(where, f"does not say {name!r}") for name in sorted(asked - set(said))]
    problems += [Problem(where, f"says {name!r}, which nobody reads") for name in set(said) - asked]
    if problems:
        raise Refused(*problems)
    return Language(path.parent.name, **said)
