"""Returns its input."""

from autograder.attacks.arenas.asked import Asked
from autograder.attacks.attack import Attack
from autograder.attacks.questions import double
from autograder.attacks.weakly import zeros

attack = Attack(
    threat="E02",
    layer="D3",
    expected=("fail",),
    arena=Asked(double, instead=zeros),
    hostile="""
def double(x):
    return x.clone()
""",
    twin="""
import torch
def double(x):
    return torch.add(x, x)
""",
)
