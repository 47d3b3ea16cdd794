"""Writes no Function: calls torch's own operator, whose node saves what it should by itself."""

from autograder.attacks.arenas.believed_harness import BelievedHarness
from autograder.attacks.attack import Attack
from autograder.checks.lab04_contracts import harness
from autograder.checks.lab04_contracts.linear_fn import linear_fn

attack = Attack(
    threat="D16",
    layer="D13",
    expected=("fail",),
    arena=BelievedHarness(linear_fn, harness),
    hostile="""
import torch
import torch.nn.functional as F

def linear_fn(x, w, b, dy):
    y = F.linear(x, w, b)
    learning = [t for t in (x, w, b) if t is not None and t.requires_grad]
    found = iter(torch.autograd.grad(y, learning, dy))
    needed = [t is not None and t.requires_grad for t in (x, w, b)]
    saved = [t for t, reader in ((x, w), (w, x)) if reader.requires_grad]
    return y, saved, [next(found) if one else None for one in needed]
""",
    twin="""
import torch

class LinearFn(torch.autograd.Function):

    @staticmethod
    def forward(x, w, b):
        return x @ w.T if b is None else x @ w.T + b

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, _ = inputs
        x_needed, w_needed, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if w_needed else None, w if x_needed else None)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        x_needed, w_needed, b_needed = ctx.needs_input_grad
        dx = dy @ w if x_needed else None
        dw = dy.T @ x if w_needed else None
        return dx, dw, dy.sum(dim=0) if b_needed else None

def linear_fn(x, w, b, dy):
    y = LinearFn.apply(x, w, b)
    saved = [t for t in y.grad_fn.saved_tensors if t is not None]
    return y, saved, LinearFn.backward(y.grad_fn, dy)
""",
)
