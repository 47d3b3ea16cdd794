"""The two steps of nbgrader's autograding that are ours: verdicts are read from the journal instead
of being made by running a notebook.

nbgrader finds these classes through `nbgrader_config.py` in the grading folder, so its own command
and formgrader's button do the same as `autograder grade`: neither ever executes a submission.

This module imports nbgrader, which takes seconds. Import it where it is used.
"""

import math
import re
from html import escape
from pathlib import Path
from typing import Any

from nbformat.notebooknode import from_dict
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from autograder.judge import Cause, State, Verdict, content, say
from autograder.judge.verdict import one_line

from ..intake.release import CHECK_SUFFIX
from ..store import changes
from ..store.journal import CellReport, Journal, Record, digest

RECORD, GRADED, OPEN, OURS = "record", "graded", "onelayer_open", "onelayer"
VERDICTS = "verdicts"
SETTLED = "onelayer_settled"
MAX_LINES = 40

_COLOURS = {State.PASS: "#1a7f37", State.FAIL: "#b42318"}
_FOR_A_PERSON = "#8a6d00"
_IN_SHORT = (
    Cause.PASSED,
    Cause.BLANK,
    Cause.MISSING,
    Cause.RAISED,
    Cause.TIMED_OUT,
    Cause.DIED,
    Cause.WROTE_INPUT,
)
"""Causes that have a word of their own in a table."""
_OPEN = (State.UNGRADABLE, State.FLAGGED)


class NotJudged(Exception):
    """No journal record speaks for this notebook: it has not been graded by `autograder grade`."""


class RecordedVerdicts(NbGraderPreprocessor):  # type: ignore[misc]
    """Puts each verdict under its check cell, as text and as the number that nbgrader reads."""

    folder = Unicode(".", help="the grading folder").tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        record = resources.get(RECORD) or self._read(nb, **resources["nbgrader"])
        cells = {}
        for cell in nb.cells:
            if cell.cell_type == "code":
                cells[cell.metadata.get("nbgrader", {}).get("grade_id", "")] = cell
        for report in record.cells:
            if report.name in cells:
                cells[report.name].outputs = _printed(report)
        if SETTLED not in resources:
            resources[SETTLED] = _settled(**resources["nbgrader"])
        resources[OPEN] = []
        for verdict in record.verdicts:
            if cell := cells.get(verdict.question + CHECK_SUFFIX):
                cell.outputs = _judged(verdict, cell.metadata.nbgrader.points)
            if verdict.state in _OPEN:
                resources[OPEN].append(verdict.question + CHECK_SUFFIX)
        nb.metadata[OURS][GRADED] = digest(record.to_json())
        nb.metadata[OURS][VERDICTS] = verdicts(record)
        return nb, resources

    def _read(self, nb: Any, student: str, assignment: str, **_: Any) -> Record:
        """From the journal, as nbgrader's own commands need it."""
        journal = Journal(Path(self.folder) / "journal" / assignment)
        key = nb.metadata.get(OURS, {}).get(RECORD, "")
        record = journal.read(student, key) if key else None
        if record is None:
            raise NotJudged(f"{student}: grade this folder with `autograder grade`")
        return changes.applied(record, changes.read(Path(self.folder), assignment))


def verdicts(record: Record) -> dict[str, str]:
    """By check cell a hash of its verdict: whether a person has looked at this one or another."""
    return {v.question + CHECK_SUFFIX: digest(v.to_json()) for v in record.verdicts}


def _settled(db_url: str, notebook: str, assignment: str, student: str, **_: Any) -> set[str]:
    """The free texts that a person has marked. A changed one was opened again when it came in."""
    with Gradebook(db_url) as gradebook:
        grades = gradebook.find_submission_notebook(notebook, assignment, student).grades
        return {g.name for g in grades if is_settled(g) and not g.name.endswith(CHECK_SUFFIX)}


def is_settled(grade: Any) -> bool:
    """Whether a person has marked what stands there."""
    return grade.manual_score is not None and not grade.needs_manual_grade


class OpenQuestions(NbGraderPreprocessor):  # type: ignore[misc]
    """Leaves a question open that a person must look at, which nbgrader has counted as zero; and a
    mark in force that a person gave to the same text, which nbgrader has opened again."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        if not (resources[OPEN] or resources[SETTLED]):
            return nb, resources
        names = resources["nbgrader"]
        of = names["notebook"], names["assignment"], names["student"]
        with Gradebook(names["db_url"]) as gradebook:
            for cell in resources[OPEN]:
                grade = gradebook.find_grade(cell, *of)
                grade.auto_score, grade.needs_manual_grade = None, True
            for cell in resources[SETTLED]:
                gradebook.find_grade(cell, *of).needs_manual_grade = False
            gradebook.db.commit()
        return nb, resources


def _judged(verdict: Verdict, points: float) -> Any:
    """A verdict, and its share of the cell's `points`, as outputs of a cell. Made by hand:
    `new_output` validates each against the whole schema, which for a class takes longer than all
    else."""
    text = shown(verdict)
    page = {"text/plain": text, "text/html": _page(verdict, text)}
    number = {"text/plain": str(score(verdict, points))}
    note = {OURS: {"mark": verdict.mark, "why": _in_short(verdict)}}
    return from_dict(  # type: ignore[no-untyped-call]
        [
            {"output_type": "display_data", "metadata": note, "data": page},
            {
                "output_type": "execute_result",
                "metadata": {},
                "data": number,
                "execution_count": None,
            },
        ]
    )


def _in_short(verdict: Verdict) -> str:
    """What came of the question, in a few words for a table: a misconception by the first sentence
    that names it."""
    if verdict.misconception:
        return one_line(re.split(r"(?<=[.?!])\s", content(verdict.sentence), maxsplit=1)[0])
    if verdict.cause in _IN_SHORT:
        return say(f"short.{verdict.cause}")
    return say("short.wrong" if verdict.state is State.FAIL else f"mark.{verdict.mark}")


def score(verdict: Verdict, points: float) -> float:
    """The verdict's share of the cell's `points`: always a number that nbgrader takes, so neither
    negative, nor more than all, nor NaN."""
    share = verdict.points / verdict.max_points if verdict.max_points else 0.0
    return round(min(max(share, 0.0), 1.0) * points, 6) if math.isfinite(share) else 0.0


def shown(verdict: Verdict) -> str:
    """The verdict as its student reads it. The seed stays secret as long as its seed secret
    lasts."""
    return str(verdict).replace(say("seed", seed=verdict.seed), "", 1)


def _page(verdict: Verdict, text: str) -> str:
    colour = _COLOURS.get(verdict.state, _FOR_A_PERSON)
    head, _, rest = text.partition("\n")
    style = f"border-left: 4px solid {colour}; padding: 0.4em 0.8em; white-space: pre-wrap"
    return f'<pre style="{style}"><b>{escape(head)}</b>\n{escape(rest)}</pre>'


def _printed(report: CellReport) -> Any:
    """What a student's cell printed and raised, as plain text: nbconvert escapes streams."""
    lines = [*report.output.splitlines()[:MAX_LINES], *report.error.splitlines()[:MAX_LINES]]
    text = "\n".join(lines) + "\n"
    stream = {"output_type": "stream", "name": "stdout", "text": text}
    return from_dict([stream] if lines else [])  # type: ignore[no-untyped-call]
