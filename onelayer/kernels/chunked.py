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

CPU_ROWS = 384
"""A chunk's rows: 384 x 600 float32 are 0.9 MiB, near a core's caches; with fewer rows, what a
chunk costs beside its products weighs more (tried from 128 to 1,024)."""
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
    are needed. share: what a row's part is multiplied with in the end, 1 / total.

    A chunk has to cost little beside its three products: its logits and softmax lie in memory
    that the chunk before had, exp is taken once, and what a row's loss is made of waits in
    columns (N, 1) for the end."""

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
        self.counts = (t != options.ignore_index)[:, None]
        self.target = t[:, None].where(self.counts, 0)
        self.total, self.share, self.z_loss = self._divided_by()
        self.at_target, self.smooth = self._wanted()
        self.dx = torch.empty_like(x, memory_format=torch.contiguous_format) if needed[0] else None
        self.dw = torch.zeros_like(w, dtype=self.exact) if needed[1] else None
        self.db = x.new_zeros(len(w), dtype=self.exact) if needed[2] else None
        self.rows = CPU_ROWS if x.device.type == "cpu" else CUDA_ROWS
        n = len(x)
        self.z, self.p = (x.new_empty(min(self.rows, n), len(w), dtype=self.exact) for _ in "zp")
        self.top, self.top_p, self.z_target = (x.new_empty(n, 1, dtype=self.exact) for _ in "abc")
        self.z_smooth = None if self.smooth is None else torch.empty_like(self.top)

    def _divided_by(self) -> tuple[Tensor, Tensor, Tensor]:
        """What a mean divides by; 1 / it, or 0; and the factor of lse^2, which a mean divides by
        the number of tokens, also where their words have weights."""
        one, count = self.x.new_ones((), dtype=self.exact), self.counts.sum().to(self.exact)
        if self.options.reduction != "mean":
            return one, one, self.options.z_loss * one
        total = count
        if self.weight is not None:
            total = self.weight[self.target].where(self.counts, 0).sum()
        share = total.reciprocal().where(total != 0, 0)
        return total, share, self.options.z_loss * total / count

    def _wanted(self) -> tuple[Tensor, Tensor | None]:
        """What the target's word counts for, (N, 1); with label smoothing also what every word
        does, (V, 1): label_smoothing / V, times its weight."""
        kept, each = 1 - self.options.label_smoothing, self.options.label_smoothing / len(self.w)
        words = torch.ones_like(self.w[:, 0], dtype=self.exact)
        at_target = torch.full_like(self.target, kept, dtype=self.exact)
        if self.weight is not None:
            words, at_target = self.weight, kept * self.weight[self.target]
        return at_target, each * words[:, None] if self.options.label_smoothing else None

    def over_all(self, by_row: Tensor | None = None) -> Tensor:
        """The losses of the rows (N,), in float32 at least. by_row (N, 1): what comes from above
        for each row, multiplied into its gradients."""
        factor = self.counts.to(self.exact) if by_row is None else by_row.where(self.counts, 0)
        for start in range(0, len(self.x), self.rows):
            self._over(slice(start, start + self.rows), factor)
        return self._losses()

    def _losses(self) -> Tensor:
        """(N,). The largest logit is taken off first: what is left keeps its digits."""
        log_s = -self.top_p.log()  # the largest p is 1 / s, s the sum of exp(z - top)
        loss = self.at_target * (self.top - self.z_target + log_s)
        if self.smooth is not None and self.z_smooth is not None:
            loss += self.smooth.sum() * log_s - self.z_smooth
        if self.options.z_loss:
            loss += self.z_loss * (self.top + log_s).square()
        return loss.where(self.counts, 0)[:, 0]

    def _over(self, at: slice, factor: Tensor) -> None:
        """A chunk of C rows: its columns filled, its gradients added. factor (N, 1)."""
        x, target = _for_products(self.x[at], self.exact), self.target[at]
        z = self._logits(x)  # (C, V), the only logits there are
        p = torch.softmax(z, 1, out=self.p[: len(z)])
        torch.amax(z, 1, keepdim=True, out=self.top[at])
        torch.amax(p, 1, keepdim=True, out=self.top_p[at])
        torch.gather(z, 1, target, out=self.z_target[at])
        if self.smooth is not None and self.z_smooth is not None:
            torch.mm(z - self.top[at], self.smooth, out=self.z_smooth[at])
        if self.dx is not None or self.dw is not None or self.db is not None:
            self._add(self._dz(z, p, at), x, at, factor[at])

    def _logits(self, x: Tensor) -> Tensor:
        z = self.z[: len(x)]
        if x.dtype != self.exact:
            z.copy_(torch.mm(x, self.w.mT, out_dtype=self.exact))
            z = z if self.b is None else z.add_(self.b)
        elif self.b is None:
            torch.mm(x, self.w.mT, out=z)
        else:
            torch.addmm(self.b, x, self.w.mT, out=z)
        cap = self.options.softcap
        return z if cap is None else z.div_(cap).tanh_().mul_(cap)

    def _dz(self, z: Tensor, p: Tensor, at: slice) -> Tensor:
        """softmax(z) - onehot(t) (C, V), in p's memory, with what the options make of it."""
        if self.options.z_loss or self.weight is not None:
            p.mul_(self._mass(at))
        if self.smooth is not None:
            p.sub_(self.smooth[:, 0])
        p.scatter_add_(1, self.target[at], -self.at_target[at])
        cap = self.options.softcap
        return p if cap is None else p.mul_(1 - (z / cap).square_())

    def _mass(self, at: slice) -> Tensor:
        """What softmax(z) is multiplied with (C, 1): all that a row counts for, z_loss's part."""
        mass = self.at_target[at]
        if self.smooth is not None:
            mass = mass + self.smooth.sum()
        return mass + 2 * self.z_loss * (self.top[at] - self.top_p[at].log())

    def _add(self, dz: Tensor, x: Tensor, at: slice, row: Tensor) -> None:
        """dz (C, V) of a chunk; row (C, 1): a factor for each, 0 where its target is ignored.

        The factor goes to the narrow side, x (C, D) and dx (C, D), and not to all of dz."""
        if self.db is not None:
            self.db.addmv_(dz.mT, row[:, 0])
        if dz.is_cuda and self.short != self.exact:
            dz = dz.to(self.short)  # for tensor cores
        if self.dx is not None:
            _put_product(self.dx[at], dz, self.w, row)
        if self.dw is not None:
            x = (x * row).to(x.dtype)
            if x.dtype == self.exact:
                self.dw.addmm_(dz.mT, x)
            else:
                self.dw += torch.mm(dz.mT, x, out_dtype=self.exact)

    @property
    def gradients(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """dx in x's dtype, dw and db in float32 at least."""
        return self.dx, self.dw, self.db


def _for_products(one: Tensor, exact: torch.dtype) -> Tensor:
    """On a CPU short numbers are made long for products; a GPU's tensor cores take them."""
    return one if one.is_cuda else one.to(exact)


def _put_product(into: Tensor, a: Tensor, b: Tensor, row: Tensor) -> None:
    """a @ b, each row multiplied in row's dtype, into `into`; a and b are of one dtype."""
    if a.dtype == row.dtype == into.dtype:
        torch.mm(a, b, out=into).mul_(row)
    elif a.dtype == row.dtype:
        into.copy_((a @ b).mul_(row))
    else:
        into.copy_(torch.mm(a, b, out_dtype=row.dtype).mul_(row))


def rescaled(one: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """one * scale in `dtype`, multiplied in scale's: a few rows at a time, so that no long copy of
    a short dx is ever whole."""
    if one.dtype == scale.dtype:
        return (one * scale).to(dtype)
    made = torch.empty_like(one, dtype=dtype)
    for start in range(0, len(one), CUDA_ROWS):
        made[start : start + CUDA_ROWS] = one[start : start + CUDA_ROWS].to(scale.dtype) * scale
    return made
