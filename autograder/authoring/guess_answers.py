"""What belongs to the answer of a guess: all cells below it, up to the next heading.

It stays closed until somebody has guessed: its prose in a notebook, all of it on the site
(book/pages.py).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from autograder.authoring.percent_source import Cell
from autograder.authoring.problem import Problem

HEADING = re.compile(r"#{1,6} ")
ANSWERED = "ol-answered"
"""What the folded prose and the other cells of an answer are called on a page."""

ASKING = ("predict", "reveal")
"""What a reader clicks on, and no page of the site shows as code."""


def answer_cells(cells: Iterable[tuple[str, str]]) -> set[int]:
    """The positions of the `cells` (kind, text) that belong to the answer of a guess."""
    found, guessed = set(), False
    for position, (kind, text) in enumerate(cells):
        if kind == "markdown" and HEADING.match(text):
            guessed = False
        if guessed:
            found.add(position)
        if kind == "code" and "predict" in map(called, statements(text)):
            guessed = True
    return found


def unseen_cards(cells: Sequence[Cell]) -> Iterator[Problem]:
    """A guess or an answer whose card nobody would see: a notebook shows what a cell ends with."""
    for cell in (cell for cell in cells if cell.kind == "code"):
        for line in list(statements(cell.text))[:-1]:
            if (name := called(line)) in ASKING:
                says = f"{name}(...) shows its card only as the last statement of its cell"
                yield cell.problem(says, line.lineno - 1)


def folded(text: str, summary: str) -> str:
    """Prose behind a line that opens it. The empty lines let what is between be Markdown."""
    return f'<details class="{ANSWERED}"><summary>{summary}</summary>\n\n{text}\n\n</details>'


def statements(source: str) -> Iterator[ast.stmt]:
    """The statements of a cell; none where it has a magic of IPython."""
    try:
        yield from ast.parse(source).body
    except SyntaxError:
        return


def called(line: ast.stmt) -> str:
    """The name of the function that the statement calls and does nothing else; "" for others."""
    match line:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
            return name
    return ""
