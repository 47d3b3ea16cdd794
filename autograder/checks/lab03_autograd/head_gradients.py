"""The gradients of a head's mean loss, batch by batch, from torch's own engine."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

Pair = tuple[Tensor, Tensor]
Batch = list[Pair]


def each_gradient(w: Tensor, b: Tensor, batches: Batch) -> list[Pair]:
    """(dw (V, D), db (V,)) of the mean loss of each batch (x (N, D), target (N,))."""
    leaves = [t.detach().clone().requires_grad_() for t in (w, b)]
    losses = [F.cross_entropy(F.linear(x, *leaves), target) for x, target in batches]
    return [torch.autograd.grad(loss, leaves) for loss in losses]  # type: ignore[misc]


def whole_batches(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    """(w, b) after one SGD step for each batch, with its parts joined into one piece.

    (torch.optim.SGD does the same, and loads torch._dynamo first.)
    """
    for batch in batches:
        x, target = (torch.cat(column) for column in zip(*batch, strict=True))
        ((dw, db),) = each_gradient(w, b, [(x, target)])
        w, b = w.detach() - lr * dw, b.detach() - lr * db
    return w, b
