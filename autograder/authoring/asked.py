"""What a question is worth, said once, by its check; the lab's page gets it from there.

The checks are read as text and never imported: authoring is on the ground floor, below them, and a
build needs no torch. A free text has no check, so the header of its cell says the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.authoring.lab import CHECK_SUFFIX
from autograder.authoring.language import Language
from autograder.authoring.percent_source import Cell
from autograder.authoring.problem import Problem, Refused

_NUMBERED = re.compile(r"## \d+\.\d+ ")


@dataclass(frozen=True)
class Asked:
    """One question: its points, the minutes that it takes, and its difficulty, 1 to 5."""

    points: float
    minutes: int
    difficulty: int
    by_a_person: bool = False

    def said_in(self, language: Language) -> str:
        """The line below a question's title."""
        points = language.one_point if self.points == 1 else language.points
        return language.worth.format(
            minutes=self.minutes,
            difficulty=self.difficulty,
            points=points.format(points=self.points),
            marked=language.marked if self.by_a_person else "",
        )


def asked(root: Path, lab: str) -> dict[str, Asked]:
    """The questions that the checks of `lab` ask, by name; {} for a lab whose checks are elsewhere.

    Raises:
        Refused: for a check that cannot be read, or whose numbers are not written out.
    """
    found: dict[str, Asked] = {}
    for path in sorted((root / "autograder" / "checks" / f"lab{lab}").glob("*.py")):
        try:
            found |= dict(_questions(ast.parse(path.read_bytes())))
        except (SyntaxError, ValueError, KeyError) as error:
            says = f"its points, minutes and difficulty cannot be read: {error}"
            raise Refused(Problem(path.relative_to(root).as_posix(), says)) from error
    return found


def _questions(tree: ast.Module) -> Iterator[tuple[str, Asked]]:
    for node in tree.body:
        for call in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "lab.question":
                said = {keyword.arg: keyword.value for keyword in call.keywords}
                numbers = (
                    ast.literal_eval(said[key]) for key in ("points", "minutes", "difficulty")
                )
                yield ast.literal_eval(call.args[0]), Asked(*numbers)


def asked_problems(cells: Sequence[Cell], known: Mapping[str, Asked]) -> Iterator[Problem]:
    """Numbers that the source says although they are known, or that nobody says."""
    for cell in cells:
        name, said = cell.id.removesuffix(CHECK_SUFFIX), cell.header.points is not None
        if cell.header.role == "check" and said and name in known:
            yield cell.problem("points= is said by the check already")
        if cell.header.role == "check" and not said and name not in known:
            says = f"a check cell needs points, and no check asks {name!r}"
            yield cell.problem(f"{says}; or write points=2")
        if _is_heading(cell) and known and _NUMBERED.match(cell.text):
            yield cell.problem("questions are counted: leave the number away")


def filled(
    number: int, cells: Sequence[Cell], known: Mapping[str, Asked], language: Language
) -> tuple[Cell, ...]:
    """The cells of lab `number` as its reader gets them: check cells with their points, and above
    each question its number and what it is worth, in the last `## ` heading before it."""
    made, heading, question = list(cells), None, 0
    for place, cell in enumerate(cells):
        worth = known.get(cell.id.removesuffix(CHECK_SUFFIX)) or _of_free_text(cell)
        if _is_heading(cell):
            heading = place
        if cell.header.role == "check" and worth:
            made[place] = replace(cell, header=replace(cell.header, points=worth.points))
        if cell.header.role in ("solution", "free_text"):
            question += 1
            if worth and heading is not None:
                made[heading] = _headed(
                    cells[heading], f"{number}.{question}", worth.said_in(language)
                )
            heading = None
    return tuple(made)


def _is_heading(cell: Cell) -> bool:
    return cell.kind == "markdown" and cell.header.role is None and cell.text.startswith("## ")


def _of_free_text(cell: Cell) -> Asked | None:
    says = cell.header
    if says.points is None or says.minutes is None or says.difficulty is None:
        return None
    return Asked(says.points, says.minutes, says.difficulty, by_a_person=True)


def _headed(cell: Cell, number: str, worth: str) -> Cell:
    title, *rest = cell.text.removeprefix("## ").split("\n")
    return replace(cell, text="\n".join([f"## {number} {title}", worth, *rest]))
