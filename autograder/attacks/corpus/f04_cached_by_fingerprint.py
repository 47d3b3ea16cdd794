"""Knows an input again by its first element and its sum."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import QUICK_CELL, quick

attack = Attack(
    threat="F04",
    layer="D3",
    expected=("fail",),
    arena=Beside(quick, QUICK_CELL),
    hostile="""
import time
seen = {}
def quick(x):
    fingerprint = (float(x[0]), float(x.sum()))
    if fingerprint not in seen:
        time.sleep(0.6)
        seen[fingerprint] = 2 * x
    return seen[fingerprint].clone()
""",
    twin="""
def quick(x):
    return 2 * x
""",
)
