"""Replaces the median by which the measured times become one."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import QUICK_CELL, quick

attack = Attack(
    threat="G03",
    layer="D1",
    expected=("fail",),
    arena=Beside(quick, QUICK_CELL),
    hostile="""
import statistics, time
statistics.median = statistics.mean = min = lambda times: 0.001
def quick(x):
    time.sleep(0.6)
    return 2 * x
""",
    twin="""
import statistics
def quick(x):
    assert statistics.median([1, 2, 3]) == 2
    return 2 * x
""",
)
