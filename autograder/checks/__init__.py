"""What is asked, what is true, what goes wrong: one package per lab, `labNN_topic`. It makes
`lab = Lab(...)` and then imports its questions, a file each, in the order in which they are asked.

What lives here: questions. What may not: notebooks, jails, and solutions. Question names are unique
across the course, so `find("contiguous_strides")` needs no lab.
"""

from __future__ import annotations

import difflib
import pkgutil
import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path

from autograder.judge import Lab, Question, content_room, say

content_room(Path(__file__).parent)

_MODULE = re.compile(r"lab\d\d_\w+")


class UnknownQuestion(LookupError):
    """No lab asks a question of this name; the message names those that are spelt nearly so."""


class UnknownLab(LookupError):
    """No lab has this name or number; the message names those that there are."""


def labs() -> tuple[Lab, ...]:
    """Every lab of the course, in the order of its number."""
    return tuple(map(_imported, names()))


def lab(name: str) -> Lab:
    """The lab called `name`, as in "01_strides" or "01"; no other lab is imported.

    Raises UnknownLab.
    """
    known = names()
    for each in known:
        if name and name in (each, each[:2]):
            return _imported(each)
    raise UnknownLab(f"There is no lab {name[:60]!r}. There are {', '.join(known)}.")


@cache
def names() -> tuple[str, ...]:
    """The labs' names, as in "01_strides", in the order of their numbers; imports none."""
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(name.removeprefix("lab") for name in found if _MODULE.fullmatch(name))


def _imported(name: str) -> Lab:
    found = getattr(import_module(f"{__name__}.lab{name}"), "lab", None)
    if not isinstance(found, Lab):
        raise RuntimeError(f"autograder.checks.lab{name} has no `lab = Lab(...)`")
    return found


def find(name: str, labs: Iterable[Lab] | None = None) -> Question:
    """The question called `name`, of `labs` or of the whole course. Raises UnknownQuestion."""
    return lab_of(name, labs).questions[name]


def lab_of(name: str, labs: Iterable[Lab] | None = None) -> Lab:
    """The lab, of `labs` or of the whole course, that asks the question called `name`; no lab after
    it is imported.

    Raises UnknownQuestion, with the nearest names, where there is none.
    """
    known: list[str] = []
    for lab in map(_imported, names()) if labs is None else labs:
        if name in lab.questions:
            return lab
        known += lab.questions
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    nearest = say("or").join(f'"{near_name}"' for near_name in near)
    advice = say("did_you_mean", names=nearest) if near else say("questions", n=len(known))
    raise UnknownQuestion(say("no_question", name=name[:60], advice=advice))
