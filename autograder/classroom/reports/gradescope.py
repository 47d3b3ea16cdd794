"""A student's verdicts as Gradescope's autograders write them: `results.json`.

The form: https://gradescope-autograders.readthedocs.io/en/latest/specs/ ("Output format"). Students
see it when the instructor publishes the grades. No seed is in it.
"""

import json
from collections.abc import Iterator
from typing import Any

from autograder.judge import State, Verdict

from ..gradebook.recorded import shown
from ..intake.release import CHECK_SUFFIX
from .results import Result

FOR_A_PERSON = "A person will look at this question."


def gradescope(result: Result) -> bytes:
    """The file, for a student whose hand-in has a grade."""
    assert result.record is not None
    assert result.grade is not None
    body: dict[str, Any] = {
        "visibility": "after_published",
        "stdout_visibility": "hidden",
        "score": round(result.grade.points, 2),
        "execution_time": round(result.record.wall_s, 2),
        "output": "\n".join(_summary(result)),
        "tests": [*_checked(result), *_marked(result)],
    }
    return json.dumps(body, ensure_ascii=False, indent=1).encode("utf-8", "replace")


def _summary(result: Result) -> Iterator[str]:
    assert result.grade is not None
    if result.grade.penalty:
        yield f"Handed in late: {result.grade.penalty:g} points less."
    if result.reason:
        yield f"The newest hand-in was not graded, an earlier one was: {result.reason}"
    if result.grade.open_cells:
        yield "Not everything is marked yet."


def _checked(result: Result) -> Iterator[dict[str, Any]]:
    assert result.record is not None
    assert result.grade is not None
    for verdict in result.record.verdicts:
        mark = result.grade.marks.get(verdict.question + CHECK_SUFFIX)
        yield {
            "number": verdict.title.removeprefix("Lab ") or verdict.question,
            "name": verdict.question,
            "score": mark.points if mark else verdict.points,
            "max_score": mark.max_points if mark else verdict.max_points,
            "output": _output(verdict),
            "tags": [verdict.misconception] if verdict.misconception else [],
        }


def _output(verdict: Verdict) -> str:
    if verdict.state in (State.UNGRADABLE, State.FLAGGED):
        return f"{shown(verdict)}\n{FOR_A_PERSON}"
    return shown(verdict)


def _marked(result: Result) -> Iterator[dict[str, Any]]:
    """What a person marks, once they have."""
    assert result.record is not None
    assert result.grade is not None
    checked = {verdict.question + CHECK_SUFFIX for verdict in result.record.verdicts}
    for name, mark in result.grade.marks.items():
        if name not in checked and not mark.is_open:
            yield {"name": name, "score": mark.points, "max_score": mark.max_points}
