"""Finds all inputs in the hands of its caller, computes them at once, and then only returns."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import quick

CELL = """
import time, torch
inputs = [torch.randn(6) for _ in range(4)]
quick(inputs[0])  # warm up
times = []
for x in inputs[1:]:
    started = time.perf_counter()
    assert torch.allclose(quick(x), 2 * x), "wrong"
    times.append(time.perf_counter() - started)
assert sorted(times)[1] < 0.25, "too slow"
"""

attack = Attack(
    threat="F07",
    layer="D8",
    expected=("fail",),
    arena=Beside(quick, CELL),
    hostile="""
import sys, time
kept = {}
def quick(x):
    batch = sys._getframe(1).f_globals.get("inputs", [])
    for one in [x, *batch]:
        if not any(one is known for known, _ in kept.values()):
            time.sleep(0.4)
            kept[len(kept)] = (one, 2 * one)
    return next(answer for known, answer in kept.values() if known is x)
""",
    twin="""
kept = []
def quick(x):
    kept.append(2 * x)
    return kept[-1]
""",
)
