"""Answers with a single number, which broadcasts to any shape."""

from autograder.attacks.arenas.asked import Asked
from autograder.attacks.attack import Attack
from autograder.attacks.questions import double
from autograder.attacks.weakly import broadcasting

attack = Attack(
    threat="D09",
    layer="D2",
    expected=("fail",),
    arena=Asked(double, instead=broadcasting),
    hostile="""
def double(x):
    return 2 * x.flatten()[0]
""",
    twin="""
def double(x):
    return (2 * x.flatten()).reshape(x.shape)
""",
)
