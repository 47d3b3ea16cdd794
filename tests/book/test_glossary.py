"""The first use of a word on a page leads to its line in the glossary, and no other use does."""

from __future__ import annotations

import re

import pytest

from autograder.authoring.language import Language, others
from autograder.authoring.plan import plan
from book import glossary
from book.unit import ROOT, cells, units


def linked(*texts: str) -> list[str]:
    return glossary.linked(texts, up="../")


def test_the_first_use_is_a_link_and_the_second_is_none() -> None:
    assert linked("A stride is a stride.", "Strides.") == [
        "A [stride](../docs/glossary.md#stride) is a stride.",
        "Strides.",
    ]


def test_the_longer_word_wins_and_a_plural_is_the_same_word() -> None:
    (text,) = linked("Dispatch\nkeys and key sets.")
    assert text == (
        "[Dispatch\nkeys](../docs/glossary.md#dispatch-key) and "
        "[key sets](../docs/glossary.md#key-set)."
    )


@pytest.mark.parametrize(
    "kept",
    [
        "# Stride",
        "`stride`",
        "[stride](https://x.y/stride)",
        "[a\nstride](a.md)",
        "| stride |",
        "<b title='stride'>",
        "```\nstride\n```",
        "strided overstride stride-tricks x.stride",
    ],
)
def test_no_link_goes_into_code_links_headings_and_parts_of_words(kept: str) -> None:
    assert linked(kept) == [kept]


def test_a_word_that_is_introduced_stays_stressed() -> None:
    assert linked("its *storage* is") == ["its *[storage](../docs/glossary.md#storage)* is"]


def test_the_words_are_sorted_and_the_chapters_use_nearly_all() -> None:
    words = list(glossary.words())
    assert words == sorted(words)
    prose = "".join(
        "".join(cell["source"]) for unit in units(plan(ROOT)) for cell in cells(unit.chapter)
    )
    found = [word for word in words if word in re.sub(r"\s+", " ", prose).lower()]
    assert len(found) > 0.8 * len(words)


def test_each_word_leads_to_a_chapter_that_is_there() -> None:
    text = (ROOT / glossary.PAGE).read_text("utf-8")
    links = re.findall(r"\]\(\.\./([^)]+)\)", text)
    assert len(links) == len(glossary.words())
    assert all((ROOT / link).is_file() for link in links)


TWINS = pytest.mark.parametrize("language", others(ROOT), ids=lambda one: one.code)


@TWINS
def test_a_twin_has_the_same_words_with_the_same_chapters(language: Language) -> None:
    entry = re.compile(r"^## (.+)\n\n.+ \[.+\]\(\.\./(.+)\)\.$", re.MULTILINE)
    english = entry.findall((ROOT / glossary.PAGE).read_text("utf-8"))
    assert len(english) == len(glossary.words())
    twin = (ROOT / language.code / glossary.PAGE).read_text("utf-8")
    assert entry.findall(twin) == english
    assert set(glossary.words(language).values()) == set(glossary.words().values())


@TWINS
def test_the_chapters_in_a_language_use_nearly_all_words_of_its_twin(language: Language) -> None:
    words = glossary.words(language)
    chapters = (ROOT / language.code / "notebooks").glob("[0-9]*.md")
    prose = " ".join(" ".join(path.read_text("utf-8").split()) for path in chapters).lower()
    anchors = {anchor for word, anchor in words.items() if word in prose}
    assert len(anchors) > 0.8 * len(set(words.values()))


def test_the_first_use_of_a_spanish_word_is_a_link_whatever_its_number() -> None:
    (language,) = (one for one in others(ROOT) if one.code == "es")
    texts = [
        "Autograd guarda un nodo. Los operadores son",
        "un operador. Dos *tensores\nguardados*",
    ]
    assert glossary.linked(texts, "../", language) == [
        "[Autograd](../docs/glossary.md#autograd) guarda un nodo. Los "
        "[operadores](../docs/glossary.md#operator) son",
        "un operador. Dos *[tensores\nguardados](../docs/glossary.md#saved-tensor)*",
    ]
