"""Every sentence of ours that a student can read: made here, from a key and its facts, at the end.

Whoever finds something out hands on a `Text`, which is data; it becomes words when it is shown. The
words are those of `catalogues/en.toml`; a catalogue of another language is a file beside it, named
after its language, and what it lacks is said in English. The sentences of a check are the course's
content: they stand in English with their question, and `content` finds what a file of the room in
which they stand, named after the language too, has in their place.

The language is that of whoever reads: named by `in_language`, by the environment, or by the folder
of the notebook that runs.
"""

from __future__ import annotations

import itertools
import operator
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

CATALOGUES = Path(__file__).parent / "catalogues"
ENGLISH = "en"
LANGUAGE = "ONELAYER_LANGUAGE"
"""The environment variable that names a language, as a notebook in Spanish sets it."""
NOTEBOOK = "JPY_SESSION_NAME"
"""Where Jupyter's server tells a kernel which notebook it runs."""
_ROOMS = ("notebooks", "labs", "solutions")
MAX_CLAUSES = 12
"""Of a list, with "; " between, that is said clause by clause."""

_chosen: ContextVar[str] = ContextVar("language", default="")
_content_rooms: list[Path] = []


def language() -> str:
    """The code of the language in which words are said now: of the one that was chosen, of the
    environment, or of a notebook such as es/labs/01_strides/01_strides.ipynb; else "en"."""
    named = _chosen.get() or os.environ.get(LANGUAGE)
    parts = [] if named else Path(os.environ.get(NOTEBOOK, "")).parts
    for folder, room in itertools.pairwise(parts):
        if room in _ROOMS and _is_known(folder):
            return folder
    return named or ENGLISH


@contextmanager
def in_language(code: str) -> Iterator[None]:
    """Says in the language `code`, or in that of whoever runs this where it is ""."""
    token = _chosen.set(code)
    try:
        yield
    finally:
        _chosen.reset(token)


def _is_known(code: str) -> bool:
    return code.isalpha() and (CATALOGUES / f"{code}.toml").is_file()


class Text(NamedTuple):
    """A sentence that is not words yet: its key in the catalogue, and the facts in it.

    A fact is plain data, a Text, or a list of them. JSON writes a Text as [key, facts]; `from_json`
    reads that.
    """

    key: str
    facts: Mapping[str, Any]

    def __str__(self) -> str:
        return say(self.key, **{name: _shown(fact) for name, fact in self.facts.items()})


Said: TypeAlias = "str | Text"
"""What a verdict says: words of the course's content, or a Text of ours."""


def content(said: Said) -> str:
    """What a verdict says, in words: a sentence of the course's content in the language of now, or
    itself where that has none."""
    if not isinstance(said, str) or language() == ENGLISH:
        return str(said)
    known = _content(language())
    return known[said] if said in known else _filled_in(said)


def _filled_in(english: str) -> str:
    """The first entry with fields that is the whole sentence, with what stands in its fields; or
    clause by clause, where each clause of a list has an entry."""
    clauses = english.split("; ", MAX_CLAUSES)
    if 1 < len(clauses) <= MAX_CLAUSES:
        each = list(map(content, clauses))
        if all(map(operator.ne, each, clauses)):
            return "; ".join(each)
    for parts, said in _patterns(language()):
        # Of a thousand entries a handful begin so. Asked here, that takes a tenth of the time.
        fields = _fields(english, parts) if english.startswith(parts[0]) else None
        if fields is not None:
            return said.format(*map(content, fields))
    return english


def _fields(english: str, parts: Sequence[str]) -> list[str] | None:
    """What stands between the parts of an entry, with the first of which `english` begins, each at
    its first place: in linear time, since a student's own text comes by here. A field of a short
    entry is one word, a list of them, or an entry itself, so `{} after {}` is not taken for a
    message of torch's."""
    first, *inner, last = parts
    place, end = len(first), len(english) - len(last)
    if not (english.endswith(last) and place <= end):
        return None
    found = []
    for part in inner:
        at = english.find(part, place, end)
        if at < 0:
            return None
        found.append(english[place:at])
        place = at + len(part)
    found.append(english[place:end])
    is_short = sum(len(part.split()) for part in parts) <= 2
    return None if is_short and not all(map(_is_small, found)) else found


def _is_small(field: str) -> bool:
    return len(field.replace(", ", ",").split()) == 1 or field in _content(language())


def content_room(folder: Path) -> None:
    """Makes known that sentences of content stand in the folders of `folder`, with a file for each
    language: English words, and what is said in their place."""
    _content_rooms.append(folder)
    _content.cache_clear()
    _patterns.cache_clear()


@cache
def _content(code: str) -> Mapping[str, str]:
    paths = [path for room in _content_rooms for path in sorted(room.glob(f"**/{code}.toml"))]
    return {
        english: said
        for path in (paths if _is_known(code) else [])
        for english, said in tomllib.loads(path.read_text("utf-8")).items()
    }


@cache
def _patterns(code: str) -> tuple[tuple[list[str], str], ...]:
    """The entries with fields, written `{}`, as the parts between them, the longest first."""
    made = [(one.split("{}"), said) for one, said in _content(code).items() if "{}" in one]
    return tuple(sorted(made, key=lambda pair: -len("".join(pair[0]))))


def text(key: str, /, **facts: Any) -> Text:
    return Text(key, facts)


def say(key: str, /, **facts: Any) -> str:
    """The sentence of `key` with its facts. Where a fact is called n, one and many may read
    otherwise."""
    sentence = catalogue(language())[key]
    if isinstance(sentence, dict):
        sentence = sentence["one" if facts["n"] == 1 else "many"]
    return str(sentence).format_map(facts)


@cache
def catalogue(code: str) -> Mapping[str, Any]:
    """The sentences of a language by key, English where it has none. Never raises for a language
    without a file."""
    english = tomllib.loads((CATALOGUES / f"{ENGLISH}.toml").read_text("utf-8"))
    if not _is_known(code):
        return english
    return {**english, **tomllib.loads((CATALOGUES / f"{code}.toml").read_text("utf-8"))}


def from_json(value: Any) -> Any:
    """What JSON made of a Text, or of a list of them, as it was."""
    if not isinstance(value, list):
        return value
    if len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict):
        return Text(value[0], {name: from_json(fact) for name, fact in value[1].items()})
    return list(map(from_json, value))


def _shown(fact: Any) -> Any:
    """A list of texts is one text."""
    if isinstance(fact, list):
        return "; ".join(map(str, fact))
    return content(fact) if isinstance(fact, str) else fact
