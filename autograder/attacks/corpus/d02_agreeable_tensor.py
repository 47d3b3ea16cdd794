"""Returns a subclass of Tensor whose `__torch_function__` answers every comparison with True."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import DOUBLE_CELL, double

attack = Attack(
    threat="D02",
    layer="D2",
    expected=("fail",),
    arena=Beside(double, DOUBLE_CELL),
    hostile="""
import torch
class Agreeable(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return True
def double(x):
    return x.as_subclass(Agreeable)
""",
    twin="""
import torch
class Logged(torch.Tensor):
    pass
def double(x):
    return (2 * x.as_subclass(Logged)).as_subclass(torch.Tensor)
""",
)
