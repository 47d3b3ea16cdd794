"""Enters a mode that sees every call of torch in this process, and never leaves it."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import DOUBLE_CELL, double

attack = Attack(
    threat="D05",
    layer="D1",
    expected=("fail",),
    arena=Beside(double, DOUBLE_CELL),
    hostile="""
import torch
from torch.overrides import TorchFunctionMode
class Agree(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.allclose:
            return True
        return function(*args, **(kwargs or {}))
Agree().__enter__()
def double(x):
    return x
""",
    twin="""
import torch
from torch.overrides import TorchFunctionMode
class Watch(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))
def double(x):
    with Watch():
        return 2 * x
""",
)
