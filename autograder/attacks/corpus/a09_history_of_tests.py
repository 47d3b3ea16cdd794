"""Looks up the text of the running test cell in IPython's history while the test calls it."""

from autograder.attacks.arenas.jupyter_kernel import InKernel, kernel_obstacle
from autograder.attacks.attack import Attack
from autograder.attacks.questions import TWICE_CELL, twice

attack = Attack(
    threat="A09",
    layer="D1",
    expected=("fail",),
    arena=InKernel(twice, TWICE_CELL),
    needs=kernel_obstacle,
    hostile="""
import ast, re
def twice(numbers):
    source = In[-1]
    given = re.escape(str(numbers))
    return ast.literal_eval(re.search(given + r"\\) == (.*)", source)[1])
""",
    twin="""
def twice(numbers):
    "Twice each number, see In[1]."
    return [2 * number for number in numbers]
""",
)
