"""Notebooks as they lie on disk: what may not be seen in them, whoever wrote them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from typing import Any

from autograder.authoring import lab, notebook, solution
from autograder.authoring.header import ID
from autograder.authoring.notebook import Notebook, text_of
from autograder.authoring.problem import Problem


def parse(content: bytes) -> Notebook | None:
    """The notebook in a file's bytes, or None where there is none."""
    try:
        made = json.loads(content)
    except (ValueError, RecursionError):
        return None
    match made:
        case {"cells": [*cells]} if all(map(_is_cell, cells)):
            return dict(made)
    return None


def _is_cell(cell: object) -> bool:
    match cell:
        case {"metadata": dict(), "source": str() | list() as source}:
            return all(isinstance(line, str) for line in source)
    return False


def generated_from(content: bytes) -> str | None:
    """The source that a generated notebook names; None for anybody else's notebook."""
    match parse(content):
        case {"metadata": {notebook.OURS: {"source": str(source)}}}:
            return source
    return None


def notebook_problems(path: str, made: Notebook) -> Iterator[Problem]:
    """What no committed notebook may hold: a cell without a good id, attachments, outputs, counts,
    unpriced checks."""
    ids = Counter(str(cell.get("id")) for cell in made["cells"])
    for position, cell in enumerate(made["cells"]):
        for says in _cell_complaints(cell):
            yield Problem(path, says, cell=name_of(cell, position))
    for name, count in ids.items():
        if count > 1 and name != "None":
            yield Problem(path, f"{count} cells have this id", cell=name)


def _cell_complaints(cell: Mapping[str, Any]) -> Iterator[str]:
    if "id" not in cell:
        yield "has no id"
    elif not ID.fullmatch(str(cell["id"])):
        yield "its id is not 1 to 64 letters, digits, hyphens and underscores"
    if cell.get("attachments"):
        yield "has an attachment"
    if cell.get("outputs"):
        yield "has outputs"
    if cell.get("execution_count") is not None:
        yield "has an execution count"
    graded = cell["metadata"].get("nbgrader", {})
    if graded.get("grade") and not graded.get("points"):
        yield "is graded but has no points"
    if graded and graded.get("grade_id") != cell.get("id"):
        yield f"its nbgrader grade_id is {graded.get('grade_id')!r}"


def student_problems(path: str, made: Notebook, hidden: Set[str]) -> Iterator[Problem]:
    """What a student's notebook may not show or do: markers, lines of the solution, an answer cell
    that stops it."""
    for position, cell in enumerate(made["cells"]):
        text, name = text_of(cell), name_of(cell, position)
        given = lab.GIVEN in cell["metadata"].get("tags", [])
        for says in leaks(text, frozenset() if given else hidden):
            yield Problem(path, says, cell=name)
        if cell["metadata"].get("nbgrader", {}).get("solution") and cell.get("cell_type") == "code":
            for says in _stub_complaints(text):
                yield Problem(path, says, cell=name)


def leaks(text: str, hidden: Set[str]) -> Iterator[str]:
    """Solution markers in `text`, and lines of it that are among the `hidden` ones."""
    for line in text.split("\n"):
        if solution.MARKER.search(line):
            yield f"shows the solution marker {line.strip()!r}"
        elif solution.bare_line(line) in hidden:
            yield f"shows the solution line {solution.bare_line(line)!r}"


def _stub_complaints(text: str) -> Iterator[str]:
    try:
        stops = list(solution.stops_the_notebook(text))
    except SyntaxError as error:
        yield f"without its solution the cell is not Python: {error.msg} (line {error.lineno})"
        return
    if stops:
        yield "its solution region is outside a function, so an unfilled lab would stop here"


def name_of(cell: Mapping[str, Any], position: int) -> str:
    """A cell's id, or its number (from 1) where it has none."""
    return str(cell.get("id") or f"number {position + 1}")
