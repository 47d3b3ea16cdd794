"""The order of one stage of a pipeline, and how long the stages are idle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograder.judge import Draw, Student, Wrong, describe

from . import lab
from .numbers import as_number
from .pipeline import SECONDS, Action, all_forward_first, one_f_one_b, run

NONE_SUCH = (
    "Some of these micro-batches do not exist: here there are fewer than stages, and the warm-up "
    "is min(P - s - 1, M) forwards."
)
BEYOND = "Some of these micro-batches do not exist: they are numbered from 0 to M - 1."
TWICE = "A micro-batch passes this stage twice in the same direction: each goes once each way."
MISSING = "Not every micro-batch passes this stage both ways: each goes once each way, M of them."
UNSORTED = "The micro-batches come out of order: they pass in rising order both ways."
FROM_ONE = "Micro-batches are numbered from 0."
PAIRS = (
    "The order of one stage is a list of pairs: first the letter, F or B as a capital, then the "
    "number of the micro-batch."
)


@lab.question(
    "stage_order",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "The last stage can go back at once. How many micro-batches must stage s let go down "
        "before the first one can come back to it?",
        "min(P - s - 1, M) forwards, then F and B in turn until no forward is left, then the "
        "other backwards. Each stage works 3 M, and the run takes 3 (M + P - 1).",
        "warm = min(p - s - 1, m); return (p - 1) / (m + p - 1)",
    ),
)
def stage_order(student: Student, draw: Draw) -> None:
    """The order of stage s of P in the 1F1B schedule with M micro-batches, and the bubble.

    stage_order(s, p, m) -> list of ("F" or "B", number); bubble(p, m) -> the share of the run in
    which an average stage is idle, where a backward takes as long as two forwards.
    """
    sizes = [(4, 8), (1, 3), (2, 1), (4, 2), (3, 3), (1, 1), (6, 1), (3, 2), (2, 2), (5, 4)]
    sizes += [(draw.integer(2, 16), draw.integer(2, 199)) for _ in draw.cases(2)]
    for p, m in sizes:  # 23,000 lists: too many to look one up
        orders = [_order(student.call("stage_order", s, p, m), s, p, m) for s in range(p)]
        _expect_good_run(student, orders, m)
        _expect_bubble(student.call("bubble", p, m), p, m)


def _order(got: Any, s: int, p: int, m: int) -> list[Action]:
    """`got`, if it is every action of a stage, once each."""
    place = f"on stage {s}, p = {p}, m = {m}"
    if not isinstance(got, (list, tuple)) or not all(map(_is_action, got)):
        raise Wrong(
            expected='a list of ("F" or "B", number)', got=describe(got), where=place, why=PAIRS
        )
    order: list[Action] = [(kind, micro) for kind, micro in got]
    for kind in SECONDS:
        numbers = [k for what, k in order if what == kind]
        if numbers != list(range(m)):
            told = "forward" if kind == "F" else "backward"
            raise Wrong(
                expected=f"the {told} of every micro-batch once, in rising order",
                got=describe(got),
                where=place,
                why=_miscounted(numbers, p, m),
            )
    if len(order) != 2 * m:
        raise Wrong(expected=f"{2 * m} actions", got=describe(got), where=place)
    return order


def _miscounted(numbers: Sequence[int], p: int, m: int) -> str:
    if numbers == list(range(1, m + 1)):
        return FROM_ONE
    if any(not 0 <= k < m for k in numbers):
        return NONE_SUCH if min(numbers) >= 0 and max(numbers) < p else BEYOND
    if len(set(numbers)) < len(numbers):
        return TWICE
    return MISSING if len(numbers) < m else UNSORTED


def _is_action(got: Any) -> bool:
    pair = isinstance(got, (list, tuple)) and len(got) == 2
    return pair and got[0] in list(SECONDS) and type(got[1]) is int


def _short_of_forwards(orders: Sequence[list[Action]], m: int) -> int | None:
    """The first stage that goes back although it could let one more micro-batch down before."""
    p = len(orders)
    short = (s for s, order in enumerate(orders) if order.index(("B", 0)) < min(p - s, m))
    return next(short, None)


def _expect_good_run(student: Student, orders: Sequence[list[Action]], m: int) -> None:
    """A stage that is to blame is asked once more: a verdict tells the arguments of the last
    call."""
    p = len(orders)
    ran, place = run(orders), f"all stages, p = {p}, m = {m}"
    if ran.stuck:
        waiting = ", ".join(f"stage {s} before {a}" for s, a in ran.stuck)
        why = "Some stage waits for what never comes: the pipeline stands still for ever."
        raise Wrong(expected="every stage done", got=waiting, where=place, why=why)
    for s, most in enumerate(ran.held):
        if most > max(1, min(p - s, m)):
            student.call("stage_order", s, p, m)
            why = (
                "A stage holds the activations of too many micro-batches. 1F1B goes back as soon "
                "as it can: P - s forwards at most wait for their backward."
            )
            raise Wrong(
                expected=f"micro-batches held on stage {s}: at most {min(p - s, m)}",
                got=f"{most}",
                where=f"on stage {s}, p = {p}, m = {m}",
                why=why,
            )
    if ran.length > 3 * (m + p - 1):
        short = _short_of_forwards(orders, m)
        why = (
            "The run is longer than it need be. After its first backward a stage takes a forward "
            "and a backward in turn, until no forward is left."
        )
        if short is not None:
            student.call("stage_order", short, p, m)
            did, most = orders[short].index(("B", 0)), min(p - short, m)
            why = (
                f"Stage {short} goes back after {did} of the {most} forwards that it could do "
                "before the first backward is there: it waits, and the run is longer than it need "
                "be."
            )
        raise Wrong(
            expected=f"{3 * (m + p - 1)} (a forward takes 1, a backward 2)",
            got=f"{ran.length}",
            where=f"the length of the run, {place}",
            why=why,
        )


def _expect_bubble(got: Any, p: int, m: int) -> None:
    got, want = as_number(got), run([one_f_one_b(s, p, m) for s in range(p)]).idle
    if isinstance(got, bool) or not isinstance(got, (int, float)) or not abs(got - want) <= 1e-6:
        told = f"{got:.4f}" if isinstance(got, float) else describe(got)
        why = (
            f"The run has {m + p - 1} slots, each with room for a forward and a backward. A stage "
            f"works in {m} of them and is idle in the other {p - 1}."
        )
        where = f"bubble, p = {p}, m = {m}"
        raise Wrong(
            expected=f"{want:.4f}", got=told, where=where, why=why if got is not None else ""
        )


def _right_bubble(p: int, m: int) -> float:
    return (p - 1) / (m + p - 1)


stage_order.otherwise(stage_order=one_f_one_b, bubble=_right_bubble)
stage_order.wrong(
    "all_forward_first",
    "This is GPipe: all forwards, then all backwards. It is as short, but each stage holds the "
    "activations of all M micro-batches.",
    stage_order=lambda s, p, m: all_forward_first(m),
)
stage_order.wrong(
    "no_warm_up",
    "No stage warms up: each waits for its backward before it lets the next micro-batch down, and "
    "one stage works at a time.",
    stage_order=lambda s, p, m: one_f_one_b(p - 1, p, m),
)
stage_order.wrong(
    "one_too_many",
    "One forward too many before the first backward: stage s warms up with P - s - 1, and the "
    "next forward belongs to the first pair.",
    stage_order=lambda s, p, m: one_f_one_b(s, p, m, extra=1),
)
stage_order.wrong(
    "one_too_few",
    "One forward too few before the first backward: the stage waits for a backward while it could "
    "go forward.",
    stage_order=lambda s, p, m: one_f_one_b(s, p, m, extra=-1),
)
stage_order.wrong(
    "upside_down",
    "The stages are counted from the wrong end. The first stage has to warm up longest, and the "
    "last one not at all.",
    stage_order=lambda s, p, m: one_f_one_b(p - 1 - s, p, m),
)


def _more_forwards_than_there_are(s: int, p: int, m: int) -> list[Action]:
    warm = p - s - 1
    order: list[Action] = [("F", k) for k in range(warm)]
    for k in range(m - warm):
        order += [("F", warm + k), ("B", k)]
    return order + [("B", k) for k in range(max(0, m - warm), m)]


stage_order.wrong(
    "more_forwards_than_there_are",
    NONE_SUCH,
    stage_order=_more_forwards_than_there_are,
)
stage_order.wrong(
    "counted_from_one",
    FROM_ONE,
    stage_order=lambda s, p, m: [(kind, k + 1) for kind, k in one_f_one_b(s, p, m)],
)
stage_order.wrong(
    "bubble_of_the_work",
    "This is the idle time as a share of the work. Asked for is its share of the whole run, M + P "
    "- 1 in units of one micro-batch.",
    bubble=lambda p, m: (p - 1) / m,
)
stage_order.wrong(
    "bubble_one_stage_more",
    "This is P / (M + P), as where the bubble counts P slots. One stage alone has none: the first "
    "micro-batch passes P - 1 others.",
    bubble=lambda p, m: p / (m + p),
)
stage_order.wrong(
    "share_of_work",
    "This is the share in which a stage works. The rest is the bubble.",
    bubble=lambda p, m: m / (m + p - 1),
)
stage_order.wrong(
    "bubble_in_percent",
    "This is the bubble in percent. A share is between 0 and 1.",
    bubble=lambda p, m: 100 * _right_bubble(p, m),
)


stage_order.wrong(
    "bubble_of_both_ways",
    "This is 2 (P - 1) / (M + 2 (P - 1)), as where 2 (P - 1) slots stand beside M micro-batches. "
    "Forward and backward have P - 1 each, and each micro-batch fills two of them as well: (P - "
    "1) / (M + P - 1).",
    bubble=lambda p, m: 2 * (p - 1) / (m + 2 * (p - 1)),
)
stage_order.wrong(
    "bubble_in_whole_numbers",
    "This is 0, which is what `//` or int() leaves of a share. A share is a fraction: `/`.",
    bubble=lambda p, m: (p - 1) // (m + p - 1),
)
stage_order.wrong(
    "bubble_in_slots",
    "This is a time, in units of a forward. Asked for is its share of the run.",
    bubble=lambda p, m: 3 * (p - 1),
)


stage_order.wrong(
    "bubble_twice",
    "This is twice the bubble, as where it is counted for both ways and the run is not. Forward "
    "and backward have P - 1 slots each, and M + P - 1 in all.",
    bubble=lambda p, m: 2 * _right_bubble(p, m),
)
stage_order.wrong(
    "bubble_halved",
    "This is half of the bubble. Every stage is idle for P - 1 slots of the run, the first one "
    "too: it waits in between, until a backward comes back to it.",
    bubble=lambda p, m: _right_bubble(p, m) / 2,
)
stage_order.wrong(
    "bubble_rounded",
    "This is the share to two decimal places. Return it as it is.",
    bubble=lambda p, m: round(_right_bubble(p, m), 2),
)
stage_order.wrong(
    "stages_and_micro_batches_swapped",
    "This is (M - 1) / (M + P - 1), as where stages and micro-batches change places: more stages "
    "make the bubble larger, more micro-batches make it smaller.",
    bubble=lambda p, m: (m - 1) / (m + p - 1),
)
stage_order.wrong(
    "last_slot_left_out",
    "This is (P - 1) / (M + P). The last stage begins after P - 1 slots and then works in M: the "
    "run has M + P - 1.",
    bubble=lambda p, m: (p - 1) / (m + p),
)
stage_order.wrong(
    "bubble_of_all_stages",
    "This is the bubble of one stage divided by P. All stages are idle for as long: the average "
    "is the same.",
    bubble=lambda p, m: _right_bubble(p, m) / p,
)


@stage_order.cost
def _(student: Student, draw: Draw) -> str:
    p, m = 4, 16
    ran = run([[(k, n) for k, n in student.call("stage_order", s, p, m)] for s in range(p)])
    return (
        f"{p} stages, {m} micro-batches: idle {ran.idle:.0%} of the run, activations of "
        f"{max(ran.held)} micro-batches at most, where all forwards first would hold {m}"
    )
