"""The lab as it was given out: the notebook that every submission is rebuilt from."""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import autograder.checks
from autograder.judge import Lab

from ..errors import UserError
from .deciding import deciding_files

CHECK_SUFFIX = "_check"
SETUP = "setup"
DEFINED = re.compile(r"^(?:(?:async +)?def|class) +(\w+)", re.MULTILINE)
"""The functions and classes of a cell."""

NotebookCell = Mapping[str, Any]


@dataclass(frozen=True)
class Release:
    """A lab's questions and its student notebook, as bytes. What follows from these is found out
    once for a class.

    instructor: the version with solutions, where the course's folder has it. twins: the student
    notebook in other languages, by their codes.
    """

    lab: Lab
    notebook: bytes
    instructor: bytes | None = None
    twins: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def name(self) -> str:
        return self.lab.name

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """The notebook's cells, sources as strings."""
        return _cells(self.notebook)

    @cached_property
    def given(self) -> dict[str, frozenset[str]]:
        """The sources of a cell in every language in which it was given out, by its id."""
        found: dict[str, set[str]] = defaultdict(set)
        for notebook in (self.notebook, *self.twins.values()):
            for cell in _cells(notebook):
                found[cell["id"]].add(cell["source"])
        return {name: frozenset(sources) for name, sources in found.items()}

    def told_in(self, language: str) -> dict[str, str]:
        """The prose of the notebook in another language, by cell; none for English."""
        cells = _cells(self.twins[language]) if language in self.twins else []
        ours = (cell for cell in cells if cell["id"] not in self.answers)
        return {c["id"]: c["source"] for c in ours if c["cell_type"] == "markdown"}

    @cached_property
    def answers(self) -> dict[str, dict[str, Any]]:
        """The cells that are the student's, by id: code, and free text."""
        return {cell["id"]: cell for cell in self.cells if graded(cell).get("solution")}

    @cached_property
    def functions(self) -> dict[str, str]:
        """What each answer must define; one whose stub defines nothing is left out."""
        stubs = {name: DEFINED.findall(cell["source"]) for name, cell in self.answers.items()}
        return {name: name if name in stub else stub[0] for name, stub in stubs.items() if stub}

    @cached_property
    def setup(self) -> list[dict[str, Any]]:
        """The cells of ours that the jail runs."""
        return [cell for cell in self.cells if _is_setup(cell)]

    @cached_property
    def replayed(self) -> list[dict[str, Any]]:
        """The cells that the jail runs: set-up and answers in code, in order."""
        code = [cell for cell in self.cells if cell["cell_type"] == "code"]
        return [cell for cell in code if cell in self.setup or cell["id"] in self.answers]

    @cached_property
    def before_answers(self) -> int:
        """How many of `replayed` come before the first answer and are ours."""
        ours = takewhile(lambda cell: cell["id"] not in self.answers, self.replayed)
        return len(list(ours))

    @cached_property
    def budgets_s(self) -> float:
        """What its questions' own budgets add to the usual limits."""
        return sum(question.budget_s or 0.0 for question in self.lab)

    @cached_property
    def loopback(self) -> bool:
        """Whether a submission's processes need a network among themselves."""
        return self.lab.loopback

    @cached_property
    def device_share(self) -> float:
        """Of one GPU, for all its questions one after the other."""
        return self.lab.device_share

    @cached_property
    def version(self) -> str:
        """A hash of everything that decides a verdict and is not the submission: the notebook, and
        the text of the judge, of the lab's questions and of all that they import of ours."""
        digest = hashlib.sha256(self.notebook)
        for path in deciding_files(self.name):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()


def _cells(notebook: bytes) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(notebook)["cells"]
    return [cell | {"source": "".join(cell["source"])} for cell in cells]


def graded(cell: NotebookCell) -> Mapping[str, Any]:
    """nbgrader's metadata of a cell of a release."""
    found: Mapping[str, Any] = cell["metadata"].get("nbgrader", {})
    return found


def _is_setup(cell: NotebookCell) -> bool:
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


def releases(course: Path) -> Mapping[str, Release]:
    """The labs that have both questions and a notebook in `course`, by name."""
    return _Releases(course)


class _Releases(Mapping[str, Release]):
    """Reads a release, and imports its questions, when it is asked for: a command needs one lab,
    and importing all of them takes it a second."""

    def __init__(self, course: Path) -> None:
        self._course = course
        self._names = [
            name for name in autograder.checks.names() if self._notebook("labs", name).is_file()
        ]
        self._read = cache(self._release)

    def _notebook(self, kind: str, name: str) -> Path:
        return self._course / kind / name / f"{name}.ipynb"

    def _release(self, name: str) -> Release:
        if name not in self._names:
            raise KeyError(name)
        solved = self._notebook("solutions", name)
        twins = {
            path.relative_to(self._course).parts[0]: path.read_bytes()
            for path in sorted(self._course.glob(f"[a-z][a-z]/labs/{name}/{name}.ipynb"))
        }
        return Release(
            autograder.checks.lab(name),
            self._notebook("labs", name).read_bytes(),
            solved.read_bytes() if solved.is_file() else None,
            twins,
        )

    def __getitem__(self, name: str) -> Release:
        return self._read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
