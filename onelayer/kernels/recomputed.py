"""The loss from three kernels, whoever wrote them: what autograd keeps is one number a token.

forward     rows of x against all of w   -> lse (N,), row_loss (N,)
backward_x  the same rows                -> dx (N, D)
backward_w  words against slices of x    -> dw, db: a part for each slice, added here
"""

from typing import Any, Protocol

import torch
from torch import Tensor

from onelayer.kernels.head_arguments import IGNORED, refuse_second_backward

ROWS, WORDS = 64, 64
"""The tile: 64 tokens by 64 words of logits, 16 KiB of float32 in registers."""
MAX_SLICES = 64
"""backward_w cuts the tokens into so many slices at most: 10 tiles of words x 64 fill a GPU."""
Given = tuple[Tensor, Tensor, Tensor, Tensor]
"""x (N, D), w (V, D), b (V,), t (N,)."""


class Launches(Protocol):
    """Three kernels. Each writes all of its outputs, which are contiguous; none waits.

    given: with N > 0, except in backward_w. scale: (1,) float32, dloss / count, or 0.
    """

    def forward(self, given: Given, lse: Tensor, row_loss: Tensor) -> None:
        """lse, row_loss: (N,) float32; row_loss is 0 where the target is ignored."""

    def backward_x(self, given: Given, lse: Tensor, scale: Tensor, dx: Tensor) -> None:
        """dx: (N, D) of x's dtype."""

    def backward_w(
        self, given: Given, lse: Tensor, scale: Tensor, dw: Tensor, db: Tensor, *, slice_rows: int
    ) -> None:
        """dw (SLICES, V, D) and db (SLICES, V), float32; slice_rows: a multiple of ROWS."""


def recomputed_head_loss(launches: Launches, given: Given) -> Tensor:
    """The mean of the row losses, () float32, with one backward."""
    loss: Tensor = _Recomputed.apply(launches, *given)  # type: ignore[no-untyped-call]
    return loss


def blocks(n: int, block: int) -> int:
    """How many blocks of that size cover n."""
    return -(-n // block)


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, launches: Launches, x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
        lse = x.new_empty(len(x), dtype=torch.float32)  # of its own: it is kept, row_loss is not
        row_loss = torch.empty_like(lse)
        if len(x):
            launches.forward((x, w, b, t), lse, row_loss)
        count = (t != IGNORED).sum()
        ctx.launches = launches
        ctx.save_for_backward(x, w, b, t, lse, count)
        return row_loss.sum() / count

    @staticmethod
    def backward(ctx: Any, dloss: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_backward()
        x, w, b, t, lse, count = ctx.saved_tensors
        scale = (dloss.to(torch.float32) / count).where(count > 0, 0).reshape(1)
        arguments = (ctx.launches, (x, w, b, t), lse, scale)
        dx = _gradient_of_x(*arguments) if ctx.needs_input_grad[1] else None
        if not any(ctx.needs_input_grad[2:4]):
            return None, dx, None, None, None
        dw, db = _gradient_of_w(*arguments)
        return None, dx, dw, db, None


def _gradient_of_x(launches: Launches, given: Given, lse: Tensor, scale: Tensor) -> Tensor:
    dx = torch.empty_like(given[0], memory_format=torch.contiguous_format)
    if len(dx):
        launches.backward_x(given, lse, scale, dx)
    return dx


def _gradient_of_w(
    launches: Launches, given: Given, lse: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """dw (V, D) and db (V,): the parts of all slices are added here, in one order every time."""
    x, w, b, _ = given
    slices = max(1, min(MAX_SLICES, blocks(len(x), ROWS)))
    slice_rows = blocks(blocks(len(x), slices), ROWS) * ROWS
    dw = x.new_empty(slices, *w.shape, dtype=torch.float32)
    db = x.new_empty(slices, *b.shape, dtype=torch.float32)
    launches.backward_w(given, lse, scale, dw, db, slice_rows=slice_rows)
    return dw.sum(0).to(w.dtype), db.sum(0).to(b.dtype)
