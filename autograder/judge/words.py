"""Every sentence of ours that a student can read: made here, from a key and its facts, at the end.

Whoever finds something out hands on a `Text`, which is data; it becomes words when it is shown. The
words are those of `catalogues/en.toml`; a catalogue of another language is a file beside it, named
after its language, and what it lacks is said in English. The sentences of a check are the course's
content, and stay with their question.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

CATALOGUES = Path(__file__).parent / "catalogues"
ENGLISH = "en"
LANGUAGE = "ONELAYER_LANGUAGE"
"""The environment variable that names a catalogue: "en" if it is not set."""


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


def text(key: str, /, **facts: Any) -> Text:
    return Text(key, facts)


def say(key: str, /, **facts: Any) -> str:
    """The sentence of `key` with its facts. Where a fact is called n, one and many may read
    otherwise."""
    sentence = catalogue(os.environ.get(LANGUAGE, ENGLISH))[key]
    if isinstance(sentence, dict):
        sentence = sentence["one" if facts["n"] == 1 else "many"]
    return str(sentence).format_map(facts)


@cache
def catalogue(language: str) -> Mapping[str, Any]:
    """The sentences of `language` by key, English where it has none. Never raises for a language
    without a file."""
    english = tomllib.loads((CATALOGUES / f"{ENGLISH}.toml").read_text("utf-8"))
    path = CATALOGUES / f"{language}.toml"
    known = language.isalpha() and path.is_file()
    return {**english, **tomllib.loads(path.read_text("utf-8"))} if known else english


def from_json(value: Any) -> Any:
    """What JSON made of a Text, or of a list of them, as it was."""
    if not isinstance(value, list):
        return value
    if len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict):
        return Text(value[0], {name: from_json(fact) for name, fact in value[1].items()})
    return list(map(from_json, value))


def _shown(fact: Any) -> Any:
    """A list of texts is one text."""
    return "; ".join(map(str, fact)) if isinstance(fact, list) else fact
