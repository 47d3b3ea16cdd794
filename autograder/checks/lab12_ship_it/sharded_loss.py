"""Cross-entropy over shards of the vocabulary, from one message of three numbers a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import explaining, saying
from autograder.checks.same_call import known_by_this_call
from autograder.judge import Draw, Student, expect_close, expect_kind, expect_tuple, within

from . import lab

IGNORED = -100
Answer = tuple[Tensor, Tensor]
Case = tuple[list[Tensor], Tensor, float]  # the shards, targets, and how large the logits are
_LOOKED_UP = (
    "A shard may have no column at all, and a target may be no column of this shard: ask both "
    "before you look one up."
)
_RAISED = {
    f"IndexError: {said}": _LOOKED_UP for said in ("index", "Target", "max()", "amax()", "argmax()")
}
OVERFLOW = (
    "exp is inf from 89 on in float32, and a maximum, or a log-sum-exp, may be larger. Only "
    "differences may go through exp: exp(top_r - top) is at most 1."
)

OF_THE_LOSS = (
    "The loss is the mean of lse - z[target] over the rows that count. lse is made of all shards' "
    "maxima and sums; z[target] is the sum of what the shards sent for it, for who does not have "
    "the word sent 0."
)
NOT_FINITE = (
    "In truth all of these numbers are finite. A rank without a column sends -inf, and exp is "
    "inf from 89 on in float32: with each row's largest maximum, exp(top_r - top) is at "
    "most 1, and 1 for one rank at least."
)
AT_TARGETS = (
    "dz is wrong at targets alone. Where this shard holds the word of a row that counts, 1 is "
    "taken away from the softmax, from its first column to its last."
)
OF_DZ = (
    "A row that counts has (softmax - one-hot) / n in dz, where n rows count: the softmax over all "
    "shards, and the 1 in the shard that holds its word. A row with a target of -100 has 0."
)


@lab.question(
    "sharded_loss",
    points=5,
    minutes=9,
    difficulty=4,
    hints=(
        "The sums of the shards are relative to different maxima. What makes one of them relative "
        "to the largest of all?",
        "top = the largest maximum; total = sum over shards of sum_r * exp(top_r - top); lse = top "
        "+ log(total). The logit of the target is the sum of the shards' picked numbers.",
        "lse = (stats[:, 0] + stats[:, 1].log()).logsumexp(0)",
    ),
)
def sharded_loss(student: Student, draw: Draw) -> None:
    """The mean cross-entropy of logits in shards, and one shard's gradient, after one all-gather.

    stats (W, 3, N): each shard's maximum, sum of exp(z - its maximum) and logit of the target or 0;
    z (N, Vr), target (N,), first: this shard's -> (the loss, dz (N, Vr)).
    """
    cases = [(3, 1.0, False), (4, 40.0, False), (2, 1.0, True), (1, 3.0, False)]
    cases += [(draw.integer(2, 5), 5.0, bool(draw.integer(0, 1))) for _ in draw.cases(1)]
    drawn = [_drawn(draw, *case) for case in cases]
    for shards, target, scale in [*drawn, *_awkward(draw), *_alike(draw), _far_below(draw)]:
        loss, dz = torchs_loss(torch.cat(shards, 1), target)
        stats = torch.stack([of_shard(z, target, at) for z, at in _placed(shards)])
        parts = torch.split(dz, [z.shape[1] for z in shards], 1)
        for (z, first), want in zip(_placed(shards), parts, strict=True):
            with explaining(_RAISED):
                got = student.call("sharded_loss", stats, z, target, first)
            with known_by_this_call(sharded_loss, student, got, stats, z, target, first):
                _expect(got, loss, want.contiguous(), first, 1e-5 * max(1.0, scale), target)


def _expect(
    got: Any, loss: Tensor, dz: Tensor, first: int, tolerance: float, target: Tensor
) -> None:
    mine, columns = expect_tuple(got, 2, "(the loss, dz)")
    with within("in the loss", why=_not_finite(mine)):
        value = expect_kind(mine, Tensor, "a tensor")
        with saying(OF_THE_LOSS):
            expect_close(value, loss, tolerance=tolerance)
    why = _not_finite(columns) or _at_targets(columns, dz, target - first, tolerance)
    of_dz = OF_DZ if isinstance(columns, Tensor) and columns.shape == dz.shape else ""
    with within(f"in dz from column {first} on", why=why), saying(of_dz):
        expect_close(columns, dz, tolerance=tolerance)


def _not_finite(got: Any) -> str:
    return NOT_FINITE if isinstance(got, Tensor) and not bool(got.isfinite().all()) else ""


def _at_targets(got: Any, dz: Tensor, at: Tensor, tolerance: float) -> str:
    """at: the targets, as columns of this shard where it has them."""
    if not isinstance(got, Tensor) or got.shape != dz.shape or not dz.numel():
        return ""
    wrong = (got - dz).abs() > tolerance * dz.abs().max()
    beside = wrong & (torch.arange(dz.shape[1]) != at[:, None])
    return AT_TARGETS if bool(wrong.any()) and not bool(beside.any()) else ""


def _drawn(draw: Draw, world: int, scale: float, with_empty: bool) -> Case:
    """Shards with levels of their own, one of which may have no column; targets of all shards, and
    some that do not count."""
    n = draw.integer(15, 19)
    widths = [draw.integer(3, 9) for _ in range(world)]
    if with_empty:
        widths.insert(draw.integer(1, world), 0)
    levels = draw.shuffled([3.0 * k - 4.0 for k in range(len(widths))])
    pairs = zip(widths, levels, strict=True)
    shards = [scale * (draw.tensor(n, width) + level) for width, level in pairs]
    target = draw.integers(n, low=0, high=sum(widths) - 1)
    edges = torch.tensor([first for z, first in _placed(shards) if z.shape[1]])
    target[: len(edges)] = edges
    target[-4:-1] = IGNORED
    return shards, target, scale


def _awkward(draw: Draw) -> Iterator[Case]:
    """Rows far apart: what is 1 in one of them is 0 beside another. Then shards that are columns of
    one tensor, some of them with one column or none, also in front; and one row of those."""
    shards, target, scale = _drawn(draw, 3, 40.0, False)
    yield [z + torch.linspace(-400.0, 400.0, len(z))[:, None] for z in shards], target, scale
    widths = [0, 0, 1, draw.integer(3, 5), 1, 0]
    z, target = draw.tensor(9, sum(widths)), draw.integers(9, low=0, high=sum(widths) - 1)
    target[0], target[1], target[2] = 0, sum(widths) - 1, IGNORED
    z[3, target[3]] = 0.0  # a logit that is what the others send
    yield list(torch.split(z, widths, 1)), target, 1.0
    for row in (0, 1):
        yield list(torch.split(z[row : row + 1], widths, 1)), target[row : row + 1], 1.0


def _alike(draw: Draw) -> Iterator[Case]:
    """A word with the target's logit beside it, in its shard, then in the other one: the number of
    a column tells the target, and its logit does not."""
    for twin in (1, 5):
        z = draw.tensor(5, 6)
        z[:, twin] = z[:, 0]
        yield list(torch.split(z, [3, 3], 1)), torch.zeros(5, dtype=torch.int64), 1.0


def _far_below(draw: Draw) -> Case:
    """One rank has no column, and all logits of the others are far below 0."""
    z, target = draw.tensor(6, 7) - 300.0, draw.integers(6, low=0, high=6)
    return list(torch.split(z, [4, 0, 3], 1)), target, 40.0


def _placed(shards: list[Tensor]) -> list[tuple[Tensor, int]]:
    """Each shard with the number of its first column."""
    widths = [z.shape[1] for z in shards]
    return [(z, sum(widths[:k])) for k, z in enumerate(shards)]


def of_shard(z: Tensor, target: Tensor, first: int) -> Tensor:
    """(3, N): what a shard sends. An empty one: -inf, 0 and 0."""
    if not z.shape[1]:
        nothing = torch.zeros(len(z))
        return torch.stack([nothing - torch.inf, nothing, nothing])
    top = z.amax(1)
    mine = (target >= first) & (target < first + z.shape[1])
    at = torch.where(mine, target - first, 0)[:, None]
    picked = torch.where(mine, z.gather(1, at)[:, 0], 0.0)
    return torch.stack([top, (z - top[:, None]).exp().sum(1), picked])


def torchs_loss(z: Tensor, target: Tensor) -> Answer:
    """On one shard, in float64."""
    wide = z.double().requires_grad_()
    loss = F.cross_entropy(wide, target, ignore_index=IGNORED)
    (dz,) = torch.autograd.grad(loss, wide)
    return loss.detach().float(), dz.float()


def joined(stats: Tensor, z: Tensor, target: Tensor, first: int, *, mistake: str = "") -> Answer:
    """The right answer, and ways to get it wrong."""
    top, sums, picked = stats.unbind(1)  # (W, N) each
    if mistake == "empty_as_zero":
        top = top.nan_to_num(neginf=0.0)
    counts = target > 0 if mistake == "zero_ignored" else target != IGNORED
    counts = torch.ones_like(counts) if mistake == "all_count" else counts
    if mistake == "zero_logit_ignored":
        counts = counts & (picked != 0).any(0)
    here = (target >= first) & (target < first + z.shape[1])
    lse = _lse(top, sums, z, mistake)
    at_target = picked.amax(0) if mistake == "picked_max" else picked.sum(0)
    at_target = picked[0] if mistake == "first_picked" else at_target
    at_target = picked.mean(0) if mistake == "picked_averaged" else at_target
    divisor = counts.sum() if mistake != "counted_all" else torch.tensor(len(z))
    losses = (lse - at_target) * counts if mistake != "ignored_loss" else lse - at_target
    if mistake == "own_count":
        divisor = here.sum()
    loss = losses.sum() / divisor
    loss = loss * divisor if mistake in ("summed", "both_summed") else loss
    if mistake == "own_targets":
        loss = losses[here].sum() / here.sum()
    if mistake == "of_each_row":
        loss = losses
    if mistake == "loss_of_all_rows":
        loss = losses.sum() / len(z)
    below = lse
    if mistake == "own_softmax" and z.shape[1]:
        below = z.logsumexp(1)
    if mistake == "own_maximum" and z.shape[1]:
        below = lse - top.amax(0) + z.amax(1)
    dz = _gradient(z, target, below, first, mistake)
    if mistake == "by_its_logit":
        dz = (z - below[:, None]).exp() - (z == at_target[:, None]).float()
    if mistake != "ignored_gradient":
        dz = dz * counts[:, None]
    if mistake == "divided_twice":
        divisor = divisor * len(stats)
    if mistake == "dz_of_all_rows":
        divisor = torch.tensor(len(z))
    if mistake == "dz_of_own_rows":
        divisor = here.sum().clamp(min=1)
    dz = dz if mistake in ("not_averaged", "both_summed") else dz / divisor
    return loss, dz[counts] if mistake == "rows_left_out" else dz


def _lse(top: Tensor, sums: Tensor, z: Tensor, mistake: str) -> Tensor:
    most = top.amax().expand_as(top[0]) if mistake == "one_maximum" else top.amax(0)
    if mistake == "sums_added":
        return most + sums.sum(0).log()
    if mistake == "overflow":
        return (sums * top.exp()).sum(0).log()
    if mistake == "own_lse":
        return z.logsumexp(1) if z.shape[1] else most
    if mistake == "turned_round":
        return most + (sums * (most - top).exp().nan_to_num(posinf=0.0)).sum(0).log()
    if mistake == "turned_round_bare":
        return most + (sums * (most - top).exp()).sum(0).log()
    if mistake == "lses_added":
        return (top + sums.log()).nan_to_num(neginf=0.0).sum(0)
    total = (sums * (top - most).exp()).sum(0)
    if mistake == "log_forgotten":
        return most + total
    return total.log() if mistake == "top_forgotten" else most + total.log()


def _gradient(z: Tensor, target: Tensor, lse: Tensor, first: int, mistake: str) -> Tensor:
    dz = (z - lse[:, None]).exp()
    if mistake == "no_one_hot" or not z.shape[1]:
        return dz
    at = target - (0 if mistake == "first_ignored" else first)
    mine = (at >= 0) & (at < z.shape[1])
    if mistake == "first_column_missed":
        mine = (at > 0) & (at < z.shape[1])
    if mistake == "negative":
        mine = (at >= -z.shape[1]) & (at < z.shape[1])
    if mistake == "everywhere":
        mine, at = torch.ones_like(mine), at.clamp(0, z.shape[1] - 1)
    rows = mine.nonzero()[:, 0]
    dz[rows, at[rows]] -= -1.0 if mistake == "one_hot_added" else 1.0
    return dz


_MISTAKES = {
    "sums_added": "The sums were added as they are. Each is relative to its own shard's maximum: "
    "times exp(top_r - top) first.",
    "overflow": OVERFLOW,
    "own_lse": "This is the log-sum-exp of one shard alone. Its softmax sums to 1 on every shard.",
    "turned_round": "The factor is turned round: exp(top_r - top) makes a smaller shard smaller.",
    "lses_added": "The shards' log-sum-exps were added. Their exponentials add up: one more "
    "logsumexp joins them.",
    "top_forgotten": "The maximum that was taken away is missing in the end: lse = top + "
    "log(total).",
    "picked_max": "The largest picked number was taken for the target's logit. A logit below 0 "
    "loses against the 0 of those who do not hold it: add them up.",
    "first_picked": "Only one shard's picked number is in the loss. The one that holds the "
    "target sent its logit; the others sent 0: add them up.",
    "turned_round_bare": "The factor is turned round: exp(top_r - top) makes a smaller shard "
    "smaller.",
    "ignored_loss": "The loss counts rows whose target is -100: they are no words.",
    "counted_all": "Divided by all N rows: the mean is over the targets that count.",
    "dz_of_all_rows": "dz was divided by all N rows. The mean is over the targets that count, for "
    "dz as for the loss.",
    "dz_of_own_rows": "dz was divided by the number of targets that this shard holds. The mean is "
    "over all that count, whoever holds them, for dz as for the loss.",
    "loss_of_all_rows": "The loss was divided by all N rows. The mean is over the targets that "
    "count, for the loss as for dz.",
    "ignored_gradient": "Rows whose target is -100 have a gradient. They are in no loss.",
    "summed": "The loss is a sum. Asked for is the mean over the targets that count.",
    "not_averaged": "dz is of the sum; the loss is the mean over the targets that count.",
    "divided_twice": "dz was divided by the number of shards too. Each holds its own columns, and "
    "nobody adds them up.",
    "no_one_hot": "The 1 at the target is missing in dz, on the shard that holds the word.",
    "first_ignored": "The target was used as a column of this shard: column target - first is "
    "meant.",
    "negative": "A target of an earlier shard was hit: target - first is below 0 there, and "
    "counts from the end.",
    "everywhere": "1 was taken away also where another shard holds the word.",
    "own_softmax": "This is the softmax of this shard's columns alone, and sums to 1 over them. "
    "The exp of all shards' columns stands below it.",
    "own_maximum": "dz is relative to this shard's own maximum, and what it is divided by to the "
    "largest of all: exp(z - lse) needs no maximum.",
    "one_maximum": "One maximum was taken for all rows. Far below it, exp of a row's own maximum "
    "is 0, and the log of 0 is -inf: each row has its own.",
    "log_forgotten": "lse is top + log(total). The log is missing.",
    "picked_averaged": "The picked numbers were averaged over the shards. One of them is the "
    "target's logit and all others are 0: add them up.",
    "zero_ignored": "Word 0 is a word, and was left out. Only -100 does not count.",
    "zero_logit_ignored": "A row whose target has the logit 0 was left out. 0 is a logit like any "
    "other: only a target of -100 does not count.",
    "all_count": "A target of -100 was counted as a word, in the loss and in what both are "
    "divided by.",
    "both_summed": "Loss and dz are of the sum. Asked for is the mean over the targets that count.",
    "one_hot_added": "The 1 at the target was added. dz is softmax minus one-hot.",
    "first_column_missed": "The 1 is missing where the target is this shard's first column: "
    "target - first is 0 there, and 0 is a column.",
    "own_count": "Divided by the number of targets that this shard holds. The mean is over all "
    "that count, whoever holds them.",
    "own_targets": "Only the targets that this shard holds are in the loss. Every shard returns "
    "the loss of all.",
    "of_each_row": "The loss of each row came back. Asked for is one number, the mean over the "
    "targets that count.",
    "empty_as_zero": "The maximum of a rank without a column was taken as 0, and so the largest is "
    "at least 0. Far below, exp(top_r - 0) is 0 and the log of 0 is -inf. The -inf may stay: its "
    "exp is 0.",
    "by_its_logit": "1 was taken away wherever a logit is the target's. Another word may have the "
    "same logit: the target is column target - first, and no other.",
    "rows_left_out": "dz has fewer rows than z. A row whose target is -100 stays, and its "
    "gradient is 0.",
}


def _listed(name: str) -> None:
    sharded_loss.wrong(
        name,
        _MISTAKES[name],
        sharded_loss=lambda stats, z, target, first: joined(stats, z, target, first, mistake=name),
    )


for _name in _MISTAKES:
    _listed(_name)


def _right(stats: Tensor, z: Tensor, target: Tensor, first: int) -> Answer:
    return joined(stats, z, target, first)


sharded_loss.wrong(
    "dz_first",
    "dz came first. The loss is asked first, then dz.",
    sharded_loss=lambda stats, z, target, first: _right(stats, z, target, first)[::-1],
)
sharded_loss.wrong(
    "loss_alone",
    "Only the loss came back. The gradient of this shard's columns is asked too.",
    sharded_loss=lambda stats, z, target, first: _right(stats, z, target, first)[0],
)


@sharded_loss.cost
def _(student: Student, draw: Draw) -> str:
    shards, target = [draw.tensor(32, 150) for _ in range(4)], draw.integers(32, low=0, high=599)
    stats = torch.stack([of_shard(z, target, at) for z, at in _placed(shards)])
    student.call("sharded_loss", stats, shards[0], target, 0)
    return (
        f"one all-gather of {stats[0].nbytes:,} bytes from each of 4 shards, where the logits are "
        f"{shards[0].nbytes:,}"
    )
