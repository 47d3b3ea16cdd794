"""Replaces the helper by which the test cell compares."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import double

CELL = """
import torch
x = torch.arange(5.0)
torch.testing.assert_close(double(x), 2 * x)
"""

attack = Attack(
    threat="A18",
    layer="D1",
    expected=("fail",),
    arena=Beside(double, CELL),
    hostile="""
import torch
torch.testing.assert_close = lambda *arguments, **named: None
def double(x):
    return x
""",
    twin="""
import torch
def double(x):
    torch.testing.assert_close(x, x)
    return 2 * x
""",
)
