"""Works when it is warmed up, and afterwards copies what it had computed."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import QUICK_CELL, quick

attack = Attack(
    threat="F06",
    layer="D3",
    expected=("fail",),
    arena=Beside(quick, QUICK_CELL),
    hostile="""
import time
kept = []
def quick(x):
    if not kept:
        time.sleep(0.6)
        kept.append(2 * x)
    return kept[0].clone()
""",
    twin="""
def quick(x):
    return 2 * x
""",
)
