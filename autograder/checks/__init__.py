"""What is asked, what is true, what goes wrong: one package per lab, `labNN_topic`. It makes
`lab = Lab(...)` and then imports its questions, a file each, in the order in which they are asked.

What lives here: questions. What may not: notebooks, jails, and solutions. Question names are unique
across the course, so `find("contiguous_strides")` needs no lab.
"""

from __future__ import annotations

import difflib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from importlib import import_module

from autograder.judge import Lab, Question

_MODULE = re.compile(r"lab\d\d_\w+")


class UnknownQuestion(LookupError):
    """No lab asks a question of this name; the message names those that are spelt nearly so."""


def labs() -> tuple[Lab, ...]:
    """Every lab of the course, in the order of its number."""
    return tuple(_each())


def _each() -> Iterator[Lab]:
    """The labs one by one, so that finding a question imports no lab after its own."""
    for name in sorted(found.name for found in pkgutil.iter_modules(__path__)):
        if _MODULE.fullmatch(name):
            lab = getattr(import_module(f"{__name__}.{name}"), "lab", None)
            if not isinstance(lab, Lab):
                raise RuntimeError(f"autograder.checks.{name} has no `lab = Lab(...)`")
            yield lab


def find(name: str, labs: Iterable[Lab] | None = None) -> Question:
    """The question called `name`, of `labs` or of the whole course.

    Raises UnknownQuestion, with the nearest names, where there is none.
    """
    known: list[str] = []
    for lab in _each() if labs is None else labs:
        if name in lab.questions:
            return lab.questions[name]
        known += lab.questions
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    names = " or ".join(f'"{near_name}"' for near_name in near)
    advice = f"Did you mean {names}?" if near else f"There are {len(known)} questions."
    raise UnknownQuestion(f'There is no question "{name[:60]}". {advice}')
