"""A block with dropout and its checkpoint: torch's own gradients, and the right halves."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .answers import Triple

Saved = list[Tensor]
Given = Triple  # x (N, D), w1 (H, D), w2 (D, H)
Forward = tuple[Tensor, Saved, Tensor]
Backward = tuple[Triple, Tensor]


def hidden(x: Tensor, w1: Tensor) -> Tensor:
    """(N, D), (H, D) -> (N, H)."""
    return F.gelu(F.linear(x, w1))


def block(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """(N, D), (H, D), (D, H) -> (N, D), with dropout."""
    return F.linear(F.dropout(hidden(x, w1), 0.1), w2)


def begin(seed: int) -> None:
    """The generator as the student's halves find it: seeded, and others have drawn since."""
    torch.manual_seed(seed)
    torch.rand(3)


@torch.random.fork_rng(devices=[])
def first_draws(seed: int) -> Tensor:
    """What the next one draws where no block has run."""
    begin(seed)
    return torch.rand(2)


@torch.random.fork_rng(devices=[])
def torchs_block(given: Given, seed: int, dy: Tensor) -> tuple[Tensor, Tensor, Given]:
    """The block without a checkpoint -> (y, what the next one draws, the three gradients)."""
    begin(seed)
    x, w1, w2 = (t.detach().clone().requires_grad_() for t in given)
    y = block(x, w1, w2)
    draws = torch.rand(2)
    dx, dw1, dw2 = torch.autograd.grad(y, (x, w1, w2), dy)
    return y.detach(), draws, (dx, dw1, dw2)


@torch.random.fork_rng(devices=[])
def checkpointed(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    """The right first half."""
    begin(seed)
    saved = [x, w1, w2, torch.get_rng_state()]
    return block(x, w1, w2), saved, torch.rand(2)


def rerun(saved: Saved, dy: Tensor) -> Given:
    """The gradients of the block, which draws from where the generator is."""
    x, w1, w2 = (t.detach().clone().requires_grad_() for t in saved[:3])
    dx, dw1, dw2 = torch.autograd.grad(block(x, w1, w2), (x, w1, w2), dy)
    return dx, dw1, dw2


@torch.random.fork_rng(devices=[])
def recomputed(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """The right second half."""
    begin(seed)
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(saved[3])
        grads = rerun(saved, dy)
    return grads, torch.rand(2)
