"""What a student reads, in each language: all of it is there, with the facts of the English."""

from __future__ import annotations

import ast
import inspect
import re
import string
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click import Context

from autograder.checks import labs
from autograder.checks.next_lines import FILE as NEXT_LINES
from autograder.classroom import intake
from autograder.judge import LocalStudent, ask, content, in_language, language, say, words
from autograder.notebook.guess_lines import FILE as GUESS_LINES
from autograder.selftest import english_in
from autograder.student_cli import main
from tests.judge.small_questions import transpose_question
from tests.judge.test_words import fields_of

ROOT = Path(words.__file__).parents[2]
ENGLISH = words.catalogue("en")
CODES = sorted(path.stem for path in words.CATALOGUES.glob("*.toml") if path.stem != "en")
IN_WORDS = re.compile(r"[a-z]{2,} [a-z]{2,}")


def own(code: str) -> dict[str, Any]:
    return tomllib.loads((words.CATALOGUES / f"{code}.toml").read_text("utf-8"))


def specs(sentence: Any) -> set[tuple[str | None, str | None]]:
    forms = sentence.values() if isinstance(sentence, dict) else [sentence]
    return {(field, spec) for form in forms for _, field, spec, _ in string.Formatter().parse(form)
            if field}  # fmt: skip


def test_there_is_spanish() -> None:
    assert "es" in CODES


@pytest.mark.parametrize("code", CODES)
def test_every_sentence_of_ours_is_there_with_its_facts(code: str) -> None:
    assert own(code).keys() == ENGLISH.keys()
    for key, sentence in own(code).items():
        assert fields_of(sentence) - {"n"} == fields_of(ENGLISH[key]) - {"n"}, key
        assert specs(sentence) == specs(ENGLISH[key]), key


def said_of_labs() -> Iterator[tuple[str, str]]:
    """Every sentence of the labs' content, and whose it is."""
    for lab in labs():
        yield lab.name, lab.title
        for question in lab:
            yield question.name, question.title
            goal = " ".join((inspect.getdoc(question.check) or "").partition("\n\n")[0].split())
            yield question.name, goal.partition(". ")[0].rstrip(".")
            for hint in question.hints:
                yield question.name, hint
            for wrong in question.wrong_answers:
                yield f"{question.name}, {wrong.name}", wrong.sentence


def said_of_guesses() -> Iterator[tuple[str, str]]:
    lines = tomllib.loads(GUESS_LINES.read_text("utf-8"))
    yield from ((key, line) for key, table in lines.items() for line in table.values())
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "predict":
                choices = [word.value for word in node.keywords if word.arg == "choices"]
                for choice in ast.walk(choices[0]) if choices else ():
                    value = getattr(choice, "value", None)
                    if isinstance(value, str) and IN_WORDS.search(value):
                        yield path.stem, value


def said_of_sections() -> Iterator[tuple[str, str]]:
    sections = tomllib.loads(NEXT_LINES.read_text("utf-8"))["sections"]
    yield from sections.items()


def said_of_commands() -> Iterator[tuple[str, str]]:
    """What `onelayer --help` and the help of its commands say, by their paragraphs."""
    yield from (("onelayer", one) for one in ("Usage: ", "Options", "Commands"))
    for command in (main, *main.commands.values()):
        for paragraph in inspect.getdoc(command.callback).split("\n\n"):  # type: ignore[union-attr]
            yield str(command.name), " ".join(paragraph.split())
        for option in command.get_params(Context(command)):
            yield str(command.name), getattr(option, "help", None) or "Options"


REFUSING = {"Ungradable", "Unreadable", "refusing"}
"""What is handed the sentence that a student reads."""
REFUSALS = {"refusal", "_unsafe", "_several"}
"""What returns it."""


def said_of_hand_ins() -> Iterator[tuple[str, str]]:
    """Why a hand-in cannot be graded, with `{}` for each field."""
    for name in ("archive", "files", "rebuild", "submissions"):
        tree = ast.parse((Path(intake.__path__[0]) / f"{name}.py").read_text("utf-8"))
        for node in refusals_in(tree):
            if isinstance(node, ast.JoinedStr):
                yield name, written(node, "{}")
            elif isinstance(node, ast.Constant) and node.value:
                yield name, node.value


def refusals_in(tree: ast.Module) -> Iterator[ast.AST | None]:
    for node in tree.body:  # constants, but for those that only tell the instructor a place
        if isinstance(node, ast.Assign) and (text := ast.unparse(node.value)).endswith(
            (".'", '."')
        ):
            yield node.value if " " in text else None
    for one in ast.walk(tree):
        if isinstance(one, ast.Call) and getattr(one.func, "id", "") in REFUSING:
            yield one.args[0]
        elif isinstance(one, ast.FunctionDef) and one.name in REFUSALS:
            yield from (r.value for r in ast.walk(one) if isinstance(r, ast.Return))


SPEAKING = [said_of_labs, said_of_guesses, said_of_sections, said_of_commands, said_of_hand_ins]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("said", SPEAKING)
def test_all_content_is_there(code: str, said: Any) -> None:
    known = words._content(code)
    lacking = [(whose, english) for whose, english in said() if not known.get(english)]
    assert lacking == []


SHOWN = {"expected", "got", "where", "why", "told", "place", "form", "said", "_FORM"}
"""What a check calls a text that a verdict shows."""
SHOWING = {
    *("within", "expect_tuple", "expect_kind", "expect_tensors", "expect_us", "expect_number"),
    *("floor", "Fault", "Refused", "_wrong"),
}
"""What it hands such a text to."""
NOT_SHOWN = {
    "There is no lab {}. There are {}.": "an instructor's",
    "{}: still there": "raised by a known answer",
    "{}: RuntimeError: as an example": "raised by a known answer",
    "{} {} ({} of it)": "one of a list, which has an entry",
    "<built-in method item of Tensor object at 0x7f{}>": "a trace",
    '"""{}: operators for a wide head."""': "a file",
}


def said_from_parts() -> Iterator[tuple[str, str, list[str]]]:
    """Where a check puts a text together or hands one on, the text with `{}` for its fields, and
    how it may come out."""
    for path in sorted((ROOT / "autograder" / "checks").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
                 for part in node.values}  # fmt: skip
        found = {node for top in shown_in(tree) for node in ast.walk(top)} - parts
        for node in sorted(found, key=lambda node: getattr(node, "lineno", 0)):
            where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.JoinedStr):
                yield where, written(node, "{}"), [written(node, "7"), written(node, "")]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield where, node.value, [node.value]


def shown_in(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node
        elif isinstance(node, ast.Call):
            yield from (word.value for word in node.keywords if word.arg in SHOWN)
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            yield from node.args if called in SHOWING else ()
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in SHOWN:
            yield node.value


def written(node: ast.JoinedStr, field: str) -> str:
    return "".join(str(v.value) if isinstance(v, ast.Constant) else field for v in node.values)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.slow
def test_what_a_check_puts_together_from_parts_is_there(code: str) -> None:
    """An f-string needs an entry with `{}` for its fields, even one with few words of its own."""
    known, lacking, exempt = words._content(code), [], set()
    with in_language(code):
        for where, text, forms in said_from_parts():
            said = any(content(form) != form or form in known for form in forms)
            if not said and any(map(english_in, forms)):
                rest = [one for one in NOT_SHOWN if text.startswith(one)]
                exempt.update(rest)
                lacking += [] if rest else [f"{where}: {text}"]
    assert lacking == []
    assert exempt == NOT_SHOWN.keys()


@pytest.mark.parametrize("code", CODES)
def test_a_section_is_called_as_in_its_chapter(code: str) -> None:
    """`look_again` leads to a heading that the reader finds."""
    with in_language(code):
        for section, title in tomllib.loads(NEXT_LINES.read_text("utf-8"))["sections"].items():
            (chapter,) = (ROOT / code / "notebooks").glob(f"{section[:2]}_*.md")
            assert f"# {content(title)}\n" in chapter.read_text("utf-8"), section


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES)
def test_no_entry_is_left_over(code: str) -> None:
    """An English sentence that nobody says any more has no translation either."""
    said = {english for part in SPEAKING for _, english in part()}
    texts = "\n".join(
        node.value
        for room in (
            "autograder/checks",
            "autograder/judge",
            "autograder/notebook",
            "notebooks",
            "onelayer/memory",
        )
        for path in sorted((ROOT / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    rest = [one for one in words._content(code) if one not in said]
    assert [one for one in rest if re.split(r"\{\}|\{\{|\}\}", one)[0] not in texts] == []


@pytest.mark.parametrize("code", CODES)
def test_a_verdict_is_said_without_a_word_of_the_english_catalogue(code: str) -> None:
    def card() -> str:
        return str(ask(transpose_question(), LocalStudent({"swap": lambda x: x}), seed=1))

    with in_language(code):
        told = card()
    assert told != card()
    sentences = [s for s in ENGLISH.values() if isinstance(s, str) and IN_WORDS.search(s)]
    for sentence in sentences:
        for part in re.split(r"\{[^}]*\}", sentence):
            assert not IN_WORDS.search(part) or part.strip() not in told, sentence


@pytest.mark.parametrize("code", CODES)
def test_a_students_own_text_comes_through_however_long(code: str) -> None:
    """What an answer returned or raised is looked up, too: that takes no longer than reading it."""
    with in_language(code):
        for text in (
            "of " * 100_000,
            " {} , : of in at " * 50_000,
            "\n" * 100_000,
            "{0.__class__}",
        ):
            assert content(text) == text


@pytest.mark.parametrize(
    ("notebook", "code"),
    [
        ("/home/a/course/es/labs/01_strides/01_strides.ipynb", "es"),
        ("/home/es/course/labs/01_strides/01_strides.ipynb", "en"),
        ("/c/xx/labs/01_strides/01_strides.ipynb", "en"),
        ("es/notebooks/home.ipynb", "es"),
        ("", "en"),
    ],
)
def test_a_notebook_is_answered_in_the_language_of_its_folder(
    notebook: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(words.LANGUAGE, raising=False)
    monkeypatch.setenv(words.NOTEBOOK, notebook)
    assert language() == code
    monkeypatch.setenv(words.LANGUAGE, "en")
    assert language() == "en"
    with in_language("es"):
        assert say("mark.pass") == own("es")["mark.pass"]
