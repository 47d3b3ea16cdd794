"""The one place where a sentence becomes words."""

from __future__ import annotations

import ast
import json
import re
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.judge import (
    Cause,
    LocalStudent,
    Text,
    ask,
    content,
    content_room,
    in_language,
    say,
    text,
    words,
)
from autograder.judge.verdict import Verdict
from tests.judge.small_questions import transpose_question

ROOT = Path(words.__file__).parents[2]
ENGLISH = words.catalogue("en")
ROOMS = ("judge", "notebook", "sandbox", "classroom")
SPEAKERS = {"say", "text", "Unsendable", "Broken"}
PREFIX = {"Unsendable": "unsendable.", "Broken": "broken."}


@pytest.fixture
def spanish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    english = (words.CATALOGUES / "en.toml").read_text("utf-8")
    (tmp_path / "en.toml").write_text(english, "utf-8")
    (tmp_path / "es.toml").write_text('"mark.fail" = "mal"\nmissing = "falta {function!r}"\n')
    monkeypatch.setattr(words, "CATALOGUES", tmp_path)
    monkeypatch.setenv(words.LANGUAGE, "es")
    words.catalogue.cache_clear()
    yield
    words.catalogue.cache_clear()


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes known a room of content in which these sentences have Spanish ones, and no other."""
    monkeypatch.setattr(words, "_content_rooms", [])

    def known(spanish: dict[str, str], code: str = "es") -> None:
        lines = (f"{json.dumps(one)} = {json.dumps(said)}\n" for one, said in spanish.items())
        (tmp_path / "lab").mkdir(exist_ok=True)
        (tmp_path / "lab" / f"{code}.toml").write_text("".join(lines), "utf-8")
        content_room(tmp_path)

    yield known
    words._content.cache_clear()
    words._patterns.cache_clear()


def test_another_language_needs_a_file_and_nothing_else(spanish: None) -> None:
    assert str(text("missing", function="swap")) == "falta 'swap'"
    assert say("mark.fail") == "mal"
    assert say("mark.pass") == "pass"  # what it lacks is said in English
    verdict = ask(transpose_question(), LocalStudent({"swap": lambda x: x}), seed=1)
    assert str(verdict).startswith("swap   mal   0 of 3 points")


@pytest.mark.parametrize("language", ["xx", "", "../../secret", "en"])
def test_a_language_without_a_file_is_english(language: str) -> None:
    assert words.catalogue(language) == ENGLISH


def test_a_text_is_data_until_it_is_shown_and_survives_json() -> None:
    inner = text("line", number=3, source="x = {y}")
    outer = text("error", error="E", message=text("lines", lines=[inner, inner]))
    assert str(outer) == "E: line 3: x = {y}; line 3: x = {y}"  # braces in a fact are no template
    assert words.from_json(json.loads(json.dumps(outer))) == outer


def test_one_and_many_read_otherwise() -> None:
    assert say("score", points=1, n=1).endswith("of 1 point")
    assert say("score", points=1, n=2).endswith("of 2 points")


def test_every_cause_has_a_mark_that_can_be_said() -> None:
    for cause in Cause:
        assert say(f"mark.{Verdict('q', cause, 0, 1, 1).mark}")


def keys_said() -> Iterator[tuple[str, str, set[str] | None]]:
    """Each call of `say` or `text` with a literal key: the file, the key, the facts it gives."""
    paths = [path for room in ROOMS for path in (ROOT / "autograder" / room).rglob("*.py")]
    checks = ROOT / "autograder" / "checks"
    cli = ROOT / "autograder" / "student_cli.py"
    for path in [*paths, cli, checks / "__init__.py", checks / "next_lines.py"]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(getattr(node, "func", None), "id", "")
            if isinstance(node, ast.Call) and name in SPEAKERS and node.args:
                key = node.args[0]
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    given = {word.arg for word in node.keywords}
                    facts = None if None in given else {str(one) for one in given}
                    yield str(path), PREFIX.get(name, "") + key.value, facts


def keys_of_pages() -> Iterator[str]:
    for path in (ROOT / "autograder").rglob("*.j2"):
        yield from re.findall(r'\bsay\("([^"]+)"', path.read_text("utf-8"))


def fields_of(sentence: Any) -> set[str]:
    forms = sentence.values() if isinstance(sentence, dict) else [sentence]
    named = {field for form in forms for _, field, _, _ in string.Formatter().parse(form) if field}
    return named | ({"n"} if isinstance(sentence, dict) else set())


def test_every_key_that_is_said_is_in_the_catalogue_with_the_facts_it_needs() -> None:
    said = list(keys_said())
    assert len(said) > 60
    assert set(keys_of_pages()) < ENGLISH.keys()
    for path, key, facts in said:
        assert key in ENGLISH, (path, key)
        if facts is not None:
            assert fields_of(ENGLISH[key]) == facts, (path, key)


def test_no_sentence_of_the_catalogue_is_said_by_nobody() -> None:
    said = {key for _, key, _ in keys_said()} | set(keys_of_pages())
    made = (
        "mark.",
        "row.",
        "head.",
        "hint.",
        "guessed.",
        "short.",
        "doctor.",
    )  # after a name that is data
    assert {key for key in ENGLISH if not key.startswith(made)} - said == set()


def test_a_text_equals_no_words() -> None:
    assert Text("ended", {}) != "it ended"


def test_the_fields_of_a_pattern_are_filled_and_said_too(entries: Callable[..., None]) -> None:
    entries(
        {
            "{} of {} rows": "de {1} filas, {0}",
            "row {}": "fila {}",
            "all": "todas",
            "a set {{}}": "un conjunto {{}}",
            "in {}": "en {}",
            "the loss": "la pérdida",
        }
    )
    with in_language("es"):
        assert content("all of 7 rows") == "de 7 filas, todas"
        assert content("row {3}") == "fila {3}"
        assert content("row 3\nof two lines") == "row 3\nof two lines"
        assert content("in the loss") == "en la pérdida"
        assert content("in a message of torch's") == "in a message of torch's"
        assert content("in dx, dw; row 3") == "en dx, dw; fila 3"
        assert content("in dx; and a message") == "in dx; and a message"
    assert content("all") == "all"


def test_a_sentence_that_begins_like_an_entry_is_none(entries: Callable[..., None]) -> None:
    entries({"all": "todas", "the {} of every one": "el {} de cada uno"})
    with in_language("es"):
        assert content("all of them") == "all of them"
        assert content("the of every one") == "the of every one"  # its two parts overlap
        assert content("the  of every one") == "el  de cada uno"  # an empty field


@pytest.mark.parametrize("first", [True, False])
def test_of_two_patterns_the_one_with_more_words_of_its_own_is_said(
    first: bool, entries: Callable[..., None]
) -> None:
    short = {"a value of {}": "un valor de {}, como lo ha devuelto la respuesta"}
    long = {"a value of {} in the last row": "un valor de {} al final"}
    entries({**short, **long} if first else {**long, **short})
    with in_language("es"):
        assert content("a value of 3 in the last row") == "un valor de 3 al final"


def test_a_long_list_is_one_text(entries: Callable[..., None]) -> None:
    """Else each clause of what a student printed would be looked up."""
    entries({"row {}": "fila {}"})
    rows = [f"row {n}" for n in range(13)]
    with in_language("es"):
        assert content("; ".join(rows[:12])) == "; ".join(rows[:12]).replace("row", "fila")
        assert content("; ".join(rows)) == "; ".join(rows)


def test_a_room_that_comes_later_is_known_too(entries: Callable[..., None]) -> None:
    with in_language("es"):
        assert content("row 3") == "row 3"
        entries({"row {}": "fila {}"})
        assert content("row 3") == "fila 3"
        entries({"row {}": "fila {}", "row 3": "la tercera"})
        assert content("row 3") == "la tercera"


def test_a_file_of_content_makes_no_language(entries: Callable[..., None]) -> None:
    """Nor is English said in other words: its sentences are the entries."""
    for code in ("xx", "en"):
        entries({"all": "todas"}, code)
        with in_language(code):
            assert content("all") == "all"


def test_a_language_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret.toml").write_text('missing = "a secret"\n')
    (tmp_path / "catalogues").mkdir()
    (tmp_path / "catalogues" / "en.toml").write_text('missing = "it is missing"\n')
    monkeypatch.setattr(words, "CATALOGUES", tmp_path / "catalogues")
    words.catalogue.cache_clear()
    try:
        assert words.catalogue("../secret") == {"missing": "it is missing"}
    finally:
        words.catalogue.cache_clear()


def test_a_text_and_its_facts_are_content_too(entries: Callable[..., None]) -> None:
    entries({"the loss": "la pérdida"})
    said = text("error", error="E", message="the loss")
    with in_language("es"):
        assert content(said) == str(said) == "E: la pérdida"


def test_a_list_of_two_that_no_text_was_comes_back_as_it_was() -> None:
    for value in ([1, {"a": 2}], [["key", {}], {"a": 2}, 3], ["key", ["a"]]):
        read = words.from_json(json.loads(json.dumps(value)))
        assert read == ([Text("key", {}), {"a": 2}, 3] if value[0] == ["key", {}] else value)
