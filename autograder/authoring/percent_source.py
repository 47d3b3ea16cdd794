"""A percent source, read: its cells, each with the line where its text begins.

Jupytext reads the cells. Python's own tokenizer reads the same file beside it, for two reasons:
Jupytext reports no line numbers, and it splits a cell at anything that looks like a header, also
inside a function. Where the two disagree about how many cells there are, the source is refused.
"""

import ast
import io
import re
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autograder.authoring.header import Header, complaints, header
from autograder.authoring.problem import Problem, Refused

_HEADER = re.compile(r"#\s*%%+(\s|$)|#\s*(<codecell>|In\[[0-9 ]*\]:?)\s*$")
_MAGIC = re.compile(r"# (?=%{1,2}[A-Za-z])")
_ODD_BREAK = re.compile("[\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029]")
_ATTACHMENT = re.compile(r"\]\(\s*attachment:|\bsrc=[\"']?attachment:")


@dataclass(frozen=True)
class Cell:
    """One cell of a source. `line` (from 1) is where `text` begins in the file `path`."""

    kind: Literal["code", "markdown"]
    text: str
    line: int
    header: Header
    path: str = ""

    @property
    def id(self) -> str:
        return self.header.id

    def problem(self, says: str, row: int = -1) -> Problem:
        """What is wrong in line `row` (from 0) of the text, or in the line above it."""
        return Problem(self.path, says, self.line + row, self.id)


def read_source(root: Path, path: str) -> tuple[Cell, ...]:
    """The cells of the percent source `path`, which counts from `root`.

    Raises:
        Refused: with everything that is wrong in the file, a sentence each.
    """
    text = _read_text(root, path)
    comments = _comments(path, text)
    header_lines = [line for line, comment in comments.items() if _HEADER.match(comment.lstrip())]
    cells = _jupytext_cells(path, text, header_lines)
    lines = text.split("\n")
    problems: list[Problem] = list(_layout_problems(path, comments))
    found: list[Cell] = []
    for number, end, cell in zip(
        header_lines, [*header_lines[1:], len(lines) + 1], cells, strict=True
    ):
        says = [*complaints(lines[number - 1], cell.metadata), *_content_complaints(cell)]
        if cell.cell_type == "markdown" and "cell_marker" not in cell.metadata:
            bare = (n for n in range(number + 1, end) if lines[n - 1].strip() and n not in comments)
            says += [
                f"line {n} is code in a [markdown] cell; is a # or a header missing?" for n in bare
            ][:1]
        problems += [Problem(path, sentence, line=number, cell=_name(cell)) for sentence in says]
        if not says:
            found.append(_cell(path, cell, number, comments))
    problems += _duplicates(found)
    if problems:
        raise Refused(*problems)
    return tuple(found)


def _read_text(root: Path, path: str) -> str:
    try:
        # Any line ending, with or without a byte order mark.
        text = (root / path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(Problem(path, f"cannot be read as UTF-8 text: {error}")) from error
    if not text.strip():
        raise Refused(Problem(path, "the source is empty"))
    odd = [
        Problem(path, f"holds the line break U+{ord(c):04X}, where Jupytext would cut", line=n)
        for n, line in enumerate(text.split("\n"), start=1)
        for c in _ODD_BREAK.findall(line)
    ]
    if odd:
        raise Refused(*odd)
    return text


def _comments(path: str, text: str) -> dict[int, str]:
    """Comments that have a line to themselves, by line number, with their indentation."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a doubtful escape in a string is the linter's affair
            compile(text, path, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, ValueError, tokenize.TokenError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        says = error.msg if isinstance(error, SyntaxError) else str(error)
        raise Refused(Problem(path, f"is not Python: {says}", line=line)) from error
    own_line = (
        t for t in tokens if t.type == tokenize.COMMENT and not t.line[: t.start[1]].strip()
    )
    return {token.start[0]: token.line[: token.start[1]] + token.string for token in own_line}


def _jupytext_cells(path: str, text: str, header_lines: list[int]) -> list[Any]:
    import nbformat  # with jupytext 1.5 s, and only an author has them

    try:
        notebook = _jupytext(text)
    except nbformat.ValidationError as error:
        raise Refused(_refused_header(path, text, header_lines, error)) from error
    kept = set(notebook.metadata) - {"jupytext", "kernelspec", "language_info"}
    if kept:
        says = f"the file's head sets {sorted(kept)}, which no notebook would get"
        raise Refused(Problem(path, says))
    cells: list[Any] = notebook.cells
    if len(cells) == len(header_lines) + 1:
        raise Refused(Problem(path, "something stands before the first # %% header", line=1))
    if len(cells) != len(header_lines):
        says = (
            f"Python sees {len(header_lines)} headers and Jupytext {len(cells)} cells; "
            "is there a line like # %% inside a fenced block or a string?"
        )
        raise Refused(Problem(path, says))
    return cells


def _jupytext(text: str) -> Any:
    import jupytext

    # Its comment_magics would make commands of comments like "# copy x"; `_cell` makes the few
    # that we want.
    percent = {"extension": ".py", "format_name": "percent", "comment_magics": False}
    return jupytext.reads(text, percent)


def _refused_header(path: str, text: str, header_lines: list[int], error: Any) -> Problem:
    """The header with a value that no notebook may hold, such as tags="setup"."""
    import nbformat

    lines = text.split("\n")
    for number in header_lines:
        try:
            _jupytext(lines[number - 1])
        except nbformat.ValidationError:
            return Problem(path, f"the header {lines[number - 1]!r}: {error.message}", line=number)
    return Problem(path, f"no notebook may hold this: {error.message}")


def _layout_problems(path: str, comments: dict[int, str]) -> Iterator[Problem]:
    for line, comment in comments.items():
        if comment[0] != "#" and _HEADER.match(comment.lstrip()):
            yield Problem(path, "a cell header must start at the left margin", line=line)
        if re.match(r"\s*#\s*%%+\S*\bid\s*=", comment):
            yield Problem(path, "a cell header needs a space after %%", line=line)


def _content_complaints(cell: Any) -> Iterator[str]:
    if cell.cell_type not in ("code", "markdown"):
        yield f"a {cell.cell_type} cell: only code and [markdown] become notebook cells here"
    if cell.cell_type == "markdown" and _ATTACHMENT.search(cell.source):
        yield "shows an attachment, which text sources lose; make the picture a file or a plot"
    if not cell.source.strip():
        yield "the cell is empty"


def _name(cell: Any) -> str | None:
    name = cell.metadata.get("id")
    return name if isinstance(name, str) else None


def _cell(path: str, cell: Any, header_line: int, comments: dict[int, str]) -> Cell:
    body = cell.source
    blank = len(body) - len(body.lstrip("\n"))
    line = header_line + 1 + blank + ("cell_marker" in cell.metadata)
    text = body.strip("\n")
    if cell.cell_type == "code":
        rows = enumerate(text.split("\n"), start=line)
        # Only a comment of its own is a magic, never a line of a string that looks like one.
        text = "\n".join(
            _MAGIC.sub("", row, count=1) if _MAGIC.match(comments.get(n, "")) else row
            for n, row in rows
        )
    return Cell(cell.cell_type, text, line, header(cell.metadata), path)


def _duplicates(cells: list[Cell]) -> Iterator[Problem]:
    counts = Counter(cell.id for cell in cells)
    for cell in cells:
        if counts[cell.id] > 1:
            yield cell.problem(f"{counts[cell.id]} cells have this id")
