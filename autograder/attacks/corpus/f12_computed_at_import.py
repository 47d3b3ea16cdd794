"""Computes, while it is loaded, the answer to the input that everybody knows will come."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import QUICK_CELL, quick

attack = Attack(
    threat="F12",
    layer="D3",
    expected=("fail",),
    arena=Beside(quick, QUICK_CELL),
    hostile="""
import time, torch
known = torch.arange(6.0)
time.sleep(0.6)
answer = 2 * known
def quick(x):
    if not torch.equal(x, known):
        time.sleep(0.6)
        return 2 * x
    return answer
""",
    twin="""
import torch
factor = torch.full((1,), 2.0)
def quick(x):
    return factor * x
""",
)
