"""Steps of DDP with one fault each, as one process can foretell them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch

from .language_net import (
    HEAD,
    Batch,
    Params,
    Ranks,
    bucket_bytes,
    gradients,
    mean,
    moved,
    own_gradients,
    stepped,
)
from .trace_events import BELOW, WAIT, Fault, Trace


def own_start(ranks: Ranks) -> list[Params]:
    """Nobody broadcasts."""
    grads = mean([gradients(params, batches) for params, batches, _, _ in ranks])
    return [moved(params, grads, lr) for params, _, _, lr in ranks]


def mean_start(ranks: Ranks) -> list[Params]:
    """All start from the mean of what the ranks hold."""
    start = mean([params for params, _, _, _ in ranks])
    return stepped([(start, batches, buckets, lr) for _, batches, buckets, lr in ranks])


def alone(ranks: Ranks) -> list[Params]:
    """Nobody all-reduces."""
    start, lr = ranks[0][0], ranks[0][3]
    return [moved(start, grads, lr) for grads in own_gradients(ranks)]


def alone_divided(ranks: Ranks) -> list[Params]:
    """Nobody all-reduces, and all divide."""
    start, lr = ranks[0][0], ranks[0][3] / len(ranks)
    return [moved(start, grads, lr) for grads in own_gradients(ranks)]


def summed(ranks: Ranks) -> list[Params]:
    """Nobody divides."""
    start, lr = ranks[0][0], ranks[0][3] * len(ranks)
    return [moved(start, mean(own_gradients(ranks)), lr) for _ in ranks]


def still(ranks: Ranks) -> list[Params]:
    """All as rank 0 started."""
    return [ranks[0][0] for _ in ranks]


def untouched(ranks: Ranks) -> list[Params]:
    """Each as it started."""
    return [params for params, _, _, _ in ranks]


def uphill(ranks: Ranks) -> list[Params]:
    """The step has the wrong sign."""
    start, lr = ranks[0][0], -ranks[0][3]
    return [moved(start, mean(own_gradients(ranks)), lr) for _ in ranks]


def last_batch_alone(ranks: Ranks) -> list[Params]:
    """The quiet batches are forgotten."""
    return stepped([(params, batches[-1:], buckets, lr) for params, batches, buckets, lr in ranks])


def unused_now(ranks: Ranks) -> list[Params]:
    """What the last batch does not use counts as zero, whatever came before."""
    start, lr, each = ranks[0][0], ranks[0][3], []
    for _, batches, _, _ in ranks:
        grads = gradients(start, batches)
        idle = 1 - batches[-1][2]
        grads[idle] = torch.zeros_like(grads[idle])
        each.append(grads)
    return [moved(start, mean(each), lr) for _ in ranks]


def quiet_batches_alone(ranks: Ranks) -> list[Params]:
    """The last gradient is not in .grad yet when it is read there."""
    start, lr = ranks[0][0], ranks[0][3]
    each = [_quiet(start, r[1]) for r in ranks]
    return [moved(start, mean(each), lr) for _ in ranks]


def _quiet(start: Params, batches: Sequence[Batch]) -> Params:
    """The gradients before the last backward."""
    return gradients(start, batches[:-1]) if batches[1:] else [torch.zeros_like(p) for p in start]


def sent_before_added(ranks: Ranks) -> list[Params]:
    """A hook that starts a bucket runs before its own gradient is in .grad."""
    return _as_read(ranks)


def quiet_arrivals(ranks: Ranks) -> list[Params]:
    """A bucket starts when its gradients arrived in any of the batches."""
    return _as_read(ranks, quiet_count=True)


def at_the_first(ranks: Ranks) -> list[Params]:
    """A bucket starts when the first of its gradients arrives."""
    return _as_read(ranks, at_the_first=True)


def _as_read(
    ranks: Ranks, *, quiet_count: bool = False, at_the_first: bool = False
) -> list[Params]:
    """With .grad as it is when a bucket starts in the last backward; without the gradient whose
    hook starts it, if neither."""
    start, lr, each = ranks[0][0], ranks[0][3], []
    for _, batches, buckets, _ in ranks:
        grads, before = gradients(start, batches), _quiet(start, batches)
        used = [3, 2, batches[-1][2]]
        seen = {k for _, _, language in batches[:-1] for k in (3, 2, language) if quiet_count}
        left = list(buckets)
        for place, k in enumerate(used):
            seen.add(k)
            while left and (seen & {*left[0]} if at_the_first else seen >= {*left[0]}):
                there = place + (quiet_count or at_the_first)
                for late in set(left.pop(0)).intersection(used[there:]):
                    grads[late] = before[late]
        each.append(grads)
    return [moved(start, mean(each), lr) for _ in ranks]


def as_the_hook_was_given(ranks: Ranks) -> list[Params]:
    """What a tensor's hook is given: the last batch's gradient; of the unused adapter, .grad."""
    start, lr, each = ranks[0][0], ranks[0][3], []
    for _, batches, _, _ in ranks:
        grads, idle = gradients(start, batches[-1:]), 1 - batches[-1][2]
        grads[idle] = gradients(start, batches)[idle]
        each.append(grads)
    return [moved(start, mean(each), lr) for _ in ranks]


def mean_of_batches(ranks: Ranks) -> list[Params]:
    """Divided by the number of batches besides."""
    start, lr = ranks[0][0], ranks[0][3]
    each = [
        [g / len(r[1]) for g in own] for own, r in zip(own_gradients(ranks), ranks, strict=True)
    ]
    return [moved(start, mean(each), lr) for _ in ranks]


def own_adapters_stepped(ranks: Ranks) -> list[Params]:
    """A rank steps what it used itself."""
    right = stepped(ranks)
    used = [{2, 3} | {language for _, _, language in batches} for _, batches, _, _ in ranks]
    return [
        [p if k in mine else ranks[0][0][k] for k, p in enumerate(params)]
        for params, mine in zip(right, used, strict=True)
    ]


def first_batch_alone(ranks: Ranks) -> list[Params]:
    """What the hooks send if they are there from the first batch on, and send once."""
    return stepped([(params, batches[:1], buckets, lr) for params, batches, buckets, lr in ranks])


def late_ones_summed(ranks: Ranks) -> list[Params]:
    """A rank divides what starts in its hooks, and not what starts after backward."""
    start, lr, each = ranks[0][0], ranks[0][3], []
    for own, (_, batches, buckets, _) in zip(own_gradients(ranks), ranks, strict=True):
        used = {2, 3, batches[-1][2]}
        early = itertools.takewhile(used.issuperset, buckets)
        divided = set(itertools.chain(*early))
        each.append([g if k in divided else g * len(ranks) for k, g in enumerate(own)])
    return [moved(start, mean(each), lr) for _ in ranks]


def taken_apart_in_rising_order(ranks: Ranks) -> list[Params]:
    """What comes back for a bucket is read in the order of its parameters' numbers."""
    start, _, buckets, lr = ranks[0]
    grads = mean(own_gradients(ranks))
    found = list(grads)
    for bucket in buckets:
        flat, rising = torch.cat([grads[k].flatten() for k in bucket]), sorted(bucket)
        parts = torch.split(flat, [start[k].numel() for k in rising])
        for k, part in zip(rising, parts, strict=True):
            found[k] = part.view_as(start[k])
    return [moved(start, found, lr) for _ in ranks]


def when_full(ranks: Ranks) -> list[Params]:
    """Each bucket starts when it is full: the k-th of one rank meets the k-th of another."""
    start, lr, grads = ranks[0][0], ranks[0][3], own_gradients(ranks)
    orders = [_full_order(rank[2], rank[1][-1][2]) for rank in ranks]
    after = [[p.clone() for p in start] for _ in ranks]
    for meeting in zip(*orders, strict=True):
        flats = [
            torch.cat([grads[r][k].flatten() for k in bucket]) for r, bucket in enumerate(meeting)
        ]
        if len({len(flat) for flat in flats}) > 1:
            raise RuntimeError("buckets of different sizes met")
        flat = torch.stack(flats).mean(dim=0)
        for r, bucket in enumerate(meeting):
            parts = torch.split(flat, [start[k].numel() for k in bucket])
            for k, part in zip(bucket, parts, strict=True):
                after[r][k] = moved([start[k]], [part.view_as(start[k])], lr)[0]
    return after


def _full_order(buckets: list[list[int]], language: int) -> list[list[int]]:
    """The buckets as they fill up on a rank that reads this language, the unused ones last."""
    arrival = {3: 0, 2: 1, language: 2, 1 - language: 3}
    return sorted(buckets, key=lambda bucket: max(arrival[k] for k in bucket))


MISSING = (
    "Each rank took a step with its own gradients, and the models part at the first step. "
    "All-reduce each bucket, and step with what comes back."
)
STILL = "Nothing moved: the parameters are those from before the step."
FAULTS = (
    Fault("nothing_moved", STILL, still),
    Fault("untouched", f"{STILL} They even differ from rank to rank.", untouched),
    Fault(
        "own_start",
        "The ranks started from parameters of their own. The same steps from different places end "
        "in different places: broadcast those of rank 0 first, into the parameters themselves.",
        own_start,
    ),
    Fault(
        "mean_start",
        "The ranks started from the mean of their parameters. All start as rank 0 does: broadcast "
        "those of rank 0.",
        mean_start,
    ),
    Fault("missing_all_reduce", MISSING, alone),
    Fault(
        "missing_all_reduce_divided",
        "Each rank took a step with its own gradients, and the models part at the first step. "
        "All-reduce each bucket, and step with what comes back. (And these are divided by W.)",
        alone_divided,
    ),
    Fault(
        "not_averaged",
        "The step is W times too long, as where nobody divides by the number of ranks: the "
        "all-reduce adds up.",
        summed,
    ),
    Fault(
        "late_ones_summed",
        "What started after backward was added up over ranks, and not divided by W. All buckets "
        "are averaged, also those that never got full.",
        late_ones_summed,
    ),
    Fault("uphill", "The step went uphill: p -= lr * gradient.", uphill),
    Fault(
        "last_batch_alone",
        "Only the last batch counted. Under no_sync the gradients of the batches before it add up "
        "in .grad, and are sent with the last ones.",
        last_batch_alone,
    ),
    Fault(
        "hook_before_grad",
        "The last batch is missing. A hook of register_hook runs before the gradient is added to "
        ".grad; register_post_accumulate_grad_hook runs after it.",
        quiet_batches_alone,
    ),
    Fault(
        "sent_before_added",
        "Of the gradient that filled a bucket, the last batch's part was not sent. A hook of "
        "register_hook runs before it is added to .grad; register_post_accumulate_grad_hook runs "
        "after it.",
        sent_before_added,
    ),
    Fault(
        "quiet_arrivals_counted",
        "A bucket started before its last gradient was there, as where what arrived in the "
        "batches before the last one counts. Only arrivals of the last backward count.",
        quiet_arrivals,
    ),
    Fault(
        "started_at_the_first",
        "A bucket started at its first gradient, before the others were there. It starts when all "
        "of its parameters have arrived.",
        at_the_first,
    ),
    Fault(
        "gradient_of_the_hook",
        "Of what the last batch used, the batches before it are missing, as where a hook of "
        "register_hook sends what it is given: the gradient of this backward alone. "
        "register_post_accumulate_grad_hook runs after it is added to .grad.",
        as_the_hook_was_given,
    ),
    Fault(
        "mean_of_batches",
        "The steps are those of gradients that were divided by the number of batches besides. They "
        "add up over `batches`, as repeated calls of backward do; the mean is over ranks.",
        mean_of_batches,
    ),
    Fault(
        "own_adapters_stepped",
        "A rank did not step the adapter that it did not use itself. The all-reduce brought what "
        "others learned about it: step all four, or the copies part.",
        own_adapters_stepped,
    ),
    Fault(
        "unused_now",
        "An adapter that only an earlier batch used was sent as zeros. What no hook reports in "
        "the last backward may still have a gradient: take .grad, and zeros only where that is "
        "None.",
        unused_now,
    ),
    Fault(
        "started_when_full",
        "Buckets met that are not the same, as where each rank starts its own as they get full, "
        "and the Spanish adapter's gradient was added to the English one's. All ranks start them "
        "in the order of `buckets`.",
        when_full,
    ),
    Fault(
        "taken_apart_in_rising_order",
        "The gradients of a bucket stand in each other's places, as where its flat tensor is taken "
        "apart in rising order of the numbers. Take it apart in the order in which it was joined.",
        taken_apart_in_rising_order,
    ),
)

SYNCED = (
    "There are more all-reduces than one for each bucket, as where each batch sends. Batches "
    "before the last one send nothing: their gradients wait in .grad."
)
MORE_SENT = (
    "There are more all-reduces than one for each bucket. Rank 0's parameters come by a "
    "broadcast; beside them a step needs the gradients of the buckets alone, averaged over all "
    "ranks."
)
ONE_EACH = (
    "Each gradient travelled alone. A bucket is one message: join its gradients to one flat "
    "tensor, and all-reduce that."
)
EARLY = (
    "An all-reduce as large as the first bucket started before the last batch. Gradients that are "
    "sent there lack what later batches add. Register the hooks after the quiet batches."
)
NOT_WAITED = (
    "A collective was started, and its wait() was never called: until then, what it brings may "
    "not be there. Keep what all_reduce(..., async_op=True) returns, and call its wait()."
)
LATE_START = (
    "A backward ran before the broadcast: its gradients are those of other parameters. All start "
    "as rank 0 does, so the broadcast comes before the first batch."
)
HUNG = (
    "Some ranks were done and others were not, as where a rank starts fewer buckets than another, "
    "which waits for ever. After backward start those that never got full, whether or not their "
    "parameters were used here."
)
OTHER_BUCKETS = (
    "The values are right, and the all-reduces are not those of `buckets`: one for each, with the "
    "gradients of its members in one flat tensor, in this order."
)
TOO_LATE = (
    "The values are right, but an all-reduce of the head's gradients started after backward had "
    "left the head: it could have gone on beside the rest of backward. In the hook that fills a "
    "bucket start it, if all before it have started, and then each one behind it that is full."
)
WAITED = (
    "The values are right, but the rank waited for an all-reduce before backward had left the "
    "head, as where a hook waits: backward stands still meanwhile. Start it with async_op=True, "
    "and wait when backward is over."
)


def _deeds(ranks: Ranks, rank: int, head: str) -> Trace:
    """A right rank's trace, but for what happens between the head and the rest."""
    _, batches, buckets, _ = ranks[rank]
    sizes = bucket_bytes(ranks[rank])
    early = 0
    while early < len(buckets) and HEAD.issuperset(buckets[early]):
        early += 1
    starts: Trace = [("all_reduce", n) for n in sizes]
    waits: Trace = [(f"{WAIT}all_reduce", n) for n in sizes]
    quiet = [BELOW] * (len(batches) - 1)
    if head == "late":
        return [*quiet, BELOW, *starts, *waits]
    if head == "waited":
        pairs = [event for pair in zip(starts, waits, strict=True) for event in pair]
        return [*quiet, *pairs[: 2 * early], BELOW, *pairs[2 * early :]]
    if head == "synced":
        once = [*starts[:early], BELOW, *starts[early:], *waits]
        return once * len(batches)
    if head == "unwaited":
        return [*quiet, *starts[:early], BELOW, *starts[early:]]
    if head == "early":
        return [*starts[:early], BELOW, *starts[early:], *[BELOW] * (len(batches) - 1), *waits]
    if head == "each":
        params, _, _, _ = ranks[rank]
        alone = [params[k].nbytes for bucket in buckets for k in bucket]
        return [*quiet, BELOW, *(("all_reduce", n) for n in alone)]
    if head == "one":
        return [*quiet, BELOW, ("all_reduce", sum(sizes)), (f"{WAIT}all_reduce", sum(sizes))]
    return [*quiet, *starts[:early], BELOW, *starts[early:], *waits]


def told(
    answers: Callable[..., Sequence[Params]], head: str = ""
) -> Callable[[Ranks], list[tuple[Params, Trace]]]:
    """The function that a known wrong answer is: parameters, and what the ranks did. head: "late",
    "waited", "unwaited", "early", "synced", "each" or "one" for what went wrong in time."""

    def ddp_step(per_rank: Ranks) -> list[tuple[Params, Trace]]:
        each = answers(per_rank)
        return [(params, _deeds(per_rank, r, head)) for r, params in enumerate(each)]

    return ddp_step
