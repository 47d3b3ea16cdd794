"""How long the device was at work, and how long it had nothing to do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_tuple, within

from . import lab
from .draw_step import STEPS, backward, operators, region, traced, us
from .machine import Copy, Event, Fill, Launch
from .times import MILLISECONDS, Pair, expect_us, related, spans_of, union_us

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
THE_ONE_BEFORE = (
    "Each piece of work was compared with the one before it alone. One that began earlier may last "
    "longer: keep the latest end so far."
)
TOO_EARLY = (
    "The idle time begins too early: before its first work the device waits for the host's first "
    "launch, which was left out of the question."
)
NO_PAIR = "Two times were asked for: (busy, idle)."
BUSY_LESS = (
    "This is less than the device was at work. Each moment counts, and once, in which anything "
    "runs on it: of any kind, on any stream, one of several of a call, or a long one around others."
)
BUSY_MORE = (
    "This is more than the device was at work: something is counted twice, or is no work of it."
)
TOO_SHORT = (
    "The busy time is right, and the idle time is too short. Together they last from the "
    "beginning of the first work to the end of the last."
)
TOO_LONG = (
    "The busy time is right, and the idle time is too long. Together they last from the "
    "beginning of the first work to the end of the last."
)
_RAISED = {
    "KeyError": "Not every event has a `dur` and `args`: the ends of arrows (`ph` is `s` or "
    "`f`) have neither. Ask for `ph` first.",
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
    for k in draw.cases(3):
        events, work = _drawn(draw, goes_on=k % 3 == 1)
        busy = union_us(work)
        whole = max(end for _, end in work) - min(begin for begin, _ in work)
        with explaining(_RAISED):
            got = student.call("busy_us", events)
        pair = expect_tuple(got, 2, "(busy, idle) in us", why=NO_PAIR)
        with within("", why=related(pair[0], busy, less=BUSY_LESS, more=BUSY_MORE)):
            expect_us(pair[0], busy, "busy")
        with within("", why=related(pair[1], whole - busy, less=TOO_SHORT, more=TOO_LONG)):
            expect_us(pair[1], whole - busy, "idle")


def _drawn(draw: Draw, *, goes_on: bool = False) -> tuple[list[Event], list[Pair]]:
    """Copies on a stream of their own, which begin when the device has nothing else to do and last
    into the kernels. goes_on: the last work is that of a region behind the steps."""
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
    # The gaps between these are short: together they are more than CLOSE_US.
    short = [Launch("cudaLaunchKernel", 1.1, [("void at::native::fill", 0.3)])] * 4
    # One call brings several, one behind the other: none of them hides another one.
    kernels = [("void at::native::fill", us(draw, 5, 9)) for _ in range(3)]
    graph = Launch("cudaGraphLaunch", us(draw, 9, 14), kernels)
    steps[0] = [region(draw, "zeros", [graph, *short]), *steps[0]]
    last = Copy("DtoH (Device -> Pinned)", 2**20, us(draw, 400, 500), us(draw, 2, 4), stream=13)
    steps[-1] = [*steps[-1], region(draw, "keep", [last, zeros])]
    behind = [region(draw, "evaluate", operators(draw, 3, (300, 400)))] if goes_on else []
    events, machine = traced(draw, steps, behind=behind)
    # Shorter ones on another stream begin with them; with the first of all begins none.
    longer = [e for e in events if e["ph"] == "X" and e["cat"] == "kernel"][1:4]
    beside = [{**e, "tid": 21, "dur": round(e["dur"] / 2, 3)} for e in longer]
    return [*events, *beside], machine.seen.work


def _known(spans: Sequence[Pair], busy: float | None = None) -> Pair:
    busy = union_us(spans) if busy is None else busy
    return busy, max(end for _, end in spans) - min(begin for begin, _ in spans) - busy


busy_us.wrong(
    "sum_of_durations",
    "What ran at the same time on two streams was counted twice. A copy and a kernel side by side "
    "are one busy device.",
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


ONE_STREAM = "Only one stream was looked at. The device is at work when any of its streams is."


@busy_us.wrong("one_stream", ONE_STREAM)
def _(events: list[Event]) -> Pair:
    return _known(spans_of([e for e in events if e["tid"] == 7], WORK))


@busy_us.wrong("busiest_stream", ONE_STREAM)
def _(events: list[Event]) -> Pair:
    streams = {e["tid"] for e in events if e["cat"] in WORK}
    each = [_known(spans_of([e for e in events if e["tid"] == s], WORK)) for s in streams]
    return max(each)


@busy_us.wrong(
    "since_the_hosts_beginning",
    TOO_EARLY,
)
def _(events: list[Event]) -> Pair:
    work = spans_of(events, WORK)
    begin = min(e["ts"] for e in events)
    return union_us(work), max(end for _, end in work) - begin - union_us(work)


@busy_us.wrong("idle_first", "Both times are right, in the other order: (busy, idle).")
def _(events: list[Event]) -> Pair:
    busy, idle = _known(spans_of(events, WORK))
    return idle, busy


busy_us.wrong(
    "since_the_first_call",
    TOO_EARLY,
    busy_us=lambda events: _idle_since(
        events, min(begin for begin, _ in spans_of(events, ["cuda_runtime"]))
    ),
)


def _idle_since(events: list[Event], begin: float) -> Pair:
    work = spans_of(events, WORK)
    return union_us(work), max(end for _, end in work) - begin - union_us(work)


@busy_us.wrong(
    "of_the_whole_trace",
    "The idle time is that of the whole trace. Asked for is the time between the first thing that "
    "the device does and the last.",
)
def _(events: list[Event]) -> Pair:
    whole = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X"]
    busy, idle = _known(whole, union_us(spans_of(events, WORK)))
    return busy, idle


@busy_us.wrong(
    "busy_counted_as_idle",
    "The second number is the whole time from the first work to the last. Idle is what remains of "
    "it without the busy time.",
)
def _(events: list[Event]) -> Pair:
    busy, idle = _known(spans_of(events, WORK))
    return busy, busy + idle


@busy_us.wrong(
    "last_to_begin",
    "The time ends with the work that began last. On another stream an earlier one may end later.",
)
def _(events: list[Event]) -> Pair:
    spans = sorted(spans_of(events, WORK))
    return union_us(spans), spans[-1][1] - spans[0][0] - union_us(spans)


busy_us.wrong(
    "fills_left_out",
    "`gpu_memset` is missing. It is work of the device, as kernels and copies are.",
    busy_us=lambda events: _known(spans_of(events, ["kernel", "gpu_memcpy"])),
)
busy_us.wrong(
    "copies_left_out",
    "`gpu_memcpy` is missing. A copy is work of the device, as a kernel is.",
    busy_us=lambda events: _known(spans_of(events, ["kernel", "gpu_memset"])),
)
busy_us.wrong(
    "calls_too",
    "`cuda_runtime` was counted as work. These are calls of the host: the device works on what "
    "they asked for.",
    busy_us=lambda events: _known(spans_of(events, [*WORK, "cuda_runtime"])),
)


def _in_turn(spans: Sequence[Pair], *, latest: bool = True) -> Pair:
    """Taken as they come, each compared with the latest end so far, or with the end before."""
    busy, until = 0.0, spans[0][0]
    for begin, end in spans:
        busy += max(0.0, end - max(begin, until))
        until = max(until, end) if latest else end
    return busy, until - spans[0][0] - busy


busy_us.wrong(
    "not_sorted",
    "The work was taken as the list has it, and the list is in no order. Sort it by its beginning "
    "first.",
    busy_us=lambda events: _in_turn(spans_of(events, WORK)),
)
for _listed in ("last", "first"):
    busy_us.wrong(
        f"{_listed}_listed_of_each_call",
        "Work of the device is missing: several works may have one `correlation`, where one call "
        "brought them. Each of them counts.",
        busy_us=lambda events, last=_listed == "last": _known(_one_of_each_call(events, last)),
    )


def _one_of_each_call(events: list[Event], last: bool) -> list[Pair]:
    work = [e for e in events if e["ph"] == "X" and e["cat"] in WORK]
    kept = {e["args"]["correlation"]: e for e in (work if last else reversed(work))}
    return spans_of(kept.values(), WORK)


BY_THEIR_END = (
    "The work was taken in the order of its ends. What ends late may have begun early, beside all "
    "that ended before it: sort by the beginning."
)
busy_us.wrong(
    "by_their_end",
    BY_THEIR_END,
    busy_us=lambda events: _in_turn(sorted(spans_of(events, WORK), key=lambda span: span[1])),
)


@busy_us.wrong("by_their_end_since_the_first", BY_THEIR_END)
def _(events: list[Event]) -> Pair:
    spans = spans_of(events, WORK)
    return _known(spans, _in_turn(sorted(spans, key=lambda span: span[1]))[0])


@busy_us.wrong(
    "overlap_of_each_two",
    "The overlap of each two works was taken off. Where three run at once, that is too much: each "
    "moment counts once.",
)
def _(events: list[Event]) -> Pair:
    spans = spans_of(events, WORK)
    shared = (max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in combinations(spans, 2))
    return _known(spans, sum(end - begin for begin, end in spans) - sum(shared))


busy_us.wrong(
    "the_one_before",
    THE_ONE_BEFORE,
    busy_us=lambda events: _in_turn(sorted(spans_of(events, WORK)), latest=False),
)


@busy_us.wrong("the_one_before_up_to_the_last_end", THE_ONE_BEFORE)
def _(events: list[Event]) -> Pair:
    spans = sorted(spans_of(events, WORK))
    return _known(spans, _in_turn(spans, latest=False)[0])


def _cut_short(spans: Sequence[Pair]) -> Pair:
    """Merged, but each ends where the one that began last does."""
    merged: list[list[float]] = []
    for begin, end in spans:
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = end
        else:
            merged.append([begin, end])
    busy = sum(end - begin for begin, end in merged)
    return busy, merged[-1][1] - merged[0][0] - busy


CUT_SHORT = (
    "A work that begins inside a longer one ended that one early. Merged, they end at the later "
    "end of both."
)
busy_us.wrong(
    "longer_one_cut_short",
    CUT_SHORT,
    busy_us=lambda events: _cut_short(sorted(spans_of(events, WORK), key=lambda span: span[0])),
)
busy_us.wrong(
    "longer_one_cut_short_by_both_ends",
    CUT_SHORT,
    busy_us=lambda events: _cut_short(sorted(spans_of(events, WORK))),
)


@busy_us.wrong("gap_to_the_one_before", THE_ONE_BEFORE)
def _(events: list[Event]) -> Pair:
    return _gaps(sorted(spans_of(events, WORK)))


@busy_us.wrong("gap_to_the_one_listed_before", THE_ONE_BEFORE)
def _(events: list[Event]) -> Pair:
    """Of those that begin together, as the list has them."""
    return _gaps(sorted(spans_of(events, WORK), key=lambda span: span[0]))


def _gaps(spans: Sequence[Pair]) -> Pair:
    busy, idle = _known(spans)
    gaps = sum(max(0.0, after[0] - before[1]) for before, after in pairwise(spans))
    return busy + idle - gaps, gaps


@busy_us.wrong(
    "gaps_of_each_stream",
    "The gaps of each stream were added up. The device is idle only while no stream of it works.",
)
def _(events: list[Event]) -> Pair:
    streams = {e["tid"] for e in events if e["cat"] in WORK}
    gaps = [_known(spans_of([e for e in events if e["tid"] == s], WORK))[1] for s in streams]
    return union_us(spans_of(events, WORK)), sum(gaps)


@busy_us.wrong("shares", "These are shares of the time. The two times were asked for, in us.")
def _(events: list[Event]) -> Pair:
    busy, idle = _known(spans_of(events, WORK))
    return busy / (busy + idle), idle / (busy + idle)


@busy_us.wrong("milliseconds", MILLISECONDS)
def _(events: list[Event]) -> Pair:
    busy, idle = _known(spans_of(events, WORK))
    return busy / 1000, idle / 1000


busy_us.wrong(
    "busy_alone",
    "This is the busy time alone. Two times were asked for: (busy, idle).",
    busy_us=lambda events: _known(spans_of(events, WORK))[0],
)


@busy_us.cost
def _(student: Student, draw: Draw) -> str:
    events, work = _drawn(draw)
    busy, idle = student.call("busy_us", events)
    share = idle / (busy + idle)
    return f"{len(events)} events, {len(work)} of them work of the device: idle {share:.0%}"
