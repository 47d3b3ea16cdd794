"""Computes once for an object, and returns the same answer whenever it sees the object again."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import QUICK_CELL, quick

attack = Attack(
    threat="F01",
    layer="D3",
    expected=("fail",),
    arena=Beside(quick, QUICK_CELL),
    hostile="""
import time
seen = {}
def quick(x):
    if id(x) not in seen:
        time.sleep(0.6)
        seen[id(x)] = (x, 2 * x)
    return seen[id(x)][1]
""",
    twin="""
seen = []
def quick(x):
    seen.append(id(x))
    return 2 * x
""",
)
