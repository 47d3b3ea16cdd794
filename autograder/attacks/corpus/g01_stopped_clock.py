"""Replaces the clock with which the test measures."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import QUICK_CELL, quick

attack = Attack(
    threat="G01",
    layer="D8",
    expected=("fail",),
    arena=Beside(quick, QUICK_CELL),
    hostile="""
import time
pause = time.sleep
time.perf_counter = time.monotonic = time.time = lambda: 0.0
def quick(x):
    pause(0.6)
    return 2 * x
""",
    twin="""
import time
def quick(x):
    started = time.perf_counter()
    answer = 2 * x
    assert time.perf_counter() >= started
    return answer
""",
)
