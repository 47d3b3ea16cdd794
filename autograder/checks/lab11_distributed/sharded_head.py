"""A head whose weight lies in shards on W ranks: what each rank should hold after its two halves,
and what it holds after some known faults, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from .shard_rows import shards_of


@dataclass(frozen=True)
class Sharded:
    """w (V, D) whole; for each rank x (N, D) and target (N,)."""

    w: Tensor
    xs: tuple[Tensor, ...]
    targets: tuple[Tensor, ...]

    @property
    def world(self) -> int:
        return len(self.xs)

    @property
    def shards(self) -> list[Tensor]:
        return shards_of(self.w, self.world)

    @property
    def gathered_bytes(self) -> int:
        """Of all shards together, padding included."""
        return sum(s.nbytes for s in self.shards)

    def losses(self, *, weight: Tensor | None = None) -> list[Tensor]:
        """Each rank's mean loss. weight: another one than w."""
        w = self.w if weight is None else weight
        each = zip(self.xs, self.targets, strict=True)
        return [F.cross_entropy(x.double() @ w.double().T, t).float() for x, t in each]

    @lru_cache(maxsize=8)  # noqa: B019 - of these very tensors: a truth and its faults ask for it
    def gradients(self) -> list[Tensor]:
        """Each rank's own dw (V, D), float64."""
        found = []
        for x, target in zip(self.xs, self.targets, strict=True):
            w = self.w.double().requires_grad_()
            loss = F.cross_entropy(x.double() @ w.T, target)
            found.append(torch.autograd.grad(loss, w)[0])
        return found

    def rows(self, each: Sequence[Tensor]) -> list[Tensor]:
        """The shard of each rank's own tensor (V, D), float32."""
        return [shards_of(t.float(), self.world)[rank] for rank, t in enumerate(each)]

    def averaged(self) -> Tensor:
        """The mean of all ranks' gradients (V, D), float64."""
        return torch.stack(self.gradients()).mean(dim=0)


def right(case: Sharded) -> list[Tensor]:
    """Each rank's rows of the mean gradient."""
    return case.rows([case.averaged()] * case.world)


def alone(case: Sharded) -> list[Tensor]:
    """No reduction: each rank's rows of its own gradient."""
    return case.rows(case.gradients())


def alone_divided(case: Sharded) -> list[Tensor]:
    """The same, divided by W."""
    return case.rows([g / case.world for g in case.gradients()])


def summed(case: Sharded) -> list[Tensor]:
    """Nobody divides by W."""
    return case.rows([case.averaged() * case.world] * case.world)


def of_sums(case: Sharded) -> list[Tensor]:
    """Nobody divides by N."""
    each = [g * len(x) for g, x in zip(case.gradients(), case.xs, strict=True)]
    return case.rows([torch.stack(each).mean(dim=0)] * case.world)


def repeats_once(case: Sharded) -> list[Tensor]:
    """The target's part by assignment: `dw[target] -= x` keeps the last of several rows."""
    each = []
    for x, target in zip(case.xs, case.targets, strict=True):
        p = torch.softmax(x.double() @ case.w.double().T, dim=1)
        dw = p.T @ x.double()
        dw[target] -= x.double()
        each.append(dw / len(x))
    return case.rows([torch.stack(each).mean(dim=0)] * case.world)


def all_rows_hit(case: Sharded) -> list[Tensor]:
    """The 1 is taken away at the targets of all rows: `dz[:, target] -= 1`."""
    each = []
    for x, target in zip(case.xs, case.targets, strict=True):
        dz = torch.softmax(x.double() @ case.w.double().T, dim=1)
        dz[:, target] -= 1.0
        each.append(dz.T @ x.double() / len(x))
    return case.rows([torch.stack(each).mean(dim=0)] * case.world)


def padding_learns(case: Sharded) -> list[Tensor]:
    """The padding's rows take part in the softmax."""
    padded = torch.cat(case.shards)
    wide = Sharded(padded, case.xs, case.targets)
    return wide.rows([wide.averaged()] * case.world)


def padding_weighs(case: Sharded) -> list[Tensor]:
    """The same, and the padding's own rows of the gradient are zeros."""
    wide = Sharded(torch.cat(case.shards), case.xs, case.targets)
    return case.rows([wide.averaged()[: len(case.w)]] * case.world)


def one_shard(case: Sharded, rank: int) -> Tensor:
    """(V, D): the shard of one rank in every place of w."""
    return torch.cat([case.shards[rank]] * case.world)[: len(case.w)]


def last_shard_everywhere(case: Sharded) -> list[Tensor]:
    """One tensor was gathered into, W times: the last rank's shard is left in it."""
    other = Sharded(one_shard(case, case.world - 1), case.xs, case.targets)
    return case.rows([other.averaged()] * case.world)


def own_rows_everywhere(case: Sharded) -> list[Tensor]:
    """Each rank puts its own rows into all W places of the list."""
    return [torch.stack(alone(case)).mean(dim=0)] * case.world


def spread_evenly(case: Sharded) -> list[Tensor]:
    """The rows in parts as equal as can be, each filled up with zeros."""
    held, parts = len(case.shards[0]), case.averaged().float().tensor_split(case.world)
    return [torch.cat([p, p.new_zeros(held - len(p), p.shape[1])]) for p in parts]


def first_rows(case: Sharded) -> list[Tensor]:
    """Every rank holds rank 0's rows."""
    return [right(case)[0]] * case.world


def remainder_dropped(case: Sharded) -> list[Tensor]:
    """V // W rows for each rank, the rest nobody's; zeros fill the shard."""
    rows, held = len(case.w) // case.world, len(case.shards[0])
    kept = case.averaged().float()[: rows * case.world]
    cut = kept.chunk(case.world)
    return [torch.cat([c, c.new_zeros(held - len(c), c.shape[1])]) for c in cut]
