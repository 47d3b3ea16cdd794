"""Forward and backward of a head whose weight lies in shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograder.judge import (
    Draw,
    Student,
    Wrong,
    describe,
    expect_close,
    expect_tensors,
    expect_tuple,
    is_close,
    within,
)
from autograder.judge.relations import between_tensors

from . import lab, sharded_head
from .admission import room_for
from .numbers import as_scalar
from .sharded_head import Sharded
from .trace_events import (
    Fault,
    Trace,
    answers_and_deeds,
    asked_of_ranks,
    nobody_waited,
    sent,
)

TOLERANCE = 2e-5
Given = tuple[Tensor, Tensor, Tensor, int]  # shard, x, target, v

KEPT = (
    "More was kept for backward than the shard, x, target and two numbers for each row of x. Who "
    "keeps the gathered weight has all of w on each rank, as in DDP: save the shard, and gather "
    "again."
)
VIEW = (
    "One of these tensors is a view, and keeps all of what it was cut from alive, as a slice of "
    "the gathered weight does. Save the shard that came in, or a clone of the slice."
)
LOSS_AND_LIST = "Two are asked for: this rank's loss, and then the list of what it saves."
OWN_LOSS = (
    "The loss of a rank is the mean over its own words, one number, and its softmax runs over all "
    "V rows of w: the shards joined in the order of the ranks."
)
NOTHING_CAME = "Nothing came back. Each rank returns its rows of dw, (R, D)."
AS_ITS_SHARD = "The rows of dw that a rank holds are (R, D), as its shard is, padding and all."
ZEROS = "The rows of w are right. Those of the padding are no words: they hold zeros."
OWN_ROWS = (
    "Rank r holds the rows of dw from r * R on, summed over all ranks and divided by W: on each "
    "rank dw[v] adds (softmax - one-hot) / N times x, over its own N words."
)
HUNG = (
    "Some ranks were done and others were not, as where a rank goes without the collective that "
    "others wait in. All gather and reduce-scatter alike, also one whose own rows are few or "
    "padding alone."
)
NOT_WAITED = (
    "A collective was started, and its wait() was never called: until then, what it brings may "
    "not be there. Call wait() on what it returns, or leave out async_op=True."
)
LOGITS = (
    "The logits, or something of their size, were kept for backward: N * V numbers. Compute them "
    "again from x and the gathered w; the log-sum-exp of a row is all that is worth keeping."
)
NOT_GATHERED = (
    "The collectives are not those that were asked for: an all-gather of the shards before each "
    "use of w, and a reduce-scatter of the padded gradient."
)
ALL_REDUCED = (
    "The gradient was all-reduced: each rank received all of it, and sent twice as much, to throw "
    "the other ranks' rows away. A reduce-scatter gives each rank the sum of its own rows."
)
OWN_NUMBERS = (
    "No rank needs another's number of words, nor its loss: divide by your own N, and dw by W as "
    "well."
)
PADDING = (
    "The padding took part in the softmax as if its rows were words: their logits are 0, not "
    "minus infinity. Cut w off after V rows."
)
ONE_SHARD = (
    "The shard of one rank stands in every place of w. An all-gather fills a list of W tensors; "
    "[t] * W is one tensor, W times, and keeps one shard."
)
SOME_PADDING = (
    "Some of the padding took part in the softmax as if its rows were words. It may lie in more "
    "shards than the last: join them all, then cut w off after V rows."
)
NOT_FINITE = (
    "In truth all of these numbers are finite: exp is inf over 88.72 in float32, and 0 under "
    "-104. Take from each row of logits its own maximum first."
)
WHOLE = (
    "The whole gradient came back. Each rank keeps its own rows of it, (R, D) as its shard is; "
    "that is what a reduce-scatter leaves."
)
FAULTS = (
    Fault(
        "own_gradient",
        "Each rank holds its rows of its own gradient, and nothing of other ranks' is in them: "
        "rows would learn from one batch only. A reduce-scatter adds up.",
        sharded_head.alone,
    ),
    Fault(
        "own_gradient_divided",
        "Each rank holds its rows of its own gradient, divided by W: what other ranks' gradients "
        "add is missing. A reduce-scatter adds up.",
        sharded_head.alone_divided,
    ),
    Fault(
        "not_averaged",
        "The gradient is W times too large: a reduce-scatter adds up. Divide by the number of "
        "ranks.",
        sharded_head.summed,
    ),
    Fault(
        "not_by_words",
        "This is the gradient of the sum over each rank's words. Its loss is their mean: divide by "
        "N, on each rank by its own.",
        sharded_head.of_sums,
    ),
    Fault(
        "repeats_once",
        "A word that is the target of two rows was counted once, as by `dw[target] -= x`, which "
        "keeps the last of them. Take the 1 away in (softmax - one-hot), or add with index_add_.",
        sharded_head.repeats_once,
    ),
    Fault(
        "all_rows_hit",
        "In every row a 1 is taken away at the targets of all rows, as by dz[:, columns], which "
        "is all rows. Row n has one target: dz[rows, columns], with as many rows as columns.",
        sharded_head.all_rows_hit,
    ),
    Fault("padding_learns", PADDING, sharded_head.padding_learns),
    Fault("padding_weighs", PADDING, sharded_head.padding_weighs),
    Fault("one_tensor_gathered", ONE_SHARD, sharded_head.last_shard_everywhere),
    Fault(
        "own_rows_everywhere",
        "All ranks hold the same: of each rank's own gradient its own rows, added up. Part r of "
        "the list is for rank r: cut dw into W parts, in order.",
        sharded_head.own_rows_everywhere,
    ),
    Fault(
        "spread_evenly",
        "The rows of dw are spread evenly over the ranks, as by tensor_split. Rank r holds the "
        "rows from r * R on, as in its shard, and only the last ranks hold padding.",
        sharded_head.spread_evenly,
    ),
    Fault(
        "first_rows",
        "Every rank holds the rows of rank 0. Rank r receives the r-th part of the list.",
        sharded_head.first_rows,
    ),
    Fault(
        "remainder_dropped",
        "Rows were lost: V // W for each rank leaves V % W rows without a gradient. Pad to W * R.",
        sharded_head.remainder_dropped,
    ),
)


@lab.question(
    "fsdp_step",
    points=5,
    minutes=20,
    difficulty=4,
    hints=(
        "What does a rank need for its loss that it does not hold? And what of the gradient does "
        "it need afterwards: all of it, or its own rows?",
        "Gather into W empty tensors like shard, join them, cut after V rows. Backward does the "
        "same again, pads dw to W * R rows, cuts it into W parts, and reduce-scatters the list.",
        "dist.reduce_scatter(mine, list(F.pad(dw, (0, 0, 0, world * len(shard) - "
        "v)).chunk(world)))",
    ),
    budget_s=40.0,
    loopback=True,
    host="Its ranks are forks that talk over gloo, on the CPU.",
)
def fsdp_step(student: Student, draw: Draw) -> None:
    """The head's loss and the gradient of its weight, which lies in shards of R rows on W ranks.

    fsdp_forward: per_rank[r]: (shard (R, D), x (N, D), target (N,), v) -> for each rank (its mean
    loss, list of tensors to save), and what it did. fsdp_backward: per_rank[r]: (that list, v) ->
    for each rank its rows (R, D) of the mean of all ranks' gradients, and what it did.
    """
    with room_for(student, "fsdp_forward", "fsdp_backward") as room:
        for v, world in [
            (10, 3),
            (12, 2),
            *((draw.integer(9, 23), draw.integer(2, 4)) for _ in draw.cases(1)),
            (6, 1),
        ]:
            _ask(room, _drawn(draw, v, world), v)
        _ask(room, _drawn(draw, 5, 4, uneven=1), 5)  # the last rank has padding alone
        _ask(room, _steep(draw), 7)


def _ask(room: Student, case: Sharded, v: int) -> None:
    each = zip(case.shards, case.xs, case.targets, strict=True)
    got = asked_of_ranks(room, "fsdp_forward", [(s, x, t, v) for s, x, t in each], hung=HUNG)
    forwards, trace = answers_and_deeds(got, case.world)
    with _waited(trace):
        saved = [_saved(got, case, rank) for rank, got in enumerate(forwards)]
    for rank, did in enumerate(trace):
        _expect_deeds(did, ["all_gather"], case, f"in the forward of rank {rank}")
    both = [(kept, v) for kept in saved]
    got = asked_of_ranks(room, "fsdp_backward", both, hung=HUNG)
    gradients, trace = answers_and_deeds(got, case.world)
    with _waited(trace):
        _expect_rows(gradients, case)
    for rank, did in enumerate(trace):
        where = f"in the backward of rank {rank}"
        _expect_deeds(did, ["all_gather", "reduce_scatter"], case, where)


def _waited(trace: Sequence[Trace]) -> AbstractContextManager[None]:
    """Inside, what is wrong is wrong because nobody waited, where nobody did."""
    return within("", why=NOT_WAITED if any(map(nobody_waited, trace)) else "")


def _drawn(draw: Draw, v: int, world: int, *, uneven: int = 0) -> Sharded:
    """uneven: how many rows of x a rank has more than the one before it."""
    d, n = draw.integer(8, 12), draw.choice([n for n in (2, 3, 4) if n != world])
    sizes = [n + uneven * rank for rank in range(world)]
    w = draw.tensor(v, d)
    w[v // 2] = 0.0  # a row of zeros that is no padding
    targets = [draw.integers(size, low=0, high=v - 1) for size in sizes]
    targets[0][1] = targets[0][0]  # a word twice
    return Sharded(w, tuple(draw.tensor(size, d) for size in sizes), tuple(targets))


def _steep(draw: Draw) -> Sharded:
    """exp of the logits is inf or 0, in float64 too. They are whole numbers, and each row has a
    clear winner that is not its target: float32 has all of it exactly."""
    v, n, d = 7, 3, draw.integer(8, 12)
    winner = draw.integer(0, v - 1)
    w, *xs = (draw.integers(rows, d, low=-2, high=2).float() for rows in (v, n, n))
    w[:, :2] = torch.tensor([50.0, 0.0])
    w[winner, 1] = 20.0
    for x in xs:  # no maximum is good for all rows
        x[:, :2] = 40.0
        x[draw.integer(0, n - 1), 0] = -40.0
    targets = ((winner + draw.integers(n, low=1, high=v - 1)) % v for _ in xs)
    return Sharded(w, tuple(xs), tuple(targets))


def _saved(got: Any, case: Sharded, rank: int) -> list[Tensor]:
    """What rank `rank` saved, if its loss is right and the list is short."""
    loss, kept = expect_tuple(got, 2, "(the loss, list of tensors)", why=LOSS_AND_LIST)
    _expect_loss(loss, case, rank)
    kept = expect_tensors(kept, "a list of tensors to save")
    given = (case.shards[rank], case.xs[rank], case.targets[rank])
    most = sum(t.nbytes for t in given) + 8 * len(case.xs[rank])
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in kept}
    if sum(storages.values()) > most:
        raise Wrong(
            expected=f"at most {most:,} bytes: shard, x, target, and 8 for each row of x",
            got=f"{sum(storages.values()):,} bytes",
            where=f"in what rank {rank} saved: {'; '.join(describe(t) for t in kept)}",
            why=_of_the_saved(kept, most, case.xs[rank], len(case.w)),
        )
    return kept


def _of_the_saved(kept: Sequence[Tensor], most: int, x: Tensor, v: int) -> str:
    """What takes the memory: something as large as the logits or w, or what a small view was cut
    from."""
    if any(t.shape == (len(x), v) and not t.equal(x) for t in kept):  # D may be V
        return LOGITS
    return VIEW if sum(t.nbytes for t in kept) <= most else KEPT


def _expect_loss(got: Any, case: Sharded, rank: int) -> None:
    mine = as_scalar(got)
    why = _of_the_padding(mine, case, rank) or _of_one_shard(mine, case, rank)
    why = why or (NOT_FINITE if _overflows(mine, case) else OWN_LOSS)
    with within(f"in the loss of rank {rank}", why=why):
        expect_close(mine, case.losses()[rank], tolerance=TOLERANCE)


def _of_the_padding(got: Any, case: Sharded, rank: int) -> str:
    """How much of the padding is in this loss of `rank`; "" for none."""
    padded, v = torch.cat(case.shards), len(case.w)
    for rows in range(len(padded), v, -1):
        if is_close(got, case.losses(weight=padded[:rows])[rank], tolerance=TOLERANCE):
            return PADDING if rows == len(padded) else SOME_PADDING
    return ""


def _of_one_shard(got: Any, case: Sharded, rank: int) -> str:
    """Whether this loss of `rank` is that of a w made of one shard, W times; "" if not."""
    weights = [sharded_head.one_shard(case, k) for k in range(case.world)]
    losses = (case.losses(weight=w)[rank] for w in weights)
    return ONE_SHARD if any(is_close(got, one, tolerance=TOLERANCE) for one in losses) else ""


def _overflows(got: Any, case: Sharded) -> bool:
    """Whether it is not finite, where some logits are too large for exp."""
    if not isinstance(got, Tensor) or bool(got.isfinite().all()):
        return False
    return any(bool(((x @ case.w.T).abs() > 88).any()) for x in case.xs)


def _expect_rows(answers: Sequence[Any], case: Sharded) -> None:
    want = sharded_head.right(case)
    for rank, (got, rows) in enumerate(zip(answers, want, strict=True)):
        place = f"in dw on rank {rank} of {case.world}"
        with within(place, why=lambda: _known(answers, case)):
            expect_close(got, rows, tolerance=TOLERANCE)


def _known(answers: Sequence[Any], case: Sharded) -> str:
    """The sentence of the fault that leads to these very rows."""
    if case.world > 1 and all(map(partial(_is_whole, rows=len(case.w)), answers)):
        return WHOLE
    for fault in FAULTS:
        pairs = zip(answers, fault.answers(case), strict=True)
        if all(is_close(got, rows, tolerance=TOLERANCE) for got, rows in pairs):
            return fault.sentence
    return _of_the_rows(answers, case)


def _is_whole(got: Any, rows: int) -> bool:
    return isinstance(got, Tensor) and got.dim() == 2 and len(got) >= rows


def _of_the_rows(answers: Sequence[Any], case: Sharded) -> str:
    """What is wrong in the first rows that are; "" where the verdict has a better word."""
    right = sharded_head.right(case)
    pairs = enumerate(zip(answers, right, strict=True))
    rank, (got, want) = next(p for p in pairs if not is_close(*p[1], tolerance=TOLERANCE))
    if not isinstance(got, Tensor):
        return "" if got is not None else NOTHING_CAME
    if got.shape != want.shape or got.dtype != want.dtype:
        return AS_ITS_SHARD
    if _overflows(got, case):
        return NOT_FINITE
    held = rank * len(want) + torch.arange(len(want)) < len(case.w)
    if bool((~held).any()) and is_close(got[held], want[held], tolerance=TOLERANCE):
        return ZEROS
    allowed = TOLERANCE * float(want.abs().max())
    factor = float((got * want).sum() / (want * want).sum()) if bool(want.any()) else 0.0
    if factor > 0 and abs(factor - 1) > 1e-3 and is_close(got, factor * want, tolerance=TOLERANCE):
        return (
            f"Rank {rank} holds {factor:.4g} times its rows. They are the sum over all W ranks "
            "divided by W, and what a rank adds is divided by its own N alone."
        )
    return "" if between_tensors(got, want, allowed) else OWN_ROWS


def _expect_deeds(did: Trace, names: list[str], case: Sharded, where: str) -> None:
    want = [(name, case.gathered_bytes) for name in names]
    if sent(did) != want:
        why = _of_the_deeds(sent(did), want, case.w.nbytes)
        raise Wrong(expected=_told(want), got=_told(sent(did)), where=where, why=why)


def _of_the_deeds(did: Trace, want: Trace, weight_bytes: int) -> str:
    """What stands in the place of the reduce-scatter, or was sent besides."""
    more = list((Counter(did) - Counter(want)).elements())
    less = [what for what, _ in (Counter(want) - Counter(did)).elements()]
    if more and not less and all(nbytes <= 8 for _, nbytes in more):
        return f"Too much was sent: {_told(more)}. {OWN_NUMBERS}"
    large = any(what == "all_reduce" and nbytes >= weight_bytes for what, nbytes in more)
    return ALL_REDUCED if large and less == ["reduce_scatter"] else NOT_GATHERED


def _told(trace: Trace) -> str:
    return ", ".join(f"{what} of {nbytes:,} bytes" for what, nbytes in trace) or "no collective"


Loss = Callable[[Sharded], list[Tensor]]
Forward = Callable[[Sequence[Given]], list[tuple[tuple[Tensor, list[Tensor]], Trace]]]


def _case(per_rank: Sequence[Given]) -> Sharded:
    """What the shards of all ranks are parts of."""
    w = torch.cat([shard for shard, _, _, _ in per_rank])[: per_rank[0][3]]
    return Sharded(w, tuple(x for _, x, _, _ in per_rank), tuple(t for _, _, t, _ in per_rank))


def _forward(
    losses: Loss = lambda case: case.losses(),
    trace: Callable[[Sharded], Trace] = lambda case: [("all_gather", case.gathered_bytes)],
    *,
    keeping: Callable[[Sharded, int], list[Tensor]] = lambda case, rank: [],
) -> Forward:
    """The first half. keeping: what a rank saves besides."""

    def fsdp_forward(per_rank: Sequence[Given]) -> list[tuple[tuple[Tensor, list[Tensor]], Trace]]:
        case = _case(per_rank)
        kept = [
            [shard, x, target, *keeping(case, rank)]
            for rank, (shard, x, target, _) in enumerate(per_rank)
        ]
        each = zip(losses(case), kept, strict=True)
        return [((loss, saved), trace(case)) for loss, saved in each]

    return fsdp_forward


Saved = tuple[list[Tensor], int]
Backward = Callable[[Sequence[Saved]], list[tuple[Tensor, Trace]]]


def _right_deeds(case: Sharded) -> Trace:
    return [(name, case.gathered_bytes) for name in ("all_gather", "reduce_scatter")]


def _backward(
    rows: Callable[..., Sequence[Any]] = sharded_head.right,
    trace: Callable[[Sharded], Trace] = _right_deeds,
) -> Backward:
    def fsdp_backward(per_rank: Sequence[Saved]) -> list[tuple[Tensor, Trace]]:
        case = _case([(saved[0], saved[1], saved[2], v) for saved, v in per_rank])
        return [(mine, trace(case)) for mine in rows(case)]

    return fsdp_backward


fsdp_step.otherwise(fsdp_forward=_forward(), fsdp_backward=_backward())
for _fault in FAULTS:
    fsdp_step.wrong(_fault.name, _fault.sentence, fsdp_backward=_backward(_fault.answers))
fsdp_step.wrong("weight_kept", KEPT, fsdp_forward=_forward(keeping=lambda case, rank: [case.w]))
fsdp_step.wrong(
    "view_kept",
    VIEW,
    fsdp_forward=_forward(keeping=lambda case, rank: [case.w.flatten()[:1]]),
)
fsdp_step.wrong(
    "logits_kept",
    LOGITS,
    fsdp_forward=_forward(keeping=lambda case, rank: [case.xs[rank] @ case.w.T]),
)
fsdp_step.wrong(
    "padding_is_a_word",
    PADDING,
    fsdp_forward=_forward(lambda case: case.losses(weight=torch.cat(case.shards))),
)
fsdp_step.wrong(
    "all_reduced",
    ALL_REDUCED,
    fsdp_backward=_backward(
        trace=lambda case: [("all_gather", case.gathered_bytes), ("all_reduce", case.w.nbytes)]
    ),
)
fsdp_step.wrong("nothing_gathered", NOT_GATHERED, fsdp_forward=_forward(trace=lambda case: []))
fsdp_step.wrong(
    "whole_gradient",
    WHOLE,
    fsdp_backward=_backward(lambda case: [case.averaged().float()] * case.world),
)


@fsdp_step.cost
def _(student: Student, draw: Draw) -> str:
    case = _drawn(draw, 23, 3)
    per_rank = [(s, x, t, 23) for s, x, t in zip(case.shards, case.xs, case.targets, strict=True)]
    with room_for(student, "fsdp_forward", "fsdp_backward") as room:
        forwards = room.call("fsdp_forward", per_rank)
        backwards = room.call("fsdp_backward", [(saved, 23) for (_, saved), _ in forwards])
    around = sent(forwards[0][1]) + sent(backwards[0][1])
    ring = sum(nbytes for _, nbytes in around) * 2 // 3
    return (
        f"23 rows on 3 ranks: {case.shards[0].nbytes:,} of {case.w.nbytes:,} bytes held between "
        f"the halves, {len(around)} collectives, {ring:,} bytes sent per rank and step"
    )
