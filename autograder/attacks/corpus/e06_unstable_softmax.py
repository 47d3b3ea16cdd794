"""Leaves out the subtraction of the maximum: right for ordinary numbers, NaN for large ones."""

from autograder.attacks.arenas.asked import Asked
from autograder.attacks.attack import Attack
from autograder.attacks.questions import softmax
from autograder.attacks.weakly import friendly_rows

attack = Attack(
    threat="E06",
    layer="D3",
    expected=("fail",),
    arena=Asked(softmax, instead=friendly_rows),
    hostile="""
import torch
def softmax(x):
    e = x.exp()
    return e / e.sum(-1, keepdim=True)
""",
    twin="""
import torch
def softmax(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)
""",
)
