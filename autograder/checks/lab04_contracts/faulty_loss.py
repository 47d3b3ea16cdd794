"""Halves of the head's loss with one fault each, as people write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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


def one_maximum(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """A log-sum-exp that is -inf for a row far below the largest logit of all."""
    z = F.linear(x, w, b)
    lse = (z - z.max()).exp().sum(1).log() + z.max()
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


def bias_missing(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
    """Subtracts the log-sum-exp of the logits with b from logits without it."""
    x, w, _, target, lse = saved
    p = (F.linear(x, w) - lse[:, None]).exp()
    return _from((p - F.one_hot(target, len(w))) * (dloss / len(x)), saved, needs)


def bare(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """Saves the arguments and nothing else."""
    loss, saved = right_forward(x, w, b, target)
    return loss, saved[:4]


@torch.no_grad()
def unrecorded(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
    """Differentiates what nobody recorded."""
    return torchs_loss_gradients((saved[0], saved[1], saved[2], saved[3]), dloss, needs)


left_behind: list[Tensor] = []


def logits_behind(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
    """The probabilities of the last forward, whatever was saved."""
    x, w, b, target = saved[:4]
    p = F.linear(left_behind[0], w, b).softmax(1)
    return _from((p - F.one_hot(target, len(w))) * (dloss / len(x)), saved, needs)


def keeping_aside(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """Leaves the arguments where the next call overwrites them."""
    loss, saved = right_forward(x, w, b, target)
    left_behind[:] = [x.clone(), w.clone(), b.clone(), target.clone()]
    return loss, saved


def sum_aside(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """Leaves the log-sum-exp where the next call overwrites it, and saves the arguments."""
    loss, saved = right_forward(x, w, b, target)
    left_behind[:] = saved[4:]
    return loss, saved[:4]


def sum_behind(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
    """The probabilities with the log-sum-exp of the last forward."""
    x, w, b, target = saved
    p = (F.linear(x, w, b) - left_behind[0][:, None]).exp()
    return _from((p - F.one_hot(target, len(w))) * (dloss / len(x)), saved, needs)


def _from(dz: Tensor, saved: list[Tensor], needs: Needs) -> Answers:
    """The three gradients, from that of the logits."""
    x, w = saved[:2]
    return for_whom((dz @ w, dz.T @ x, dz.sum(0)), needs)


def softmax(z: Tensor) -> Tensor:
    """The right probabilities."""
    return z.softmax(1)


def recomputing(
    probabilities: Callable[[Tensor], Tensor], *, with_bias: bool = True
) -> Callable[..., Answers]:
    """A second half that makes `probabilities` of its logits."""

    def head_loss_backward(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
        x, w, b, target = saved[:4]
        p = probabilities(F.linear(x, w, b if with_bias else None))
        return _from((p - F.one_hot(target, len(w))) * (dloss / len(x)), saved, needs)

    return head_loss_backward


def every_hit(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
    """Takes a 1 away for each target in each row."""
    x, w, b, target = saved[:4]
    dz = F.linear(x, w, b).softmax(1)
    dz[:, target] -= 1
    return _from(dz * (dloss / len(x)), saved, needs)


def repeats_once(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
    """Writes to the rows of the targets by index: one that stands there twice is written once."""
    x, w, b, target = saved[:4]
    factor = dloss / len(x)
    p = F.linear(x, w, b).softmax(1) * factor
    dw, db = p.T @ x, p.sum(0)
    dw[target] -= factor * x
    db[target] -= factor
    return for_whom((p @ w - factor * w[target], dw, db), needs)


def repeats_once_in_dw(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
    """Does that in dw alone."""
    dx, _, db = right_backward(saved, dloss, needs)
    return dx, repeats_once(saved, dloss, needs)[1], db


def alone_forgotten(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
    """Gives up where neither x nor w learns."""
    return right_backward(saved, dloss, needs) if any(needs[:2]) else (None, None, None)


def lse_over_all(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """One log-sum-exp for all rows."""
    z, (_, saved) = F.linear(x, w, b), right_forward(x, w, b, target)
    return (z.logsumexp((0, 1)) - z.gather(1, target[:, None])[:, 0]).mean(), saved


def safe_logarithm(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """The logarithm of a probability and a little."""
    _, saved = right_forward(x, w, b, target)
    p = F.linear(x, w, b).softmax(1).gather(1, target[:, None])
    return -(p + 1e-8).log().mean(), saved


def first_half(change: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Loss]:
    """A first half whose loss is `change` of the logits, their log-sum-exp and the target."""

    def head_loss_forward(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
        _, saved = right_forward(x, w, b, target)
        return change(F.linear(x, w, b), saved[4], target), saved

    return head_loss_forward


def with_saved(
    kept: Callable[[Tensor, Tensor], Sequence[Tensor]],
) -> Callable[..., tuple[Tensor, list[Tensor]]]:
    """A first half that saves `kept` of the logits and their log-sum-exp behind the arguments."""

    def head_loss_forward(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
        loss, saved = right_forward(x, w, b, target)
        return loss, [*saved[:4], *kept(F.linear(x, w, b), saved[4])]

    return head_loss_forward


def bias_left_out(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    """Adds no b, and saves it."""
    loss, saved = right_forward(x, w, torch.zeros_like(b), target)
    return loss, [x, w, b, target, saved[4]]


def from_saved(probabilities: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Answers]:
    """A second half that makes `probabilities` of its logits and of what was saved, a column."""

    def head_loss_backward(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
        x, w, b, target, kept = saved
        p = probabilities(F.linear(x, w, b), kept[:, None])
        return _from((p - F.one_hot(target, len(w))) * (dloss / len(x)), saved, needs)

    return head_loss_backward


def with_logits(dz_of: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Answers]:
    """A second half whose dz is `dz_of` the probabilities, the target and dloss."""

    def head_loss_backward(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
        x, w, b, target = saved[:4]
        return _from(dz_of(F.linear(x, w, b).softmax(1), target, dloss), saved, needs)

    return head_loss_backward


def with_bias_gradient(db_of: Callable[[Tensor], Tensor]) -> Callable[..., Answers]:
    """A second half whose db is `db_of` the gradient of the logits."""

    def head_loss_backward(saved: list[Tensor], dloss: Tensor, needs: Needs) -> Answers:
        x, w, b, target = saved[:4]
        p = F.linear(x, w, b).softmax(1)
        dz = (p - F.one_hot(target, len(w))) * (dloss / len(x))
        return for_whom((dz @ w, dz.T @ x, db_of(dz)), needs)

    return head_loss_backward


def answering(change: Callable[..., Any]) -> Callable[..., Any]:
    """A second half that makes `change` of the right answers, of what was saved, and of needs."""
    return lambda saved, dloss, needs: change(right_backward(saved, dloss, needs), saved, needs)


def subtracting_rows(p: Tensor, target: Tensor, dloss: Tensor) -> Tensor:
    """Takes the 1 away from whole rows."""
    p[target] -= 1
    return p * (dloss / len(p))


def subtracting_late(p: Tensor, target: Tensor, dloss: Tensor) -> Tensor:
    """Takes the 1 away when the rest is scaled already."""
    return p * (dloss / len(p)) - F.one_hot(target, p.shape[1])
