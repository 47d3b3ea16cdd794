"""Which names a cell makes on its own level."""

from __future__ import annotations

import ast

import pytest

from autograder.judge.cell_names import bound


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("", ""),
        ("x = 1", "x"),
        ("x, (y, *z) = f()", "x y z"),
        ("x: int = 1", "x"),
        ("x += 1", "x"),
        ("def f(a):\n    b = a", "f"),
        ("async def f(): pass", "f"),
        ("class A:\n    b = 1\n    def c(self): pass", "A"),
        ("f = lambda a: (b := a)", "f"),
        ("import torch.nn.functional", "torch"),
        ("import torch.nn.functional as F\nfrom math import pi as p, e", "F p e"),
        ("for k in range(3):\n    if k:\n        last = k", "k last"),
        ("with open('f') as file:\n    pass", "file"),
        ("if (n := 3):\n    def g(): pass", "n g"),
        ("x.y = 1\nx[0] = 2\nprint(z)", ""),
    ],
)
def test_the_names_of_its_own_level(source: str, names: str) -> None:
    assert bound(ast.parse(source).body) == set(names.split())
