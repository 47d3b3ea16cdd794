"""Returns at once a tensor that does its work when somebody looks: after the clock was stopped."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import QUICK_CELL, quick

attack = Attack(
    threat="D06",
    layer="D2",
    expected=("fail",),
    arena=Beside(quick, QUICK_CELL),
    hostile="""
import time, torch
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        time.sleep(0.6)
        plain = [2 * a.as_subclass(torch.Tensor) if isinstance(a, Lazy) else a for a in args]
        return function(*plain, **(kwargs or {}))
def quick(x):
    return x.as_subclass(Lazy)
""",
    twin="""
def quick(x):
    return 2 * x
""",
)
