"""Halves of the head's loss with one fault each, as people write them."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from .answers import Answers, Needs, for_whom
from .fused_loss import Loss, right_backward, right_forward, torchs_loss_gradients


def also_saving(extra: Callable[[Tensor], Tensor]) -> Callable[..., Loss]:
    """The right first half, which saves `extra` of the logits besides."""

    def head_loss_forward(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
        loss, _ = right_forward(x, w, b, target)
        return loss, [x, w, b, target, extra(F.linear(x, w, b))]

    return head_loss_forward


def saving_gradients(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """Saves what it should compute later."""
    loss, saved = right_forward(x, w, b, target)
    return loss, [g for g in right_backward(saved, torch.ones(()), (True,) * 3) if g is not None]


def overflowing(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """A log-sum-exp that is inf for large logits."""
    z = F.linear(x, w, b)
    lse = z.exp().sum(1).log()
    return (lse - z.gather(1, target[:, None])[:, 0]).mean(), [x, w, b, target, lse]


def saving_sums(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """Saves the exponentials' sum, which is inf for large logits."""
    loss, saved = overflowing(x, w, b, target)
    return loss, [*saved[:4], F.linear(x, w, b).exp().sum(1)]


def every_target(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """Reads every target in every row."""
    _, saved = right_forward(x, w, b, target)
    return (saved[4] - F.linear(x, w, b)[:, target]).mean(), saved


def saving_one(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """Saves the log-sum-exp and nothing else."""
    loss, saved = right_forward(x, w, b, target)
    return loss, saved[4:]


def unpacking(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
    """Expects five tensors."""
    x, w, b, target, lse = saved
    return right_backward([x, w, b, target, lse], dloss, needs)


def across(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
    """Lines lse up with the columns."""
    x, w, b, _, lse = saved
    dz = (F.linear(x, w, b) - lse).exp() * dloss
    return for_whom((dz @ w, dz.T @ x, dz.sum(0)), needs)


def bare(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """Saves the arguments and nothing else."""
    loss, saved = right_forward(x, w, b, target)
    return loss, saved[:4]


@torch.no_grad()
def unrecorded(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
    """Differentiates what nobody recorded."""
    return torchs_loss_gradients((saved[0], saved[1], saved[2], saved[3]), dloss, needs)


left_behind: list[Tensor] = []


def keeping_aside(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """Leaves the arguments where the next call overwrites them."""
    loss, saved = right_forward(x, w, b, target)
    left_behind[:] = [x.clone(), w.clone(), b.clone(), target.clone()]
    return loss, saved
