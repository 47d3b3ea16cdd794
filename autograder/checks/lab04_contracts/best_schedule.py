"""The best checkpoint schedule for a byte budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from autograder.judge import Draw, Student, Wrong, describe, expect_equal

from . import lab
from .schedules import (
    Ints,
    Keep,
    again,
    drawn_chain,
    every_schedule,
    peak,
    peak_never_freed,
    segments,
)

LOWEST = (
    "No schedule has a lower peak than this one. The budget allows more: use it, and recompute "
    "less."
)


@lab.question(
    "best_schedule",
    points=4,
    minutes=8,
    difficulty=3,
    hints=(
        "With at most 10 layers there are at most 512 schedules. What do you need to know of each?",
        "Make every list that begins with 0, drop those whose peak (4.7) is over the budget, and "
        "take the one with the fewest FLOPs. itertools.combinations makes the lists.",
        "return min(fitting, key=again, default=None)",
    ),
)
def best_schedule(student: Student, draw: Draw) -> None:
    """The checkpoint schedule with the fewest recomputed FLOPs whose peak fits into a budget.

    nbytes, flops as in 4.7, at most 10 of them; budget in bytes -> the kept activations as a list
    of indices with 0 among them, or None if no schedule fits.
    """
    fixed: list[tuple[Ints, Ints, int]] = [
        ([1, 6, 5, 7, 8, 7], [8, 6, 2, 5, 4, 7], 16),  # here each wrong peak has its own schedule
        ([6, 4, 5, 4, 1, 7, 6, 7], [4, 5, 4, 2, 11, 12, 3, 10], 34),
        ([8, 9, 7, 7, 7, 7, 2], [8, 11, 7, 1, 4, 2, 4], 38),
        ([5, 4, 3, 6, 2, 1, 6, 1], [6, 2, 7, 1, 8, 3, 5, 4], 18),
        ([5, 4, 3, 6, 2, 1, 6, 1], [6, 2, 7, 1, 8, 3, 5, 4], 28),
        ([3, 3, 3], [1, 1, 1], 8),
        ([3, 3, 3], [1, 1, 1], 5),
        ([1, 1, 1, 1], [0, 5, 6, 7], 3),  # a layer that costs nothing is run again for nothing
        ([1, 1, 1, 1], [5, 0, 6, 7], 3),  # another one, in the middle
        ([1, 1, 1, 1], [6, 5, 0, 7], 3),  # the bytes and the budget of before, and other FLOPs
        ([1, 1, 1], [5, 0, 0], 2),  # what fits recomputes no less than all layers cost
        ([1, 1, 1], [5 * 10**12, 6 * 10**12, 7 * 10**12], 2),
        ([7], [2], 7),
        ([7], [2], 6),
        ([8, 5, 5, 5, 4, 3, 7, 1, 7, 8], [9, 1, 3, 4, 8, 11, 2, 5, 12, 10], 39),
        ([8, 5, 5, 5, 4, 3, 7, 1, 7, 8], [9, 1, 3, 4, 8, 11, 2, 5, 12, 10], 100),
    ]
    for nbytes, flops, budget in fixed + [_drawn_budget(draw) for _ in draw.cases(4)]:
        got = student.call("best_schedule", nbytes, flops, budget)
        _expect_best(got, nbytes, flops, budget)


def _drawn_budget(draw: Draw) -> tuple[Ints, Ints, int]:
    """A budget at the peak of some schedule, or one byte below the lowest of all."""
    nbytes, flops = drawn_chain(draw, draw.integer(2, 9))
    peaks = sorted({peak(nbytes, keep) for keep in every_schedule(len(nbytes))})
    return nbytes, flops, draw.choice([peaks[0] - 1, *peaks])


def _expect_best(got: Any, nbytes: Ints, flops: Ints, budget: int) -> None:
    """Any schedule that fits and that no other one beats: there may be several."""
    fits = [keep for keep in every_schedule(len(nbytes)) if peak(nbytes, keep) <= budget]
    if not fits or got is None:
        return expect_equal(got, None) if not fits else _refused(fits, nbytes, flops)
    keep = _as_schedule(got, len(nbytes))
    if (held := peak(nbytes, keep)) > budget:
        why = "This schedule does not fit: while a segment goes back, all of it is held again."
        raise Wrong(expected=f"a peak of at most {budget:,}", got=f"{held:,}", why=why)
    best, mine = min(again(flops, other) for other in fits), again(flops, keep)
    if mine > best:
        why = "This schedule fits, but another one that fits recomputes less."
        if any(len(k) <= len(keep) and again(flops, k) < mine for k in fits):
            why = (
                "This schedule fits, but another one that fits recomputes less, and keeps no more "
                "activations: which are kept decides, not how many."
            )
        if held < budget and held == min(peak(nbytes, k) for k in fits):
            why = LOWEST
        raise Wrong(expected=f"{best:,} FLOPs run again", got=f"{mine:,}", why=why)
    return None


def _refused(fits: list[Keep], nbytes: Ints, flops: Ints) -> None:
    lowest = min(peak(nbytes, keep) for keep in fits)
    why = "A schedule fits here. None is the answer where every one has its peak over the budget."
    if min(again(flops, keep) for keep in fits) == again(flops, [0]):
        why = (
            "A schedule fits here, and the best that fits recomputes as much as [0] does. Either "
            "it is not among the lists that are tried, [0] alone being one of them; or a record "
            "begins with that number, and has to be beaten. Begin with no record."
        )
    elif min(again(flops, keep) for keep in fits) == 0:
        why = (
            "A schedule fits here, and the best that fits runs 0 FLOPs again. 0 is false in "
            "Python, and a number like any other: ask `is None`."
        )
    raise Wrong(expected=f"a schedule: one has a peak of {lowest:,}", got="None", why=why)


def _as_schedule(got: Any, layers: int) -> list[int]:
    """The indices in rising order, if they are a schedule."""
    indices = list(got) if isinstance(got, (list, tuple)) else []
    if not indices or not all(type(k) is int and 0 <= k < layers for k in indices):
        raise Wrong(expected=f"a list of indices below {layers}, or None", got=describe(got))
    if 0 not in indices or len(set(indices)) != len(indices):
        why = "Activation 0 enters the chain: no layer can make it again, so every schedule has it."
        why = "" if 0 in indices else why
        raise Wrong(expected="each index once, and 0 among them", got=describe(got), why=why)
    return sorted(indices)


def _cheapest(fits: list[Keep], flops: Ints) -> Keep | None:
    return min(fits, key=lambda keep: again(flops, keep), default=None)


@best_schedule.wrong(
    "kept_bytes_only",
    "The budget was held by what is kept. But in backward a segment comes back, and has to find "
    "room beside what is kept below it.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    every = every_schedule(len(nbytes))
    return _cheapest([k for k in every if sum(nbytes[i] for i in k) <= budget], flops)


@best_schedule.wrong(
    "nothing_freed",
    "The peak was taken too high: what lies above the segment that goes back is gone by then. So a "
    "cheaper schedule that fits was thrown away.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    every = every_schedule(len(nbytes))
    return _cheapest([k for k in every if peak_never_freed(nbytes, k) <= budget], flops)


@best_schedule.wrong("lowest_peak", LOWEST)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    lowest = min(every_schedule(len(nbytes)), key=lambda keep: peak(nbytes, keep))
    return lowest if peak(nbytes, lowest) <= budget else None


@best_schedule.wrong(
    "every_root_of_L",
    "Every sqrt(L)th activation is a good rule when all layers are alike and nobody names a "
    "budget. These layers differ, and the budget is given.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    keep = list(range(0, len(nbytes), math.isqrt(len(nbytes))))
    return keep if peak(nbytes, keep) <= budget else None


@best_schedule.wrong(
    "greedy",
    "The dearest activation that still fits was kept, then the next one. A large one early shuts "
    "out two that together save more: look at whole schedules.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    keep: list[int] = [0]
    for i in sorted(range(1, len(nbytes)), key=lambda i: -flops[i - 1]):
        tried = sorted([*keep, i])
        if peak(nbytes, keep) > budget or peak(nbytes, tried) <= budget:
            keep = tried
    return keep if peak(nbytes, keep) <= budget else None


@best_schedule.wrong(
    "all_or_nothing",
    "Either everything is kept here or nothing but the input. Between the two lie all the good "
    "schedules.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    return list(range(len(nbytes))) if sum(nbytes) <= budget else [0]


@best_schedule.wrong(
    "first_that_fits",
    "This is the fewest kept activations that fit, not the fewest FLOPs. Look at the FLOPs of all "
    "schedules that fit, and take the least.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    every = every_schedule(len(nbytes))
    return next((keep for keep in every if peak(nbytes, keep) <= budget), None)


@best_schedule.wrong(
    "budget_not_used_up",
    "A schedule may take all of the budget: its peak must not exceed it, and may be equal.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    every = every_schedule(len(nbytes))
    return _cheapest([keep for keep in every if peak(nbytes, keep) < budget], flops)


@best_schedule.wrong(
    "empty_list",
    "Where no schedule fits the answer is None. An empty list is none either: no list without 0 is "
    "a schedule.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    every = every_schedule(len(nbytes))
    return _cheapest([keep for keep in every if peak(nbytes, keep) <= budget], flops) or []


@best_schedule.wrong(
    "cost_with_it",
    "The schedule alone is asked for: a list of indices, without its cost.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> tuple[int, Keep] | None:
    every = every_schedule(len(nbytes))
    keep = _cheapest([keep for keep in every if peak(nbytes, keep) <= budget], flops)
    return None if keep is None else (again(flops, keep), keep)


@best_schedule.wrong(
    "cost_behind_it",
    "The schedule alone is asked for: a list of indices, without its cost.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> tuple[Keep, int] | None:
    every = every_schedule(len(nbytes))
    keep = _cheapest([keep for keep in every if peak(nbytes, keep) <= budget], flops)
    return None if keep is None else (keep, again(flops, keep))


@best_schedule.wrong(
    "even_pieces",
    "Only pieces of equal length were tried. These layers differ: look at every list that begins "
    "with 0.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep | None:
    even = [list(range(0, len(nbytes), k)) for k in range(1, len(nbytes) + 1)]
    return _cheapest([keep for keep in even if peak(nbytes, keep) <= budget], flops)


@best_schedule.wrong(
    "all_dropped_if_none",
    "Where no schedule fits the answer is None. [0] keeps the least at the end of the forward, but "
    "its one segment comes back whole, and that is over the budget.",
)
def _(nbytes: Ints, flops: Ints, budget: int) -> Keep:
    fits = [keep for keep in every_schedule(len(nbytes)) if peak(nbytes, keep) <= budget]
    return _cheapest(fits, flops) or [0]


def _fitting(nbytes: Ints, budget: int, top: Callable[[Ints, Keep], int] = peak) -> list[Keep]:
    return [keep for keep in every_schedule(len(nbytes)) if top(nbytes, keep) <= budget]


def _at_once(nbytes: Ints, keep: Keep) -> int:
    """The largest segment alone, without what is kept below it."""
    return max(sum(nbytes[start:end]) for start, end in segments(len(nbytes), keep))


def _larger_of_two(nbytes: Ints, keep: Keep) -> int:
    """The rule of thumb: all that is kept at the end of the forward, or the largest segment."""
    return max(sum(nbytes[k] for k in keep), _at_once(nbytes, keep))


def _of_the_last(nbytes: Ints, keep: Keep) -> int:
    """The peak of the last segment alone."""
    return sum(nbytes[k] for k in keep) + sum(nbytes[keep[-1] + 1 :])


def _without_the_last(nbytes: Ints, keep: Keep) -> int:
    """The peak, were each segment without its last activation."""
    return max(
        sum(nbytes[k] for k in keep if k <= start) + sum(nbytes[start + 1 : end - 1])
        for start, end in segments(len(nbytes), keep)
    )


def _wrong(name: str, sentence: str, answer: Callable[[Ints, Ints, int], Any]) -> None:
    best_schedule.wrong(name, sentence, best_schedule=answer)


_wrong(
    "segment_alone",
    "Each segment alone was held against the budget. What is kept below it is in memory as well.",
    lambda nbytes, flops, budget: _cheapest(_fitting(nbytes, budget, _at_once), flops),
)
_wrong(
    "segment_or_kept",
    "The peak was taken for the larger of two: what is kept, and the largest segment alone. While "
    "a segment goes back what is kept below it is in memory as well: add the two.",
    lambda nbytes, flops, budget: _cheapest(_fitting(nbytes, budget, _larger_of_two), flops),
)
_wrong(
    "last_segment_alone",
    "Only the peak of the last segment was held against the budget. An earlier one may have a "
    "higher one.",
    lambda nbytes, flops, budget: _cheapest(_fitting(nbytes, budget, _of_the_last), flops),
)
_wrong(
    "last_of_a_segment_forgotten",
    "The last activation of each segment is missing from the peak. While a segment goes back all "
    "of it is held.",
    lambda nbytes, flops, budget: _cheapest(_fitting(nbytes, budget, _without_the_last), flops),
)
_wrong(
    "all_or_none",
    "None comes wherever to keep all does not fit. A schedule that keeps less does here: look at "
    "every list that begins with 0.",
    lambda nbytes, flops, budget: list(range(len(nbytes))) if sum(nbytes) <= budget else None,
)
_wrong(
    "most_kept",
    "These are the most kept activations that fit, not the fewest FLOPs. Layers differ in cost: "
    "add up the FLOPs that run again.",
    lambda nbytes, flops, budget: max(_fitting(nbytes, budget), key=len, default=None),
)
_wrong(
    "most_flops",
    "This schedule fits, and recomputes the most. The fewest FLOPs were asked for: min, not max.",
    lambda nbytes, flops, budget: max(
        _fitting(nbytes, budget), key=lambda keep: again(flops, keep), default=None
    ),
)
_wrong(
    "layer_above",
    "The FLOPs are those of the layer that reads the missing activation. The one that writes it "
    "has to run: layer i - 1 for activation i.",
    lambda nbytes, flops, budget: min(
        _fitting(nbytes, budget),
        key=lambda keep: sum(flops[i] for i in range(len(flops)) if i not in keep),
        default=None,
    ),
)
_wrong(
    "without_0",
    "Activation 0 was left out of the list. It enters the chain, and every schedule has it.",
    lambda nbytes, flops, budget: (_cheapest(_fitting(nbytes, budget), flops) or [])[1:] or None,
)
_wrong(
    "what_is_dropped",
    "These are the activations that are dropped. Asked for are those that are kept.",
    lambda nbytes, flops, budget: _turned(nbytes, _cheapest(_fitting(nbytes, budget), flops)),
)
_wrong(
    "cost_alone",
    "These are FLOPs. Asked for is the schedule: the list of the kept activations.",
    lambda nbytes, flops, budget: min(
        (again(flops, keep) for keep in _fitting(nbytes, budget)), default=None
    ),
)
_wrong(
    "min_of_nothing",
    "Where no schedule fits there is nothing to take the least of, and min raises. "
    "`min(..., default=None)` is None then.",
    lambda nbytes, flops, budget: min(
        _fitting(nbytes, budget), key=lambda keep: again(flops, keep)
    ),
)
_wrong(
    "two_at_most",
    "Only schedules with few kept activations were tried. How many are kept is open: try them all.",
    lambda nbytes, flops, budget: _cheapest(
        [keep for keep in _fitting(nbytes, budget) if len(keep) <= 3], flops
    ),
)
_wrong(
    "all_never_kept",
    "The schedule that keeps all was never tried. Where it fits nothing runs again.",
    lambda nbytes, flops, budget: _cheapest(
        [k for k in _fitting(nbytes, budget) if len(k) < len(nbytes)], flops
    ),
)
_wrong(
    "last_never_kept",
    "No schedule that keeps the last activation was tried. It may be kept as any other.",
    lambda nbytes, flops, budget: _cheapest(
        [k for k in _fitting(nbytes, budget) if len(nbytes) - 1 not in k or len(nbytes) == 1],
        flops,
    ),
)


def _turned(nbytes: Ints, keep: Keep | None) -> Keep | None:
    return None if keep is None else [i for i in range(len(nbytes)) if i not in keep]


def _one_by_one(nbytes: Ints, budget: int, order: Iterable[int]) -> Keep | None:
    """Keeps each of `order` with which the schedule fits."""
    keep: list[int] = [0]
    for i in order:
        if peak(nbytes, tried := sorted([*keep, i])) <= budget:
            keep = tried
    return keep if peak(nbytes, keep) <= budget else None


_wrong(
    "from_left_to_right",
    "This is what comes of keeping activations from left to right, each that still fits. An early "
    "one can shut out later ones that save more: look at whole schedules.",
    lambda nbytes, flops, budget: _one_by_one(nbytes, budget, range(1, len(nbytes))),
)
for _name, _by in (
    ("dearest_first", lambda i, nbytes, flops: -flops[i - 1]),
    ("dearest_byte_first", lambda i, nbytes, flops: -flops[i - 1] / nbytes[i]),
):

    @best_schedule.wrong(
        _name,
        "Activations were kept one by one, the dearest first, each that still fits. One of them "
        "can shut out others that together save more: look at whole schedules.",
    )
    def _(nbytes: Ints, flops: Ints, budget: int, _by: Callable[..., float] = _by) -> Keep | None:
        order = sorted(range(1, len(nbytes)), key=lambda i: _by(i, nbytes, flops))
        return _one_by_one(nbytes, budget, order)


for _name, _by in (
    ("cheapest_dropped", lambda i, nbytes, flops: flops[i - 1]),
    ("cheapest_byte_dropped", lambda i, nbytes, flops: flops[i - 1] / nbytes[i]),
    ("largest_dropped", lambda i, nbytes, flops: -nbytes[i]),
):

    @best_schedule.wrong(
        _name,
        "Activations were dropped one by one until the rest fits. What was dropped early may be "
        "what the best schedule keeps: look at whole schedules.",
    )
    def _(nbytes: Ints, flops: Ints, budget: int, _by: Callable[..., float] = _by) -> Keep | None:
        keep = list(range(len(nbytes)))
        while peak(nbytes, keep) > budget:
            if len(keep) == 1:
                return None
            keep.remove(min(keep[1:], key=lambda i: _by(i, nbytes, flops)))
        return keep


@best_schedule.cost
def _(student: Student, draw: Draw) -> str:
    layers = 10
    told = []
    for budget in (10, 7, 6, 5):
        keep = student.call("best_schedule", [1] * layers, [1] * layers, budget)
        run = "does not fit" if keep is None else f"{again([1] * layers, keep)} run again"
        told.append(f"{budget} activations: {run}")
    return f"{layers} equal layers. {'; '.join(told)}"
