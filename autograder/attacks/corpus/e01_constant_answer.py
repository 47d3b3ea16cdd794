"""Answers with the same number everywhere, where only the mean is looked at."""

from autograder.attacks.arenas.asked import Asked
from autograder.attacks.attack import Attack
from autograder.attacks.questions import softmax
from autograder.attacks.weakly import row_means

attack = Attack(
    threat="E01",
    layer="D3",
    expected=("fail",),
    arena=Asked(softmax, instead=row_means),
    hostile="""
import torch
def softmax(x):
    return torch.full(x.shape, 1 / x.shape[-1])
""",
    twin="""
import torch
def softmax(x):
    return torch.softmax(x, -1)
""",
)
