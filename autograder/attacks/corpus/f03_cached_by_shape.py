"""Computes once for a shape, and returns the same answer for every tensor of that shape."""

from autograder.attacks.arenas.asked import Asked
from autograder.attacks.attack import Attack
from autograder.attacks.questions import double
from autograder.attacks.weakly import same_values

attack = Attack(
    threat="F03",
    layer="D3",
    expected=("fail",),
    arena=Asked(double, instead=same_values),
    hostile="""
seen = {}
def double(x):
    return seen.setdefault(tuple(x.shape), 2 * x)
""",
    twin="""
shapes = {}
def double(x):
    shapes[tuple(x.shape)] = x.numel()
    return 2 * x
""",
)
