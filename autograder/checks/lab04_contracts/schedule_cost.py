"""What a checkpoint schedule costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograder.checks.explaining import saying
from autograder.judge import Draw, Student, expect_equal

from . import lab
from .schedules import (
    Ints,
    Keep,
    again,
    drawn_chain,
    held_at_peak,
    peak,
    peak_never_freed,
    segments,
)

Pair = tuple[int, int]

NO_FLOATS = (
    "Bytes and FLOPs are integers, and so are their sums. A float has 53 bits, and rounds what is "
    "larger."
)


@lab.question(
    "schedule_cost",
    points=3,
    minutes=15,
    difficulty=3,
    hints=(
        "Walk backward with a set of what is held. What comes into it at a layer, and what leaves "
        "it?",
        "For i from the last layer to 0: while i is not held, take the highest held k below i, run "
        "layer k (its FLOPs count) and hold k + 1. Then look at the sum of what is held, then drop "
        "i.",
        "again += flops[nearest]; held.add(nearest + 1)",
    ),
)
def schedule_cost(student: Student, draw: Draw) -> None:
    """What a checkpoint schedule costs: its peak of held activations, and the FLOPs run again.

    nbytes (of activation i, the input of layer i), flops (of layer i's forward), keep (indices,
    rising, the first is 0) -> (peak bytes from the end of the forward on, recomputed FLOPs).
    """
    fixed: list[tuple[Ints, Ints, Keep]] = [
        ([4, 9, 7, 2, 5, 3, 6, 2], [11, 13, 17, 19, 23, 29, 31, 37], [0, 4, 5]),
        ([3, 1, 2, 8, 5, 4, 7, 6], [2, 9, 4, 7, 3, 8, 5, 6], [0, 4, 5]),
        ([3, 1, 2], [2, 3, 5], [0, 1, 2]),
        ([7], [2], [0]),
        ([3, 0, 2], [5, 6, 7], [0, 1]),  # an activation without bytes is kept all the same
        ([3, 0, 2, 1], [5, 6, 7, 0], [0]),  # or made again, and a layer may cost nothing
        ([2**40 + 1, 2**40 + 3, 5, 7], [2**60 + 1, 3, 2**60 + 5, 9], [0, 1]),  # no float has them
        ([2, 3, 1, 4, 2, 5, 3, 1, 6, 4, 2, 7], [5, 1, 4, 2, 6, 3, 7, 2, 5, 4, 1, 3], [0]),
        ([2, 3, 1, 4, 2, 5, 3, 1, 6, 4, 2, 7], [5, 1, 4, 2, 6, 3, 7, 2, 5, 4, 1, 3], [0, 5, 11]),
    ]
    cases = fixed + [_drawn_schedule(draw) for _ in draw.cases(6)]
    for case, got in zip(cases, student.each("schedule_cost", cases), strict=True):
        nbytes, flops, keep = case
        want = peak(nbytes, keep), again(flops, keep)
        with saying(_which(got, want, *case)):
            expect_equal(got, want)


def _which(got: Any, want: Pair, nbytes: Ints, flops: Ints, keep: Keep) -> str:
    """What the two numbers are made of, where one of them is wrong or both."""
    if not isinstance(got, (list, tuple)) or len(got) != len(want):
        return ""
    if list(map(type, got)) != list(map(type, want)):
        return NO_FLOATS if all(isinstance(n, (int, float)) for n in got) else ""
    held = held_at_peak(nbytes, keep)
    ran = [i - 1 for i in range(len(flops)) if i not in keep]
    if got[1] == want[1] and not ran:
        return (
            "The FLOPs are right: nothing runs again. The peak is at the end of the forward, where "
            f"activations {held} are held."
        )
    if got[1] == want[1]:
        return f"The FLOPs are right. The peak comes while activations {held} are held."
    if got[0] == want[0]:
        return f"The peak is right. The layers that run again, each once, are {ran}."
    return f"The peak comes while activations {held} are held; layers {ran} run again, each once."


def _drawn_schedule(draw: Draw) -> tuple[Ints, Ints, Keep]:
    layers = draw.integer(1, 12)
    nbytes, flops = drawn_chain(draw, layers)
    return nbytes, flops, [0, *(k for k in range(1, layers) if draw.integer(0, 1))]


schedule_cost.wrong(
    "kept_only",
    "The peak counts what was kept, and forgets what comes back: in backward a whole segment is "
    "held again, on top of the kept ones below it.",
    schedule_cost=lambda nbytes, flops, keep: (sum(nbytes[k] for k in keep), again(flops, keep)),
)
schedule_cost.wrong(
    "nothing_freed",
    "The peak adds the largest segment to all that was kept. When backward comes to an early "
    "segment, the activations above it are gone.",
    schedule_cost=lambda nbytes, flops, keep: (peak_never_freed(nbytes, keep), again(flops, keep)),
)
schedule_cost.wrong(
    "all_at_once",
    "This peak is every activation at once, as in a run without checkpoints. When a layer's "
    "backward is done its activation goes, before the segment below comes back.",
    schedule_cost=lambda nbytes, flops, keep: (sum(nbytes), again(flops, keep)),
)


@schedule_cost.wrong(
    "nothing_stays",
    "The way from the kept activation was run anew for every layer. What came back on the way "
    "stays: each activation is computed again once.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> Pair:
    nearest = {i: max(k for k in keep if k <= i) for i in range(len(nbytes))}
    return peak(nbytes, keep), sum(sum(flops[k:i]) for i, k in nearest.items())


@schedule_cost.wrong(
    "layer_above",
    "The FLOPs are those of the layer that reads the missing activation. The one that writes it "
    "has to run: layer i - 1 for activation i.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> Pair:
    return peak(nbytes, keep), sum(flops[i] for i in range(len(flops)) if i not in keep)


@schedule_cost.wrong(
    "whole_segments",
    "Each segment was run to its end. Its last layer's output is the next kept activation, or the "
    "result: nobody needs it again.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> Pair:
    long = [(s, e) for s, e in segments(len(nbytes), keep) if e - s > 1]
    return peak(nbytes, keep), sum(sum(flops[s:e]) for s, e in long)


def _walked(nbytes: Ints, flops: Ints, keep: Keep, back: Callable[[set[int], int], range]) -> Pair:
    """A walk that runs layers `back(held, i)` again for a missing activation i."""
    held, run_again = set(keep), 0
    most = sum(nbytes[k] for k in held)
    for i in reversed(range(len(nbytes))):
        if i not in held:
            ran = back(held, i)
            run_again += sum(flops[k] for k in ran)
            held |= {k + 1 for k in ran}
        most = max(most, sum(nbytes[k] for k in held))
        held.discard(i)
    return most, run_again


@schedule_cost.wrong(
    "from_the_start",
    "The way back began at activation 0. It begins at the nearest kept one below: what lies under "
    "it need not run again.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> Pair:
    return _walked(nbytes, flops, keep, lambda held, i: range(i))


@schedule_cost.wrong(
    "nothing_held_on_the_way",
    "The way from the kept activation was run anew for every layer, and what it passed was let go. "
    "What comes back on the way stays, and counts in the peak, until its own layer is done.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> Pair:
    held, run_again, most = set(keep), 0, sum(nbytes[k] for k in keep)
    for i in reversed(range(len(nbytes))):
        run_again += 0 if i in held else sum(flops[max(k for k in held if k < i) : i])
        most = max(most, sum(nbytes[k] for k in held | {i}))
        held.discard(i)
    return most, run_again


@schedule_cost.wrong(
    "gone_too_early",
    "The peak was taken too early or too late: activation i, or the way to it, was not held. "
    "While layer i's backward runs it reads activation i: recompute, take the peak, then drop.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> Pair:
    inside = [
        sum(nbytes[k] for k in keep if k < start) + sum(nbytes[start : end - 1])
        for start, end in segments(len(nbytes), keep)
    ]
    return max(sum(nbytes[k] for k in keep), *inside, 0), again(flops, keep)


schedule_cost.wrong(
    "segment_alone",
    "The peak is that of a segment alone. What is kept below it is held, too, until backward comes "
    "there.",
    schedule_cost=lambda nbytes, flops, keep: (
        max(sum(nbytes[start:end]) for start, end in segments(len(nbytes), keep)),
        again(flops, keep),
    ),
)
schedule_cost.wrong(
    "largest_alone",
    "The peak is the largest activation. All that is held at one time adds up.",
    schedule_cost=lambda nbytes, flops, keep: (max(nbytes), again(flops, keep)),
)
schedule_cost.wrong(
    "counted",
    "The peak is a number of activations. They differ in size: add up their bytes.",
    schedule_cost=lambda nbytes, flops, keep: (peak([1] * len(nbytes), keep), again(flops, keep)),
)
schedule_cost.wrong(
    "everything_again",
    "All the layers ran again. A kept activation is not made a second time, and nobody needs what "
    "the last layer writes.",
    schedule_cost=lambda nbytes, flops, keep: (peak(nbytes, keep), sum(flops)),
)


@schedule_cost.wrong(
    "one_at_a_time",
    "The peak has one activation beside the kept ones. A missing one is made from those on the way "
    "to it, and they stay: while a segment goes back, all of it is held.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> Pair:
    moments = [{k for k in keep if k <= i} | {i} for i in range(len(nbytes))]
    return max(sum(nbytes[k] for k in held) for held in moments), again(flops, keep)


schedule_cost.wrong(
    "result_held",
    "The bytes of the last activation are counted once too often in the peak. Each activation that "
    "is held counts once.",
    schedule_cost=lambda nbytes, flops, keep: (
        peak(nbytes, keep) + nbytes[-1],
        again(flops, keep),
    ),
)
schedule_cost.wrong(
    "run_twice",
    "The FLOPs are twice those that run again: each missing activation is made again once.",
    schedule_cost=lambda nbytes, flops, keep: (peak(nbytes, keep), 2 * again(flops, keep)),
)
schedule_cost.wrong(
    "backward_counted",
    "The FLOPs of the backward were added. Asked for are those of the layers that run forward "
    "again.",
    schedule_cost=lambda nbytes, flops, keep: (
        peak(nbytes, keep),
        again(flops, keep) + 2 * sum(flops),
    ),
)
schedule_cost.wrong(
    "flops_times_bytes",
    "The FLOPs of a layer were multiplied with bytes. They are added up as they are.",
    schedule_cost=lambda nbytes, flops, keep: (
        peak(nbytes, keep),
        sum(flops[i - 1] * nbytes[i - 1] for i in range(len(flops)) if i not in keep),
    ),
)


@schedule_cost.wrong(
    "one_step_back",
    "One layer is run for a missing activation, the one behind the nearest that is held. As long "
    "as the activation itself is missing the next one has to run: while, not if.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> Pair:
    def once(held: set[int], i: int) -> range:
        nearest = max(k for k in held if k < i)
        return range(nearest, nearest + 1)

    return _walked(nbytes, flops, keep, once)


@schedule_cost.wrong(
    "last_segment_on_top",
    "The peak is that of the last segment. An earlier one may be larger: look at each.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> Pair:
    last = sum(nbytes[k] for k in keep) + sum(nbytes[keep[-1] + 1 :])
    return last, again(flops, keep)


@schedule_cost.wrong(
    "input_not_counted",
    "Activation 0 is missing from the peak. It is kept to the end: layer 0 reads it.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> Pair:
    return peak([0, *nbytes[1:]], keep), again(flops, keep)


schedule_cost.wrong(
    "flops_first",
    "Both numbers are right, in the other order: (peak bytes, recomputed FLOPs) was asked for.",
    schedule_cost=lambda nbytes, flops, keep: (again(flops, keep), peak(nbytes, keep)),
)


@schedule_cost.wrong(
    "from_the_start_each_time",
    "The way back began at activation 0. It begins at the nearest kept one below: what lies under "
    "it need not run again.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> Pair:
    most = max(sum(nbytes[k] for k in {*keep[: keep.index(s) + 1], i})
               for s, e in segments(len(nbytes), keep) for i in range(s, e))  # fmt: skip
    most = max(most, sum(nbytes[k] for k in keep))
    return most, sum(sum(flops[:i]) for i in range(len(nbytes)) if i not in keep)


@schedule_cost.wrong(
    "from_the_start_beside_what_is_held",
    "The way back began at activation 0. It begins at the nearest kept one below: what lies under "
    "it need not run again.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> Pair:
    last = [end - 1 for start, end in segments(len(nbytes), keep) if end - start > 1]
    return peak(nbytes, keep), sum(sum(flops[:i]) for i in last)


@schedule_cost.wrong(
    "last_input_still_there",
    "The last layer's input was taken for held when backward begins. Only what is in `keep` stays "
    "behind the forward: the last activation is made again too.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> Pair:
    def from_the_nearest(held: set[int], i: int) -> range:
        return range(max(k for k in held if k < i), i)

    return _walked(nbytes, flops, sorted({*keep, len(nbytes) - 1}), from_the_nearest)


schedule_cost.wrong(
    "forward_counted",
    "The FLOPs of the first forward were added. Asked for are those of the layers that run again.",
    schedule_cost=lambda nbytes, flops, keep: (
        peak(nbytes, keep),
        again(flops, keep) + sum(flops),
    ),
)
schedule_cost.wrong(
    "all_but_the_last",
    "All layers but the last ran again, whatever was kept. A layer whose output was kept does not "
    "run again.",
    schedule_cost=lambda nbytes, flops, keep: (peak(nbytes, keep), sum(flops[:-1])),
)
schedule_cost.wrong(
    "layers_counted",
    "The second number is how many layers run again. Asked for are their FLOPs.",
    schedule_cost=lambda nbytes, flops, keep: (
        peak(nbytes, keep),
        again([1] * len(flops), keep),
    ),
)
schedule_cost.wrong(
    "last_segment_not_run",
    "The last segment was taken for kept. When backward begins its inside is missing as well, and "
    "runs again.",
    schedule_cost=lambda nbytes, flops, keep: (
        peak(nbytes, keep),
        sum(sum(flops[s : e - 1]) for s, e in segments(len(nbytes), keep)[:-1]),
    ),
)


@schedule_cost.wrong(
    "what_came_back_stays",
    "What was made again stays to the end here. When layer i's backward is done activation i goes, "
    "kept or not.",
)
def _(nbytes: Ints, flops: Ints, keep: Keep) -> Pair:
    inside = [
        sum(nbytes[k] for k in keep if k <= s)
        + sum(nbytes[i] for i in range(s, n) if i not in keep)
        for s, n in ((s, len(nbytes)) for s in keep)
    ]
    return max(inside), again(flops, keep)


schedule_cost.wrong(
    "as_a_dict",
    "This is a dict. Two numbers were asked for: (peak bytes, recomputed FLOPs).",
    schedule_cost=lambda nbytes, flops, keep: {
        "peak": peak(nbytes, keep),
        "flops": again(flops, keep),
    },
)
schedule_cost.wrong(
    "peak_alone",
    "This is the peak alone. Two numbers were asked for: (peak bytes, recomputed FLOPs).",
    schedule_cost=lambda nbytes, flops, keep: peak(nbytes, keep),
)


@schedule_cost.cost
def _(student: Student, draw: Draw) -> str:
    layers, step = 64, 8
    ones, keep = [1] * layers, list(range(0, layers, step))
    held, ran = student.call("schedule_cost", ones, ones, keep)
    return (
        f"{layers} equal layers, every {step}th kept: {held} activations at most instead of "
        f"{layers}, {ran} layers run again: {ran / (3 * layers):.0%} more compute, where a "
        "backward is two forwards"
    )
