"""Answers in a coarse dtype, so that the tolerance which follows the dtype becomes wide."""

from autograder.attacks.arenas.asked import Asked
from autograder.attacks.attack import Attack
from autograder.attacks.questions import double
from autograder.attacks.weakly import any_dtype

attack = Attack(
    threat="D09",
    layer="D2",
    expected=("fail",),
    arena=Asked(double, instead=any_dtype),
    hostile="""
import torch
def double(x):
    return (2.2 * x).to(torch.float8_e5m2).to(torch.bfloat16)
""",
    twin="""
import torch
def double(x):
    return (2 * x.to(torch.float64)).to(torch.float32)
""",
)
