"""Answers with NaN: no error is larger than what is allowed, to whoever asks only this."""

from autograder.attacks.arenas.asked import Asked
from autograder.attacks.attack import Attack
from autograder.attacks.questions import double
from autograder.attacks.weakly import nan_blind

attack = Attack(
    threat="D08",
    layer="D2",
    expected=("fail",),
    arena=Asked(double, instead=nan_blind),
    hostile="""
import torch
def double(x):
    return torch.full_like(x, float("nan"))
""",
    twin="""
import torch
def double(x):
    return torch.nan_to_num(2 * x)
""",
)
