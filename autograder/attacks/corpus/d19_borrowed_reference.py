"""Tries, and falls back on the reference that the test cell defines."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import double

CELL = """
import torch
def reference(x):
    return 2 * x
x = torch.randn(5)
assert torch.allclose(double(x), reference(x)), "wrong"
"""

attack = Attack(
    threat="D19",
    layer="D1",
    expected=("fail",),
    arena=Beside(double, CELL),
    hostile="""
def double(x):
    try:
        return x.double_it()
    except AttributeError:
        return reference(x)
""",
    twin="""
def reference(x):
    return x + x
def double(x):
    try:
        return x.double_it()
    except AttributeError:
        return reference(x)
""",
)
