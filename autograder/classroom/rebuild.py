"""A submission rebuilt: the release, with nothing of the student's but the text of their answers.

Check cells, points, metadata, outputs, the kernel and every cell that a student added come from the
release or go. An answer is found by its id; where a tool has lost the ids (Colab and VS Code write
their own), by the function that it defines.

The notebook is a stranger's: no Python of it is parsed here, its sources are text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from .release import Release, graded, is_setup

MAX_SOURCE = 50_000
"""Characters in one answer. The longest honest one has a few thousand."""

_BLANK_RUN = re.compile(r"(?:[ \t\f\v]*\n){50,}|[ \t\f\v]{2000,}")
"""No answer needs it, and highlighting such a run takes time that grows with its square."""

MAX_CELLS = 5_000

_FUNCTION = re.compile(r"^(?:async +)?def +(\w+)", re.MULTILINE)
_BOUND = re.compile(r"^(?:(?:async +)?def|class) +(\w+)|^(\w+) *(?::[^=\n]+)?=(?!=)", re.MULTILINE)
_IMPORTED = re.compile(r"^(?:from +\S+ +)?import +([^#\n(]+)", re.MULTILINE)


class Ungradable(Exception):
    """The submission is no notebook of this lab; the message is the sentence for its student."""


@dataclass(frozen=True)
class Rebuilt:
    """The answers by cell id, as text; what the instructor should know; and the names that only
    cells outside the answers define, so that nobody wonders why they are missing."""

    answers: dict[str, str]
    notes: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Cell:
    """A cell of the submission, reduced to what may be looked at."""

    ids: frozenset[str]
    source: str


def rebuild(data: bytes, release: Release) -> Rebuilt:
    """The student's answers out of their notebook's bytes. Raises Ungradable."""
    cells = list(_cells(_parsed(data)))
    answers: dict[str, str] = {}
    used: list[_Cell] = []
    missing: list[str] = []
    for asked in release.answers:
        found = _by_id(asked, cells) or _by_content(asked, cells, release)
        used += found
        source = _the_one(asked, found)
        if source is None:
            missing.append(asked["id"])
        else:
            answers[asked["id"]] = source
    notes = [f"cell {name} is missing" for name in missing]
    return Rebuilt(answers, tuple(notes), _left_out(cells, used, release))


def _parsed(data: bytes) -> list[Any]:
    try:
        made = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Ungradable("The file is not UTF-8 text, so it is no notebook.") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Ungradable("The file is not a notebook: it is damaged or was cut off.") from error
    cells = made.get("cells") if isinstance(made, dict) else None
    if not isinstance(cells, list):
        raise Ungradable("The file is not a notebook of today's format: it has no list of cells.")
    if len(cells) > MAX_CELLS:
        raise Ungradable(f"The notebook has more than {MAX_CELLS:,} cells.")
    return cells


def _cells(raw: Iterable[Any]) -> Iterator[_Cell]:
    for cell in raw:
        if not isinstance(cell, dict):
            continue
        metadata = cell.get("metadata")
        ours = metadata.get("nbgrader") if isinstance(metadata, dict) else None
        grade_id = ours.get("grade_id") if isinstance(ours, dict) else None
        # nbgrader's id wins: splitting a cell keeps it and changes the cell's own.
        ids = {name for name in (grade_id or cell.get("id"),) if isinstance(name, str)}
        yield _Cell(frozenset(ids), _text(cell.get("source")))


def _text(source: Any) -> str:
    """A source as one string that can be written as UTF-8."""
    lines = [source] if isinstance(source, str) else source if isinstance(source, list) else []
    text = "".join(line for line in lines if isinstance(line, str))
    return text.replace("\r\n", "\n").encode("utf-8", "replace").decode()


def _by_id(asked: dict[str, Any], cells: Sequence[_Cell]) -> list[_Cell]:
    return [cell for cell in cells if asked["id"] in cell.ids]


def _by_content(asked: dict[str, Any], cells: Sequence[_Cell], release: Release) -> list[_Cell]:
    """Cells without a known id that define the question's function; for free text, the cell after
    the question."""
    known = {cell["id"] for cell in release.cells}
    strangers = [cell for cell in cells if not cell.ids & known]
    functions = _FUNCTION.findall(asked["source"])
    if functions:
        return [cell for cell in strangers if functions[0] in _FUNCTION.findall(cell.source)]
    if asked["cell_type"] == "code":
        return []
    texts = [cell["source"].strip() for cell in release.cells]
    question = texts[[cell["id"] for cell in release.cells].index(asked["id"]) - 1]
    return [
        cell
        for before, cell in pairwise(cells)
        if before.source.strip() == question and not cell.ids & known
    ]


def _the_one(asked: dict[str, Any], found: Sequence[_Cell]) -> str | None:
    """The source of an answer; None where there is none. Untouched copies of the stub do not
    count against a filled one."""
    sources = {cell.source.strip(): cell.source for cell in found}
    stub = asked["source"].strip()
    if len(sources) > 1:
        sources.pop(stub, None)
    if len(sources) > 1:
        raise Ungradable(
            f"{len(sources)} different cells claim to be the answer {asked['id']!r}. "
            "Keep one of them and hand the notebook in again."
        )
    source = next(iter(sources.values()), None)
    if source is not None and len(source) > MAX_SOURCE:
        raise Ungradable(f"The answer {asked['id']!r} has more than {MAX_SOURCE:,} characters.")
    return None if source is None else _BLANK_RUN.sub("\n\n", source)


def _left_out(cells: Sequence[_Cell], used: Sequence[_Cell], release: Release) -> frozenset[str]:
    """Names that cells of the student's notebook define which are not run while grading."""
    kept = [cell["source"] for cell in release.cells if is_setup(cell)]
    gone = [cell.source for cell in cells if cell not in used]
    return _names(gone) - _names(kept)


def _names(sources: Iterable[str]) -> frozenset[str]:
    names: set[str] = set()
    for source in sources:
        names.update(a or b for a, b in _BOUND.findall(source[:MAX_SOURCE]))
        for imported in _IMPORTED.findall(source[:MAX_SOURCE]):
            parts = (part.split(" as ")[-1].strip() for part in imported.split(","))
            names.update(part.split(".")[0] for part in parts)
    return frozenset(names)


def to_run(release: Release, rebuilt: Rebuilt) -> Iterator[tuple[str, str]]:
    """Name and source of every cell that the jail replays: set-up and answers, in order."""
    for cell in release.cells:
        if is_setup(cell):
            yield cell["id"], cell["source"]
        elif graded(cell).get("solution") and cell["cell_type"] == "code":
            yield cell["id"], rebuilt.answers.get(cell["id"], cell["source"])


def notebook(release: Release, rebuilt: Rebuilt) -> dict[str, Any]:
    """The notebook that nbgrader gets: the release with the answers in their places."""
    made: dict[str, Any] = json.loads(release.notebook)
    made["cells"] = deepcopy(release.cells)
    for cell in made["cells"]:
        answer = rebuilt.answers.get(cell["id"])
        if not graded(cell).get("solution") or answer is None:
            continue
        if answer.strip() != cell["source"].strip():
            cell["source"] = answer if cell["cell_type"] == "code" else as_plain_text(answer)
    return made


def as_plain_text(answer: str) -> str:
    """A free-text answer as markdown that shows its letters and does nothing else.

    Markdown carries HTML, links and TeX commands that run scripts in the browser of whoever grades
    it; nbgrader cleans none of them. Inside <pre> nothing is markdown, and MathJax looks away.
    """
    shown = escape(answer.strip().replace("\0", ""), quote=True)
    return f'<pre style="white-space: pre-wrap; font: inherit">{shown}</pre>'
