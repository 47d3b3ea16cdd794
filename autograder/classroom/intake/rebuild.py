"""A submission rebuilt: the release, with nothing of the student's but the text of their answers.

Check cells, points, metadata, outputs, the kernel and every cell that a student added come from the
release or go. An answer is found by its id; where a tool has lost the ids (Colab, VS Code and
merges do), by the function that it defines, else by the line that its stub was marked with. What
stays ambiguous is not guessed: it is said to the student, and to the instructor with the places.

The notebook is a stranger's: no Python of it is parsed here, its sources are text.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, replace
from html import escape
from itertools import takewhile
from typing import Any

from .release import DEFINED, Release

MAX_SOURCE = 50_000
"""Characters in one answer. The longest honest one has a few thousand."""

_BLANK_RUN = re.compile(r"(?:[ \t\f\v]*\n){50,}|[ \t\f\v]{2000,}")
"""No answer needs it, and highlighting such a run takes time that grows with its square."""

MAX_CELLS = 5_000

UNMERGED = (
    "The notebook holds the marks of an unfinished merge (<<<<<<<). Finish it, open the notebook "
    "once, and hand it in again."
)

_MARK = re.compile(r"NotImplementedError\(\"([^\"]+)\"")
_CONFLICT = re.compile(r"^(?:<{7}|>{7})(?: |$)", re.MULTILINE)
_BOUND = re.compile(r"^(?:(?:async +)?def|class) +(\w+)|^(\w+) *(?::[^=\n]+)?=(?!=)", re.MULTILINE)
_IMPORTED = re.compile(r"^(?:from +\S+ +)?import +([^#\n(]+)", re.MULTILINE)


class Ungradable(Exception):
    """The submission is no notebook of this lab; the message is the sentence for its student, and
    `note` the one for the instructor."""

    def __init__(self, sentence: str, note: str = "") -> None:
        super().__init__(sentence)
        self.note = note


@dataclass(frozen=True)
class Rebuilt:
    """The answers by cell id, as text; what the instructor should know; the names that only cells
    outside the answers define, so that nobody wonders why they are missing; and the code of the
    language in which the lab was given out."""

    answers: dict[str, str]
    notes: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()
    language: str = "en"


@dataclass(frozen=True)
class _Cell:
    """A cell of the submission, reduced to what may be looked at. id: "" where it has none. place:
    from 1."""

    id: str
    source: str
    place: int
    is_code: bool


def rebuild(data: bytes, release: Release) -> Rebuilt:
    """The student's answers out of their notebook's bytes. Raises Ungradable."""
    made = _parsed(data)
    cells = list(_cells(made["cells"]))
    answers: dict[str, str] = {}
    lost = 0
    used: list[_Cell] = []
    notes: list[str] = []
    by_id: dict[str, list[_Cell]] = defaultdict(list)
    for cell in cells:
        by_id[cell.id].append(cell)
    _expect_no_exchange(release, by_id)
    for name, asked in release.answers.items():
        found = by_id[name] or _by_content(asked, cells, release)
        used += found
        source = _the_one(asked, found, release.given[name])
        if source is None:
            notes.append(f"cell {name} is missing")
            continue
        lost += not by_id[name]
        answers[name] = source if len(source) <= MAX_SOURCE else _cut(asked, source)
        if answers[name] != source:
            notes.append(f"cell {name} has {len(source):,} characters, more than are graded")
    if not answers:
        raise Ungradable(
            f"None of the answers of {release.name} is in the notebook. Is it another lab's?",
            _why_none(by_id),
        )
    if lost:
        notes.append(f"{lost} answers had lost their ids and were found by what they define")
    language = _language(made, release)
    return Rebuilt(answers, tuple(notes), _left_out(cells, used, release), language)


def language_named_in(data: bytes, release: Release) -> str:
    """The language in which its student has the lab, where the notebook still says so: of one that
    cannot be rebuilt."""
    try:
        return _language(_parsed(data), release)
    except Ungradable:
        return "en"


def untouched_in(data: bytes, release: Release) -> str:
    """The language of a notebook whose answers are all there and as they were given out; "" for
    every other."""
    try:
        rebuilt = rebuild(data, release)
    except Ungradable:
        return ""
    stubs = {name: cell["source"] for name, cell in release.answers.items()}
    return rebuilt.language if rebuilt.answers == stubs else ""


def _language(made: Mapping[str, Any], release: Release) -> str:
    """What the notebook says of itself, where the lab was given out in that language."""
    match made.get("metadata"):
        case {"onelayer": {"language": str(code)}} if code in release.twins:
            return code
    return "en"


def _why_none(by_id: Mapping[str, Sequence[_Cell]]) -> str:
    """What the instructor is told of a notebook without an answer."""
    name, alike = max(by_id.items(), key=lambda item: bool(item[0]) * len(item[1]))
    if name and len(alike) > 1:
        return (
            f"{len(alike)} cells bear one id, {name[:60]!r}: a tool has copied it into all of them"
        )
    return "no cell has an id, a function or a mark of this lab"


def _parsed(data: bytes) -> dict[str, Any]:
    """A notebook, as far as it has a list of cells."""
    try:
        made = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Ungradable("The file is not UTF-8 text, so it is no notebook.") from error
    except (ValueError, RecursionError, MemoryError) as error:
        if re.search(rb"^<{7} .*^>{7} ", data, re.MULTILINE | re.DOTALL):
            raise Ungradable(UNMERGED, "git's conflict marks stand between the cells") from error
        raise Ungradable("The file is not a notebook: it is damaged or was cut off.") from error
    cells = made.get("cells") if isinstance(made, dict) else None
    if not isinstance(cells, list):
        raise Ungradable("The file is not a notebook of today's format: it has no list of cells.")
    if len(cells) > MAX_CELLS:
        raise Ungradable(f"The notebook has more than {MAX_CELLS:,} cells.")
    return dict(made)


def _cells(raw: Iterable[Any]) -> Iterator[_Cell]:
    for place, cell in enumerate(raw, start=1):
        if not isinstance(cell, dict):
            continue
        given = cell.get("metadata")
        metadata: dict[str, Any] = given if isinstance(given, dict) else {}
        ours = metadata.get("nbgrader")
        grade_id = ours.get("grade_id") if isinstance(ours, dict) else None
        # nbgrader's id wins: splitting a cell keeps it and changes the cell's own. Colab moves the
        # cell's own into its metadata.
        name = grade_id or cell.get("id") or metadata.get("id")
        is_code = cell.get("cell_type") == "code"
        source = _text(cell.get("source"))
        yield _Cell(name if isinstance(name, str) else "", source, place, is_code)


def _text(source: Any) -> str:
    """A source as one string that can be written as UTF-8."""
    lines = [source] if isinstance(source, str) else source if isinstance(source, list) else []
    text = "".join(line for line in lines if isinstance(line, str))
    return text.replace("\r\n", "\n").encode("utf-8", "replace").decode()


def _by_content(asked: dict[str, Any], cells: Sequence[_Cell], release: Release) -> list[_Cell]:
    """Cells without a known id that define the question's function, else those that bear its mark;
    for free text, the cell after the question."""
    known = {cell["id"] for cell in release.cells}
    strangers = [cell for cell in cells if cell.id not in known]
    if asked["cell_type"] == "code":
        function, marks = release.functions.get(asked["id"]), _MARK.findall(asked["source"])
        defining = [cell for cell in strangers if function in DEFINED.findall(cell.source)]
        return defining or [cell for cell in strangers for mark in marks if mark in cell.source]
    return list(_texts_after_question(asked, cells, release, known))


def _texts_after_question(
    asked: dict[str, Any], cells: Sequence[_Cell], release: Release, known: Set[str]
) -> Iterator[_Cell]:
    """Wherever the question stands: all free text between it and the next cell of the release, as
    one cell. A person reads it, so nothing of it is dropped."""
    own = [cell["id"] for cell in release.cells].index(asked["id"])
    texts = [{text.strip() for text in release.given[c["id"]]} for c in release.cells]
    released = set().union(*texts[:own], *texts[own + 1 :])
    for number, question in enumerate(cells):
        if question.source.strip() not in texts[own - 1]:
            continue
        written = list(
            takewhile(
                lambda cell: (
                    not (cell.is_code or cell.id in known or cell.source.strip() in released)
                ),
                cells[number + 1 :],
            )
        )
        if written:
            yield replace(written[0], source="\n\n".join(cell.source for cell in written))


def _expect_no_exchange(release: Release, by_id: Mapping[str, Sequence[_Cell]]) -> None:
    """Raises Ungradable where a cell defines another question's function instead of its own, and
    that other one's cell does not: a merge has mixed up ids, and no one knows which to believe."""
    functions, mixed = release.functions, []
    defined = {name: _defined(by_id[name]) for name in functions}
    for name, function in functions.items():
        if function not in defined[name]:
            for other in sorted(functions):
                if functions[other] in defined[name] - defined[other]:
                    mixed += [(name, other)] if by_id[other] else []
                    break
    if mixed:
        name, other = mixed[0]
        raise Ungradable(
            f"The cell of the answer {name!r} holds the answer {other!r}, whose own cell does not. "
            "Put each answer into its own cell and hand the notebook in again.",
            f"the ids of {len(mixed)} answers contradict what they define: a merge may have mixed "
            f"them up, first in {_places(by_id[name])}",
        )


def _defined(cells: Iterable[_Cell]) -> set[str]:
    defined: set[str] = set()
    for cell in cells:
        defined.update(DEFINED.findall(cell.source))
    return defined


def _places(cells: Iterable[_Cell]) -> str:
    return "cell " + ", ".join(str(cell.place) for cell in cells)


def _the_one(asked: dict[str, Any], found: Sequence[_Cell], given: Set[str]) -> str | None:
    """The source of an answer; None where there is none. Untouched copies of the stub, as it was
    `given` in any language, do not count against a filled one, and alone they are the English one.
    """
    sources = {_without_trailing_blanks(cell.source): cell.source for cell in found}
    for untouched in map(_without_trailing_blanks, given):
        if sources.pop(untouched, None) is not None and not sources:
            return str(asked["source"])
    if len(sources) > 1:
        raise Ungradable(
            f"{len(sources)} different cells claim to be the answer {asked['id']!r}. "
            "Keep one of them and hand the notebook in again.",
            f"{asked['id']} stands in {_places(found)}",
        )
    source = next(iter(sources.values()), None)
    if source is not None and len(_CONFLICT.findall(source)) > 1:
        raise Ungradable(UNMERGED, f"conflict marks in {asked['id']}, {_places(found)}")
    return None if source is None else _BLANK_RUN.sub("\n\n", source)


def _cut(asked: Mapping[str, Any], source: str) -> str:
    """What is graded of an answer that is too long: of code a line that says so, of a text its
    beginning."""
    told = f"This answer has {len(source):,} characters. At most {MAX_SOURCE:,} are graded."
    if asked["cell_type"] == "code":
        return f'raise ValueError("{told}")'
    return f"{source[:MAX_SOURCE]}\n\n[{told}]"


def _without_trailing_blanks(source: str) -> str:
    """What tools change when they save, they change here."""
    return "\n".join(map(str.rstrip, source.strip().split("\n")))


def _left_out(cells: Sequence[_Cell], used: Sequence[_Cell], release: Release) -> frozenset[str]:
    """Names that cells of the student's notebook define which are not run while grading."""
    gone, kept = set[str](), set[str]()
    for cell in cells:
        gone |= set() if cell in used else _names(cell.source)
    for ours in release.setup:
        kept |= _names(ours["source"])
    return frozenset(gone - kept)


def _names(source: str) -> set[str]:
    names: set[str] = set().union(*_BOUND.findall(source[:MAX_SOURCE]))
    for imported in _IMPORTED.findall(source[:MAX_SOURCE]):
        for part in imported.split(","):
            names.add(part.split(" as ")[-1].strip().split(".")[0])
    return names - {""}


def to_run(release: Release, rebuilt: Rebuilt) -> Iterator[tuple[str, str]]:
    """Name and source of every cell that the jail replays: set-up and answers, in order."""
    for cell in release.replayed:
        yield cell["id"], rebuilt.answers.get(cell["id"], cell["source"])


def notebook(release: Release, rebuilt: Rebuilt) -> dict[str, Any]:
    """The notebook that nbgrader gets: the release with the answers in their places."""
    made: dict[str, Any] = json.loads(release.notebook)
    made["cells"] = deepcopy(release.cells)
    for cell in made["cells"]:
        answer = rebuilt.answers.get(cell["id"])
        if answer is not None and answer.strip() != cell["source"].strip():
            cell["source"] = answer if cell["cell_type"] == "code" else as_plain_text(answer)
    return made


def as_plain_text(answer: str) -> str:
    """A free-text answer as markdown that shows its letters and does nothing else.

    Markdown carries HTML, links and TeX commands that run scripts in the browser of whoever grades
    it; nbgrader cleans none of them. Inside <pre> nothing is markdown, and MathJax looks away.
    """
    shown = escape(answer.strip().replace("\0", ""))
    return f'<pre style="white-space: pre-wrap; font: inherit">{shown}</pre>'
