"""A dispatcher that runs the head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import onelayer
from autograder.judge import Draw, Student, Wrong, expect_close, expect_equal

from . import lab
from .keys import Names

PRIORITY = ("Trace", "Ban", "Autocast", "Autograd", "Sparse", "CPU")
Table = dict[str, str]
Ran = tuple[Names, torch.Tensor | None]


@lab.question(
    "run_head",
    points=6,
    minutes=20,
    difficulty=4,
    hints=(
        "Write down for keys Trace, Autograd, CPU who calls whom. Which keys does `below` still "
        "have at each step?",
        "Loop over PRIORITY, skip keys that are not in `keys`, skip fallthroughs. At the first "
        "real kernel: log, then return KERNELS[name](below, *args), where below calls `call` with "
        "the lower keys only.",
        "return KERNELS[name](lambda *args: call(ordered[place + 1:], args), *args)",
    ),
)
def run_head(student: Student, draw: Draw) -> None:
    """One call of the head through a table of kernels: priorities, redispatch, fallthrough,
    fallback.

    x (N, 64), w (V, 64), b (V,), keys in any order, table {key: kernel name}, fallbacks {key:
    kernel name} -> (log of "key: name", logits (N, V) or None where a kernel was missing).
    """
    always: list[tuple[Names, Table, Table]] = [
        (["CPU"], {"CPU": "linear"}, {}),
        (["Trace", "CPU"], {"CPU": "linear", "Trace": "pass"}, {}),
        (
            ["Autograd", "Trace", "CPU"],
            {"CPU": "linear", "Trace": "pass", "Autograd": "pass", "Ban": "ban"},
            {},
        ),
        (["Autograd", "CPU"], {"CPU": "linear", "Autograd": "fallthrough"}, {}),
        (["Autograd", "CPU"], {"CPU": "linear", "Autograd": "pass"}, {"Autograd": "fallthrough"}),
        (["Autograd", "CPU"], {"CPU": "linear"}, {"Autograd": "pass"}),
        (["Sparse", "CPU"], {"CPU": "linear"}, {}),
        (["CPU", "Autograd"], {"Autograd": "ban"}, {}),
        (
            ["CPU", "Autocast", "Ban"],
            {"CPU": "linear", "Autocast": "bfloat16", "Ban": "ban"},
            {"Trace": "pass"},
        ),
        (["Autograd"], {"Autograd": "fallthrough", "CPU": "linear"}, {}),
        ([], {"CPU": "linear"}, {"CPU": "linear"}),
    ]
    for keys, table, fallbacks in always + [_drawn_run(draw) for _ in draw.cases(6)]:
        x, w, b = draw.tensor(3, 64), draw.tensor(20, 64), draw.tensor(20)
        got = student.call("run_head", x, w, b, keys, table, fallbacks)
        _expect_run(got, _chain(x, w, b, keys, table, fallbacks))


def _drawn_run(draw: Draw) -> tuple[Names, Table, Table]:
    names = ("pass", "ban", "bfloat16", "fallthrough")
    keys = [key for key in draw.shuffled(PRIORITY) if draw.integer(0, 2) or key == "CPU"]
    table = {key: draw.choice(names) for key in PRIORITY[:-1] if draw.integer(0, 2)}
    fallbacks = {key: draw.choice(names) for key in PRIORITY[:-1] if draw.integer(0, 2)}
    return keys, {**table, "CPU": "linear"}, fallbacks


def _expect_run(got: Any, want: Ran) -> None:
    if not isinstance(got, (list, tuple)) or len(got) != 2:
        raise Wrong(expected="a log and the logits", got=str(type(got).__name__))
    expect_equal(got[0], want[0])
    if want[1] is None:
        return expect_equal(got[1], None)
    return expect_close(got[1], want[1], tolerance=0.01)


def _chain(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor,
    keys: Names,
    table: Table,
    fallbacks: Table,
    *,
    bend: Callable[[list[tuple[str, str | None]]], list[tuple[str, str | None]]] | None = None,
) -> Ran:
    """Without any recursion: the whole way first, then the numbers from its end backwards.

    `bend` may change the list of (key, kernel name or None) before it is followed.
    """
    found = [(key, table.get(key, fallbacks.get(key))) for key in PRIORITY if key in keys]
    way = bend(found) if bend else found
    log: Names = []
    for key, name in way:
        if name is None:
            return [*log, "missing"], None
        if name != "fallthrough":
            log.append(f"{key}: {name}")
        if name == "linear":
            return log, _backwards([name for _, name in way], x, w, b)
    return [*log, "missing"], None


def _backwards(
    names: list[str | None], x: torch.Tensor, w: torch.Tensor, b: torch.Tensor
) -> torch.Tensor:
    names = names[: names.index("linear")]
    if "bfloat16" in names:
        x, w, b = x.bfloat16(), w.bfloat16(), b.bfloat16()
    logits = x @ w.T + b
    for _ in range(names.count("ban")):
        logits[torch.arange(len(logits)), logits.argmax(dim=1)] = -1000.0
    return logits.float()


@run_head.wrong(
    "lowest_first",
    "The kernels ran from the lowest key up. The backend computes, so it must be the last one.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    return _chain(x, w, b, keys, table, fallbacks, bend=lambda way: way[::-1])


@run_head.wrong(
    "order_of_arrival",
    "The keys were taken in the order in which they came. A key set has no order of its own: take "
    "PRIORITY's.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    def as_given(way: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
        return sorted(way, key=lambda stop: keys.index(stop[0]))

    return _chain(x, w, b, keys, table, fallbacks, bend=as_given)


@run_head.wrong(
    "set_forgotten",
    "A kernel ran for a key that the call does not have. Below a kernel are the lower keys of "
    "*this* call, not all lower keys.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    present = [key for key in PRIORITY if key in keys]
    first = PRIORITY.index(present[0]) + 1 if present else len(PRIORITY)
    lower = [key for key in PRIORITY[first:] if key in table or key in fallbacks or key in keys]
    return _chain(x, w, b, [*present[:1], *lower], table, fallbacks)


@run_head.wrong(
    "straight_to_the_backend",
    "A kernel between the first and the last was left out: redispatch goes to the next key, not to "
    "the backend.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    def first_and_last(way: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
        real = [stop for stop in way if stop[1] != "fallthrough"]
        return [*real[:1], *real[1:][-1:]]

    return _chain(x, w, b, keys, table, fallbacks, bend=first_and_last)


@run_head.wrong(
    "fallthrough_is_missing",
    "A fallthrough was taken for a missing kernel. It says: nothing to do for this key, ask the "
    "next.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    return _chain(
        x,
        w,
        b,
        keys,
        table,
        fallbacks,
        bend=lambda way: [(key, None if name == "fallthrough" else name) for key, name in way],
    )


@run_head.wrong(
    "fallback_first",
    "The fallback was taken although the operator has an entry of its own for this key. A fallback "
    "serves those that have none.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    return _chain(x, w, b, keys, {**table, **fallbacks}, {})


@run_head.wrong(
    "fallbacks_forgotten",
    "The operator has no kernel for this key, but the key has a fallback for every operator.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    return _chain(x, w, b, keys, table, {})


@run_head.wrong(
    "missing_is_passed_over",
    "A key without any kernel was passed over. torch raises there: passing over must be asked for, "
    "by a fallthrough.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    return _chain(
        x,
        w,
        b,
        keys,
        table,
        fallbacks,
        bend=lambda way: [stop for stop in way if stop[1] is not None],
    )


@run_head.cost
def _(student: Student, draw: Draw) -> str:
    layer, x = onelayer.head(), onelayer.hidden("<en> she has eaten <es> ella")[-1:]  # (1, 64)
    w, b = layer.weight.detach(), layer.bias.detach()
    table = {"CPU": "linear", "Ban": "ban"}
    said = []
    for keys in (["CPU"], ["CPU", "Ban"]):
        _, logits = student.call("run_head", x, w, b, keys, table, {})
        said.append(onelayer.next_words(logits, k=1)[0][0])
    return f'after "ella" the head says {said[0]!r}; with one more kernel in the table, {said[1]!r}'
