"""Solution regions: what stands between their two markers, and the stub in its place.

nbgrader looks for the words anywhere in a line, passes over an END without a BEGIN, and replaces a
whole cell that has no region. Each of these has published a solution before, so here a marker is a
line of its own, exactly spelt; in C++ that stands in a string it begins with C++'s comment mark.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autograder.authoring.language import ENGLISH, Language

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
BEGINS, ENDS = (BEGIN, "// BEGIN SOLUTION"), (END, "// END SOLUTION")
"""In Python, and in C++ that stands in a string."""

MARKER = re.compile(r"(BEGIN|END) SOLUTION", re.IGNORECASE)
"""What nbgrader would act on, and what must not be seen in `labs/` in any spelling."""

FOREIGN_REGION = re.compile(r"BEGIN HIDDEN TESTS|BEGIN MARK SCHEME|AUTOTEST")
"""Regions of nbgrader that this course does not use: its checks are open."""

_EMPTY_BRACKETS = re.compile(r"\[\]|\(\)|\{\}")
_DOES_SOMETHING = re.compile(r"[(\[.+*/@%&|^~]|(?<!-)-(?!>)")


@dataclass(frozen=True)
class Region:
    """Lines `begin` and `end` (from 0, in the cell's text) are the markers; `lines` stand between
    them. cpp: whether they are C++, in a string."""

    begin: int
    end: int
    lines: tuple[str, ...]
    cpp: bool = False


class RegionError(ValueError):
    """A region is not well formed. `row` (from 0) is the line of the cell's text that shows it."""

    def __init__(self, row: int, says: str) -> None:
        self.row = row
        super().__init__(says)


def regions(text: str) -> tuple[Region, ...]:
    """The solution regions of a cell.

    Raises:
        RegionError: nested, unclosed, unopened, misspelt, empty, or of two languages.
    """
    found: list[Region] = []
    rows = text.split("\n")
    begin: int | None = None
    for row, line in enumerate(rows):
        if not MARKER.search(line):
            continue
        if line.strip() not in (*BEGINS, *ENDS):
            raise RegionError(row, f"a marker is a line of its own, {BEGIN!r} or {END!r}")
        if (line.strip() in BEGINS) == (begin is not None):
            raise RegionError(
                row,
                "END SOLUTION without BEGIN" if begin is None else "BEGIN SOLUTION inside a region",
            )
        if begin is None:
            begin = row
            continue
        between = tuple(rows[begin + 1 : row])
        if not any(line.strip() for line in between):
            raise RegionError(begin, "nothing stands in this solution region")
        found.append(Region(begin, row, between, line.strip() != END))
        if rows[begin].strip() != BEGINS[found[-1].cpp] or found[0].cpp != found[-1].cpp:
            raise RegionError(begin, "the markers of a cell are all Python's or all C++'s")
        begin = None
    if begin is not None:
        raise RegionError(begin, "this solution region is never closed")
    return tuple(found)


def about(found: Iterable[Region]) -> int:
    """How many lines of code a solution takes: exact up to ten, then to the nearest five."""
    lines = [line.strip() for region in found for line in region.lines]
    count = sum(bool(line) and not line.startswith(("#", "//")) for line in lines)
    return max(1, count if count <= 10 else 5 * round(count / 5))


def stub(
    lab: int,
    question: int,
    name: str,
    lines: int,
    *,
    places: int = 1,
    cpp: bool = False,
    language: Language = ENGLISH,
) -> str:
    """What the student finds in place of a region: the size of the answer, and an error when it is
    called (in C++, when it is compiled), in English in any language: it is told by its words. An
    answer with several `places` says the size of all, in each.

    >>> print(stub(1, 2, "contiguous_strides", 4))
    # about 4 lines
    raise NotImplementedError("Lab 1.2: contiguous_strides, about 4 lines")
    """
    says = f'"Lab {lab}.{question}: {name}, {_size(lines, places, ENGLISH)}"'
    size = _size(lines, places, language)
    if cpp:
        return f"// {size}\n#error {says}"
    return f"# {size}\nraise NotImplementedError({says})"


def _size(lines: int, places: int, language: Language) -> str:
    size = language.one_line if lines == 1 else language.lines.format(lines=lines)
    return size + (language.in_all if places > 1 else "")


def telling_lines(found: Iterable[Region]) -> frozenset[str]:
    """The lines of a solution that must not be seen in `labs/`: those that compute, call or index.

    `return out`, `total = 0`, `else:` and `rows = []` tell nobody anything and occur everywhere.
    """
    bare = (bare_line(line) for region in found for line in region.lines)
    return frozenset(line for line in bare if _DOES_SOMETHING.search(_EMPTY_BRACKETS.sub("", line)))


def given_lines(text: str) -> frozenset[str]:
    """The lines of an answer cell that the student receives: those outside its regions."""
    found = regions(text)
    if not found:
        return frozenset()
    hidden = {row for region in found for row in range(region.begin, region.end + 1)}
    rows = enumerate(text.split("\n"))
    return frozenset(bare_line(line) for row, line in rows if row not in hidden)


def bare_line(line: str) -> str:
    """`line` without indentation, comment marks, backticks and a trailing comment: a solution hides
    in none of them."""
    return re.sub(r"\s+#.*$", "", line.strip().lstrip("#").strip(" `\t"))


def stops_the_notebook(student_text: str) -> Iterator[int]:
    """Line numbers (from 1) of `raise NotImplementedError` that run when the cell does, not when a
    function is called.

    Raises:
        SyntaxError: the student's cell is not Python.
    """
    tree = ast.parse(student_text)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in function.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and id(node) not in inside:
            yield node.lineno
