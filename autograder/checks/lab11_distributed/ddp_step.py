"""One step of DDP by hand, on real processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from autograder.judge import (
    Draw,
    Student,
    Wrong,
    describe,
    expect_close,
    expect_tuple,
    is_close,
    within,
)

from . import lab
from .admission import room_for
from .faulty_ddp import (
    EARLY,
    FAULTS,
    HUNG,
    LATE_START,
    MISSING,
    MORE_SENT,
    NOT_WAITED,
    ONE_EACH,
    OTHER_BUCKETS,
    SYNCED,
    TOO_LATE,
    WAITED,
    alone_divided,
    first_batch_alone,
    told,
)
from .language_net import HEAD, Batch, Params, Rank, Ranks, bucket_bytes, stepped
from .trace_events import (
    BELOW,
    WAIT,
    Fault,
    Trace,
    answers_and_deeds,
    asked_of_ranks,
    nobody_waited,
    sent,
)

TOLERANCE = 2e-5
NAMES = ("the first adapter", "the second adapter", "w", "b")


@lab.question(
    "ddp_step",
    points=6,
    minutes=25,
    difficulty=4,
    hints=(
        "Which gradients are there when a hook of the last batch runs? Which bucket may start "
        "then, and what if it is full but the one before it is not?",
        "Keep the set of parameters that have arrived, and how many buckets have started. After "
        "each arrival: while the next bucket in order is full, flatten it and all_reduce it with "
        "async_op=True. After backward all count as arrived, so the same loop starts the rest.",
        "p.register_post_accumulate_grad_hook(arrived); in it: while len(started) < len(buckets) "
        "and ready.issuperset(buckets[len(started)]): ...",
    ),
    budget_s=40.0,
    loopback=True,
    host="Its ranks are forks that talk over gloo, on the CPU.",
)
def ddp_step(student: Student, draw: Draw) -> None:
    """One step of SGD, the same on all ranks: start as rank 0 does, add up the gradients of all
    batches, average them by an all-reduce for each bucket, in order, the first of which start
    while the last backward still runs.

    per_rank[r]: (params, batches, buckets, lr) of rank r -> for each rank the four parameters
    after the step, and what it did.
    """
    in_order = [[3, 2], [1], [0]]
    cases = [
        _drawn(
            draw, [[1, 0, 0], [0, 1, 1]], in_order
        ),  # as many ranks as batches tell nothing apart
        _drawn(draw, [[1, 0], [0, 0], [1, 1]], [[3], [2, 0], [1]]),
    ]
    cases.append(_drawn(draw, [[0], [0], [0]], [[3, 2, 1, 0]]))  # one adapter is used nowhere
    cases.append(_drawn(draw, [[1, 0, 1]], [[2], [3], [0], [1]]))  # one rank alone
    for _ in draw.cases(1):
        ranks, batches = draw.integer(2, 4), draw.integer(1, 2)
        languages = [[draw.integer(0, 1) for _ in range(batches)] for _ in range(ranks)]
        cases.append(_drawn(draw, languages, draw.choice((in_order, [[3], [2], [0], [1]]))))
    with room_for(student, "ddp_step") as room:
        for case in cases:
            got = asked_of_ranks(room, "ddp_step", case, hung=HUNG)
            answers, trace = answers_and_deeds(got, len(case))
            _expect_params(answers, trace, case)
            for rank, did in enumerate(trace):
                _expect_deeds(did, case[rank], rank)


def _drawn(draw: Draw, languages: list[list[int]], buckets: list[list[int]]) -> list[Rank]:
    """languages[r]: of the batches of rank r."""
    d, v, lr = draw.integer(6, 8), draw.integer(9, 13), draw.choice((0.25, 0.5))
    return [
        (
            [draw.tensor(d, d), draw.tensor(d, d), draw.tensor(v, d), draw.tensor(v)],
            [_batch(draw, d, v, language) for language in of_rank],
            buckets,
            lr,
        )
        for of_rank in languages
    ]


def _batch(draw: Draw, d: int, v: int, language: int) -> Batch:
    n = draw.integer(2, 5)
    return draw.tensor(n, d), draw.integers(n, low=0, high=v - 1), language


def _expect_params(answers: Sequence[Any], trace: Sequence[Trace], ranks: Ranks) -> None:
    want = stepped(ranks)
    for rank, got in enumerate(answers):
        where = f"on rank {rank}"
        expect_tuple(got, len(NAMES), "the four parameters", where=where, why=FOUR)
        for name, mine, true in zip(NAMES, got, want[rank], strict=True):
            place = f"on rank {rank} of {len(ranks)}, in {name}"
            with within(place, why=lambda: _known(answers, trace, ranks)):
                expect_close(mine, true, tolerance=TOLERANCE)


def _known(answers: Sequence[Any], trace: Sequence[Trace], ranks: Ranks) -> str:
    """The sentence of the fault that leads to these very parameters, or shows in what was done."""
    if any(_reduced_early(did, rank) for did, rank in zip(trace, ranks, strict=True)):
        return EARLY
    sentence = next((f.sentence for f in FAULTS if _leads_to(answers, f, ranks)), "")
    if sentence and not sentence.startswith(MISSING):
        return sentence
    if any(map(nobody_waited, trace)):
        return NOT_WAITED
    if not sentence and any(map(_broadcast_late, trace)):
        return LATE_START
    return sentence or _of_the_steps(answers, ranks)


def _of_the_steps(answers: Sequence[Any], ranks: Ranks) -> str:
    """What the steps have to do with the right ones: how long they are, or which are right; "" for
    what is no tensor of the right shape and dtype."""
    want, start = stepped(ranks), ranks[0][0]
    kinds = [[(t.shape, t.dtype) for t in params] for params in want]
    if not all(isinstance(t, torch.Tensor) for got in answers for t in got):
        return ""
    if [[(t.shape, t.dtype) for t in got] for got in answers] != kinds:
        return ""
    mine = torch.cat([(t - p).flatten().float() for t, p in zip(answers[0], start, strict=True)])
    true = torch.cat([(t - p).flatten() for t, p in zip(want[0], start, strict=True)])
    factor = float((mine @ true) / (true @ true))
    if torch.allclose(mine, factor * true, rtol=0.0, atol=1e-4 * float(true.abs().max())):
        if abs(factor - 1) > 1e-3:
            return f"On rank 0 every step is {factor:.3g} times as long as it should be."
        return "Rank 0 holds the right parameters, and another rank does not."
    right = [
        str(k)
        for k in range(len(NAMES))
        if all(
            is_close(got[k], one[k], tolerance=TOLERANCE)
            for got, one in zip(answers, want, strict=True)
        )
    ]
    if right:
        return f"Right on all ranks are the parameters {', '.join(right)}, and the others are not."
    return "None of the four is right on all ranks. Compare the start, then the gradients."


BESIDE = (
    "The values are right, and more crossed than rank 0's parameters, once, and one all-reduce for "
    "each bucket. A gradient reaches the other ranks in the all-reduce of its bucket alone."
)
FOUR = "Each rank returns its four parameters, in a list."


def _leads_to(answers: Sequence[Any], fault: Fault, ranks: Ranks) -> bool:
    try:
        faulty = fault.answers(ranks)
    except RuntimeError:  # such buckets would not even add up
        return False
    return all(_same(got, of_rank) for got, of_rank in zip(answers, faulty, strict=True))


def _reduced_early(did: Trace, rank: Rank) -> bool:
    """Whether the first bucket started before the last backward did, of one for each batch."""
    below = [k for k, event in enumerate(did) if event == BELOW]
    quiet = below[: len(rank[1]) - 1] if len(below) == len(rank[1]) else []
    return bool(quiet) and ("all_reduce", bucket_bytes(rank)[0]) in did[: quiet[-1]]


def _broadcast_late(did: Trace) -> bool:
    """Whether the first broadcast came after a backward."""
    names = [what for what, _ in did]
    return "broadcast" in names and BELOW[0] in names[: names.index("broadcast")]


def _same(got: Any, want: Params) -> bool:
    return len(got) == len(want) and all(
        is_close(mine, true, tolerance=TOLERANCE) for mine, true in zip(got, want, strict=True)
    )


def _expect_deeds(did: Trace, rank: Rank, number: int) -> None:
    """One all-reduce for each bucket, in order; the head's start before backward has left it."""
    want = bucket_bytes(rank)
    reduced = [nbytes for what, nbytes in sent(did) if what == "all_reduce"]
    if reduced != want:
        why = OTHER_BUCKETS
        if len(reduced) > len(want):  # of the same buckets again, or of something else
            why = SYNCED if set(reduced) <= set(want) else MORE_SENT
        alone = sorted(rank[0][k].nbytes for bucket in rank[2] for k in bucket)
        if len(reduced) > len(want) and sorted(reduced) == alone:
            why = ONE_EACH
        raise Wrong(
            expected=f"all-reduces of {_listed(want)} bytes",
            got=f"of {_listed(reduced)} bytes",
            where=f"on rank {number}",
            why=why,
        )
    _expect_no_more_sent(did, rank, number)
    left_head = (
        max(k for k, event in enumerate(did) if event == BELOW) if BELOW in did else len(did)
    )
    before = [what for what, _ in did[:left_head]]
    early = 0
    while early < len(rank[2]) and HEAD.issuperset(rank[2][early]):
        early += 1
    if before.count("all_reduce") < early:
        expected = f"{early} all-reduces started before backward left the head"
        _out_of_time(number, expected, did[: left_head + 1], TOO_LATE)
    if f"{WAIT}all_reduce" in before:
        _out_of_time(number, "no wait before backward is over", did[: left_head + 1], WAITED)


def _expect_no_more_sent(did: Trace, rank: Rank, number: int) -> None:
    """Beside its buckets a rank receives the parameters of rank 0, and so no gradient but by an
    all-reduce. What rank 0 sends to each of the others is not counted."""
    start = sum(p.nbytes for p in rank[0])
    beside = [d for d in sent(did) if d[0] not in ("all_reduce", "send", "isend")]
    if sum(nbytes for _, nbytes in beside) > start:
        raise Wrong(
            expected=f"beside the all-reduces, at most the {start:,} bytes of the parameters",
            got=", ".join(f"{what} of {nbytes:,} bytes" for what, nbytes in beside),
            where=f"on rank {number}",
            why=BESIDE,
        )


def _out_of_time(rank: int, expected: str, until: Trace, why: str) -> None:
    """until: what the rank did up to that moment."""
    order = [what for what, _ in until if what in (BELOW[0], "all_reduce", f"{WAIT}all_reduce")]
    raise Wrong(expected=expected, got=describe(order), where=f"on rank {rank}", why=why)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(f"{n:,}" for n in numbers) or "no"


for _fault in FAULTS:
    ddp_step.wrong(_fault.name, _fault.sentence, ddp_step=told(_fault.answers))
ddp_step.wrong("synced_each_time", SYNCED, ddp_step=told(stepped, "synced"))
ddp_step.wrong("one_each", ONE_EACH, ddp_step=told(stepped, "each"))
ddp_step.wrong("not_waited", NOT_WAITED, ddp_step=told(alone_divided, "unwaited"))
ddp_step.wrong("hooks_too_early", EARLY, ddp_step=told(first_batch_alone, "early"))
ddp_step.wrong("one_bucket", OTHER_BUCKETS, ddp_step=told(stepped, "one"))
ddp_step.wrong("after_backward", TOO_LATE, ddp_step=told(stepped, "late"))
ddp_step.wrong("waited_in_the_hook", WAITED, ddp_step=told(stepped, "waited"))


@ddp_step.cost
def _(student: Student, draw: Draw) -> str:
    ranks = _drawn(draw, [[0, 0], [1, 1]], [[3, 2], [1], [0]])
    with room_for(student, "ddp_step") as room:
        _, trace = answers_and_deeds(room.call("ddp_step", ranks), len(ranks))
    reduced = [nbytes for what, nbytes in trace[0] if what == "all_reduce"]
    return (
        f"2 ranks, 2 batches each: {len(reduced)} all-reduces of {sum(reduced):,} bytes in all, "
        f"so {sum(reduced):,} bytes sent per rank and step (2 (W - 1) / W of them)"
    )
