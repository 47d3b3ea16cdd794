"""Registers a handler that swallows every exception, through IPython's own `set_custom_exc`."""

from autograder.attacks.arenas.jupyter_kernel import InKernel, kernel_obstacle
from autograder.attacks.attack import Attack
from autograder.attacks.questions import TWICE_CELL, twice

attack = Attack(
    threat="A02",
    layer="D1",
    expected=("fail",),
    arena=InKernel(twice, TWICE_CELL),
    needs=kernel_obstacle,
    hostile="""
from IPython import get_ipython
def twice(numbers):
    raise RuntimeError("never seen")
get_ipython().set_custom_exc((Exception,), lambda *arguments, **named: None)
""",
    twin="""
import sys
sys.excepthook = sys.__excepthook__
def twice(numbers):
    return [number + number for number in numbers]
""",
)
