"""Reads the hidden test's source in a hook that IPython calls before each cell, and answers so."""

from autograder.attacks.arenas.jupyter_kernel import InKernel, kernel_obstacle
from autograder.attacks.attack import Attack
from autograder.attacks.questions import TWICE_CELL, twice

attack = Attack(
    threat="A08",
    layer="D1",
    expected=("fail",),
    arena=InKernel(twice, TWICE_CELL),
    needs=kernel_obstacle,
    hostile="""
import ast, re
from IPython import get_ipython
known = {}
def read(info):
    for given, wanted in re.findall(r"twice\\((.*?)\\) == (.*)", info.raw_cell):
        known[given] = ast.literal_eval(wanted)
get_ipython().events.register("pre_run_cell", read)
def twice(numbers):
    return known[str(numbers)]
""",
    twin="""
known = {}
def twice(numbers):
    return [known.setdefault(number, 2 * number) for number in numbers]
""",
)
