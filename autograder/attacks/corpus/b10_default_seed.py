"""Knows the seed from which the inputs are drawn, everybody's default, and drew them before."""

from autograder.attacks.arenas.asked import Asked
from autograder.attacks.attack import Attack
from autograder.attacks.questions import twice

attack = Attack(
    threat="B10",
    layer="D3",
    expected=("fail",),
    arena=Asked(twice, known_seed=True),
    hostile="""
from autograder.judge import Draw
draw = Draw(42, rounds=3)
answers = {}
for n in (0, 1, draw.integer(2, 9)):
    numbers = [draw.integer(-1000, 1000) for _ in range(n)]
    answers[str(numbers)] = [number + number for number in numbers]
def twice(numbers):
    return answers[str(numbers)]
""",
    twin="""
import random
random.seed(42)
def twice(numbers):
    return [number + number for number in numbers]
""",
)
