"""Computes once for an address in memory, and answers from its cache whenever it comes back."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import QUICK_CELL, quick

attack = Attack(
    threat="F02",
    layer="D3",
    expected=("fail",),
    arena=Beside(quick, QUICK_CELL),
    hostile="""
import time
seen = {}
def quick(x):
    place = (x.data_ptr(), x._version, tuple(x.shape), float(x.sum()))
    if place not in seen:
        time.sleep(0.6)
        seen[place] = 2 * x
    return seen[place]
""",
    twin="""
def quick(x):
    return 2 * x
""",
)
