"""The two steps of nbgrader's autograding that are ours: verdicts are read from the journal instead
of being made by running a notebook.

nbgrader finds these classes through `nbgrader_config.py` in the grading folder, so its own command
and formgrader's button do the same as `autograder grade`: neither ever executes a submission.

This module imports nbgrader, which takes seconds. Import it where it is used.
"""

import math
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from nbformat.notebooknode import from_dict
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from autograder.judge import State, Verdict

from ..intake.release import CHECK_SUFFIX
from ..store.journal import CellReport, Journal, Record

RECORD, GRADED, OPEN, OURS = "record", "graded", "onelayer_open", "onelayer"
MAX_LINES = 40

_COLOURS = {State.PASS: "#1a7f37", State.FAIL: "#b42318"}
_FOR_A_PERSON = "#8a6d00"
_OPEN = (State.UNGRADABLE, State.FLAGGED)


class NotJudged(Exception):
    """No journal record speaks for this notebook: it has not been graded by `autograder grade`."""


class RecordedVerdicts(NbGraderPreprocessor):  # type: ignore[misc]
    """Puts each verdict under its check cell, as text and as the number that nbgrader reads."""

    folder = Unicode(".", help="the grading folder").tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        names = resources["nbgrader"]
        journal = Journal(Path(self.folder) / "journal" / names["assignment"])
        key = nb.metadata.get(OURS, {}).get(RECORD, "")
        record = journal.read(names["student"], key) if key else None
        if record is None:
            raise NotJudged(f"{names['student']}: grade this folder with `autograder grade`")
        show_verdicts(nb, record)
        resources[OPEN] = [v.question + CHECK_SUFFIX for v in record.verdicts if v.state in _OPEN]
        return nb, resources


def show_verdicts(nb: Any, record: Record) -> None:
    """Puts each verdict of `record` under its check cell, and what a cell printed under that."""
    verdicts = {verdict.question + CHECK_SUFFIX: verdict for verdict in record.verdicts}
    reports = {report.name: report for report in record.cells}
    for cell in nb.cells:
        if cell.cell_type != "code":
            continue
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if name in verdicts:
            cell.outputs = list(_outputs(verdicts[name], cell.metadata.nbgrader.points))
        elif name in reports:
            cell.outputs = list(_printed(reports[name]))
    nb.metadata[OURS][GRADED] = record.digest


class OpenQuestions(NbGraderPreprocessor):  # type: ignore[misc]
    """Leaves a question open that a person must look at: nbgrader has counted it as zero."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        names = resources["nbgrader"]
        with Gradebook(names["db_url"]) as gradebook:
            for cell in resources[OPEN]:
                of = names["notebook"], names["assignment"], names["student"]
                grade = gradebook.find_grade(cell, *of)
                grade.auto_score, grade.needs_manual_grade = None, True
            gradebook.db.commit()
        return nb, resources


def _outputs(verdict: Verdict, points: float) -> Iterator[Any]:
    text = shown(verdict)
    yield _output("display_data", {"text/plain": text, "text/html": _page(verdict, text)})
    yield _output("execute_result", {"text/plain": str(score(verdict, points))})


def _output(kind: str, data: dict[str, str]) -> Any:
    """An output of the notebook format. Made by hand: `new_output` validates each against the whole
    schema, which for a class takes longer than all else."""
    counted = {"execution_count": None} if kind == "execute_result" else {}
    return _node({"output_type": kind, "metadata": {}, "data": data, **counted})


def _node(fields: dict[str, Any]) -> Any:
    return from_dict(fields)  # type: ignore[no-untyped-call]


def score(verdict: Verdict, points: float) -> float:
    """The verdict's share of the cell's `points`: always a number that nbgrader takes, so neither
    negative, nor more than all, nor NaN."""
    share = verdict.points / verdict.max_points if verdict.max_points else 0.0
    return round(min(max(share, 0.0), 1.0) * points, 6) if math.isfinite(share) else 0.0


def shown(verdict: Verdict) -> str:
    """The verdict as its student reads it. The seed stays secret as long as its seed secret
    lasts."""
    return str(verdict).replace(f", seed {verdict.seed}", "", 1)


def _page(verdict: Verdict, text: str) -> str:
    colour = _COLOURS.get(verdict.state, _FOR_A_PERSON)
    head, _, rest = text.partition("\n")
    style = f"border-left: 4px solid {colour}; padding: 0.4em 0.8em; white-space: pre-wrap"
    return f'<pre style="{style}"><b>{escape(head)}</b>\n{escape(rest)}</pre>'


def _printed(report: CellReport) -> Iterator[Any]:
    """What a student's cell printed and raised, as plain text: nbconvert escapes streams."""
    lines = [*report.output.splitlines()[:MAX_LINES], *report.error.splitlines()[:MAX_LINES]]
    if lines:
        text = "\n".join(lines) + "\n"
        yield _node({"output_type": "stream", "name": "stdout", "text": text})
