"""Replaces `showtraceback`, so that the failed assertion leaves no error among the outputs.

nbgrader looks for an error output; the kernel that would have to send one is the student's.
"""

from autograder.attacks.arenas.jupyter_kernel import InKernel, kernel_obstacle
from autograder.attacks.attack import Attack
from autograder.attacks.questions import TWICE_CELL, twice

attack = Attack(
    threat="A01",
    layer="D1",
    expected=("fail",),
    arena=InKernel(twice, TWICE_CELL),
    needs=kernel_obstacle,
    hostile="""
from IPython import get_ipython
def twice(numbers):
    return None
get_ipython().showtraceback = lambda *arguments, **named: None
""",
    twin="""
def twice(numbers):
    try:
        return [number * 2 for number in numbers]
    except TypeError:
        raise ValueError("not numbers") from None
""",
)
