"""nbgrader's two converters over a grading folder, one student at a time.

This module imports nbgrader, which takes seconds. Import it where it is used.
"""

import logging
from pathlib import Path
from typing import Any

from nbconvert.writers.files import FilesWriter
from nbgrader.converters import Autograde, BaseConverter, GenerateFeedback
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from traitlets.config.loader import PyFileConfigLoader

from ..store.journal import Record
from .recorded import RECORD


class Converters:
    """As nbgrader's commands make them, from the configuration in the folder. Each is made once:
    `start`, which their commands call, would make exporter and writer anew for each student, and
    change the directory of the whole process."""

    def __init__(self, folder: Path, lab: str, log: logging.Logger) -> None:
        root = str(folder.resolve())
        config = PyFileConfigLoader("nbgrader_config.py", path=root).load_config()
        self._course = CourseDirectory(root=root, assignment_id=lab, log=log, config=config)
        made = {"coursedir": self._course, "config": config, "log": log}
        self._autograde, self._feedback = _Autograde(**made), _GenerateFeedback(**made)
        for converter in (self._autograde, self._feedback):
            converter.force = True
            converter.writer = FilesWriter(parent=converter, config=converter.config)
            converter.exporter = converter.exporter_class(parent=converter, config=converter.config)
            for step in converter.preprocessors:
                converter.exporter.register_preprocessor(step)

    def autograde(self, record: Record) -> None:
        """The verdicts of a record of the journal into the gradebook and into autograded/. Raises
        whatever stopped it."""
        self._autograde.record = record
        self._convert(self._autograde, record.student)

    def feedback(self, student: str) -> None:
        """The page, with the grades and comments of now. Raises whatever stopped it."""
        self._convert(self._feedback, student)

    def _convert(self, converter: Any, student: str) -> None:
        self._course.student_id, converter.failure = student, None
        try:
            converter.init_notebooks()
            converter.convert_notebooks()
        except NbGraderException as error:
            raise converter.failure or error.__context__ or error from error


class _Telling(BaseConverter):  # type: ignore[misc]
    """nbgrader writes into its log what stopped it, and raises that something did."""

    failure: Exception | None = None

    def init_assignment(self, *names: str) -> None:
        try:
            super().init_assignment(*names)
        except Exception as error:
            self.failure = error
            raise

    def convert_single_notebook(self, path: str) -> None:
        try:
            super().convert_single_notebook(path)
        except Exception as error:
            self.failure = error
            raise


class _Autograde(_Telling, Autograde):  # type: ignore[misc]
    """nbgrader's own command reads the record from the journal; here it is at hand."""

    record: Record

    def init_single_notebook_resources(self, path: str) -> Any:
        return super().init_single_notebook_resources(path) | {RECORD: self.record}


class _GenerateFeedback(_Telling, GenerateFeedback):  # type: ignore[misc]
    pass
