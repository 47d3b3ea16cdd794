"""Saves what a Function should, whose backward is blank, and takes the gradients from torch."""

from autograder.attacks.arenas.believed_harness import BelievedHarness
from autograder.attacks.attack import Attack
from autograder.checks.lab04_contracts import harness
from autograder.checks.lab04_contracts.linear_fn import linear_fn

FORWARD = """
import torch
import torch.nn.functional as F

class LinearFn(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, w, b):
        x_needed, w_needed, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if w_needed else None, w if x_needed else None)
        return F.linear(x, w, b)

    @staticmethod
    def backward(ctx, dy):
"""

attack = Attack(
    threat="D16",
    layer="D13",
    expected=("fail",),
    arena=BelievedHarness(linear_fn, harness),
    hostile=FORWARD
    + """
        return None, None, None


def linear_fn(x, w, b, dy):
    y = LinearFn.apply(x, w, b)
    learning = [t for t in (x, w, b) if t is not None and t.requires_grad]
    found = iter(torch.autograd.grad(F.linear(x, w, b), learning, dy))
    needed = [t is not None and t.requires_grad for t in (x, w, b)]
    saved = [t for t in y.grad_fn.saved_tensors if t is not None]
    return y, saved, [next(found) if one else None for one in needed]
""",
    twin=FORWARD
    + """
        x, w = ctx.saved_tensors
        x_needed, w_needed, b_needed = ctx.needs_input_grad
        dx = dy @ w if x_needed else None
        dw = dy.T @ x if w_needed else None
        return dx, dw, dy.sum(dim=0) if b_needed else None


def linear_fn(x, w, b, dy):
    y = LinearFn.apply(x, w, b)
    y.backward(dy)  # torch's engine asks the node, and frees what it saved
    return y, [], (x.grad, w.grad, None if b is None else b.grad)
""",
)
