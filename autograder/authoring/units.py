"""The list of the units: `{{units}}` in a chapter becomes a table with links to chapters and labs.

It stands in the text, so that a lab is one click away before any cell has run.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from autograder.authoring.language import ENGLISH, Language
from autograder.authoring.percent_source import Cell
from autograder.authoring.plan import NAME, Chapter, Lab

TOKEN = "{{units}}"


def table(
    chapters: Iterable[Chapter],
    labs: Iterable[Lab],
    cells: Mapping[str, Sequence[Cell]],
    language: Language = ENGLISH,
) -> str:
    """Markdown, its links seen from `notebooks/`. cells: those of each source, the title first."""
    titles: dict[str, str] = {}
    read, solve = {}, {}
    for lab in labs:
        titles[lab.name] = _title(cells[lab.source], language)
        solve[lab.name] = f"[{language.lab.format(number=lab.name[:2])}](../{lab.student})"
    for chapter in chapters:
        name = PurePosixPath(chapter.source).stem
        if NAME.fullmatch(name):
            titles[name] = _title(cells[chapter.source], language)
            read[name] = f"[{language.chapter.format(number=name[:2])}]({name}.ipynb)"
    rows = (
        f"| {name[:2]} | {titles[name]} | {read.get(name, '')} | {solve.get(name, '')} |"
        for name in sorted(titles)
    )
    head = (language.units, language.about, language.read, language.solve)
    return "\n".join([f"| {' | '.join(head)} |", "|:--|:--|:--|:--|", *rows])


def _title(cells: Sequence[Cell], language: Language) -> str:
    """A source's first line without its number: "# 01 Strides: why ..." is "Strides: why ..."."""
    first = cells[0].text.partition("\n")[0]
    title = first.removeprefix("# ").removeprefix(language.lab_title)
    return title.lstrip("0123456789: ").strip()
