"""A student's verdicts as Gradescope's autograders write them: `results.json`.

The form: https://gradescope-autograders.readthedocs.io/en/latest/specs/ ("Output format"). Students
see a file of `autograder report` when the instructor publishes the grades, and what a run on
Gradescope answered (`at_once`, `refused`) at once. Each is in the language of the hand-in, whose
code the caller knows. No seed is in any of them.
"""

import json
from collections.abc import Iterator
from typing import Any

from autograder.judge import State, Verdict, content, in_language, say

from ..gradebook.recorded import shown
from ..intake.release import CHECK_SUFFIX
from .results import Result


def gradescope(
    result: Result, language: str = "en", *, visibility: str = "after_published"
) -> bytes:
    """The file, for a student whose hand-in has a grade."""
    assert result.record is not None
    assert result.grade is not None
    with in_language(language):
        body: dict[str, Any] = {
            "visibility": visibility,
            "stdout_visibility": "hidden",
            "score": round(result.grade.points, 2),
            "execution_time": round(result.record.wall_s, 2),
            "output": "\n".join(_summary(result)),
            "output_format": "text",
            "tests": [*_checked(result), *_marked(result)],
        }
    return _written(body)


def at_once(result: Result, language: str = "en") -> bytes | None:
    """The file of a run on Gradescope, for the student who waits for it; None where a person has to
    look at a verdict before any score may be told. Its score is that of the checks: free text is
    marked later, and on Gradescope."""
    if result.record is None or result.grade is None or result.reason:
        return None
    if result.verdicts(State.UNGRADABLE) or result.verdicts(State.FLAGGED):
        return None
    return gradescope(result, language, visibility="visible")


def refused(lab: str, reason: str, language: str = "en") -> bytes:
    """The same for a hand-in that cannot be graded: a sentence, and no score, not even 0."""
    with in_language(language):
        reason = content(reason)
        output = say("gradescope.refused", reason=reason)
    test = {"name": lab, "status": "failed", "output": reason}
    body = {"visibility": "visible", "stdout_visibility": "hidden", "tests": [test]}
    body["output_format"] = "text"
    return _written({**body, "output": output})


def _written(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, indent=1).encode("utf-8", "replace")


def _summary(result: Result) -> Iterator[str]:
    assert result.grade is not None
    if result.grade.penalty:
        yield say("page.late", penalty=f"{result.grade.penalty:g}")
    if result.reason:
        yield say("gradescope.earlier", reason=content(result.reason))
    if opened := result.grade.open_cells:
        points = sum(result.grade.marks[name].max_points for name in opened)
        named = ", ".join(name.removesuffix(CHECK_SUFFIX) for name in opened)
        yield say("gradescope.open", cells=named, points=points)


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
        return f"{shown(verdict)}\n{say('gradescope.for_a_person')}"
    return shown(verdict)


def _marked(result: Result) -> Iterator[dict[str, Any]]:
    """What a person marks, once they have."""
    assert result.record is not None
    assert result.grade is not None
    checked = {verdict.question + CHECK_SUFFIX for verdict in result.record.verdicts}
    for name, mark in result.grade.marks.items():
        if name not in checked and not mark.is_open:
            yield {"name": name, "score": mark.points, "max_score": mark.max_points}
