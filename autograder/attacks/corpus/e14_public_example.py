"""Answers the example of the lab's text, and nothing else."""

from autograder.attacks.arenas.asked import Asked
from autograder.attacks.attack import Attack
from autograder.attacks.questions import twice
from autograder.attacks.weakly import public

attack = Attack(
    threat="E14",
    layer="D3",
    expected=("fail",),
    arena=Asked(twice, instead=public),
    hostile="""
def twice(numbers):
    if numbers == [3, 5]:
        return [6, 10]
""",
    twin="""
def twice(numbers):
    if not numbers:
        return []
    return [2 * number for number in numbers]
""",
)
