"""What a rank sends in a step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import wraps
from typing import Any

from autograder.judge import Draw, Student, Wrong, describe

from . import lab
from .numbers import as_number

PLANS = ("ddp", "fsdp", "fsdp_kept", "columns")
Case = tuple[str, int, int, int, int]  # plan, v, d, n, w
AROUND = {
    "ddp": "Around the ring goes the gradient of w, twice; a rank sends (W - 1) / W of it each "
    "time.",
    "fsdp": "Around the ring go w twice and its gradient once, both with their padding; a rank "
    "sends (W - 1) / W of each.",
    "fsdp_kept": "Around the ring go w once and its gradient once, both with their padding; a rank "
    "sends (W - 1) / W of each.",
    "columns": "Around the ring go dx and three numbers for each word, all of them twice; a rank "
    "sends (W - 1) / W of each.",
}
PARTS: dict[str, Callable[[int, int, int, int], tuple[Any, ...]]] = {
    "ddp": lambda v, d, n, w: (2, (v * d,)),
    "fsdp": lambda v, d, n, w: (3, (padded(v, w) * d,)),
    "fsdp_kept": lambda v, d, n, w: (2, (padded(v, w) * d,)),
    "columns": lambda v, d, n, w: (2, (n * d + 3 * n,), (n * d, 3 * n), (n * d, n, n, n)),
}
"""How often it goes around, and the numbers of each tensor, in all ways to join them."""
ROUNDING = 64.0
"""Bytes: whether a ring's share is rounded, and where, is nobody's concern."""


@lab.question(
    "step_bytes",
    points=4,
    minutes=8,
    difficulty=3,
    hints=(
        "Write down each plan's collectives with the size of the whole tensor. How often is w "
        "gathered, and what is reduced: a gradient of w, or something of the size of x?",
        "share = (W - 1) / W of the bytes of a number. ddp: an all-reduce of V * D. fsdp: with V "
        "rounded up to a multiple of W, two all-gathers and a reduce-scatter. columns: all-reduces "
        "of dx and of three numbers for each word.",
        "return 2 * share * (n * d + 3 * n)",
    ),
    variant={"itemsize": (4, 2, 8)},
)
def step_bytes(student: Student, draw: Draw, *, itemsize: int = 4) -> None:
    """What one rank sends in one training step of the head w (V, D), float32, in rings.

    plan ("ddp", "fsdp", "fsdp_kept" or "columns"), v, d, n (words on each rank), w (the number of
    ranks) -> bytes. itemsize: of the numbers, where they are not float32.
    """
    sizes = [(600, 64, 32, 7), (600, 64, 32, 2), (600, 64, 8, 1), (600, 64, 32, 64)]
    sizes += [(9, 64, 32, 16), (8, 99, 1, 7), (33, 50, 72, 16)]
    sizes += [(24, 25, 16, 32)]  # rounding to whole numbers, not bytes, costs more than ROUNDING
    sizes += [(50_257, 768, 4_096, 8)]
    # Up to 11 ranks each part may be rounded for itself: columns' six then lack less than ROUNDING.
    sizes += [
        (draw.integer(20, 700), draw.integer(4, 99), draw.integer(1, 50), draw.integer(2, 11))
        for _ in draw.cases(2)
    ]
    cases = [(plan, *size) for size in sizes for plan in PLANS]
    for case, got in zip(cases, student.each("step_bytes", cases), strict=True):
        _expect_bytes(got, case, itemsize)


def _expect_bytes(got: object, case: Case, itemsize: int) -> None:
    plan, want = case[0], sent_bytes(*case) * itemsize / 4
    got = as_number(got)
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        raise Wrong(expected="a number of bytes", got=describe(got), where=f"for {plan}")
    if not want - ROUNDING <= got <= want + ROUNDING:
        told = f"{float(got):,.0f} bytes" if abs(got) < 1e15 else describe(got, room=40)
        why = ""
        if abs(got) < 1e15:
            why = _rounded_early(float(got) / itemsize, *case) or _beside(float(got), want, *case)
        raise Wrong(expected=f"{want:,.0f} bytes", got=told, where=f"for {plan}", why=why)


def _rounded_early(got: float, plan: str, v: int, d: int, n: int, w: int) -> str:
    """What `//` did before the last step, if these are so many numbers; "" for anything else."""
    if w == 1:
        return ""
    if not got:
        return (
            "These are 0 bytes, and more than one rank sends. (W - 1) // W is 0: divide by W last."
        )
    turns, *tensors = PARTS[plan](v, d, n, w)
    times = turns * (w - 1) // w
    if times * w != turns * (w - 1) and math.isclose(got, times * sum(tensors[0])):
        return (
            f"This is {times} times what goes around. A rank sends {turns} (W - 1) / W times as "
            f"much, {turns * (w - 1) / w:.4g} here, which // would make {times}."
        )
    for parts in tensors:
        for slices in itertools.product(*((p // w, p / w) for p in parts)):
            if math.isclose(got, turns * (w - 1) * sum(slices)):
                return (
                    "This is what a slice rounded down to whole numbers, W - 1 times, comes to. A "
                    "fraction of a byte may be rounded, and not one of a number: divide by W last."
                )
    return ""


def _beside(got: float, want: float, plan: str, v: int, d: int, n: int, w: int) -> str:
    """How much too much or too little it is, and what goes around the ring."""
    if not want:
        return "One rank alone has nobody to send to: 0 bytes."
    rows = padded(v, w) // w
    counted = got / want * rows
    one_off = abs(round(counted) - rows) == 1 and abs(counted - round(counted)) < 1e-3
    if one_off and rows > 4 and plan.startswith("fsdp"):
        return (
            f"This is what {round(counted)} rows on each rank would send. R = ceil(V / W) is "
            f"{rows} here."
        )
    counted = got / want * n
    near = 0 < abs(round(counted) - n) < n / 5 and abs(counted - round(counted)) < 2e-3
    if plan == "columns" and near:
        return f"This is what {round(counted)} words would send, and there are {n}. {AROUND[plan]}"
    whole = {"ddp": v, "fsdp": rows * w, "fsdp_kept": rows * w}.get(plan, 0)
    counted = got / want * whole
    if 0 < abs(round(counted) - whole) < whole / 10 and abs(counted - round(counted)) < 2e-3:
        if plan == "ddp":
            return f"This is what {round(counted)} rows would send, and w has {v}. {AROUND[plan]}"
        return (
            f"This is what {round(counted)} rows in all would send. With R = ceil(V / W) on each "
            f"of the W ranks they are {whole} here."
        )
    if abs(got / want - 1) < 0.01:
        if got > want:
            return f"These are {got - want:,.0f} bytes too many. {AROUND[plan]}"
        return f"These are {want - got:,.0f} bytes too few. {AROUND[plan]}"
    return f"This is {got / want:.3g} times what is sent. {AROUND[plan]}"


def padded(v: int, w: int) -> int:
    """V rounded up to a multiple of W."""
    return -(-v // w) * w


def sent_bytes(plan: str, v: int, d: int, n: int, w: int) -> float:
    """A rank keeps its own part of whatever goes around."""
    return whole_bytes(plan, v, d, n, w) * (w - 1) / w


def whole_bytes(plan: str, v: int, d: int, n: int, w: int) -> float:
    """Once around the ring for each of these, in numbers of four bytes."""
    turns = {
        "ddp": 2 * v * d,
        "fsdp": 3 * padded(v, w) * d,
        "fsdp_kept": 2 * padded(v, w) * d,
        "columns": 2 * (n * d + 3 * n),
    }
    return 4.0 * turns[plan]


@step_bytes.wrong(
    "one_way",
    "An all-reduce goes around twice: the sums are formed on the first round, and handed to all "
    "on the second. That is 2 (W - 1) / W of the tensor.",
)
def _(plan: str, v: int, d: int, n: int, w: int) -> float:
    return sent_bytes(plan, v, d, n, w) / (2 if plan in ("ddp", "columns") else 1)


step_bytes.wrong(
    "all_of_it",
    "Each collective was counted with the whole tensor. A rank keeps its own part: it sends (W - "
    "1) / W of it, and alone nothing.",
    step_bytes=lambda plan, v, d, n, w: whole_bytes(plan, v, d, n, w),
)
step_bytes.wrong(
    "numbers",
    "These are numbers, not bytes: each of them takes as many as its dtype says.",
    step_bytes=lambda plan, v, d, n, w: sent_bytes(plan, v, d, n, w) / 4,
)


@step_bytes.wrong(
    "without_padding",
    "FSDP moves the padding too: 7 ranks hold 602 rows of the head's 600.",
)
def _(plan: str, v: int, d: int, n: int, w: int) -> float:
    if plan == "fsdp":
        return 12 * v * d * (w - 1) / w
    return 8 * v * d * (w - 1) / w if plan == "fsdp_kept" else sent_bytes(plan, v, d, n, w)


@step_bytes.wrong(
    "gathered_once",
    "fsdp was counted with two of its three. w is let go after the forward, so backward gathers "
    "it again: two all-gathers, and a reduce-scatter of the gradient.",
)
def _(plan: str, v: int, d: int, n: int, w: int) -> float:
    return sent_bytes("fsdp_kept" if plan == "fsdp" else plan, v, d, n, w)


@step_bytes.wrong(
    "always_gathered_twice",
    "fsdp_kept was counted with three turns, as fsdp has. Who keeps the gathered w until backward "
    "is done gathers it once, and its gradient goes around once, by reduce-scatter.",
)
def _(plan: str, v: int, d: int, n: int, w: int) -> float:
    return sent_bytes("fsdp" if plan == "fsdp_kept" else plan, v, d, n, w)


@step_bytes.wrong(
    "all_reduced",
    "fsdp and fsdp_kept were counted with one turn too many each, as where the gradient is "
    "all-reduced. A rank needs the sums of its own rows alone: that is the first half of an "
    "all-reduce, a reduce-scatter.",
)
def _(plan: str, v: int, d: int, n: int, w: int) -> float:
    extra = 4 * padded(v, w) * d * (w - 1) / w if plan.startswith("fsdp") else 0.0
    return sent_bytes(plan, v, d, n, w) + extra


@step_bytes.wrong(
    "gradient_of_columns",
    "The column-parallel head was charged for V * D numbers, twice, as for an all-reduce of dw. "
    "The dw of a rank's own columns concerns nobody else: only dx and the loss's three numbers a "
    "row are joined.",
)
def _(plan: str, v: int, d: int, n: int, w: int) -> float:
    extra = sent_bytes("ddp", v, d, n, w) if plan == "columns" else 0.0
    return sent_bytes(plan, v, d, n, w) + extra


@step_bytes.wrong(
    "loss_for_free",
    "The loss of a column-parallel head is not free: 11.7 joins a maximum and two sums for each "
    "word.",
)
def _(plan: str, v: int, d: int, n: int, w: int) -> float:
    return 8 * n * d * (w - 1) / w if plan == "columns" else sent_bytes(plan, v, d, n, w)


@step_bytes.wrong(
    "loss_sent_once",
    "The loss's three numbers a row were counted as if they went around once. Both, the maximum "
    "and the two sums, are all-reduces: 2 (W - 1) / W.",
)
def _(plan: str, v: int, d: int, n: int, w: int) -> float:
    less = 12 * n * (w - 1) / w if plan == "columns" else 0.0
    return sent_bytes(plan, v, d, n, w) - less


@step_bytes.wrong(
    "words_of_all_ranks",
    "The words were counted W times. By columns all ranks see the same N words; more ranks bring "
    "no more of them.",
)
def _(plan: str, v: int, d: int, n: int, w: int) -> float:
    return sent_bytes(plan, v, d, n * w if plan == "columns" else n, w)


step_bytes.wrong(
    "every_turn_whole",
    "This is W times what one rank sends: what all of them send together, or the whole tensor in "
    "each of the W - 1 turns. In a turn a rank sends one slice, a W-th of it.",
    step_bytes=lambda plan, v, d, n, w: whole_bytes(plan, v, d, n, w) * (w - 1),
)


@step_bytes.wrong(
    "reduction_forgotten",
    "fsdp_kept was counted with one of its two. In each step w is gathered once, before forward, "
    "and its gradient is reduce-scattered once.",
)
def _(plan: str, v: int, d: int, n: int, w: int) -> float:
    return sent_bytes(plan, v, d, n, w) / (2 if plan == "fsdp_kept" else 1)


@step_bytes.wrong(
    "logits_joined",
    "The column-parallel head was charged for joining the logits. 11.7 exists so that nobody "
    "does: three numbers for each word are enough.",
)
def _(plan: str, v: int, d: int, n: int, w: int) -> float:
    if plan != "columns":
        return sent_bytes(plan, v, d, n, w)
    return 4 * (2 * n * d + n * v) * (w - 1) / w


def _only(plan_of: str, wrong: Callable[[int, int, int, int], float]) -> Callable[..., float]:
    """Right but for one plan, whose numbers of four bytes are others."""

    def answer(plan: str, v: int, d: int, n: int, w: int) -> float:
        right = whole_bytes(plan, v, d, n, w)
        return (4 * wrong(v, d, n, w) if plan == plan_of else right) * (w - 1) / w

    return answer


for _name, _sentence, _plan, _wrong in (
    (
        "ddp_one_way",
        "DDP was counted as once around. An all-reduce goes around twice: the sums are formed, "
        "then handed to all.",
        "ddp",
        lambda v, d, n, w: v * d,
    ),
    (
        "columns_one_way",
        "The column-parallel head was counted as once around. An all-reduce goes around twice.",
        "columns",
        lambda v, d, n, w: n * d + 3 * n,
    ),
    (
        "input_gradient_forgotten",
        "Only the loss's three numbers a row were counted. By columns a rank has a part of dx, of "
        "N times D numbers: the ranks all-reduce it, too.",
        "columns",
        lambda v, d, n, w: 2 * 3 * n,
    ),
    (
        "two_numbers_a_row",
        "Two numbers a row were counted for the loss. 11.7 joins three: a maximum and two sums.",
        "columns",
        lambda v, d, n, w: 2 * (n * d + 2 * n),
    ),
    (
        "logits_all_reduced",
        "The column-parallel head was charged for its logits, N times V. Nobody joins them: three "
        "numbers for each word are enough.",
        "columns",
        lambda v, d, n, w: 2 * (n * d + n * v),
    ),
    (
        "three_numbers_a_feature",
        "The loss's three numbers were counted for each feature. They are three for each word: N.",
        "columns",
        lambda v, d, n, w: 2 * (n * d + 3 * d),
    ),
    (
        "ddp_padded",
        "DDP was counted with V rounded up to a multiple of W. Only shards are padded: an "
        "all-reduce moves the V rows as they are.",
        "ddp",
        lambda v, d, n, w: 2 * padded(v, w) * d,
    ),
    (
        "bias_counted",
        "A bias was counted. This head has none.",
        "ddp",
        lambda v, d, n, w: 2 * (v * d + v),
    ),
):
    step_bytes.wrong(_name, _sentence, step_bytes=_only(_plan, _wrong))


def _rows_each(rows: Callable[[int, int], int]) -> Callable[..., float]:
    """FSDP with so many rows on each rank."""

    def answer(plan: str, v: int, d: int, n: int, w: int) -> float:
        turns = {"fsdp": 3, "fsdp_kept": 2}.get(plan, 0)
        whole = 4.0 * turns * rows(v, w) * w * d or whole_bytes(plan, v, d, n, w)
        return whole * (w - 1) / w

    return answer


step_bytes.wrong(
    "rows_rounded_down",
    "The rows of a rank were rounded down. Then V % W rows would live nowhere: R = ceil(V / W).",
    step_bytes=_rows_each(lambda v, w: v // w),
)
step_bytes.wrong(
    "one_row_more",
    "V // W + 1 is one row too many where V divides by W. ceil(V / W) is -(-V // W).",
    step_bytes=_rows_each(lambda v, w: v // w + 1),
)
step_bytes.wrong(
    "share_rounded",
    "The share (W - 1) / W was rounded to two decimal places. It is exact: round the bytes, if "
    "anything.",
    step_bytes=lambda plan, v, d, n, w: whole_bytes(plan, v, d, n, w) * round((w - 1) / w, 2),
)


def _of_any_dtype(answer: Callable[..., float]) -> Callable[..., float]:
    """A wrong answer that counts the bytes of float32, for numbers of any size."""

    @wraps(answer)
    def scaled(*sizes: Any, itemsize: int = 4) -> float:
        return answer(*sizes) * itemsize / 4

    return scaled


for _known in step_bytes.wrong_answers:
    if _known.name != "numbers":
        _known.functions["step_bytes"] = _of_any_dtype(_known.functions["step_bytes"])


@step_bytes.cost
def _(student: Student, draw: Draw) -> str:
    each = {plan: student.call("step_bytes", plan, 600, 64, 32, 8) for plan in PLANS}
    told = ", ".join(f"{plan} {nbytes:,.0f}" for plan, nbytes in each.items())
    return f"bytes per rank and step, 8 ranks of 32 words: {told}"
