"""Pages of feedback, many in a row: nbgrader's template and steps, with one exporter for all.

This module imports nbgrader, which takes seconds. Import it where it is used.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import nbformat
from jupyter_core.paths import jupyter_config_dir
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbformat import NotebookNode
from nbgrader.api import SubmittedAssignment
from nbgrader.preprocessors import GetGrades

from .course import converter
from .feedback import FeedbackPage
from .rows import Rows, read_again


class Pages:
    """Makes the pages that `nbgrader generate_feedback` would make in the course in `folder`."""

    def __init__(self, folder: Path, lab: str, log: logging.Logger) -> None:
        config = converter("GenerateFeedback", folder, lab, log).config
        self._exporter = FeedbackPage(config=config, log=log)
        self._styles = CSSHTMLHeaderPreprocessor(config=config, log=log)
        self._grades = GetGrades(log=log)

    def page(self, notebook: bytes, submission: SubmittedAssignment) -> str:
        """The page of an autograded notebook, with the grades and comments of now."""
        nb: Any = _OwnNotebook(nbformat.from_dict(json.loads(notebook)))  # type: ignore[no-untyped-call]
        read_again(submission)
        rows = Rows(submission)
        resources: Any = {"nbgrader": _marks(rows.notebook), "config_dir": jupyter_config_dir()}
        self._grades.gradebook, self._grades.notebook_id = rows, rows.notebook.name
        self._grades.assignment_id = self._grades.student_id = ""
        for number, cell in enumerate(nb.cells):
            self._grades.preprocess_cell(cell, resources, number)
        nb, resources = self._styles.preprocess(nb, resources)
        page, _ = self._exporter.from_notebook_node(nb, resources)
        return str(page)


class _OwnNotebook(NotebookNode):
    """Made for one page: the exporter need not work on a copy."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _OwnNotebook:
        return self


def _marks(notebook: Any) -> dict[str, Any]:
    """The totals, as `GetGrades` tells them to the template."""
    late = notebook.late_submission_penalty or 0
    return {
        "notebook": notebook.name,
        "score": notebook.score - late,
        "max_score": notebook.max_score,
        "late_penalty": late,
    }
