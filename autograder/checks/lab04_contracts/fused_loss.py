"""The head and its mean cross-entropy: what is asked, torch's gradients, and the right halves."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.judge import Draw

from .answers import Answers, Needs, for_whom

CLASSES_COUNTED = (
    "F.one_hot(target) has as many columns as the largest target of this batch needs. The words "
    "are V, whichever of them come: F.one_hot(target, V)."
)
EVERY_TARGET_PUSHED = (
    "In every row a 1 is taken away for the target of every row, as by dz[:, target] -= 1. Row n "
    "has one target: dz[torch.arange(N), target]."
)

Batch = tuple[Tensor, Tensor, Tensor, Tensor]
Loss = tuple[Tensor, list[Tensor]]


def two_batches(
    draw: Draw, scale: float, *, n: int = 0, dtype: torch.dtype = torch.float32
) -> list[Batch]:
    """Two batches of the same shapes; logits of about `scale`. n: rows, some where it is 0. In
    float64 x and w are transposed: `contiguous` would copy them."""
    layout = "transposed" if dtype is torch.float64 else "contiguous"
    n, v, d = n or draw.integer(4, 9), draw.integer(20, 40), draw.integer(10, 16)
    w = draw.tensor(v, d, dtype=dtype, layout=layout) * (scale / math.sqrt(d))
    b = draw.tensor(v, dtype=dtype)
    targets = hard_targets(draw, n, v), draw.integers(n, low=0, high=v - 1)
    return [(draw.tensor(n, d, dtype=dtype, layout=layout), w, b, target) for target in targets]


def hard_targets(draw: Draw, n: int, v: int) -> Tensor:
    """Word 0 is among them, one word stands there twice, and the last word never does."""
    target = draw.integers(n, low=1, high=v - 2)
    target[0] = 0
    target[2:3] = target[1:2]
    return target


def room(batch: Batch) -> float:
    """Logits of some hundreds keep five digits in float32, and exp turns them into factors."""
    x, w, b, _ = batch
    if x.dtype is torch.float64:
        return 1e-10
    return 1e-3 if F.linear(x, w, b).abs().max() > 50 else 1e-4


def torchs_loss_gradients(batch: Batch, dloss: Tensor, needs: Needs) -> Answers:
    """(dx (N, D), dw (V, D), db (V,)) of torch's own nodes, given dloss ()."""
    *given, target = batch
    leaves = [t.detach().clone().requires_grad_() for t in given]
    loss = F.cross_entropy(F.linear(*leaves), target)
    return for_whom(torch.autograd.grad(loss, leaves, dloss), needs)


def right_forward(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """The right first half: beside the arguments it saves the log-sum-exp (N,)."""
    lse = F.linear(x, w, b).logsumexp(1)
    return F.cross_entropy(F.linear(x, w, b), target), [x, w, b, target, lse]


def backward_of(
    saved: list[Tensor], factor: Tensor | float, needs: Needs, *, hit: float = 1.0
) -> Answers:
    """The right second half, for dz = (softmax - hit * one-hot) * factor."""
    x, w, b, target = saved[:4]
    dz = (F.linear(x, w, b).softmax(1) - hit * F.one_hot(target, len(w))) * factor
    return for_whom((dz @ w, dz.T @ x, dz.sum(0)), needs)


def right_backward(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
    """The right second half."""
    return backward_of(saved, dloss / len(saved[0]), needs)
