"""Which notebook is made from which source. One number, four rooms: whoever knows the number knows
where to look."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.authoring.language import others
from autograder.authoring.problem import Problem

NAME = re.compile(r"\d\d_[a-z][a-z0-9_]*")
ROOMS = ("notebooks", "solutions", "labs")


@dataclass(frozen=True)
class Chapter:
    """`notebooks/NN_topic.py`, or `notebooks/home.py`."""

    source: str

    @property
    def notebook(self) -> str:
        return self.source.removesuffix(".py") + ".ipynb"


@dataclass(frozen=True)
class Lab:
    """`solutions/NN_topic/NN_topic.py`, by its name `NN_topic`."""

    name: str

    @property
    def number(self) -> int:
        return int(self.name[:2])

    @property
    def source(self) -> str:
        return f"solutions/{self.name}/{self.name}.py"

    @property
    def notebook(self) -> str:
        """The instructor's version."""
        return f"solutions/{self.name}/{self.name}.ipynb"

    @property
    def student(self) -> str:
        return f"labs/{self.name}/{self.name}.ipynb"


@dataclass(frozen=True)
class Plan:
    """Everything that a build makes."""

    chapters: tuple[Chapter, ...]
    labs: tuple[Lab, ...]

    @property
    def notebooks(self) -> frozenset[str]:
        """Paths of all notebooks to be made, from the repository's root."""
        made = [chapter.notebook for chapter in self.chapters]
        return frozenset(made + [path for lab in self.labs for path in (lab.notebook, lab.student)])


def plan(root: Path) -> Plan:
    """What the sources under `root` ask for, in the order of their names."""
    chapters = [f"notebooks/{path.name}" for path in sorted((root / "notebooks").glob("*.py"))]
    folders = [path.name for path in sorted((root / "solutions").glob("*/"))]
    labs = [Lab(name) for name in folders if NAME.fullmatch(name)]
    return Plan(
        tuple(Chapter(source) for source in chapters if _is_chapter(Path(source).stem)),
        tuple(lab for lab in labs if (root / lab.source).is_file()),
    )


def misplaced(root: Path) -> Iterator[Problem]:
    """Sources that no build would find: a mistyped name must not vanish in silence."""
    for path in sorted((root / "notebooks").glob("*.py")):
        if not _is_chapter(path.stem):
            yield Problem(f"notebooks/{path.name}", "a chapter is called NN_topic.py, or home.py")
    for folder in sorted((root / "solutions").glob("*/")):
        if folder.name.startswith((".", "_")):
            continue
        if not NAME.fullmatch(folder.name):
            yield Problem(f"solutions/{folder.name}", "a lab's folder is called NN_topic")
        elif not (root / Lab(folder.name).source).is_file():
            yield Problem(Lab(folder.name).source, "the lab's source is missing")
    made = plan(root)
    if not made.chapters and not made.labs:
        says = "found nothing to build: no notebooks/NN_topic.py, no solutions/NN_topic/"
        yield Problem(".", says)


def notebooks_on_disk(root: Path) -> list[str]:
    """Every `.ipynb` in the three rooms of each language, except what JupyterLab keeps in hidden
    folders and half-written files."""
    houses = (root, *(root / language.code for language in others(root)))
    rooms = (house / room for house in houses for room in ROOMS)
    found = (path.relative_to(root) for room in rooms for path in room.rglob("*.ipynb"))
    return sorted(
        path.as_posix() for path in found if not any(part.startswith(".") for part in path.parts)
    )


def _is_chapter(stem: str) -> bool:
    return stem == "home" or NAME.fullmatch(stem) is not None
