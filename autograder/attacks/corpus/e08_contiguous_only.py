"""Reads the storage from its start, as if every tensor were contiguous."""

from autograder.attacks.arenas.asked import Asked
from autograder.attacks.attack import Attack
from autograder.attacks.questions import double
from autograder.attacks.weakly import contiguous

attack = Attack(
    threat="E08",
    layer="D3",
    expected=("fail",),
    arena=Asked(double, instead=contiguous),
    hostile="""
import torch
def double(x):
    flat = torch.empty(0).set_(x.untyped_storage())
    return 2 * flat[: x.numel()].reshape(x.shape)
""",
    twin="""
import torch
def double(x):
    flat = torch.empty(0).set_(x.contiguous().untyped_storage())
    return 2 * flat[: x.numel()].reshape(x.shape) if x.is_contiguous() is False else 2 * x
""",
)
