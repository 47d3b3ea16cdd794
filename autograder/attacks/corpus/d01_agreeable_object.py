"""Returns an object that is equal to everything."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import twice

CELL = """
assert twice([3, 5]) == [6, 10]
"""

attack = Attack(
    threat="D01",
    layer="D2",
    expected=("fail",),
    arena=Beside(twice, CELL),
    hostile="""
class Agreeable:
    def __eq__(self, other):
        return True
def twice(numbers):
    return Agreeable()
""",
    twin="""
class Numbers(list):
    pass
def twice(numbers):
    return Numbers(2 * number for number in numbers)
""",
)
