"""The buckets of DDP."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch._C._distributed_c10d import _compute_bucket_assignment_by_size

from autograder.judge import Draw, Student, expect_equal

from . import lab

Sizes = Sequence[int]
Buckets = list[list[int]]


@lab.question(
    "bucket_order",
    points=3,
    minutes=6,
    difficulty=2,
    hints=(
        "Walk through the parameters as their gradients come. When do you look at what the open "
        "bucket holds: before or after you put the next one in?",
        "for k in reversed(range(len(nbytes))): if the open bucket holds cap bytes already, open "
        "a new one; then put k in. The last bucket may hold less.",
        "if held >= cap: buckets.append([]); held = 0",
    ),
)
def bucket_order(student: Student, draw: Draw) -> None:
    """The buckets of DDP, as lists of parameter numbers, in the order in which they are full.

    nbytes (of each gradient, in the order of the parameters), cap -> list of lists. Gradients come
    from the last parameter to the first; a bucket is closed when it holds `cap` bytes or more.
    """
    cases = [
        ([6, 2, 9, 1, 5, 3], 7),
        ([8, 4, 4, 8], 8),
        ([4, 4, 4, 4, 4], 8),
        ([3], 100),
        ([], 8),
        ([0, 0, 0], 8),
        ([5, 0, 0, 0, 6], 8),
        ([4, 8, 12], 4),  # each is full alone
        ([0, 0, 5, 4], 8),  # what is left over has no bytes
        ([0, 5, 0, 8, 3, 0], 8),  # a parameter without elements is one all the same
        ([6, 5, 2, 4, 4, 3], 8),  # two buckets hold one byte less than the cap, and go on
        ([2**20, 2**20, 2**20], 25 * 2**20),  # DDP's own cap; its first bucket is of 1 MiB there
        *(_drawn(draw) for _ in draw.cases(6)),
    ]
    for case, got in zip(cases, student.each("bucket_order", cases), strict=True):
        want = torchs_buckets(*case)
        expect_equal(got, want, why=_because(got, want, *case))


EMPTY = (
    "The last bucket is empty. At the end a bucket is put away only if a parameter is left in it."
)


def _because(got: Any, want: Buckets, nbytes: Sizes, cap: int) -> str:
    """Which parameter is lost or twice there, or which bucket is closed too early or too late; ""
    where the verdict has a better word."""
    if got is None or not isinstance(got, (list, tuple)):
        return ""
    if not all(isinstance(bucket, (list, tuple)) for bucket in got):
        return "A list of lists is asked for, one for each bucket."
    if got and not got[-1]:
        return EMPTY
    if not all(isinstance(k, int) for bucket in got for k in bucket):
        return ""
    found = Counter(k for bucket in got for k in bucket)
    for k in range(len(nbytes)):
        if found[k] != 1 and set(found) <= set(range(len(nbytes))):
            if not found[k]:
                return f"Parameter {k} is in no bucket. Each of them is in one bucket, once."
            return f"Parameter {k} is there {found[k]} times. Each of them is in one bucket, once."
    if set(found) - set(range(len(nbytes))):
        return ""
    pairs = enumerate(zip(got, want, strict=False))
    differ = [place for place, (a, b) in pairs if list(a) != b]
    if not differ:
        return ""
    k = differ[0]
    mine, held = list(got[k]), sum(nbytes[j] for j in got[k])
    if mine[: len(want[k])] == want[k]:
        return f"Bucket {k} was full, with {cap} bytes or more, before its last parameter came."
    if mine == want[k][: len(mine)]:
        return f"Bucket {k} holds {held} bytes. It is closed as soon as it holds {cap}, not before."
    return (
        f"Bucket {k} is not what comes next: gradients come from the last parameter to the first."
    )


def _drawn(draw: Draw) -> tuple[list[int], int]:
    nbytes = [4 * draw.integer(1, 12) for _ in range(draw.integer(4, 12))]
    return nbytes, 4 * draw.integer(6, 24)


def torchs_buckets(nbytes: Sizes, cap: int) -> Buckets:
    """As torch's reducer does it, given parameters in the order of their gradients."""
    gradients = [torch.empty(n, dtype=torch.uint8) for n in reversed(nbytes)]
    if not gradients:
        return []
    buckets, _ = _compute_bucket_assignment_by_size(gradients, [cap])
    return [[len(nbytes) - 1 - k for k in bucket] for bucket in buckets]


def _filled(order: Sequence[int], nbytes: Sizes, cap: int) -> Buckets:
    """Parameters in this order, a bucket closed when it holds `cap`."""
    buckets: Buckets = []
    held = cap
    for k in order:
        if held >= cap:
            buckets.append([])
            held = 0
        buckets[-1].append(k)
        held += nbytes[k]
    return buckets


bucket_order.wrong(
    "first_to_last",
    "The buckets follow the order of the parameters. Backward reaches the last one first: in this "
    "order nothing could be sent before backward is over.",
    bucket_order=lambda nbytes, cap: _filled(range(len(nbytes)), nbytes, cap),
)


@bucket_order.wrong(
    "filled_forwards",
    "These are the buckets that come of filling from the first parameter on, in reverse order. "
    "What is left over must be at the first parameters, whose gradients come last.",
)
def _(nbytes: Sizes, cap: int) -> Buckets:
    return [bucket[::-1] for bucket in _filled(range(len(nbytes)), nbytes, cap)[::-1]]


bucket_order.wrong(
    "sorted_inside",
    "The order of the buckets is right; within each, the numbers stand in rising order. Write "
    "down the order in which the gradients come.",
    bucket_order=lambda nbytes, cap: [sorted(bucket) for bucket in torchs_buckets(nbytes, cap)],
)


@bucket_order.wrong(
    "never_over",
    "A bucket was closed before it could hold more than cap. A gradient is never split, and cap "
    "is no upper limit: a bucket is closed once it has reached cap.",
)
def _(nbytes: Sizes, cap: int) -> Buckets:
    buckets: Buckets = []
    for k in reversed(range(len(nbytes))):
        if not buckets or sum(nbytes[j] for j in buckets[-1]) + nbytes[k] > cap:
            buckets.append([])
        buckets[-1].append(k)
    return buckets


bucket_order.wrong(
    "over_the_cap",
    "A bucket that holds exactly cap bytes stayed open. It is closed as soon as it holds cap or "
    "more.",
    bucket_order=lambda nbytes, cap: torchs_buckets(nbytes, cap + 1),
)


@bucket_order.wrong(
    "closed_at_exactly_cap",
    "A bucket that went past cap stayed open: only one with exactly cap bytes was closed. It is "
    "closed as soon as it holds cap or more.",
)
def _(nbytes: Sizes, cap: int) -> Buckets:
    buckets, bucket = list[list[int]](), list[int]()
    for k in reversed(range(len(nbytes))):
        bucket = [*bucket, k]
        if sum(nbytes[j] for j in bucket) == cap:
            buckets, bucket = [*buckets, bucket], []
    return [*buckets, bucket] if bucket else buckets


@bucket_order.wrong(
    "last_bucket_lost",
    "The first parameters are in no bucket: what is left at the end is less than cap, and a "
    "bucket all the same. Their gradients would never be averaged.",
)
def _(nbytes: Sizes, cap: int) -> Buckets:
    return [b for b in torchs_buckets(nbytes, cap) if sum(nbytes[k] for k in b) >= cap]


@bucket_order.wrong(
    "empty_bucket",
    EMPTY,
)
def _(nbytes: Sizes, cap: int) -> Buckets:
    buckets = torchs_buckets(nbytes, cap)
    full = not buckets or sum(nbytes[k] for k in buckets[-1]) >= cap
    return [*buckets, []] if full else buckets


@bucket_order.wrong(
    "their_bytes",
    "The buckets are right, and hold the gradients' bytes. Asked for are the numbers of the "
    "parameters.",
)
def _(nbytes: Sizes, cap: int) -> Buckets:
    return [[nbytes[k] for k in bucket] for bucket in torchs_buckets(nbytes, cap)]


@bucket_order.wrong(
    "counted_from_the_end",
    "The numbers are places in the reversed list. Parameter k keeps its number k.",
)
def _(nbytes: Sizes, cap: int) -> Buckets:
    return [[len(nbytes) - 1 - k for k in bucket] for bucket in torchs_buckets(nbytes, cap)]


@bucket_order.wrong(
    "bytes_not_forgotten",
    "Once one bucket was full, every gradient got a bucket of its own: a new bucket starts with 0 "
    "bytes.",
)
def _(nbytes: Sizes, cap: int) -> Buckets:
    first, others = torchs_buckets(nbytes, cap)[:1], torchs_buckets(nbytes, cap)[1:]
    return [*first, *([k] for bucket in others for k in bucket)]


bucket_order.wrong(
    "one_each",
    "Each gradient got a bucket of its own. A collective costs time however small it is: let a "
    "bucket hold cap bytes.",
    bucket_order=lambda nbytes, cap: [[k] for k in reversed(range(len(nbytes)))],
)


@bucket_order.wrong(
    "empty_ones_left_out",
    "A parameter whose gradient has 0 bytes is in no bucket. It is a parameter all the same, and "
    "has its place in the order.",
)
def _(nbytes: Sizes, cap: int) -> Buckets:
    kept = [[k for k in bucket if nbytes[k]] for bucket in torchs_buckets(nbytes, cap)]
    return [bucket for bucket in kept if bucket]


@bucket_order.wrong(
    "overshoot_carried_on",
    "What a bucket held beyond cap was counted for the next one too. A new bucket starts with 0 "
    "bytes.",
)
def _(nbytes: Sizes, cap: int) -> Buckets:
    buckets, bucket, held = list[list[int]](), list[int](), 0
    for k in reversed(range(len(nbytes))):
        bucket, held = [*bucket, k], held + nbytes[k]
        if held >= cap:
            buckets, bucket, held = [*buckets, bucket], [], held - cap
    return [*buckets, bucket] if bucket else buckets


bucket_order.wrong(
    "counted_not_weighed",
    "All parameters are in one bucket, whatever their bytes, as where `cap` counts parameters. "
    "`cap` is a number of bytes: a bucket is closed once it holds so many.",
    bucket_order=lambda nbytes, cap: torchs_buckets([1] * len(nbytes), cap),
)
bucket_order.wrong(
    "last_bucket_first",
    "The buckets are right, the last one first. The bucket that is full first is sent first.",
    bucket_order=lambda nbytes, cap: torchs_buckets(nbytes, cap)[::-1],
)


@bucket_order.wrong(
    "one_byte_short",
    "A bucket was closed before it could hold cap. It is closed once it has reached cap, with the "
    "gradient that takes it there.",
)
def _(nbytes: Sizes, cap: int) -> Buckets:
    buckets: Buckets = []
    for k in reversed(range(len(nbytes))):
        if not buckets or sum(nbytes[j] for j in buckets[-1]) + nbytes[k] >= cap:
            buckets.append([])
        buckets[-1].append(k)
    return buckets


@bucket_order.wrong(
    "left_over_joined",
    "What was left over was put into the last full bucket, which waits for it then. It is a bucket "
    "of its own, with less than cap.",
)
def _(nbytes: Sizes, cap: int) -> Buckets:
    buckets = torchs_buckets(nbytes, cap)
    if len(buckets) < 2 or sum(nbytes[k] for k in buckets[-1]) >= cap:
        return buckets
    return [*buckets[:-2], [*buckets[-2], *buckets[-1]]]


@bucket_order.wrong(
    "large_ones_alone",
    "A gradient of cap bytes or more got a bucket of its own, and the open one was closed for it. "
    "It fills the open one.",
)
def _(nbytes: Sizes, cap: int) -> Buckets:
    buckets, bucket = list[list[int]](), list[int]()
    for k in reversed(range(len(nbytes))):
        if nbytes[k] >= cap and bucket:
            buckets, bucket = [*buckets, bucket], []
        bucket = [*bucket, k]
        if sum(nbytes[j] for j in bucket) >= cap:
            buckets, bucket = [*buckets, bucket], []
    return [*buckets, bucket] if bucket else buckets


@bucket_order.wrong(
    "left_over_without_bytes",
    "Parameters without bytes that are left over at the end are in no bucket. Ask whether the open "
    "bucket holds parameters, not whether it holds bytes.",
)
def _(nbytes: Sizes, cap: int) -> Buckets:
    buckets = torchs_buckets(nbytes, cap)
    left_over = buckets[-1] if buckets else []
    return buckets if sum(nbytes[k] for k in left_over) else buckets[:-1]


bucket_order.wrong(
    "one_list",
    "A list of lists is asked for, one for each bucket.",
    bucket_order=lambda nbytes, cap: list(itertools.chain(*torchs_buckets(nbytes, cap))),
)
bucket_order.wrong(
    "numbered_from_one",
    "Parameters are numbered from 0.",
    bucket_order=lambda nbytes, cap: [
        [k + 1 for k in bucket] for bucket in torchs_buckets(nbytes, cap)
    ],
)
bucket_order.wrong(
    "found_by_their_bytes",
    "All parameters of as many bytes have one number, that of the first of them, as index() finds "
    "it. Count the numbers down instead.",
    bucket_order=lambda nbytes, cap: [
        [list(nbytes).index(nbytes[k]) for k in bucket] for bucket in torchs_buckets(nbytes, cap)
    ],
)
bucket_order.wrong(
    "smallest_first",
    "The gradients were sorted by their bytes. A bucket fills in the order in which backward "
    "reaches them: from the last parameter to the first.",
    bucket_order=lambda nbytes, cap: _filled(
        sorted(range(len(nbytes)), key=lambda k: nbytes[k]), nbytes, cap
    ),
)


@bucket_order.cost
def _(student: Student, draw: Draw) -> str:
    nbytes = [4 * 64 * 64, 4 * 64] * 24 + [4 * 600 * 64, 4 * 600]
    buckets = student.call("bucket_order", nbytes, 100_000)
    sizes = [sum(nbytes[k] for k in bucket) for bucket in buckets]
    return (
        f"{len(nbytes)} parameters of {sum(nbytes):,} bytes, cap 100,000: {len(buckets)} "
        f"all-reduces, the first of {sizes[0]:,} bytes when {len(buckets[0])} of {len(nbytes)} "
        "gradients are there"
    )
