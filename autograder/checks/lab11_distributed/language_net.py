"""The small net of 11.2, and one step of it on ranks that see other batches, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

Params = list[Tensor]  # two adapters (D, D), then w (V, D) and b (V,)
Batch = tuple[Tensor, Tensor, int]  # x (N, D), target (N,), language
Rank = tuple[Params, list[Batch], list[list[int]], float]  # params, batches, buckets, lr
Ranks = Sequence[Rank]
HEAD = {2, 3}


def net_loss(params: Params, x: Tensor, target: Tensor, language: int) -> Tensor:
    """As the lab's set-up defines it."""
    h = x + torch.tanh(x @ params[language])
    return F.cross_entropy(F.linear(h, params[2], params[3]), target)


def gradients(params: Params, batches: Sequence[Batch]) -> Params:
    """The sum over batches, zeros where a parameter was not used; float64."""
    return list(_gradients(tuple(params), tuple(batches)))


@lru_cache(maxsize=32)  # of these very tensors: a truth and ten faults ask for the same
def _gradients(params: tuple[Tensor, ...], batches: tuple[Batch, ...]) -> tuple[Tensor, ...]:
    leaves = [p.double().requires_grad_() for p in params]
    total = torch.zeros((), dtype=torch.float64)
    for x, target, language in batches:
        total = total + net_loss(leaves, x.double(), target, language)
    grads = torch.autograd.grad(total, leaves, allow_unused=True)
    return tuple(
        torch.zeros_like(p).detach() if g is None else g for p, g in zip(leaves, grads, strict=True)
    )


def mean(each: Sequence[Params]) -> Params:
    """Over ranks, parameter by parameter."""
    return [torch.stack(list(of_one)).mean(dim=0) for of_one in zip(*each, strict=True)]


def moved(params: Params, grads: Params, lr: float) -> Params:
    """After a step of SGD, in float32."""
    return [(p.double() - lr * g).float() for p, g in zip(params, grads, strict=True)]


def own_gradients(ranks: Ranks) -> list[Params]:
    """Of each rank, where all start as rank 0 does."""
    return [gradients(ranks[0][0], batches) for _, batches, _, _ in ranks]


def stepped(ranks: Ranks) -> list[Params]:
    """The right parameters, on every rank."""
    start, _, _, lr = ranks[0]
    after = moved(start, mean(own_gradients(ranks)), lr)
    return [after for _ in ranks]


def bucket_bytes(rank: Rank) -> list[int]:
    """Of each bucket, in order."""
    params, _, buckets, _ = rank
    return [sum(params[k].nbytes for k in bucket) for bucket in buckets]
