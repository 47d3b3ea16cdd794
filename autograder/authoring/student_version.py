"""Student versions, made by nbgrader's own `generate_assignment`.

The course directory that nbgrader needs lives in a temporary folder, as long as the call.
"""

import json
import logging
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

from .notebook import Notebook, render
from .problem import Problem, Refused

# What `nbgrader generate_assignment --no-db` sets. A database would start alembic, which is found
# only where the environment's scripts are on the PATH.
_NO_DB = {"GenerateAssignment": {"no_database": True}, "SaveCells": {"enabled": False}}


class _Kept(logging.Handler):
    """Keeps what nbgrader logs as an error, in place of printing a traceback at the author."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage().strip().splitlines()[-1])


def student_versions(instructor: Mapping[str, Notebook]) -> dict[str, Notebook]:
    """The student's notebook for each instructor's, by its path from the repository's root.

    All of them go through one converter: importing nbgrader costs more than any notebook.

    Raises:
        Refused: nbgrader would not make one of them.
    """
    if not instructor:
        return {}
    with tempfile.TemporaryDirectory(prefix="onelayer-release-") as place:
        course = Path(place).resolve()
        names = {path: f"{number:04d}" for number, path in enumerate(instructor)}
        for path, made in instructor.items():
            folder = course / "source" / names[path]
            folder.mkdir(parents=True)
            (folder / f"{names[path]}.ipynb").write_bytes(render(made))
        _generate(course)
        return {path: _read(course, name) for path, name in names.items()}


def _generate(course: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations in nbgrader are not the author's affair
        from nbgrader.converters import GenerateAssignment
        from nbgrader.converters.base import NbGraderException
        from nbgrader.coursedir import CourseDirectory
        from traitlets.config import Config

        from .stub import preprocessors

        directory = CourseDirectory(
            root=str(course),
            source_directory="source",
            release_directory="release",
            assignment_id="*",
        )
        log, kept = logging.Logger("generate_assignment"), _Kept()
        log.addHandler(kept)
        converter = GenerateAssignment(
            coursedir=directory, preprocessors=preprocessors(), config=Config(_NO_DB), log=log
        )
        try:
            converter.start()
        except NbGraderException as error:
            says = "; ".join(kept.said) or str(error)
            says = f"nbgrader's generate_assignment refused: {says}"
            raise Refused(Problem("solutions", says)) from error


def _read(course: Path, name: str) -> Notebook:
    path = course / "release" / name / f"{name}.ipynb"
    made: Notebook = json.loads(path.read_text(encoding="utf-8"))
    return made
