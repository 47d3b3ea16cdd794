"""The best checkpoint schedule for a byte budget."""

from __future__ import annotations

import math
from typing import Any

from autograder.judge import Draw, Student, Wrong, describe, expect_equal

from . import lab
from .schedules import Ints, Keep, again, drawn_chain, every_schedule, peak, peak_never_freed


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
        ([5, 4, 3, 6, 2, 1, 6, 1], [6, 2, 7, 1, 8, 3, 5, 4], 18),
        ([5, 4, 3, 6, 2, 1, 6, 1], [6, 2, 7, 1, 8, 3, 5, 4], 28),
        ([3, 3, 3], [1, 1, 1], 8),
        ([3, 3, 3], [1, 1, 1], 5),
        ([7], [2], 7),
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
        return expect_equal(got, None) if not fits else _refused(fits, nbytes)
    keep = _as_schedule(got, len(nbytes))
    if (held := peak(nbytes, keep)) > budget:
        why = "This schedule does not fit: while a segment goes back, all of it is held again."
        raise Wrong(expected=f"a peak of at most {budget:,}", got=f"{held:,}", why=why)
    best, mine = min(again(flops, other) for other in fits), again(flops, keep)
    if mine > best:
        why = "This schedule fits, but another one that fits recomputes less."
        raise Wrong(expected=f"{best:,} FLOPs run again", got=f"{mine:,}", why=why)
    return None


def _refused(fits: list[Keep], nbytes: Ints) -> None:
    lowest = min(peak(nbytes, keep) for keep in fits)
    why = "Some schedule fits."
    raise Wrong(expected=f"a schedule: one has a peak of {lowest:,}", got="None", why=why)


def _as_schedule(got: Any, layers: int) -> list[int]:
    """The indices in rising order, if they are a schedule."""
    indices = list(got) if isinstance(got, (list, tuple)) else []
    if not indices or not all(type(k) is int and 0 <= k < layers for k in indices):
        raise Wrong(expected=f"a list of indices below {layers}, or None", got=describe(got))
    if 0 not in indices or len(set(indices)) != len(indices):
        why = "Activation 0 enters the chain: no layer can make it again, so every schedule has it."
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


@best_schedule.wrong(
    "lowest_peak",
    "This is the schedule with the lowest peak. The budget allows more: use it all, and recompute "
    "less.",
)
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


@best_schedule.cost
def _(student: Student, draw: Draw) -> str:
    layers = 10
    told = []
    for budget in (10, 7, 6, 5):
        keep = student.call("best_schedule", [1] * layers, [1] * layers, budget)
        run = "does not fit" if keep is None else f"{again([1] * layers, keep)} run again"
        told.append(f"{budget} activations: {run}")
    return f"{layers} equal layers. {'; '.join(told)}"
