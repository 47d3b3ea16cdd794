"""The build: every source read, every notebook made, and only what differs written."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from autograder import atomic_write
from autograder.authoring import lab as labs
from autograder.authoring.address import fill, links
from autograder.authoring.arrival import arrival_cell
from autograder.authoring.asked import asked, asked_problems, filled
from autograder.authoring.notebook import Notebook, code_or_markdown, notebook, render
from autograder.authoring.percent_source import Cell, read_source
from autograder.authoring.plan import Chapter, Lab, misplaced, notebooks_on_disk, plan
from autograder.authoring.problem import Problem, Refused
from autograder.authoring.published import generated_from, student_problems
from autograder.authoring.units import TOKEN, table

from .student_version import student_versions


@dataclass(frozen=True)
class Changes:
    """What a build did, as paths from the repository's root."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]


@dataclass(frozen=True)
class Made:
    """What the sources give: notebooks by path; per student notebook the lines not to be shown."""

    files: dict[str, bytes]
    telling_lines: dict[str, frozenset[str]]


def build(root: Path) -> Changes:
    """Make every notebook under `root` and write those that differ.

    A generated notebook that lost its source is removed; anybody else's stays. Each file appears
    whole or not at all, and nothing is written when any source is refused.

    Raises:
        Refused: with everything that is wrong in any source.
    """
    made = make(root)
    written = tuple(path for path in sorted(made.files) if _write(root / path, made.files[path]))
    removed = tuple(
        path for path in notebooks_on_disk(root) if path not in made.files and _remove(root / path)
    )
    return Changes(written, removed, tuple(sorted(set(made.files) - set(written))))


def make(root: Path) -> Made:
    """Every notebook that the sources under `root` give, in memory.

    Raises:
        Refused: with everything that is wrong in any source.
    """
    course = plan(root)
    problems = list(misplaced(root))
    cells: dict[str, tuple[Cell, ...]] = {}
    units: list[Chapter | Lab] = [*course.chapters, *course.labs]
    for unit in units:
        try:
            cells[unit.source] = read_source(root, unit.source)
        except Refused as refused:
            problems += refused.problems
            continue
        rules = labs.lab_problems if isinstance(unit, Lab) else labs.chapter_problems
        problems += rules(cells[unit.source])
        problems += _front_problems(cells[unit.source][0])
        problems += _link_problems(cells[unit.source], course.notebooks)
    for lab in course.labs:
        known = asked(root, lab.name)
        problems += asked_problems(cells.get(lab.source, ()), known)
        cells[lab.source] = filled(lab.number, cells.get(lab.source, ()), known)
    if problems:
        raise Refused(*problems)
    return _render_all(course.chapters, course.labs, cells, course.notebooks)


def _render_all(
    chapters: Sequence[Chapter],
    all_labs: Sequence[Lab],
    cells: dict[str, tuple[Cell, ...]],
    known: Set[str],
) -> Made:
    units = table(chapters, all_labs, cells)
    made = {
        c.notebook: _notebook(c.source, c.notebook, _listed(cells[c.source], units), known)
        for c in chapters
    }
    # A student opens the lab; what nbgrader locks must read the same in both versions, so both link
    # there.
    instructor = {
        lab.name: _notebook(lab.source, lab.student, cells[lab.source], known, number=lab.number)
        for lab in all_labs
    }
    students = student_versions(instructor)
    hidden = {lab.student: labs.telling_lines(cells[lab.source]) for lab in all_labs}
    problems: list[Problem] = []
    for lab in all_labs:
        made[lab.notebook], made[lab.student] = instructor[lab.name], students[lab.name]
        problems += student_problems(lab.student, students[lab.name], hidden[lab.student])
    if problems:
        raise Refused(*problems)
    return Made({path: render(made[path]) for path in sorted(made)}, hidden)


def _notebook(
    source: str, linked: str, cells: Sequence[Cell], known: Set[str], *, number: int | None = None
) -> Notebook:
    """The notebook of `source`; with a lab's `number`, the instructor's version of that lab."""
    stubs = {} if number is None else labs.stubs(number, cells)
    return notebook(
        (
            code_or_markdown(
                cell,
                fill(_with_links(cell.text, linked) if position == 0 else cell.text, known),
                graded=None if number is None else labs.nbgrader_metadata(cell),
                stub=stubs.get(cell.id),
            )
            for position, cell in enumerate((cells[0], arrival_cell(), *cells[1:]))
        ),
        source=source,
    )


def _listed(cells: Sequence[Cell], units: str) -> Sequence[Cell]:
    """The cells of a chapter with the list of the units where one is asked for."""
    return [replace(cell, text=cell.text.replace(TOKEN, units)) for cell in cells]


def _with_links(title: str, linked: str) -> str:
    """The title cell with the links as its second paragraph."""
    first, _, rest = title.partition("\n")
    return "\n\n".join(filter(None, (first, links(linked), rest.strip("\n"))))


def _front_problems(first: Cell) -> Iterable[Problem]:
    if first.kind != "markdown" or not first.text.startswith("# "):
        yield first.problem(
            "the first cell must be [markdown] and begin with the title, as in # # Strides"
        )


def _link_problems(cells: Sequence[Cell], known: Set[str]) -> Iterable[Problem]:
    for cell in cells:
        try:
            fill(cell.text, known)
        except ValueError as error:
            yield cell.problem(str(error))


def _write(path: Path, content: bytes) -> bool:
    """Whether `path` had to change. It is replaced in one step: a reader or a kill finds the old
    file or the new one."""
    if path.is_file() and path.read_bytes() == content:
        return False
    atomic_write.write(path, content, waits=False)
    return True


def _remove(path: Path) -> bool:
    """Whether `path` was one of ours. Somebody's own notebook stays, and the check names it."""
    if generated_from(path.read_bytes()) is None:
        return False
    path.unlink()
    if path.parent.name == path.stem and not any(path.parent.iterdir()):
        path.parent.rmdir()
    return True
