"""`autograder selftest`: the course's own answers, asked the course's own questions.

For every question of every lab: the solution and each alternative pass, the untouched stub fails,
and each known wrong answer fails *with its own sentence*; of what they read in another language,
nothing is left in English. A question with fewer than three wrong
answers or fewer than two right ones is an error, and so is a lab without questions: a checker that
found nothing to check has failed.

`autograder selftest --seeds 50` asks for less, and of more draws: whether the right ones pass and
the wrong ones fail whatever is drawn. A fault that only some seeds show is one about which the
notebook and the grade disagree.
"""

from __future__ import annotations

import json
import linecache
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from rich.console import Console
from rich.table import Table

from autograder import checks
from autograder.judge import (
    Cause,
    Doubles,
    Draw,
    Flagged,
    KnownAnswer,
    Lab,
    LocalStudent,
    NoAnswer,
    Question,
    State,
    Text,
    Verdict,
    Wrong,
    WroteInput,
    ask,
    content,
    in_language,
    words,
)
from autograder.judge.torch_settings import one_thread

SEEDS = (1, 2, 3)
MIN_WRONG, MIN_RIGHT = 3, 2
LANGUAGES = sorted(path.stem for path in words.CATALOGUES.glob("*.toml") if path.stem != "en")
ENGLISH = {
    *("the", "of", "are", "not", "with", "that", "which", "and", "from", "was", "were", "each"),
    *("it", "to", "for", "by", "at", "on", "this", "its", "than", "then", "what", "when"),
    *("where", "who", "does", "be", "been", "an", "there", "their"),
}
"""Words that English sentences are made of, and that no other language of ours has."""
_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*(?:\"|$)|'[^']*(?:'|$)")
_WORD = re.compile(r"(?<![\w.<:/])[a-z]+(?![\w(=:/]|\.\w)", re.IGNORECASE)
_ERROR = re.compile(r"[A-Za-z]+(?:Error|Exception): ")
Namespace = dict[str, Any]
Cell = dict[str, Any]


@dataclass(frozen=True)
class Count:
    """What was asked of one lab, and the sentences about what went wrong."""

    lab: str
    questions: int
    right: int
    wrong: int
    faults: tuple[str, ...]


def run(
    root: Path,
    labs: Iterable[Lab] | None = None,
    console: Console | None = None,
    *,
    only: str = "",
    seeds: int | None = None,
) -> int:
    """Tests every lab below `root` (the folder with `labs/` and `solutions/`), or of each of `labs`
    the one question `only`; prints the counts. seeds: only who passes, with so many.

    Returns the number of faults.
    """
    console = console or Console(emoji=False)
    with one_thread():  # as in the jail; a second one costs small tensors more than it gives
        counts = [
            count(lab, root, only, seeds) for lab in (checks.labs() if labs is None else labs)
        ]
    table = Table("lab", "questions", "right answers", "wrong answers", "faults")
    for c in counts:
        table.add_row(c.lab, *map(str, (c.questions, c.right, c.wrong, len(c.faults))))
    console.print(table)
    faults = [fault for c in counts for fault in c.faults]
    if not any(c.questions for c in counts):
        faults.append("no question was found, so nothing was tested")
    for fault in faults:
        console.print(fault, markup=False, highlight=False, soft_wrap=True)
    return len(faults)


def count(lab: Lab, root: Path, only: str = "", seeds: int | None = None) -> Count:
    """Asks every question of `lab`, or the one question `only`, with every answer that is known for
    it. seeds: as `run` says."""
    asked = [question for question in lab if only in ("", question.name)]
    solution = execute(root / "solutions" / lab.name / f"{lab.name}.ipynb")
    stub = execute(root / "labs" / lab.name / f"{lab.name}.ipynb")
    others = alternatives(root / "solutions" / lab.name / f"{lab.name}.ipynb")
    faults: list[str] = []
    right = wrong = 0
    for question in asked:
        answers = [solution, *others.get(question.name, [])]
        right, wrong = right + len(answers), wrong + len(question.wrong_answers)
        found = by_seed(question, answers, seeds) if seeds else _faults(question, answers, stub)
        faults += [f"{lab.name}, {question.name}: {text}" for text in found]
    faults += [f"{lab.name}, {text}" for text in _page_faults(lab, asked, root)]
    faults += [
        f"{lab.name}: an alternative answers {name!r}, which is not asked"
        for name in sorted(set(others) - set(lab.questions))
    ]
    return Count(lab.name, len(asked), right, wrong, tuple(faults))


def _page_faults(lab: Lab, asked: Iterable[Question], root: Path) -> Iterator[str]:
    """What the checks ask and the lab's page does not. Points, minutes, difficulty and number have
    one source, the check: the page is built from it."""
    cells = {cell["id"] for cell in _cells(root / "labs" / lab.name / f"{lab.name}.ipynb")}
    for question in asked:
        if f"{question.name}_check" not in cells:
            yield f"{question.name}: the page has no check cell for it"


def _faults(question: Question, answers: list[Namespace], stub: Namespace) -> Iterator[str]:
    if len(answers) < MIN_RIGHT:
        yield f"{len(answers)} right answer(s), at least {MIN_RIGHT} are needed"
    if len(question.wrong_answers) < MIN_WRONG:
        yield f"{len(question.wrong_answers)} wrong answer(s), at least {MIN_WRONG} are needed"
    for seed in SEEDS:
        yield from _right_faults(question, answers, seed)
        yield from _stub_faults(question, stub, seed)
        yield from _wrong_faults(question, seed)


def by_seed(question: Question, answers: list[Namespace], seeds: int) -> Iterator[str]:
    """The answers that do not always get the verdict that is theirs, each with a seed."""
    for k, answer in enumerate(answers):
        passed = [_passes(question, LocalStudent(answer), seed) for seed in range(1, seeds + 1)]
        if not all(passed):
            name = "the solution" if k == 0 else f"alternative {k}"
            many, first = passed.count(False), passed.index(False) + 1
            yield f"{name} fails with {many} of {seeds} seeds: {first}"
    for known in question.wrong_answers:
        student = KnownAnswer(known.functions)
        passed = [_passes(question, student, seed) for seed in range(1, seeds + 1)]
        if any(passed):
            many, first = passed.count(True), passed.index(True) + 1
            yield f"wrong answer {known.name!r} passes with {many} of {seeds} seeds: {first}"


def _passes(question: Question, student: LocalStudent, seed: int) -> bool:
    """Whether the check finds nothing: without a diagnosis, which takes most of a verdict's
    time."""
    student.begin(may_write=question.may_write)
    try:
        question.check(student, Draw(seed))
    except (Flagged, NoAnswer, Wrong, WroteInput):
        return False
    return True


def _right_faults(question: Question, answers: list[Namespace], seed: int) -> Iterator[str]:
    for k, answer in enumerate(answers):
        verdict = ask(question, LocalStudent(answer), seed=seed)
        name = "the solution" if k == 0 else f"alternative {k}"
        if verdict.state is not State.PASS:
            yield f"{name} does not pass:\n{verdict}"
        elif question.cost_of is None or not verdict.cost:
            yield f"{name} passes without a cost line"
        yield from left_in_english(verdict, _languages_of(question))


def _stub_faults(question: Question, stub: Namespace, seed: int) -> Iterator[str]:
    verdict = ask(question, LocalStudent(stub), seed=seed)
    if verdict.cause is not Cause.BLANK:
        yield f"the untouched stub is not seen as unanswered:\n{verdict}"


def _wrong_faults(question: Question, seed: int) -> Iterator[str]:
    doubles = Doubles(question, seed)
    for known in question.wrong_answers:
        verdict = ask(question, KnownAnswer(known.functions), seed=seed, doubles=doubles)
        if verdict.state is not State.FAIL:
            yield f"wrong answer {known.name!r} is not rejected (seed {seed})"
        elif verdict.sentence != known.sentence:
            seen = verdict.misconception or "nothing"
            yield f"wrong answer {known.name!r} is taken for {seen!r} (seed {seed})"
        yield from left_in_english(verdict, _languages_of(question))


def _languages_of(question: Question) -> Iterator[str]:
    """Those into which its sentences are translated; a new lab begins in English alone."""
    for code in LANGUAGES:
        with in_language(code):
            if any(content(known.sentence) != known.sentence for known in question.wrong_answers):
                yield code


def left_in_english(verdict: Verdict, codes: Iterable[str] = LANGUAGES) -> Iterator[str]:
    """The rows of a verdict in which a reader of another language meets English: beside code, what
    the student wrote, and the messages of torch and Python, which are English for all."""
    rows = ("title", "sentence", "expected", "got", "where", "next_step", "cost")
    for code in codes:
        with in_language(code):
            for row in rows:
                said = getattr(verdict, row)
                if isinstance(said, Text) and said.key in ("error", "lines"):
                    continue
                shown = content(said)
                if not _ERROR.match(shown) and english_in(shown):
                    yield f"{row} is in English for a reader of {code!r}: {shown}"


def english_in(shown: str) -> list[str]:
    """Of a text that is not English, the words that are; what stands in quotes is quoted."""
    found = _WORD.findall(_QUOTED.sub("", shown))
    return [word for word in found if word.lower() in ENGLISH]


def execute(notebook: Path) -> Namespace:
    """The names that a lab notebook defines when its setup and its answers run.

    Raises OSError when it cannot be read, and whatever its cells raise.
    """
    return _run(c for c in _cells(notebook) if _is_setup(c) or _is_answer(c))


def setup_namespace(notebook: Path) -> Namespace:
    """The names that a lab notebook defines before its answers."""
    return _run(cell for cell in _cells(notebook) if _is_setup(cell))


def answer_source(notebook: Path, question: str) -> str:
    """The text of the cell that answers `question`. Raises KeyError without one."""
    for cell in _cells(notebook):
        if _is_answer(cell) and cell["id"] == question:
            return "".join(cell["source"])
    raise KeyError(question)


def alternatives(notebook: Path) -> dict[str, list[Namespace]]:
    """Other right answers by question: the cells of the solution with role="alternative"."""
    cells = _cells(notebook)
    setup = [cell for cell in cells if _is_setup(cell)]
    found: dict[str, list[Namespace]] = {}
    for cell in cells:
        if cell["metadata"].get("onelayer", {}).get("role") == "alternative":
            question = cell["id"].partition("_alternative")[0]
            found.setdefault(question, []).append(_run([*setup, cell]))
    return found


def _run(cells: Iterable[Cell]) -> Namespace:
    namespace: Namespace = {"__name__": "__main__"}  # as in a notebook
    for cell in cells:
        exec(compiled("".join(cell["source"]), cell["id"]), namespace)
    return namespace


def compiled(source: str, cell: str) -> CodeType:
    """A cell's code. Its source is kept where `inspect` looks: an answer may ask for its own text,
    as a kernel for Triton does."""
    name = f"<cell {cell}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    return compile(source, name, "exec")


def _is_setup(cell: Cell) -> bool:
    return cell["cell_type"] == "code" and "setup" in cell["metadata"].get("tags", [])


def _is_answer(cell: Cell) -> bool:
    graded = cell["metadata"].get("nbgrader", {})
    return cell["cell_type"] == "code" and bool(graded.get("solution"))


def _cells(notebook: Path) -> list[Cell]:
    """The cells as they lie in the file: a notebook of ours is nbformat 4.5, and nbformat itself
    takes two seconds to import."""
    cells: list[Cell] = json.loads(notebook.read_bytes())["cells"]
    return cells
