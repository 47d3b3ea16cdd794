"""The glossary of a translation: a machine can read it, and the texts keep to it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from autograder.attacks.sample_class import ROOT
from autograder.authoring.language import Language, others

LANGUAGES = [pytest.param(language, id=language.code) for language in others(ROOT)]
# English says these of other things too: over the edge, in turn, in place of, to record a gradient.
EVERYDAY = {"edge", "turn", "hang", "in place", "join", "store", "core", "shard", "layout", "try"}
SEEN_OFTEN = 4  # cells from which on a share says something
KEPT = 0.6  # of the cells that name a thing; the others say it in their own way


def rows(language: Language) -> list[tuple[str, str]]:
    """(English, translated) for each line of the glossary."""
    lines = (ROOT / language.code / "glossary.md").read_text("utf-8").splitlines()
    table = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    assert all(len(row) == 2 for row in table), table
    return [(english, translated) for english, translated in table[1:]]


def plain(text: str) -> str:
    """In small letters and without accents, code and addresses."""
    letters = unicodedata.normalize("NFD", re.sub(r"`[^`]*`|\]\([^)]*\)", " ", text).lower())
    return "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")


def names(cell: str) -> list[str]:
    """What a glossary's cell calls the thing: its words, without brackets and articles."""
    parts = re.split("[;,]", re.sub(r"\([^)]*\)", " ", plain(cell)))
    return [name for part in parts if (name := re.sub(r"^\s*(el|la|los|las)\s", "", part).strip())]


def inflected(name: str) -> str:
    """A pattern for a name in any of its forms: the first half of each word, small words free."""
    halves = [word[: max(4, len(word) // 2)] for word in name.split() if len(word) > 3]
    return r"\b" + r"\w*\W+(?:\w+\W+){0,3}?".join(map(re.escape, halves or [name]))


def stands_in(name: str, text: str) -> bool:
    words = r"\s+".join(map(re.escape, name.split()))
    return name.split()[0] in text and bool(re.search(rf"\b{words}s?\b", text))


def pairs(language: Language) -> Iterator[tuple[str, str]]:
    """Each cell of prose in English and translated."""
    for path in sorted([*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("labs/*/*.ipynb")]):
        english, translated = (
            _prose(place / path.relative_to(ROOT)) for place in (ROOT, ROOT / language.code)
        )
        yield from ((text, translated[name]) for name, text in english.items())


def _prose(path: Path) -> dict[str, str]:
    cells = nbformat.read(path, as_version=4).cells
    return {cell.id: plain(cell.source) for cell in cells if cell.cell_type == "markdown"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_word_is_translated_twice(language: Language) -> None:
    english = [name for name, _ in rows(language)]
    assert len(english) >= 150
    assert len(set(english)) == len(english)
    assert english == sorted(english, key=str.lower)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_texts_keep_to_it(language: Language) -> None:
    cells, strayed, asked = list(pairs(language)), {}, 0
    for english, translated in rows(language):
        forms = re.compile("|".join(map(inflected, names(translated))))
        for name in set(names(english)) - EVERYDAY:
            texts = [text for source, text in cells if stands_in(name, source)]
            found = [bool(forms.search(text)) for text in texts]
            asked += len(found) >= SEEN_OFTEN
            if len(found) >= SEEN_OFTEN and sum(found) < KEPT * len(found):
                strayed[name] = f"{sum(found)} of {len(found)} cells say {translated}"
    assert asked > 100
    assert strayed == {}


def test_a_word_that_strays_is_seen() -> None:
    """A term in another form is the term; another word for the thing is not."""
    forms = re.compile(inflected("producto de matrices"))
    assert forms.search(plain("dos productos de las matrices"))
    assert not forms.search(plain("la multiplicación de matrices"))
    assert re.search(inflected("búfer"), plain("los búferes")) is None  # not plain
    assert re.search(inflected(plain("búfer")), plain("los búferes"))
