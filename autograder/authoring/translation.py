"""The words of a source in another language: a sidecar in Markdown, an entry for each cell.

    <!-- why-a-cache 3f2a91c4 -->
    ## ¿Por qué no preguntar a CUDA cada vez?
    ...

An entry begins with the cell's id and the hash of the English words that it translates, so a cell
that changes is known. Prose stands as it is shown. Of code only comments and docstrings are words;
each stands as a hunk, the English lines behind `- `, the others behind `+ `:

    <!-- setup 9d81c0aa -->
    - times compare better
    + así los tiempos se comparan mejor

Further hunks may translate what a string of the cell shows, such as the label of a plot; the code
itself stays what it is.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autograder.authoring import solution
from autograder.authoring.percent_source import Cell
from autograder.authoring.problem import Problem

UNTRANSLATED = "untranslated"
_HEAD = re.compile(rf"(?m)^<!-- ([A-Za-z0-9_-]+) ([0-9a-f]{{8}}|{UNTRANSLATED}) -->$")
_LETTERS = re.compile(r"[A-Za-z]{2}")


@dataclass(frozen=True)
class Entry:
    """What a sidecar says of one cell. `line` (from 1) is that of its head."""

    id: str
    english: str
    text: str
    line: int


@dataclass(frozen=True)
class Words:
    """A comment or a docstring of a code cell: its lines, and where it stands in the text."""

    lines: tuple[str, ...]
    begin: int
    end: int
    between: str
    """What stands between two of its lines."""


@dataclass(frozen=True)
class Hunk:
    """English lines and what stands in their place."""

    english: tuple[str, ...]
    other: tuple[str, ...]


def fingerprint(cell: Cell) -> str:
    """Eight hex digits of the English words of a cell; a change of code alone keeps them, and so
    does one of line breaks."""
    said = cell.text
    if cell.kind == "code":
        said = "\n".join("\n".join(words.lines) for words in words_of(cell.text))
    return hashlib.sha256(" ".join(said.split()).encode()).hexdigest()[:8]


def has_words(cell: Cell) -> bool:
    """Whether there is anything to translate. Other right answers are for instructors, as is."""
    if cell.header.role == "alternative":
        return False
    return cell.kind == "markdown" or bool(words_of(cell.text))


def read(text: str) -> list[Entry]:
    """The entries of a sidecar, in turn."""
    heads = list(_HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return [
        Entry(
            head[1],
            head[2],
            text[head.end() : end].strip("\n"),
            text.count("\n", 0, head.end()) + 1,
        )
        for head, end in zip(heads, ends, strict=True)
    ]


def in_language(
    cells: Sequence[Cell], entries: Sequence[Entry], path: str
) -> tuple[tuple[Cell, ...], list[Problem]]:
    """The cells in the sidecar's language, English where it lacks one, and everything wrong with
    the sidecar at `path`: what is missing, stale, left over, or changes code."""
    by_id = {entry.id: entry for entry in entries}
    problems = list(_orphans(cells, entries, path))
    made = []
    for cell in cells:
        entry = by_id.get(cell.id)
        if entry is None and not has_words(cell):
            made.append(cell)
        elif entry is None or entry.english == UNTRANSLATED:
            problems.append(Problem(path, "is not translated", cell=cell.id))
            made.append(cell)
        elif entry.english != fingerprint(cell):
            says = (
                f"its English has changed; `autograder translate {path.partition('/')[0]} "
                f"{cell.path} --difference {cell.id}` shows how"
            )
            problems.append(Problem(path, says, entry.line, cell.id))
            made.append(cell)
        else:
            try:
                made.append(replace(cell, text=_in_place(cell, entry)))
            except ValueError as error:
                problems.append(Problem(path, str(error), entry.line, cell.id))
                made.append(cell)
    return tuple(made), problems


def _orphans(cells: Sequence[Cell], entries: Sequence[Entry], path: str) -> Iterator[Problem]:
    known = {cell.id for cell in cells if cell.header.role != "alternative"}
    met: set[str] = set()
    for entry in entries:
        if entry.id not in known:
            says = "translates a cell that is not there"
            yield Problem(path, says, entry.line, entry.id)
        if entry.id in met:
            yield Problem(path, "stands twice", entry.line, entry.id)
        met.add(entry.id)


def _in_place(cell: Cell, entry: Entry) -> str:
    if cell.kind == "markdown":
        if not entry.text.strip():
            raise ValueError("the entry is empty")
        return entry.text
    return in_code(cell.text, hunks(entry.text))


def in_code(text: str, changes: Sequence[Hunk]) -> str:
    """The code of a cell with other words in it.

    Raises:
        ValueError: words that the hunks leave out, or that are not there; code that would change.
    """
    words = words_of(text)
    first, further = changes[: len(words)], changes[len(words) :]
    if [hunk.english for hunk in first] != [found.lines for found in words]:
        missing = next(
            (w for w, h in zip(words, [*first, *[None] * len(words)], strict=False)
             if h is None or h.english != w.lines),
            words[-1],
        )  # fmt: skip
        raise ValueError(f"its hunks are not the cell's words in turn, from {missing.lines[0]!r}")
    made = text
    for found, hunk in reversed(list(zip(words, first, strict=True))):
        said = re.sub(r" +(?=\n)", "", found.between.join(hunk.other))
        made = made[: found.begin] + said + made[found.end :]
    for hunk in further:
        english = "\n".join(hunk.english)
        if english not in made:
            raise ValueError(f"no string of the cell holds {english!r}")
        made = made.replace(english, "\n".join(hunk.other))
    if _code(made) != _code(text):
        raise ValueError("a hunk changes the code, and not only words")
    return made


def hunks(text: str) -> list[Hunk]:
    """The hunks of an entry of code.

    Raises:
        ValueError: a line that belongs to none.
    """
    found: list[tuple[list[str], list[str]]] = []
    before = "+"
    for line in text.split("\n"):
        if not line.strip():
            before = "+"
            continue
        mark, rest = line[:1], line[2:]
        if mark not in ("-", "+") or line[1:2] not in ("", " "):
            raise ValueError(f"a line of a code cell's entry begins with '- ' or '+ ': {line!r}")
        if mark == "-" and before == "+":
            found.append(([], []))
        if not found:
            raise ValueError(f"English lines come first: {line!r}")
        found[-1][mark == "+"].append(rest)
        before = mark
    return [Hunk(tuple(english), tuple(other)) for english, other in found]


def words_of(text: str) -> list[Words]:
    """The comments and docstrings of a code cell in the order in which they stand, without those of
    a solution: whoever solves writes their own."""
    hidden = {
        row for region in solution.regions(text) for row in range(region.begin, region.end + 1)
    }
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    python = _python(text)
    found = sorted(
        [*_comments(python, starts), *_docstrings(python, starts)], key=lambda words: words.begin
    )
    shown = [w for w in found if text.count("\n", 0, w.begin) not in hidden]
    return [words for words in shown if _LETTERS.search(" ".join(words.lines))]


def _python(text: str) -> str:
    """The text with each of IPython's magics as a comment mark's length of nothing."""
    return re.sub(r"(?m)^(\s*)[%!].*$", lambda match: " " * len(match[0]), text)


def _comments(text: str, starts: Sequence[int]) -> Iterator[Words]:
    block: list[tuple[int, int, str]] = []  # row, column and words of lines that follow each other
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or not token.string.startswith("# "):
            continue
        (row, column), alone = token.start, not token.line[: token.start[1]].strip()
        follows = block and alone and (row - 1, column) == block[-1][:2]
        if block and not follows:
            yield _block(block, starts)
            block = []
        if alone:
            block.append((row, column, token.string[2:]))
        else:
            begin = starts[row - 1] + column + 2
            yield Words((token.string[2:],), begin, begin + len(token.string) - 2, " ")
    if block:
        yield _block(block, starts)


def _block(block: Sequence[tuple[int, int, str]], starts: Sequence[int]) -> Words:
    (row, column, _), (last, _, said) = block[0], block[-1]
    end = starts[last - 1] + column + 2 + len(said)
    lines = tuple(words for _, _, words in block)
    return Words(lines, starts[row - 1] + column + 2, end, "\n" + " " * column + "# ")


def _docstrings(text: str, starts: Sequence[int]) -> Iterator[Words]:
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or ast.get_docstring(node) is None:
            continue
        string = node.body[0]
        assert string.end_lineno is not None
        assert string.end_col_offset is not None
        begin = starts[string.lineno - 1] + _characters(lines[string.lineno - 1], string.col_offset)
        end = starts[string.end_lineno - 1] + _characters(
            lines[string.end_lineno - 1], string.end_col_offset
        )
        source = text[begin:end]
        mark = re.match(r'[rR]?("""|\'\'\'|"|\')', source)
        assert mark is not None
        inside = source[mark.end() : len(source) - len(mark[1])]
        indent = "\n" + " " * string.col_offset
        kept = inside.rstrip()
        said = tuple(line.removeprefix(indent[1:]) for line in kept.split("\n"))
        yield Words(said, begin + mark.end(), begin + mark.end() + len(kept), indent)


def _characters(line: str, offset: int) -> int:
    """ast counts in bytes of UTF-8."""
    return len(line.encode()[:offset].decode())


def _code(text: str) -> str:
    """What a text does, whatever its strings and comments say."""
    tree = ast.parse(_python(text))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
        if isinstance(node, ast.JoinedStr):
            node.values = [part for part in node.values if not isinstance(part, ast.Constant)]
    return ast.dump(tree)


def skeleton(cells: Sequence[Cell], entries: Sequence[Entry]) -> str:
    """The sidecar with an entry for every cell that has words, in the order of the source: those
    that are there as they are, the others in English, to be translated. Behind them what belongs to
    no cell any more: only a person knows whether a cell was renamed."""
    by_id: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_id[entry.id].append(entry)
    kept: list[Entry] = []
    for cell in cells:
        new = [Entry(cell.id, UNTRANSLATED, english_entry(cell), 0)] if has_words(cell) else []
        kept += by_id.pop(cell.id, new)
    kept += (entry for left_over in by_id.values() for entry in left_over)
    return "\n".join(f"<!-- {entry.id} {entry.english} -->\n{entry.text}\n" for entry in kept)


def english_entry(cell: Cell) -> str:
    """What an entry says before anybody has translated it."""
    if cell.kind == "markdown":
        return cell.text
    found = (
        "\n".join(f"- {line}".rstrip() for line in words.lines) for words in words_of(cell.text)
    )
    return "\n".join(f"{said}\n+ " for said in found)
