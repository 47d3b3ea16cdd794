"""The chunked loss as an operator of torch's: a name, a schema, a fake, a gradient.

    from onelayer.kernels.head_operator import head_loss
    loss = head_loss(x, w, b, t, softcap=30.0)      # torch.ops.onelayer.head_loss, once

A compiler that looks into `chunked_head_loss` writes its loop out, a copy of the body for each
chunk. Of an operator it sees one node, whatever N is.

What an operator is not told: which of its inputs want a gradient. So it always makes all three;
where none is wanted, `chunked_head_loss` under no_grad is cheaper.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onelayer.kernels.chunked import Options, Sweep, rescaled
from onelayer.kernels.head_arguments import (
    IGNORED,
    as_linear_casts,
    check_arguments,
    refuse_second_backward,
)


def head_loss(
    x: Tensor,
    w: Tensor,
    b: Tensor,
    t: Tensor,
    *,
    ignore_index: int = IGNORED,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
) -> Tensor:
    """chunked_head_loss's mean, in float32 at least, through the operator `onelayer::head_loss`.

    x (N, D), w (V, D), b (V,), t (N,) int64 -> (). Raises what chunked_head_loss raises.
    """
    x, w, b, _ = as_linear_casts(x, w, b)
    made: tuple[Tensor, ...] = _operator(x, w, b, t, ignore_index, label_smoothing, z_loss, softcap)
    return made[0]


@torch.library.custom_op("onelayer::head_loss", mutates_args=())
def _operator(
    x: Tensor,
    w: Tensor,
    b: Tensor,
    t: Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """loss (), then the gradients before they are scaled: dx (N, D), dw (V, D), db (V,), and what
    backward scales them with, share ()."""
    check_arguments(x, w, b, t)
    options = Options(ignore_index, "mean", label_smoothing, z_loss, softcap)
    sweep = Sweep(x, w, b, t, None, options, (True, True, True))
    with torch.autocast(x.device.type, enabled=False):  # it would cast inside an operator, too
        loss = sweep.over_all().sum() / sweep.total
    dx, dw, db = sweep.gradients
    assert dx is not None  # all three were asked for
    assert dw is not None
    assert db is not None
    return loss, dx, dw, db, sweep.share


@_operator.register_fake
def _(
    x: Tensor, w: Tensor, b: Tensor, t: Tensor, *options: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    exact = torch.promote_types(x.dtype, torch.float32)
    number = x.new_empty((), dtype=exact)
    sums = (w.new_empty(w.shape, dtype=exact), b.new_empty(b.shape, dtype=exact))
    return number, x.new_empty(x.shape), *sums, torch.empty_like(number)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.dtypes = [one.dtype for one in inputs[:3]]
    ctx.save_for_backward(*output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)  # nobody asks for a gradient of the gradients


def _scale(ctx: Any, dloss: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    refuse_second_backward()
    *made, share = ctx.saved_tensors
    if dloss is None:
        return (None,) * 8
    scale = dloss.to(share.dtype) * share
    gradients = [rescaled(one, scale, dtype) for one, dtype in zip(made, ctx.dtypes, strict=True)]
    return (*gradients, None, None, None, None, None)


_operator.register_autograd(_scale, setup_context=_keep)
