"""The build: every source read, every notebook made, and only what differs written."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from autograder import atomic_write
from autograder.authoring import lab as labs
from autograder.authoring.address import fill, links
from autograder.authoring.arrival import arrival_cell
from autograder.authoring.asked import Asked, asked, asked_problems, filled
from autograder.authoring.guess_answers import answer_cells, folded, unseen_cards
from autograder.authoring.language import ENGLISH, Language, others
from autograder.authoring.notebook import Notebook, code_or_markdown, notebook, render
from autograder.authoring.percent_source import Cell, read_source
from autograder.authoring.plan import Chapter, Lab, Plan, misplaced, notebooks_on_disk, plan
from autograder.authoring.problem import Problem, Refused
from autograder.authoring.published import generated_from, student_problems
from autograder.authoring.sidecars import said_in
from autograder.authoring.units import TOKEN, table

from .student_version import student_versions


@dataclass(frozen=True)
class Changes:
    """What a build did, as paths from the repository's root; and what no translator has seen."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    untranslated: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Made:
    """What the sources give: notebooks by path; per student notebook the lines not to be shown;
    what the sidecars of other languages lack, where a notebook is in English instead."""

    files: dict[str, bytes]
    telling_lines: dict[str, frozenset[str]]
    untranslated: tuple[Problem, ...]


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
    unchanged = tuple(sorted(set(made.files) - set(written)))
    return Changes(written, removed, unchanged, made.untranslated)


def make(root: Path) -> Made:
    """Every notebook that the sources under `root` give, in every language, in memory.

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
        problems += unseen_cards(cells[unit.source])
        problems += _link_problems(cells[unit.source], course.notebooks)
    known = {lab.source: asked(root, lab.name) for lab in course.labs}
    for source, questions in known.items():
        problems += asked_problems(cells.get(source, ()), questions)
    if problems:
        raise Refused(*problems)
    editions = [_edition(root, course, cells, known, language) for language in languages(root)]
    return _render_all(course, editions)


@dataclass(frozen=True)
class _Edition:
    """The course in one language: the cells of each source, and what their sidecars lack."""

    language: Language
    cells: dict[str, tuple[Cell, ...]]
    untranslated: tuple[Problem, ...] = ()

    def path(self, path: str) -> str:
        return self.language.prefix + path


def languages(root: Path) -> tuple[Language, ...]:
    return (ENGLISH, *others(root))


def _edition(
    root: Path,
    course: Plan,
    cells: Mapping[str, tuple[Cell, ...]],
    known: Mapping[str, Mapping[str, Asked]],
    language: Language,
) -> _Edition:
    said, problems = dict(cells), []
    if language != ENGLISH:
        for source in cells:
            said[source], lacking = said_in(root, language, source, cells[source])
            problems += lacking
    for lab in course.labs:
        said[lab.source] = filled(lab.number, said[lab.source], known[lab.source], language)
    return _Edition(language, said, tuple(problems))


def _render_all(course: Plan, editions: Sequence[_Edition]) -> Made:
    made: dict[str, Notebook] = {}
    instructor: dict[str, Notebook] = {}
    hidden: dict[str, frozenset[str]] = {}
    for edition in editions:
        units = table(course.chapters, course.labs, edition.cells, edition.language)
        for chapter in course.chapters:
            cells = _listed(edition.cells[chapter.source], units)
            made[edition.path(chapter.notebook)] = _notebook(
                chapter.source, chapter.notebook, cells, course.notebooks, edition.language
            )
        # A student opens the lab; what nbgrader locks must read the same in both versions, so both
        # link there.
        for lab in course.labs:
            cells = edition.cells[lab.source]
            instructor[edition.path(lab.student)] = _notebook(
                lab.source, lab.student, cells, course.notebooks, edition.language, lab.number
            )
            hidden[edition.path(lab.student)] = labs.telling_lines(cells)
            made[edition.path(lab.notebook)] = instructor[edition.path(lab.student)]
    students = student_versions(instructor)
    problems = [
        problem
        for path, notebook in students.items()
        for problem in student_problems(path, notebook, hidden[path])
    ]
    if problems:
        raise Refused(*problems)
    made |= students
    lacking = tuple(problem for edition in editions for problem in edition.untranslated)
    return Made({path: render(made[path]) for path in sorted(made)}, hidden, lacking)


def _notebook(
    source: str,
    linked: str,
    cells: Sequence[Cell],
    known: Set[str],
    language: Language,
    number: int | None = None,
) -> Notebook:
    """The notebook of `source`; with a lab's `number`, the instructor's version of that lab."""
    stubs = {} if number is None else labs.stubs(number, cells, language)
    title = _with_links(cells[0].text, links(language.prefix + linked, language.open_in))
    first, *others = _with_answers_folded(cells, language)
    return notebook(
        (
            code_or_markdown(
                cell,
                fill(cell.text, known, language.prefix),
                graded=None if number is None else labs.nbgrader_metadata(cell),
                stub=stubs.get(cell.id),
            )
            for cell in (replace(first, text=title), arrival_cell(language), *others)
        ),
        source=source,
        language=language.code,
    )


def _with_answers_folded(cells: Sequence[Cell], language: Language) -> Iterator[Cell]:
    """The cells, with what explains a guess closed: it stands on one screen with the choices."""
    answers = answer_cells((cell.kind, cell.text) for cell in cells)
    for position, cell in enumerate(cells):
        closes = position in answers and cell.kind == "markdown"
        yield replace(cell, text=folded(cell.text, language.after_guess)) if closes else cell


def _listed(cells: Sequence[Cell], units: str) -> Sequence[Cell]:
    """The cells of a chapter with the list of the units where one is asked for."""
    return [replace(cell, text=cell.text.replace(TOKEN, units)) for cell in cells]


def _with_links(title: str, said: str) -> str:
    """The title cell with the links as its second paragraph."""
    first, _, rest = title.partition("\n")
    return "\n\n".join(filter(None, (first, said, rest.strip("\n"))))


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
