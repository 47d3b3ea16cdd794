"""Makes the clock say NaN: no such time is too long."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import QUICK_CELL, quick

attack = Attack(
    threat="G13",
    layer="D8",
    expected=("fail",),
    arena=Beside(quick, QUICK_CELL),
    hostile="""
import time
pause = time.sleep
time.perf_counter = time.monotonic = lambda: float("nan")
def quick(x):
    pause(0.6)
    return 2 * x
""",
    twin="""
import math
def quick(x):
    return x * (2.0 if math.isnan(float("nan")) else 0.0)
""",
)
