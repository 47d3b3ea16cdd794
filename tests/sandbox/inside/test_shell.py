"""What is IPython's own in a cell, and what is plain Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TokenTransformBase, TransformerManager

from autograder.sandbox.inside.shell import Transformer

PLAIN = [
    "def f(x):",
    "    return x % 2 != 3",
    "x = 1",
    "",
    "'''",
    "y = (a",
    "  % b)",
    "# what?",
    "...",
]
OWN = [
    "%time x",
    "  !ls",
    "!!ls",
    "?f",
    "f?",
    "f??  ",
    ",f a b",
    ";f a",
    "/f a",
    "x = %pwd",
    "x =!ls",
    "a, b = !ls",
    "x = \\",
    "%%time",
    ">>> x",
    "In [1]: x",
    "for k in n: %time k",
    "a ==!b",
]


def transformed(transformer, source):
    try:
        return transformer.transform_cell(source)
    except SyntaxError as error:
        return str(error)


@given(st.lists(st.sampled_from(PLAIN + OWN), max_size=6), st.sampled_from(["\n", "\n\n", "\r\n"]))
def test_a_cell_is_read_as_ipython_reads_it(lines, end):
    source = end.join(lines)
    assert transformed(Transformer(), source) == transformed(TransformerManager(), source)


@pytest.mark.parametrize("own", OWN)
def test_what_is_ipythons_own_is_not_taken_for_python(own):
    assert transformed(Transformer(), own) == transformed(TransformerManager(), own)


def test_plain_python_is_not_read_token_by_token(monkeypatch):
    monkeypatch.setattr(TransformerManager, "do_one_token_transform", None)
    assert Transformer().transform_cell("def f(x):\n    return x\n") == "def f(x):\n    return x\n"


def test_syntax_that_a_cell_has_added_is_read(monkeypatch):
    class Doubled(TokenTransformBase):
        @classmethod
        def find(cls, lines):
            return cls((1, 0)) if lines[0][0].string == "double" else None

        def transform(self, lines):
            return [line.replace("double", "2 *") for line in lines]

    transformer = Transformer()
    transformer.token_transformers.append(Doubled)
    assert transformer.transform_cell("double 3\n") == "2 * 3\n"
