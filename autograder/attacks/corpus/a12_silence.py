"""Keeps the kernel from showing any result: a check cell without output is worth full points."""

from autograder.attacks.arenas.jupyter_kernel import InKernel, kernel_obstacle
from autograder.attacks.attack import Attack
from autograder.attacks.questions import TWICE_PARTIAL, twice

attack = Attack(
    threat="A12",
    layer="D1",
    expected=("fail",),
    arena=InKernel(twice, TWICE_PARTIAL),
    needs=kernel_obstacle,
    hostile="""
from IPython import get_ipython
def twice(numbers):
    return numbers
type(get_ipython().displayhook).__call__ = lambda self, result=None: None
""",
    twin="""
def twice(numbers):
    return [2 * number for number in numbers];
""",
)
