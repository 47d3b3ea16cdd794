"""Computes the forward rightly, and hands back a constant as its gradient."""

from autograder.attacks.arenas.asked import Asked
from autograder.attacks.attack import Attack
from autograder.attacks.questions import cube_vjp
from autograder.attacks.weakly import forward_only

attack = Attack(
    threat="D12",
    layer="D3",
    expected=("fail",),
    arena=Asked(cube_vjp, instead=forward_only),
    hostile="""
import torch
def cube_vjp(x, cotangent):
    return x**3, torch.full_like(x, 3.0)
""",
    twin="""
import torch
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3
    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * gradient
def cube_vjp(x, cotangent):
    x = x.clone().requires_grad_(True)
    value = Cube.apply(x)
    return value.detach(), torch.autograd.grad(value, x, cotangent)[0]
""",
)
