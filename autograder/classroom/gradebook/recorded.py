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
from nbgrader.api import Grade, Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import compute_checksum, determine_grade, is_grade, is_solution
from sqlalchemy import case
from traitlets import Unicode

from autograder.judge import Cause, State, Verdict, content, say
from autograder.judge.verdict import one_line

from ..intake.release import CHECK_SUFFIX
from ..store import changes
from ..store.journal import CellReport, Journal, Record, digest

RECORD, GRADED, OPEN, OURS = "record", "graded", "onelayer_open", "onelayer"
NO_RESPONSE = "No response."
"""What nbgrader remarks below an untouched cell."""
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
        resources[OPEN] = []
        for verdict in record.verdicts:
            if cell := cells.get(verdict.question + CHECK_SUFFIX):
                cell.outputs = _judged(verdict, cell.metadata.nbgrader.points)
            if verdict.state in _OPEN:
                resources[OPEN].append(verdict.question + CHECK_SUFFIX)
        nb.metadata[OURS][GRADED] = digest(record.to_json())
        return nb, resources

    def _read(self, nb: Any, student: str, assignment: str, **_: Any) -> Record:
        """From the journal, as nbgrader's own commands need it."""
        journal = Journal(Path(self.folder) / "journal" / assignment)
        key = nb.metadata.get(OURS, {}).get(RECORD, "")
        record = journal.read(student, key) if key else None
        if record is None:
            raise NotJudged(f"{student}: grade this folder with `autograder grade`")
        return changes.applied(record, changes.read(Path(self.folder), assignment))


def is_settled(grade: Any) -> bool:
    """Whether a person has marked what stands there."""
    return grade.manual_score is not None and not grade.needs_manual_grade


class SaveGrades(NbGraderPreprocessor):  # type: ignore[misc]
    """As nbgrader's SaveAutoGrades, but for two things. A question that a person must look at is
    left open; and a mark that a person gave is neither opened nor closed here, where nbgrader opens
    every one. What a new text or another verdict puts in question was opened when that came in."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        names = resources["nbgrader"]
        of = names["notebook"], names["assignment"], names["student"]
        with Gradebook(names["db_url"]) as gradebook:
            scores, remarks = {}, []
            for cell in nb.cells:
                name = cell.metadata.get("nbgrader", {}).get("grade_id")
                if is_grade(cell):
                    score = None if name in resources[OPEN] else determine_grade(cell, self.log)[0]
                    scores[gradebook.find_grade(name, *of).id] = score
                if is_solution(cell):
                    is_blank = cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
                    comment = gradebook.find_comment(name, *of)
                    remarks.append((comment, NO_RESPONSE if is_blank else None))
            for comment, remark in remarks:
                comment.auto_comment = remark
            for grade_id, score in scores.items():
                _save(gradebook, grade_id, score)
            gradebook.db.commit()
        return nb, resources


def _save(gradebook: Any, grade_id: str, score: float | None) -> None:
    """In one statement, because a person may be marking this cell at the moment."""
    needs = case((Grade.manual_score.is_(None), score is None), else_=Grade.needs_manual_grade)
    values = {Grade.auto_score: score, Grade.needs_manual_grade: needs}
    gradebook.db.query(Grade).filter_by(id=grade_id).update(values, synchronize_session=False)


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
        name = re.split(r"(?<=[.?!])\s", content(verdict.sentence), maxsplit=1)[0]
        return say("short.named", sentence=one_line(name))
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
