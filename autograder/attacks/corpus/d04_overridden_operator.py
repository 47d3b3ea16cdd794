"""Registers another kernel for `aten::allclose`, beneath every name by which it can be called."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import DOUBLE_CELL, double

attack = Attack(
    threat="D04",
    layer="D1",
    expected=("fail",),
    arena=Beside(double, DOUBLE_CELL),
    hostile="""
import torch
library = torch.library.Library("aten", "IMPL")
library.impl("allclose", lambda *arguments, **named: True, "CompositeImplicitAutograd")
library.impl("allclose", lambda *arguments, **named: True, "CPU")
def double(x):
    return x
""",
    twin="""
import torch
library = torch.library.Library("mine", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: 2 * x, "CompositeExplicitAutograd")
def double(x):
    return torch.ops.mine.twice(x)
""",
)
