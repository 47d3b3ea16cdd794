"""Replaces `all`, with which the test cell decides."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import twice

CELL = """
assert all(got == 2 * n for got, n in zip(twice([3, 5]), [3, 5]))
"""

attack = Attack(
    threat="A19",
    layer="D1",
    expected=("fail",),
    arena=Beside(twice, CELL),
    hostile="""
import builtins
builtins.all = lambda values: True
def twice(numbers):
    return [0 for number in numbers]
""",
    twin="""
def all(values):
    return True
def twice(numbers):
    return [2 * number for number in numbers]
""",
)
