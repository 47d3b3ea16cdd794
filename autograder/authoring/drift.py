"""The check: whether the committed notebooks are what their sources give. It writes nothing."""

from collections.abc import Iterator
from pathlib import Path

from autograder.authoring.build import Made, make
from autograder.authoring.notebook import Notebook
from autograder.authoring.plan import notebooks_on_disk
from autograder.authoring.problem import Problem, Refused
from autograder.authoring.published import (
    leaks,
    name_of,
    notebook_problems,
    parse,
    student_problems,
)

REBUILD = "rebuild it from its source"


def drift(root: Path) -> tuple[Problem, ...]:
    """Everything that keeps the notebooks under `root` from being exactly what their sources give;
    empty when all is well.

    Where a source is refused, the notebooks on disk are still searched for what no notebook may
    hold.
    """
    try:
        made = make(root)
        problems: list[Problem] = []
    except Refused as refused:
        made, problems = None, list(refused.problems)
    problems += made.untranslated if made else ()
    for path in notebooks_on_disk(root):
        problems += _file_problems(path, (root / path).read_bytes(), made)
    if made is not None:
        problems += (
            Problem(path, f"is missing; {REBUILD}")
            for path in made.files
            if not (root / path).is_file()
        )
        problems += _other_leaks(root, made)
    return tuple(problems)


def _file_problems(path: str, content: bytes, made: Made | None) -> Iterator[Problem]:
    found = parse(content)
    if found is None:
        yield Problem(path, f"is not a notebook; {REBUILD}")
        return
    problems = list(notebook_problems(path, found))
    if path.split("/")[-3:-2] == ["labs"]:
        problems += student_problems(
            path, found, made.telling_lines.get(path, frozenset()) if made else frozenset()
        )
    yield from problems
    if made is None:
        return
    if path not in made.files:
        yield Problem(path, "has no source; remove it or add the source")
    elif content != made.files[path]:
        yield from _differences(
            path, found, made.files[path], {problem.cell for problem in problems}
        )


def _differences(
    path: str, found: Notebook, content: bytes, named: set[str | None]
) -> Iterator[Problem]:
    """The cells that are not what the source gives, except those already `named`; at least one line
    in any case."""
    wanted = parse(content)
    assert wanted is not None
    want = {name_of(cell, n): cell for n, cell in enumerate(wanted["cells"])}
    have = {name_of(cell, n): cell for n, cell in enumerate(found["cells"])}
    lines = {name: f"is not in the source; {REBUILD}" for name in have if name not in want}
    lines |= {name: f"is missing; {REBUILD}" for name in want if name not in have}
    lines |= {
        name: f"differs; {REBUILD}" for name in want if name in have and want[name] != have[name]
    }
    yield from (Problem(path, says, cell=name) for name, says in lines.items() if name not in named)
    if not lines and not named:
        yield Problem(path, f"differs in its order, metadata or format; {REBUILD}")


def _other_leaks(root: Path, made: Made) -> Iterator[Problem]:
    """Solution lines in whatever else lies beside a student's notebook."""
    for student, hidden in made.telling_lines.items():
        for file in sorted((root / student).parent.rglob("*")):
            path = file.relative_to(root)
            unseen = any(part.startswith(".") for part in path.parts)
            if unseen or not file.is_file() or file.suffix == ".ipynb":
                continue
            for says in leaks(file.read_text(encoding="utf-8", errors="replace"), hidden):
                yield Problem(path.as_posix(), says)
