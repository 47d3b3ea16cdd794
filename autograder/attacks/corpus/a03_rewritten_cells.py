"""Adds an input transformer that makes every later cell empty: the test runs, and tests nothing."""

from autograder.attacks.arenas.jupyter_kernel import InKernel, kernel_obstacle
from autograder.attacks.attack import Attack
from autograder.attacks.questions import TWICE_CELL, twice

attack = Attack(
    threat="A03",
    layer="D1",
    expected=("fail",),
    arena=InKernel(twice, TWICE_CELL),
    needs=kernel_obstacle,
    hostile="""
from IPython import get_ipython
def twice(numbers):
    return numbers
get_ipython().input_transformers_cleanup.append(lambda lines: [])
""",
    twin="""
from IPython import get_ipython
get_ipython().input_transformers_cleanup.append(lambda lines: lines)
def twice(numbers):
    return [2 * number for number in numbers]
""",
)
