"""Mutants: each differs in one place from its text, says where, and none reads as the text does."""

from __future__ import annotations

import ast

import pytest

from autograder.mutants import mutants

TEXT = '''
"""A docstring, which nobody changes."""
import os

LIMIT: int = 3


def first(values: list[int], *, least: int = 0) -> int | None:
    """The first value over `least`."""
    for value in values:
        if value > least and value != LIMIT:
            return value
    return None
'''


def said(source: str) -> list[str]:
    return [mutant.name for mutant in mutants(source)]


def test_each_differs_from_the_text_and_from_every_other_and_is_python() -> None:
    made = [mutant.source for mutant in mutants(TEXT)]
    plain = ast.unparse(ast.parse(TEXT))
    assert len(made) > 10
    assert len({plain, *made}) == len(made) + 1
    for source in made:
        compile(source, "mutant", "exec")


def test_a_mutant_says_its_line_its_function_and_its_change() -> None:
    (found,) = [m for m in mutants(TEXT) if m.what == "value > least compares by GtE"]
    assert (found.function, found.line) == ("first", 11)
    assert "value >= least" in found.source


def test_what_only_documents_or_types_stays() -> None:
    for mutant in mutants(TEXT):
        assert "A docstring" in mutant.source
        assert "values: list[int]" in mutant.source
        assert "import os" in mutant.source


@pytest.mark.parametrize(
    ("source", "change"),
    [
        ("a + b", "computes by Sub"),
        ("a and b", "joins by Or"),
        ("a and b", "without a"),
        ("not a", "without its Not"),
        ("f(a, b)", "first two swapped"),
        ("f(a, dim=1)", "without dim"),
        ("x[1:n]", "without its upper"),
        ("x.sum()", "is mean"),
        ("[a for a in b if a]", "without if a"),
        ("def f():\n    return a", "returns nothing"),
        ("if a:\n    b()", "if a: never"),
        ("if a:\n    b()", "if a: always"),
        ("for a in b:\n    c()", "leaves after one turn"),
        ("for a in b:\n    c()", "no turn at all"),
        ("try:\n    a()\nexcept ValueError:\n    b()", "lets it through"),
        ("raise ValueError", "dropped"),
        ("x += 1", "dropped"),
        ("x = True", "True is False"),
        ("x = 7", "7 one more"),
    ],
)
def test_each_change_is_made(source: str, change: str) -> None:
    assert any(name.endswith(change) for name in said(f"{source}\n")), said(source)


def test_nothing_comes_of_nothing() -> None:
    assert said("") == said('"""Only words."""\n') == []


def test_what_is_no_python_is_refused() -> None:
    with pytest.raises(SyntaxError):
        said("def f(:")
