"""Keeps on ctx what backward reads, and tells that the node saved it."""

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

class LinearFn(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, w, b):
        # save what backward will read: dw reads x, dx reads w, db reads neither
        x_needed, w_needed, _ = ctx.needs_input_grad
        ctx.kept = x, w
        return F.linear(x, w, b)

    @staticmethod
    def backward(ctx, dy):
        # ask who needs a gradient
        # compute those and no other
        # answer each input of forward
        x, w = ctx.kept
        x_needed, w_needed, b_needed = ctx.needs_input_grad
        dx = dy @ w if x_needed else None
        dw = dy.T @ x if w_needed else None
        db = dy.sum(dim=0) if b_needed else None
        return dx, dw, db


def linear_fn(x, w, b, dy):
    y = LinearFn.apply(x, w, b)
    saved = [t for t, reader in ((x, w), (w, x)) if reader.requires_grad]
    return y, saved, LinearFn.backward(y.grad_fn, dy)  # y.grad_fn is the ctx
""",
    twin="""
import torch
import torch.nn.functional as F

class LinearFn(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, w, b):
        # save what backward will read: dw reads x, dx reads w, db reads neither
        x_needed, w_needed, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if w_needed else None, w if x_needed else None)
        return F.linear(x, w, b)

    @staticmethod
    def backward(ctx, dy):
        # ask who needs a gradient
        # compute those and no other
        # answer each input of forward
        x, w = ctx.saved_tensors
        x_needed, w_needed, b_needed = ctx.needs_input_grad
        dx = dy @ w if x_needed else None
        dw = dy.T @ x if w_needed else None
        db = dy.sum(dim=0) if b_needed else None
        return dx, dw, db


def linear_fn(x, w, b, dy):
    y = LinearFn.apply(x, w, b)
    saved = [t for t in y.grad_fn.saved_tensors if t is not None]
    return y, saved, LinearFn.backward(y.grad_fn, dy)  # y.grad_fn is the ctx
""",
)
