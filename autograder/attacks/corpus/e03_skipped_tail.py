"""Computes whole blocks of four and forgets what is left over."""

from autograder.attacks.arenas.asked import Asked
from autograder.attacks.attack import Attack
from autograder.attacks.questions import double
from autograder.attacks.weakly import one_shape

attack = Attack(
    threat="E03",
    layer="D3",
    expected=("fail",),
    arena=Asked(double, instead=one_shape),
    hostile="""
import torch
def double(x):
    flat, out = x.flatten(), torch.zeros(x.numel())
    whole = x.numel() // 4 * 4
    out[:whole] = 2 * flat[:whole]
    return out.reshape(x.shape)
""",
    twin="""
import torch
def double(x):
    flat, out = x.flatten(), torch.zeros(x.numel())
    for start in range(0, x.numel(), 4):
        out[start : start + 4] = 2 * flat[start : start + 4]
    return out.reshape(x.shape)
""",
)
