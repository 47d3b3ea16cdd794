"""Names that an answer uses and grading will not find.

Graded are the cells of the answers, after the lab's set-up cells as they were given out. A notebook
runs every cell, so a helper in a cell of the student's own is missed only when it is too late;
what IPython remembers of the cells that ran tells it before.
"""

from __future__ import annotations

import ast
import builtins
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from autograder.judge import Lab
from autograder.judge.cell_names import bound

from .course import find_root

SETUP = "setup"
"""The tag of the cells that grading runs beside the answers."""


def left_behind(lab: Lab, question: str, names: Mapping[str, Any]) -> list[str]:
    """Those that stand in the cell of `question` and in no cell that grading runs, sorted.

    names: the notebook's own. Nothing where IPython or the lab as given out is not there to ask.
    """
    cells = _parsed(names.get("In"))
    given = _given(lab.name, str(Path.cwd()))
    if given is None:
        return []
    last = {name: cell for cell in cells for name in bound(cell.body)}
    if question not in last:
        return []
    asked = [other.name for other in lab]
    taken = {id(cell) for cell in cells if any(last.get(name) is cell for name in asked)}
    used = _loaded(last[question]) - given - set(dir(builtins))
    return sorted(name for name in used if name in last and id(last[name]) not in taken)


def _parsed(sources: Any) -> list[ast.Module]:
    """The cells that ran and are plain Python, in order."""
    parsed = []
    for source in sources if isinstance(sources, list) else ():
        try:
            parsed.append(ast.parse(source))
        except (SyntaxError, ValueError, TypeError, RecursionError):
            continue  # with a magic in it: no cell of an answer
    return parsed


@cache
def _given(lab: str, start: str) -> frozenset[str] | None:
    """What the set-up cells of the lab make; None where the lab does not lie here."""
    root = find_root(Path(start))
    try:
        text = Path(root or start, "labs", lab, f"{lab}.ipynb").read_text("utf-8")
    except OSError:
        return None
    cells = json.loads(text)["cells"]
    setup = (c["source"] for c in cells if SETUP in c["metadata"].get("tags", ()))
    return frozenset(name for c in setup for name in bound(ast.parse("".join(c)).body))


def _loaded(cell: ast.Module) -> set[str]:
    """The names that a cell reads and does not make anywhere in itself."""
    parts = list(ast.walk(cell))
    names = [part for part in parts if isinstance(part, ast.Name)]
    made = {part.id for part in names if isinstance(part.ctx, ast.Store)} | bound(cell.body)
    made |= {part.arg for part in parts if isinstance(part, ast.arg)}
    for part in parts:
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            made |= bound(part.body)  # a function inside a function, what it imports
    return {part.id for part in names if isinstance(part.ctx, ast.Load)} - made
