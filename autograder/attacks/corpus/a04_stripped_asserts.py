"""Adds a transformer of syntax trees that takes every `assert` out of later cells."""

from autograder.attacks.arenas.jupyter_kernel import InKernel, kernel_obstacle
from autograder.attacks.attack import Attack
from autograder.attacks.questions import TWICE_CELL, twice

attack = Attack(
    threat="A04",
    layer="D1",
    expected=("fail",),
    arena=InKernel(twice, TWICE_CELL),
    needs=kernel_obstacle,
    hostile="""
import ast
from IPython import get_ipython
class NoAssert(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.copy_location(ast.Pass(), node)
def twice(numbers):
    return numbers
get_ipython().ast_transformers.append(NoAssert())
""",
    twin="""
def twice(numbers):
    assert all(number == number for number in numbers)
    return [2 * number for number in numbers]
""",
)
