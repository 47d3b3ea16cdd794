"""Overwrites its input with zeros, from which the reference then computes zeros too."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import double

CELL = """
import torch
for n in (3, 1, 8):
    x = torch.randn(n)
    assert torch.allclose(double(x), 2 * x), "wrong"
"""

attack = Attack(
    threat="D13",
    layer="D1",
    expected=("fail",),
    arena=Beside(double, CELL),
    hostile="""
def double(x):
    return x.zero_()
""",
    twin="""
def double(x):
    return x.clone().mul_(2)
""",
)
