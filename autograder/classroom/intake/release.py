"""The lab as it was given out: the notebook that every submission is rebuilt from."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import autograder.checks
from autograder.judge import Lab

from ..errors import UserError
from .deciding import deciding_files

CHECK_SUFFIX = "_check"
SETUP = "setup"

NotebookCell = Mapping[str, Any]


@dataclass(frozen=True)
class Release:
    """A lab's questions and its student notebook, as bytes.

    instructor: the version with solutions, where the course's folder has it.
    """

    lab: Lab
    notebook: bytes
    instructor: bytes | None = None

    @property
    def name(self) -> str:
        return self.lab.name

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """The notebook's cells, sources as strings."""
        cells: list[dict[str, Any]] = json.loads(self.notebook)["cells"]
        return [cell | {"source": "".join(cell["source"])} for cell in cells]

    @property
    def answers(self) -> Iterator[dict[str, Any]]:
        """The cells that are the student's: code, and free text."""
        return (cell for cell in self.cells if graded(cell).get("solution"))

    @cached_property
    def version(self) -> str:
        """A hash of everything that decides a verdict and is not the submission: the notebook, and
        the text of the judge, of the lab's questions and of all that they import of ours."""
        digest = hashlib.sha256(self.notebook)
        for path in deciding_files(self.name):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()


def graded(cell: NotebookCell) -> Mapping[str, Any]:
    """nbgrader's metadata of a cell of a release."""
    found: Mapping[str, Any] = cell["metadata"].get("nbgrader", {})
    return found


def is_setup(cell: NotebookCell) -> bool:
    return cell["cell_type"] == "code" and SETUP in cell["metadata"].get("tags", ())


def course_folder(start: Path) -> Path:
    """The course's folder: `start` or the nearest folder above it that has `labs/`; where nobody
    named one (it is this folder), also where the package lies. Raises UserError."""
    folders = [start, *start.resolve().parents]
    if start == Path():
        folders.append(Path(autograder.checks.__path__[0]).parents[1])
    for folder in folders:
        if any((folder / "labs").glob("*/*.ipynb")):
            return folder
    raise UserError(
        f"There is no labs/ folder in {start} or above it. Name the course: --course DIR"
    )


def releases(course: Path) -> dict[str, Release]:
    """The labs that have both questions and a notebook in `course`, by name."""
    found = {}
    for lab in autograder.checks.labs():
        notebook = course / "labs" / lab.name / f"{lab.name}.ipynb"
        solved = course / "solutions" / lab.name / f"{lab.name}.ipynb"
        if notebook.is_file():
            instructor = solved.read_bytes() if solved.is_file() else None
            found[lab.name] = Release(lab, notebook.read_bytes(), instructor)
    return found
