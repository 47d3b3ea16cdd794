"""The command `translate`: what a translator needs between two builds."""

from __future__ import annotations

import difflib
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from autograder import atomic_write
from autograder.authoring.language import Language, others
from autograder.authoring.percent_source import Cell, read_source
from autograder.authoring.plan import plan
from autograder.authoring.problem import Refused
from autograder.authoring.sidecars import entries_of, sidecar
from autograder.authoring.translation import (
    UNTRANSLATED,
    Entry,
    english_entry,
    fingerprint,
    in_language,
    skeleton,
)


@click.command("translate", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("language")
@click.option("--difference", metavar="CELL", help="Show how the English of a cell has changed.")
@click.option("--done", metavar="CELL", help="Say that a changed cell is translated anew.")
@click.argument("sources", nargs=-1)
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="The course's folder. Default: this one.",
)
def translate_command(
    language: str, sources: tuple[str, ...], difference: str | None, done: str | None, root: Path
) -> None:
    """Bring the sidecars of LANGUAGE up to date: an entry for every cell, English where there is
    none yet, and the mark of each that has been translated since. SOURCES: only of these, such as
    notebooks/01_strides.py."""
    known = {one.code: one for one in others(root)}
    if language not in known:
        raise click.ClickException(
            f"There is no {language}/language.toml. There are: {', '.join(known) or 'none'}."
        )
    course = plan(root)
    there = [chapter.source for chapter in course.chapters] + [lab.source for lab in course.labs]
    if unknown := set(sources) - set(there):
        raise click.ClickException(f"No source of the course: {', '.join(sorted(unknown))}.")
    for source in sources or there:
        try:
            cells = read_source(root, source)
        except Refused as refused:
            raise click.ClickException("\n".join(map(str, refused.problems))) from None
        if difference:
            _show_difference(root, known[language], source, cells, difference)
        else:
            _bring_up_to_date(root, known[language], source, cells, done)


def _bring_up_to_date(
    root: Path, language: Language, source: str, cells: tuple[Cell, ...], done: str | None
) -> None:
    by_id = {cell.id: cell for cell in cells}
    entries = [
        replace(entry, english=fingerprint(by_id[entry.id]))
        if entry.id in by_id and (entry.id == done or _is_new(entry, by_id[entry.id]))
        else entry
        for entry in entries_of(root, language, source)
    ]
    path = root / sidecar(language, source)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write.write(path, skeleton(cells, entries).encode(), waits=False)
    _, problems = in_language(cells, entries, sidecar(language, source))
    click.echo(f"{sidecar(language, source)}: {len(problems) or 'nothing'} to do")
    for problem in problems:
        click.echo(f"  {problem}")


def _is_new(entry: Entry, cell: Cell) -> bool:
    """Whether an entry that was in English is in English no more."""
    return entry.english == UNTRANSLATED and entry.text != english_entry(cell)


def _show_difference(
    root: Path, language: Language, source: str, cells: tuple[Cell, ...], cell_id: str
) -> None:
    entries = {entry.id: entry for entry in entries_of(root, language, source)}
    now = next((cell for cell in cells if cell.id == cell_id), None)
    if now is None or cell_id not in entries:
        raise click.ClickException(f"{source} and its sidecar do not both have a cell {cell_id!r}.")
    for then in _earlier(root, source, cell_id):
        if fingerprint(then) == entries[cell_id].english:
            old, new = english_entry(then).split("\n"), english_entry(now).split("\n")
            click.echo("\n".join(difflib.unified_diff(old, new, "translated", "now", lineterm="")))
            return
    raise click.ClickException("No commit has the English that was translated. Read it as new.")


def _earlier(root: Path, source: str, cell_id: str) -> Iterator[Cell]:
    """The cell in each commit that changed its source, newest first."""
    log = _git(root, "log", "--format=%H", "--", source)
    with tempfile.TemporaryDirectory() as place:
        for commit in log.split():
            path = Path(place, source)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_git(root, "show", f"{commit}:./{source}"), "utf-8")
            try:
                yield from (cell for cell in read_source(Path(place), source) if cell.id == cell_id)
            except Refused:
                continue  # a commit in which the source could not be read


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", root, *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout
