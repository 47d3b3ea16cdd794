"""The fused loss in plain torch: a few rows of logits at a time, and the gradients in one sweep.

The loss is a number, so its gradients are known up to one factor as soon as the logits of a row
are: dz = softmax(z) - onehot(t). They are made in the forward pass, while the chunk is in the
cache, and backward only multiplies. Memory: dx, dw, db and one chunk, never (N, V).

What is kept is not divided by the number of tokens: that waits for backward, where the factor from
above (a GradScaler's too) comes in, in float32. Divided early, the gradients of many tokens fall
below what float16 can hold, and no factor brings them back.

Liger-Kernel's fused_linear_cross_entropy does it this way round, in chunks of the batch
(https://github.com/linkedin/Liger-Kernel, src/liger_kernel/ops/fused_linear_cross_entropy.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from onelayer.kernels.head_arguments import (
    IGNORED,
    as_linear_casts,
    check_arguments,
    edges_of,
    only_once,
)

CPU_ROWS = 256
"""A chunk's rows: 256 x 600 float32 are 600 KiB, which a core's second cache holds."""
CUDA_ROWS = 16_384
"""On a GPU a chunk has to keep all of it busy: 16,384 x 600 float32 are 38 MiB."""
REDUCTIONS = ("mean", "sum", "none")


@dataclass(frozen=True)
class Options:
    """What the loss is beside a mean of -log p(target); see chunked_head_loss."""

    ignore_index: int
    reduction: str
    label_smoothing: float
    z_loss: float
    softcap: float | None


def chunked_head_loss(
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    t: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = IGNORED,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
    shift: bool = False,
) -> Tensor:
    """The cross-entropy of the head without its logits in memory.

    x (..., D), w (V, D), b (V,) or None, t (...) int64 -> () of x's dtype, or the shape of the
    targets for reduction="none". Logits, softmax and sums are float32 where x is shorter. Under
    autocast x, w, b are cast as for a Linear, and the loss is float32, as F.cross_entropy's.

    weight (V,), ignore_index, reduction and label_smoothing are F.cross_entropy's. z_loss adds
    z_loss * lse^2 for each token that counts, averaged or added up with them, without `weight`.
    softcap: logits become softcap * tanh(z / softcap). shift: x (..., T, D), t (..., T): position
    k is asked for the word at k + 1, and the last one for none.

    Raises ValueError for arguments that do not fit, IndexError or RuntimeError (as torch's gather
    does) for a target outside the vocabulary.
    """
    options = Options(ignore_index, reduction, label_smoothing, z_loss, softcap)
    _check_options(options, w, weight)
    if shift:
        x, t = x[..., :-1, :], t[..., 1:]
    shape = t.shape
    if x.ndim > 2 and x.shape[:-1] == shape:
        x, t = x.flatten(0, -2), t.flatten()
    x, w, b, returned = as_linear_casts(x, w, b)
    check_arguments(x, w, b, t)
    with torch.autocast(x.device.type, enabled=False):
        needed = tuple(one is not None and one.requires_grad for one in (x, w, b))
        edges = edges_of(x, w, b)
        loss: Tensor = _ChunkedHeadLoss.apply(x, w, b, t, weight, options, needed, *edges)[0]  # type: ignore[no-untyped-call]
    return loss.to(returned).reshape(shape if reduction == "none" else ())


def _check_options(options: Options, w: Tensor, weight: Tensor | None) -> None:
    if options.reduction not in REDUCTIONS:
        raise ValueError(f"reduction is one of {REDUCTIONS}; got {options.reduction!r}.")
    if not 0.0 <= options.label_smoothing <= 1.0:
        raise ValueError(f"label_smoothing lies in [0, 1]; got {options.label_smoothing}.")
    if options.softcap is not None and not options.softcap > 0:
        raise ValueError(f"softcap is above 0, or None; got {options.softcap}.")
    if weight is not None and (weight.shape != w.shape[:1] or weight.requires_grad):
        raise ValueError(
            f"weight is (V,) = {tuple(w.shape[:1])} without a gradient; got {tuple(weight.shape)}."
        )


class _ChunkedHeadLoss(torch.autograd.Function):
    """Its gradients are outputs of forward, so that torch.func can carry them to backward."""

    @staticmethod
    def forward(
        x: Tensor,
        w: Tensor,
        b: Tensor | None,
        t: Tensor,
        weight: Tensor | None,
        options: Options,
        needed: tuple[bool, ...],
        *edges: Tensor,
    ) -> tuple[Tensor | None, ...]:
        each = options.reduction == "none"  # dloss is not one number: backward sweeps instead
        sweep = Sweep(x, w, b, t, weight, options, (False, False, False) if each else needed)
        loss = sweep.over_all()
        loss = loss if each else loss.sum() / sweep.total
        return loss, *sweep.gradients, sweep.share

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        x, w, b, t, weight, ctx.options, ctx.needed, *edges = inputs
        _, *made = output
        ctx.dtypes = [None if one is None else one.dtype for one in (x, w, b)]
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(one for one in made if one is not None))
        ctx.each = ctx.options.reduction == "none"
        kept = (x, w, b, t, weight) if ctx.each else made
        ctx.edges = len(edges)
        ctx.save_for_backward(*edges, *kept)

    @staticmethod
    def backward(ctx: Any, dloss: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        edges, kept = ctx.saved_tensors[: ctx.edges], ctx.saved_tensors[ctx.edges :]
        nothing = (None,) * (4 + ctx.edges)
        if dloss is None:
            return None, None, None, *nothing
        if ctx.each:
            x, w, b, t, weight = kept
            sweep = Sweep(x, w, b, t, weight, ctx.options, ctx.needed)
            sweep.over_all(dloss.to(sweep.exact)[:, None])
            made, scale = sweep.gradients, sweep.share
        else:
            *made, share = kept
            scale = dloss.to(share.dtype) * share
        scaled = [
            None if one is None else rescaled(one, scale, dtype)
            for one, dtype in zip(made, ctx.dtypes, strict=True)
        ]
        return *only_once(scaled, (dloss, *edges)), *nothing


class Sweep:
    """One pass over the rows. What it adds up: the gradients before they are scaled, where they
    are needed. share: what a row's part is multiplied with in the end, 1 / total."""

    def __init__(
        self,
        x: Tensor,
        w: Tensor,
        b: Tensor | None,
        t: Tensor,
        weight: Tensor | None,
        options: Options,
        needed: tuple[bool, ...],
    ) -> None:
        self.x, self.t, self.options, self.short = x, t, options, x.dtype
        self.exact = torch.promote_types(x.dtype, torch.float32)
        self.w = _for_products(w, self.exact)
        self.b = None if b is None else b.to(self.exact)
        self.weight = None if weight is None else weight.to(self.exact)
        self.rows = CPU_ROWS if x.device.type == "cpu" else CUDA_ROWS
        counts = t != options.ignore_index
        self.total, self.share, self.z_loss = self._divided_by(counts)
        self.dx = torch.empty_like(x, memory_format=torch.contiguous_format) if needed[0] else None
        self.dw = torch.zeros_like(w, dtype=self.exact) if needed[1] else None
        self.db = x.new_zeros(len(w), dtype=self.exact) if needed[2] else None

    def _divided_by(self, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What a mean divides by; 1 / it, or 0; and the factor of lse^2, which a mean divides by
        the number of tokens, also where their words have weights."""
        one, count = self.x.new_ones((), dtype=self.exact), counts.sum().to(self.exact)
        if self.options.reduction != "mean":
            return one, one, self.options.z_loss * one
        total = count
        if self.weight is not None:
            total = self.weight[self.t.where(counts, 0)].where(counts, 0).sum()
        share = total.reciprocal().where(total != 0, 0)
        return total, share, self.options.z_loss * total / count

    def over_all(self, by_row: Tensor | None = None) -> Tensor:
        """The losses of the rows (N,), in float32 at least. by_row (N, 1): what comes from above
        for each row, multiplied into its gradients."""
        losses = self.x.new_empty(len(self.x), dtype=self.exact)
        for start in range(0, len(self.x), self.rows):
            at = slice(start, start + self.rows)
            losses[at] = self._over(at, None if by_row is None else by_row[at])
        return losses

    def _over(self, at: slice, by_row: Tensor | None) -> Tensor:
        """A chunk of C rows: its losses (C,), its gradients added."""
        options, t = self.options, self.t[at]
        x = _for_products(self.x[at], self.exact)
        z = self._logits(x)  # (C, V), the only logits there are
        log_p = torch.log_softmax(z, 1)
        lse = z.logsumexp(1) if options.z_loss else None
        counts = t != options.ignore_index
        target = t.where(counts, 0)[:, None]  # (C, 1)
        at_target = self._at_target(target)
        loss = -(at_target * log_p.gather(1, target))[:, 0]
        if options.label_smoothing:
            loss = loss - log_p @ self._smooth(z)
        if lse is not None:
            loss = loss + self.z_loss * lse.square()
        loss = loss.where(counts, 0)
        if self.dx is None and self.dw is None and self.db is None:
            return loss
        dz = log_p.exp_()
        if lse is not None or self.weight is not None:
            dz.mul_(self._mass(at_target, lse, z))
        if options.label_smoothing:
            dz.sub_(self._smooth(z))
        dz.scatter_add_(1, target, -at_target.expand_as(target))
        if options.softcap is not None:
            dz.mul_(1 - (z / options.softcap).square_())
        row = counts[:, None].to(self.exact)
        self._add(dz, x, at, row if by_row is None else by_row.where(counts[:, None], 0))
        return loss

    def _logits(self, x: Tensor) -> Tensor:
        z = _product(x, self.w.mT, self.exact)
        z = z if self.b is None else z.add_(self.b)
        cap = self.options.softcap
        return z if cap is None else z.div_(cap).tanh_().mul_(cap)

    def _at_target(self, target: Tensor) -> Tensor:
        """What the target's word counts for: () or (C, 1)."""
        kept = 1 - self.options.label_smoothing
        if self.weight is None:
            return torch.full((), kept, dtype=self.exact, device=target.device)
        return kept * self.weight[target]

    def _smooth(self, z: Tensor) -> Tensor:
        """What every word counts for, (V,): label_smoothing / V, times its weight."""
        each = self.options.label_smoothing / z.shape[1]
        return each * (torch.ones_like(z[0]) if self.weight is None else self.weight)

    def _mass(self, at_target: Tensor, lse: Tensor | None, z: Tensor) -> Tensor:
        """What softmax(z) is multiplied with: all that a row counts for, and z_loss's part."""
        mass = at_target
        if self.options.label_smoothing:
            mass = mass + self._smooth(z).sum()
        return mass if lse is None else mass + 2 * self.z_loss * lse[:, None]

    def _add(self, dz: Tensor, x: Tensor, at: slice, row: Tensor) -> None:
        """dz (C, V) of a chunk; row (C, 1): a factor for each, 0 where its target is ignored.

        The factor goes to the narrow side, x (C, D) and dx (C, D), and not to all of dz."""
        if self.db is not None:
            self.db += dz.mT @ row[:, 0]
        if dz.is_cuda and self.short != self.exact:
            dz = dz.to(self.short)  # for tensor cores
        if self.dx is not None:
            self.dx[at] = _product(dz, self.w, self.exact).mul_(row)
        if self.dw is not None:
            self.dw += _product(dz.mT, (x * row).to(x.dtype), self.exact)

    @property
    def gradients(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """dx in x's dtype, dw and db in float32 at least."""
        return self.dx, self.dw, self.db


def _for_products(one: Tensor, exact: torch.dtype) -> Tensor:
    """On a CPU short numbers are made long for products; a GPU's tensor cores take them."""
    return one if one.is_cuda else one.to(exact)


def _product(a: Tensor, b: Tensor, exact: torch.dtype) -> Tensor:
    """a @ b with its result in `exact`; both are of one dtype."""
    return a @ b if a.dtype == exact else torch.mm(a, b, out_dtype=exact)


def rescaled(one: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """one * scale in `dtype`, multiplied in scale's: a few rows at a time, so that no long copy of
    a short dx is ever whole."""
    if one.dtype == scale.dtype:
        return (one * scale).to(dtype)
    made = torch.empty_like(one, dtype=dtype)
    for start in range(0, len(one), CUDA_ROWS):
        made[start : start + CUDA_ROWS] = one[start : start + CUDA_ROWS].to(scale.dtype) * scale
    return made
