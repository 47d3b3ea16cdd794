"""What makes a lab of cells: roles, how they pair, and the nbgrader metadata they become.

    solution    the student's answer, code with a solution region       solution: true, grade: false
    check       asks and scores it; its id is the answer's + "_check"   solution: false, grade: true
    alternative another right answer; its id begins with the answer's + "_alternative". It stays in
                the instructor's version, and the self-test asks that it passes
    free_text   an answer that a person grades; its text is a model     solution: true, grade: true
    (none)      everything else, so that nbgrader restores it           locked: true

Questions count from 1 in the order of their solution and free_text cells: "Lab 1.2" is the second
of lab 01.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from autograder.authoring import solution
from autograder.authoring.language import ENGLISH, Language
from autograder.authoring.percent_source import Cell
from autograder.authoring.problem import Problem

CHECK_SUFFIX = "_check"
ALTERNATIVE_SUFFIX = "_alternative"
SCHEMA_VERSION = 3
ANSWERS = ("solution", "alternative", "free_text")
"""Roles whose text tells an answer."""

GIVEN = "worked-example"
"""Tag of a cell that may show a line of a solution: a worked example shares its steps with the
blank after it."""


def nbgrader_metadata(cell: Cell) -> dict[str, Any] | None:
    """The full metadata that nbgrader wants, from a role and its points; None for a cell that
    nbgrader never meets."""
    role = cell.header.role
    if role == "alternative":
        return None
    metadata: dict[str, Any] = {
        "grade": role in ("check", "free_text"),
        "grade_id": cell.id,
        "locked": role in (None, "check"),
        "schema_version": SCHEMA_VERSION,
        "solution": role in ("solution", "free_text"),
        "task": False,
    }
    if cell.header.points is not None:
        metadata["points"] = cell.header.points
    return metadata


def stubs(number: int, cells: Sequence[Cell], language: Language) -> dict[str, str]:
    """For each solution cell the stub that replaces its regions, by cell id; for each free text the
    words in its place, where they are not the English ones."""
    questions = [cell for cell in cells if cell.header.role in ("solution", "free_text")]
    code = {
        cell.id: _stub(number, question, cell, language)
        for question, cell in enumerate(questions, start=1)
        if cell.header.role == "solution"
    }
    texts = [] if language == ENGLISH else [c.id for c in questions if c.id not in code]
    return code | dict.fromkeys(texts, language.answer_here)


def _stub(number: int, question: int, cell: Cell, language: Language) -> str:
    found = solution.regions(cell.text)
    lines = cell.header.about_lines or solution.about(found)
    cpp = any(region.cpp for region in found)
    places = len(found)
    return solution.stub(
        number, question, cell.id, lines, places=places, cpp=cpp, language=language
    )


def telling_lines(cells: Sequence[Cell]) -> frozenset[str]:
    """Every line of the lab's solutions that must not be seen in its student version."""
    given = {c.id: solution.given_lines(c.text) for c in cells if c.header.role == "solution"}
    told: set[str] = set()
    for cell in cells:
        if cell.header.role in ANSWERS:
            # An alternative is a whole function: the lines that its stub shows tell nothing.
            question = cell.id.partition(ALTERNATIVE_SUFFIX)[0]
            shown = given.get(question) if cell.header.role == "alternative" else None
            told |= solution.telling_lines(_answer(cell)) - (shown or frozenset())
    return frozenset(told)


def _answer(cell: Cell) -> tuple[solution.Region, ...]:
    """The regions of an answer; a free text without any is an answer from its first line to its
    last."""
    rows = tuple(cell.text.split("\n"))
    return solution.regions(cell.text) or (solution.Region(-1, len(rows), rows),)


def chapter_problems(cells: Sequence[Cell]) -> Iterator[Problem]:
    """What a chapter may not contain: anything that is graded."""
    for cell in cells:
        if cell.header.role is not None:
            yield cell.problem("roles belong in labs; a chapter has no graded cells")
        yield from _region_problems(cell, allowed=False)


def lab_problems(cells: Sequence[Cell]) -> Iterator[Problem]:
    """Regions, kinds and pairs that are wrong in the source of a lab."""
    for cell in cells:
        yield from _region_problems(cell, allowed=cell.header.role in ("solution", "free_text"))
        yield from _kind_problems(cell)
    yield from _pair_problems(cells)
    if not any(cell.header.role == "check" for cell in cells):
        yield Problem(cells[0].path, "the lab asks no question: it has no check cell")


def _region_problems(cell: Cell, *, allowed: bool) -> Iterator[Problem]:
    for row, line in enumerate(cell.text.split("\n")):
        if solution.FOREIGN_REGION.search(line):
            yield cell.problem(f"{line.strip()!r}: the course's checks are open", row)
        if not allowed and solution.MARKER.search(line):
            yield cell.problem("a solution marker outside a solution cell", row)
    if not allowed:
        return
    try:
        found = solution.regions(cell.text)
    except solution.RegionError as error:
        yield cell.problem(str(error), error.row)
        return
    if not found and cell.header.role == "solution":
        between = f"{solution.BEGIN} and {solution.END}"
        yield cell.problem(f"no solution region: put the answer between {between}")


def _kind_problems(cell: Cell) -> Iterator[Problem]:
    role = cell.header.role
    if role in ("solution", "check", "alternative") and cell.kind != "code":
        yield cell.problem(f'a {role} cell is code; for prose use role="free_text"')
    if role == "free_text" and cell.kind != "markdown":
        yield cell.problem("a free_text cell is [markdown]")


def _pair_problems(cells: Sequence[Cell]) -> Iterator[Problem]:
    checks = {cell.id for cell in cells if cell.header.role == "check"}
    answered: set[str] = set()
    alone = "no solution cell before it; its id"
    for cell in cells:
        check = cell.id + CHECK_SUFFIX
        if cell.header.role == "solution":
            answered.add(check)
            if check not in checks:
                yield cell.problem(f'no check cell asks for it; add one with id="{check}"')
        if cell.header.role == "alternative" and not _answers_one_of(cell.id, answered):
            yield cell.problem(f"{alone} begins with the answer's id + {ALTERNATIVE_SUFFIX!r}")
        if cell.header.role == "check" and cell.id not in answered:
            yield cell.problem(f"{alone} is the answer's id + {CHECK_SUFFIX!r}")


def _answers_one_of(alternative: str, answered: set[str]) -> bool:
    question, suffix, _ = alternative.partition(ALTERNATIVE_SUFFIX)
    return bool(suffix) and question + CHECK_SUFFIX in answered
