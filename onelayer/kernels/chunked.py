"""The fused loss in plain torch: a few rows of logits at a time, and the gradients in one sweep.

The loss is a number, so its gradients are known up to one factor as soon as the logits of a row
are: dz = (softmax(z) - onehot(t)) / count. They are made in the forward pass, while the chunk is in
the cache, and backward only multiplies. Memory: dx, dw, db and one chunk, never (N, V).

Liger-Kernel's fused_linear_cross_entropy does it this way round, in chunks of the batch
(https://github.com/linkedin/Liger-Kernel, src/liger_kernel/ops/fused_linear_cross_entropy.py).
"""

from typing import Any

import torch
from torch import Tensor

from onelayer.kernels.head_arguments import IGNORED, check_arguments, refuse_second_backward

CPU_ROWS = 256
"""A chunk's rows: 256 x 600 float32 are 600 KiB, which a core's second cache holds."""
CUDA_ROWS = 16_384
"""On a GPU a chunk has to keep all of it busy: 16,384 x 600 float32 are 38 MiB."""


def chunked_head_loss(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
    """Mean cross-entropy of the head without its logits in memory.

    x (N, D), w (V, D), b (V,), t (N,) int64 -> () of x's dtype. Sums and softmax are float32 where
    x is shorter. Raises ValueError for arguments that do not fit, IndexError or RuntimeError (as
    torch's gather does) for a target outside the vocabulary.
    """
    check_arguments(x, w, b, t)
    loss: Tensor = _ChunkedHeadLoss.apply(x, w, b, t)  # type: ignore[no-untyped-call]
    return loss


class _ChunkedHeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
        count = (t != IGNORED).sum()
        sweep = _Sweep(x, w, b, ctx.needs_input_grad)
        rows = CPU_ROWS if x.device.type == "cpu" else CUDA_ROWS
        for start in range(0, len(x), rows):
            sweep.over(x[start : start + rows], t[start : start + rows], start, count)
        ctx.save_for_backward(*sweep.gradients)
        return (sweep.loss / count).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, dloss: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_backward()
        return (*(None if one is None else one * dloss for one in ctx.saved_tensors), None)


class _Sweep:
    """What one pass over the rows adds up. A gradient that nobody needs is None."""

    def __init__(self, x: Tensor, w: Tensor, b: Tensor, needed: tuple[bool, ...]) -> None:
        self.w, self.b = w, b
        self.exact = torch.promote_types(x.dtype, torch.float32)
        self.loss = x.new_zeros((), dtype=self.exact)
        self.dx = torch.empty_like(x, memory_format=torch.contiguous_format) if needed[0] else None
        self.dw = torch.zeros_like(w, dtype=self.exact) if needed[1] else None
        self.db = torch.zeros_like(b, dtype=self.exact) if needed[2] else None

    def over(self, x: Tensor, t: Tensor, start: int, count: Tensor) -> None:
        """Adds the rows x (C, D) with targets t (C,), which begin at row `start`."""
        z = torch.addmm(self.b, x, self.w.mT).to(self.exact)  # (C, V), the only logits there are
        log_p = torch.log_softmax(z, 1)
        counts = (t != IGNORED)[:, None]  # (C, 1)
        target = t[:, None].where(counts, 0)
        self.loss -= log_p.gather(1, target).where(counts, 0).sum()
        if self.dx is None and self.dw is None and self.db is None:
            return
        one, share = log_p.new_ones(()), count.to(self.exact).reciprocal()
        dz = log_p.exp_().scatter_add_(1, target, -one.expand_as(target))  # softmax - onehot
        dz.mul_(share.where(counts, 0))
        if self.db is not None:
            self.db += dz.sum(0)
        dz = dz.to(x.dtype)
        if self.dx is not None:
            torch.mm(dz, self.w, out=self.dx[start : start + len(x)])
        if self.dw is not None:
            self.dw += dz.mT @ x

    @property
    def gradients(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """In the dtypes of x, w and b."""
        dw = None if self.dw is None else self.dw.to(self.w.dtype)
        db = None if self.db is None else self.db.to(self.b.dtype)
        return self.dx, dw, db
