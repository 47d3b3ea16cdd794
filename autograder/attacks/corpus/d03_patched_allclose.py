"""Replaces `torch.allclose`."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import DOUBLE_CELL, double

attack = Attack(
    threat="D03",
    layer="D1",
    expected=("fail",),
    arena=Beside(double, DOUBLE_CELL),
    hostile="""
import torch
torch.allclose = torch.equal = lambda *arguments, **named: True
def double(x):
    return x
""",
    twin="""
import torch
same = torch.allclose
def double(x):
    assert same(x, x)
    return 2 * x
""",
)
