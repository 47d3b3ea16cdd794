"""Changes the weight that its function and the reference share."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import double

CELL = """
import torch
weight = torch.tensor(2.0)
x = torch.randn(5)
assert torch.allclose(double(x), weight * x), "wrong"
"""

attack = Attack(
    threat="D14",
    layer="D1",
    expected=("fail",),
    arena=Beside(double, CELL),
    hostile="""
weight = None
def double(x):
    import __main__
    if hasattr(__main__, "weight") and __main__.weight is not None:
        __main__.weight.zero_()
    return 0 * x
""",
    twin="""
weight = 2
def double(x):
    return weight * x
""",
)
