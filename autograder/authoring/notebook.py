"""A notebook, byte for byte: the same cells give the same file on every machine and every Python.

Ids come from the source, keys are sorted, there are no outputs, no counts, no versions and no
dates.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from autograder.authoring.percent_source import Cell

Notebook = dict[str, Any]

OURS = "onelayer"
"""Our key in metadata. A notebook carries `{"source": path}` there, which marks it as generated; a
solution cell its stub; another right answer its role."""


def code_or_markdown(
    cell: Cell, text: str, *, graded: Mapping[str, Any] | None, stub: str | None
) -> Notebook:
    """The notebook cell for a source `cell` whose text became `text`. `graded` is nbgrader's
    metadata."""
    metadata: dict[str, Any] = dict(cell.header.view)
    if cell.header.tags:
        metadata["tags"] = list(cell.header.tags)
    if graded is not None:
        metadata["nbgrader"] = dict(graded)
    if stub is not None:
        metadata[OURS] = {"stub": stub}
    if cell.header.role == "alternative":
        metadata[OURS] = {"role": "alternative"}
    made: Notebook = {"cell_type": cell.kind, "id": cell.id, "metadata": metadata, "source": text}
    return made | {"execution_count": None, "outputs": []} if cell.kind == "code" else made


def notebook(cells: Iterable[Notebook], *, source: str, language: str = "en") -> Notebook:
    """A Python notebook, format 4.5, that remembers which `source` it was made from, and in which
    language, where that is not English."""
    ours = {"source": source} | ({} if language == "en" else {"language": language})
    return {
        "cells": list(cells),
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"file_extension": ".py", "name": "python"},  # what a script is called
            OURS: ours,
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def render(made: Notebook) -> bytes:
    """The file's bytes. Source text becomes a list of lines, so that a diff shows the line that
    changed.

    Raises:
        nbformat.ValidationError: it is not a notebook.
    """
    import nbformat

    nbformat.validate(made)
    cells = [cell | {"source": _lines(cell["source"])} for cell in made["cells"]]
    text = json.dumps(made | {"cells": cells}, indent=1, sort_keys=True, ensure_ascii=False)
    return (text + "\n").encode()


def _lines(source: str | list[str]) -> list[str]:
    """Lines that keep their line end, the last one without: split where an editor does, not at
    every Unicode break."""
    rows = "".join(source).split("\n")
    ended = [row + "\n" for row in rows[:-1]] + [rows[-1]]
    return ended if rows[-1] else ended[:-1]


def text_of(cell: Mapping[str, Any]) -> str:
    """A cell's source as one string, however the file held it."""
    return "".join(cell.get("source", ""))
