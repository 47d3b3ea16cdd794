"""The course in another language, run from top to bottom: `python -m bench.languages es`.

Every notebook of the language runs in a kernel: chapters, labs as given out, labs with their
solutions. For each it says how long that took, what was raised, which check did not pass (of a lab
as given out: which was not "not answered yet"), and which sentences of the English catalogues stand
in what the cells show.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from autograder.judge import in_language, say, words
from onelayer.drawing import words as instruments

ROOT = Path(__file__).parents[1]
IN_WORDS = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")


@click.command()
@click.argument("language")
@click.argument("names", nargs=-1)
def main(language: str, names: tuple[str, ...]) -> None:
    """Run the notebooks of LANGUAGE, or those whose path has one of NAMES in it."""
    found = sorted((ROOT / language).rglob("*.ipynb"))
    wanted = [path for path in found if not names or any(name in str(path) for name in names)]
    if not wanted:
        raise click.ClickException(f"There is no notebook of {language!r} in {ROOT}.")
    faults = 0
    for path in wanted:
        began = time.monotonic()
        said = list(_faults(path, language))
        faults += len(said)
        where = path.relative_to(ROOT)
        click.echo(f"{where}  {time.monotonic() - began:.0f} s  {len(said) or 'no'} faults")
        for line in said:
            click.echo(f"    {line}")
    click.echo(f"{len(wanted)} notebooks, {faults} faults.")
    raise SystemExit(faults > 0)


def _faults(path: Path, language: str) -> Iterator[str]:
    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory() as home:
        client = NotebookClient(notebook, timeout=600, kernel_name="python3")
        try:
            client.execute(cwd=str(path.parent), env=_environment(home))
        except CellExecutionError as error:
            yield f"raised: {error.ename}: {error.evalue}"
    with in_language(language):
        marks = {"solutions": f"   {say('mark.pass')}   ", "labs": f"   {say('mark.not yet')}   "}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        shown = _shown(cell)
        room = next((room for room in marks if room in path.parts), "")
        if cell.id.endswith("_check") and room and marks[room] not in shown.partition("\n")[0]:
            yield f"{cell.id}: {shown.partition(chr(10))[0]}"
        yield from (f"{cell.id} is in English: {part!r}" for part in _english(shown, language))


def _environment(home: str) -> dict[str, str]:
    import os

    return {**os.environ, "ONELAYER_HOME": home}


def _shown(cell: Any) -> str:
    texts = (out.get("text") or out.get("data", {}).get("text/plain", "") for out in cell.outputs)
    return "\n".join(texts)


def _english(shown: str, language: str) -> Iterator[str]:
    """Parts of the English catalogues that stand in the text, without what their fields held."""
    reports = [
        one
        for one, said in instruments.catalogue(language).items()
        if one != said and len(one.split()) > 4
    ]
    for sentence in [*words.catalogue("en").values(), *reports]:
        for form in sentence.values() if isinstance(sentence, dict) else [sentence]:
            for part in re.split(r"\{[^}]*\}", form):
                if (
                    len(re.findall(r"\w+", part)) > 2
                    and IN_WORDS.search(part)
                    and part.strip() in shown
                ):
                    yield part.strip()


if __name__ == "__main__":
    main()
