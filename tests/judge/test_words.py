"""The one place where a sentence becomes words."""

from __future__ import annotations

import ast
import json
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.judge import Cause, LocalStudent, Text, ask, say, text, words
from autograder.judge.verdict import Verdict
from tests.judge.test_ask import transpose_question

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
