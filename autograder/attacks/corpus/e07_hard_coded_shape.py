"""Works for the one shape that the lab's text shows."""

from autograder.attacks.arenas.asked import Asked
from autograder.attacks.attack import Attack
from autograder.attacks.questions import double
from autograder.attacks.weakly import one_shape

attack = Attack(
    threat="E07",
    layer="D3",
    expected=("fail",),
    arena=Asked(double, instead=one_shape),
    hostile="""
def double(x):
    return 2 * x.reshape(8)
""",
    twin="""
def double(x):
    return 2 * x.reshape(-1).reshape(x.shape)
""",
)
