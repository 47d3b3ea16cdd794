"""How long the device was at work, and how long it had nothing to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_tuple

from . import lab
from .draw_step import STEPS, backward, operators, region, traced, us
from .machine import Copy, Event, Fill
from .times import Pair, expect_us, spans_of, union_us

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
_RAISED = {
    "KeyError": "Not every event has a `dur`, nor a `cat`: the ends of arrows (`ph` is `s` or `f`) "
    "have none. Ask for `ph` first.",
}


@lab.question(
    "busy_us",
    points=2,
    minutes=8,
    difficulty=2,
    hints=(
        "Which categories are work of the device? Look at one event of each `cat`.",
        "Take kernels and copies of all streams, sort them by their beginning, and count what two "
        "of them do at the same time once: keep the latest end so far.",
        "busy += max(0, end - max(begin, until)); until = max(until, end)",
    ),
)
def busy_us(student: Student, draw: Draw) -> None:
    """How long the device was at work between the first thing that it did and the last, and how
    long it was idle there.

    events (a trace's traceEvents) -> (busy, idle), in us.
    """
    for _ in draw.cases(3):
        events, work = _drawn(draw)
        busy = union_us(work)
        whole = max(end for _, end in work) - min(begin for begin, _ in work)
        with explaining(_RAISED):
            got = student.call("busy_us", events)
        pair = expect_tuple(got, 2, "(busy, idle) in us")
        expect_us(pair[0], busy, "busy")
        expect_us(pair[1], whole - busy, "idle")


def _drawn(draw: Draw) -> tuple[list[Event], list[Pair]]:
    """Copies on a stream of their own, which begin when the device has nothing else to do and last
    into the kernels."""
    steps: list[Sequence[Any]] = []
    for _ in range(STEPS):
        nbytes = 4096 * draw.integer(40, 90)
        copy = Copy(
            "HtoD (Pinned -> Device)", nbytes, us(draw, 140, 190), us(draw, 2, 4), stream=13
        )
        forward = operators(draw, draw.integer(4, 6), (3, 12))
        back = backward(draw, operators(draw, draw.integer(7, 9), (3, 12)))
        table = Copy("HtoD (Pinned -> Device)", 64 * draw.integer(20, 90), us(draw, 2, 5), 2.5)
        parts = [region(draw, "data", [copy]), region(draw, "forward", forward)]
        zeros = Fill(us(draw, 20, 40), us(draw, 2, 4))
        steps.append([*parts, region(draw, "backward", [back]), region(draw, "lr", [table, zeros])])
    last = Copy("DtoH (Device -> Pinned)", 2**20, us(draw, 400, 500), us(draw, 2, 4), stream=13)
    steps[-1] = [*steps[-1], region(draw, "keep", [last, zeros])]
    events, machine = traced(draw, steps)
    return events, machine.seen.work


def _known(spans: Sequence[Pair], busy: float | None = None) -> Pair:
    busy = union_us(spans) if busy is None else busy
    return busy, max(end for _, end in spans) - min(begin for begin, _ in spans) - busy


busy_us.wrong(
    "sum_of_durations",
    "The durations were added up. A copy and a kernel on two streams run at the same time, and the "
    "device is busy once.",
    busy_us=lambda events: _known(
        spans_of(events, WORK), sum(end - begin for begin, end in spans_of(events, WORK))
    ),
)
busy_us.wrong(
    "kernels_only",
    "Copies are missing. `gpu_memcpy` and `gpu_memset` are work of the device, beside `kernel`.",
    busy_us=lambda events: _known(spans_of(events, ["kernel"])),
)
busy_us.wrong(
    "annotations_too",
    "`gpu_user_annotation` was counted as work. It is a label: it lasts from the first kernel of "
    "a region to its last, gaps included.",
    busy_us=lambda events: _known(spans_of(events, [*WORK, "gpu_user_annotation"])),
)
busy_us.wrong(
    "the_hosts",
    "This is the time of operators on the host. They return before the device is done.",
    busy_us=lambda events: _known(spans_of(events, ["cpu_op"])),
)


@busy_us.wrong(
    "one_stream",
    "Only one stream was looked at. The device is at work when any of its streams is.",
)
def _(events: list[Event]) -> Pair:
    return _known(spans_of([e for e in events if e["tid"] == 7], WORK))


@busy_us.wrong(
    "since_the_hosts_beginning",
    "The idle time begins too early: before its first work the device waits for the host's first "
    "launch, which was left out of the question.",
)
def _(events: list[Event]) -> Pair:
    work = spans_of(events, WORK)
    begin = min(e["ts"] for e in events)
    return union_us(work), max(end for _, end in work) - begin - union_us(work)


@busy_us.wrong("idle_first", "Both times are right, in the other order: (busy, idle).")
def _(events: list[Event]) -> Pair:
    busy, idle = _known(spans_of(events, WORK))
    return idle, busy


@busy_us.cost
def _(student: Student, draw: Draw) -> str:
    events, work = _drawn(draw)
    busy, idle = student.call("busy_us", events)
    share = idle / (busy + idle)
    return f"{len(events)} events, {len(work)} of them work of the device: idle {share:.0%}"
