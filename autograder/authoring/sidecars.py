"""Where the words of a source lie in another language: a file beside that language's notebook."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autograder.authoring.language import Language
from autograder.authoring.percent_source import Cell
from autograder.authoring.problem import Problem
from autograder.authoring.translation import Entry, in_language, read


def sidecar(language: Language, source: str) -> str:
    """The path of the sidecar of a source."""
    return f"{language.prefix}{source.removesuffix('.py')}.md"


def entries_of(root: Path, language: Language, source: str) -> list[Entry]:
    """The entries of a source's sidecar; none where there is no file."""
    path = root / sidecar(language, source)
    return read(path.read_text("utf-8")) if path.is_file() else []


def said_in(
    root: Path, language: Language, source: str, cells: Sequence[Cell]
) -> tuple[tuple[Cell, ...], list[Problem]]:
    """The cells of a source in a language, and what is wrong with their sidecar."""
    path = sidecar(language, source)
    if not (root / path).is_file():
        return tuple(cells), [Problem(path, "is missing: nothing of its source is translated")]
    return in_language(cells, entries_of(root, language, source), path)
