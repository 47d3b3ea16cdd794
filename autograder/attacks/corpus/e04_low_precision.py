"""Computes in bfloat16, eight bits of mantissa instead of twenty-four."""

from autograder.attacks.arenas.asked import Asked
from autograder.attacks.attack import Attack
from autograder.attacks.questions import double
from autograder.attacks.weakly import coarse

attack = Attack(
    threat="E04",
    layer="D1",
    expected=("fail",),
    arena=Asked(double, instead=coarse),
    hostile="""
import torch
def double(x):
    return (2 * x.to(torch.bfloat16)).to(x.dtype)
""",
    twin="""
import torch
def double(x):
    return x * torch.tensor(2, dtype=torch.bfloat16)
""",
)
