"""Replaces the shell's `run_cell` with one that runs nothing and reports success."""

from autograder.attacks.arenas.jupyter_kernel import InKernel, kernel_obstacle
from autograder.attacks.attack import Attack
from autograder.attacks.questions import TWICE_CELL, twice

attack = Attack(
    threat="A05",
    layer="D1",
    expected=("fail",),
    arena=InKernel(twice, TWICE_CELL),
    needs=kernel_obstacle,
    hostile="""
from IPython import get_ipython
from IPython.core.interactiveshell import ExecutionResult
def twice(numbers):
    return numbers
shell = get_ipython()
shell.should_run_async = lambda *arguments, **named: False
shell.run_cell = lambda *arguments, **named: ExecutionResult(None)
""",
    twin="""
from IPython import get_ipython
get_ipython().run_cell("factor = 2")
def twice(numbers):
    return [factor * number for number in numbers]
""",
)
