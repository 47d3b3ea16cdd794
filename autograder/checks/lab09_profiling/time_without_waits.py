"""What a repair would bring: the trace played again, without its waits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, within

from . import lab
from .draw_step import STEPS, backward, function, operators, read_number, region, traced, us
from .machine import LATENCY_US, LOADER, STEP, Copy, Event, Fill, Launch, Span, Wait
from .times import CLOSE_US, MILLISECONDS, as_number, expect_us

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
ENDINGS = {
    "kept": "a loop in which an earlier copy ends last",
    "goes on": "a loop behind which the program goes on",
    "beside": "a loop beside which other threads copy",
    "graph": "a loop that ends with a graph of short kernels",
}
"""What else there is to say of a loop than for whom its repaired form waits."""
SECOND_US = 10.0
"""How long the copy takes for which a second thread asks."""
TOO_SHORT = (
    "In this time the busiest stream cannot do its work. A stream does one thing at a time, and "
    "none of its work goes away with the waits."
)
SAVED = (
    "All that was waited was taken off the whole. But the device still has its work to do: while "
    "the host waited, it was busy."
)
AS_IT_WAS = (
    "This is the time with the waits. Without them the host is at its later launches earlier."
)
ANOTHER_STEP = (
    "The time began with a step that is not the first one. The list is in no order: take the "
    "earliest `ProfilerStep#`."
)
TOO_LONG = (
    "This is longer than the steps took with their waits. Without them nothing begins later than "
    "it did."
)
RULE = (
    "A call comes earlier by the waits that ended before it, and by no part of one that is under "
    "way. Its work begins `latency` after it at the earliest, and on a stream one work follows the "
    "other in the order of the calls, those of one call too. The time ends with the last work of "
    "all streams."
)
_RAISED = {
    "KeyError": "Arrows (`ph` is `s` or `f`) have no `dur` and no `args`. And a wait has a "
    "`correlation` with which no work of the device came.",
}


@lab.question(
    "time_without_waits",
    points=5,
    minutes=15,
    difficulty=5,
    hints=(
        "Without its waits the host is at each launch earlier. By how much, for one launch?",
        "By all waits that ended before it. Then play the device: in the order of their launches, "
        "each kernel begins when its stream is free, and not before `latency` after its launch.",
        "begin = max(launch['ts'] - saved + latency, free[stream]); free[stream] = begin + dur",
    ),
)
def time_without_waits(student: Student, draw: Draw) -> None:
    """How long the device would take from the beginning of the first step to the end of its last
    work, if no call of the runtime waited for it.

    events, latency (us from the beginning of a launch to the earliest beginning of its kernel)
    -> us.
    """
    cases = [("host", LATENCY_US, ""), ("device", LATENCY_US, ""), ("host", 9.5, "kept")]
    cases += [("host", 0.0, "goes on"), ("host", LATENCY_US, "beside"), ("host", 9.5, "graph")]
    drawn = [(draw.choice(("host", "device")), LATENCY_US, "") for _ in draw.cases(1)]
    for bound, latency, ending in cases + drawn:
        events, want = _drawn(draw, bound, latency, ending)
        with explaining(_RAISED):
            got = student.call("time_without_waits", events, latency)
        with within("", why=_why(got, want, events, latency)):
            told = ENDINGS.get(ending, f"a loop whose repaired form waits for the {bound}")
            expect_us(got, want, told)


def _why(got: Any, want: float, events: Sequence[Event], latency: float) -> str:
    """What no wrong reading of the trace can be right about, whatever it did."""
    got = as_number(got)
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return ""
    whole = _as_it_was(events)
    over = sum(e["dur"] for e in _over(events, _first_step(events) + whole))
    if any(w and abs(whole - w - got) < CLOSE_US for w in (_waits(events), over)):
        return SAVED
    first = _first_step(events)
    later = [e["ts"] - first for e in events if e["name"].startswith(STEP) and e["ts"] > first]
    if any(abs(want - begun - got) < CLOSE_US for begun in later):
        return ANOTHER_STEP
    if got < max(_work_of_streams(events).values()) - CLOSE_US:
        return TOO_SHORT
    return TOO_LONG if latency == LATENCY_US and got > _as_it_was(events) + CLOSE_US else RULE


def _drawn(
    draw: Draw, bound: str, latency: float = LATENCY_US, ending: str = ""
) -> tuple[list[Event], float]:
    """A trace with waits; and how long the same program takes on a machine whose calls do not
    wait. It is played anew, and nothing is read from the trace. Behind its last launch the host
    goes on longer than the device.

    latency: that of the machine without waits. ending: "kept", the last work to end is not the last
    that was launched; "goes on", behind the steps the program waits and launches once more;
    "beside", while it waits in its first step other threads ask for the work that ends last; or
    "graph", the last work is a graph whose kernels are shorter than the latency.
    """
    large = (50.0, 70.0) if bound == "host" else (160.0, 240.0)
    steps: list[Sequence[Any]] = [_step(draw, large, k == 0) for k in range(STEPS)]
    if bound == "device":  # the last work lies on another stream than the last kernel
        early = Copy(
            "DtoH (Device -> Pinned)", 2**23, us(draw, 900, 1200), us(draw, 2, 4), stream=5
        )
        steps[0] = [region(draw, "keep", [early]), *steps[0]]
        late = Copy("DtoH (Device -> Pinned)", 2**23, us(draw, 900, 1200), us(draw, 2, 4), stream=5)
        steps[-1] = [*steps[-1], region(draw, "keep", [late])]
    if ending == "kept":  # and its stream works less than the main one
        late = Copy("DtoH (Device -> Pinned)", 2**22, us(draw, 450, 600), us(draw, 2, 4), stream=5)
        behind = operators(draw, 1, (6, 12))
        steps[-1] = [*steps[-1], region(draw, "keep", [late]), region(draw, "norms", behind)]
    table = Span("cpu_op", "aten::empty", us(draw, 300, 360))
    steps[-1] = [*steps[-1], region(draw, "table", [table])]
    if ending == "graph":
        kernels = [("void cutlass::Kernel2", us(draw, 0.7, 1.2)) for _ in range(5)]
        graph = Launch("cudaGraphLaunch", us(draw, 9, 14), kernels, stream=19)
        steps[-1] = [*steps[-1], region(draw, "replay", [graph])]
    read = function(draw, "show", [read_number(draw)])
    shown = [*operators(draw, 3, (90, 120)), read, *operators(draw, 12, (3, 6))]
    behind = [region(draw, "evaluate", shown)] if ending == "goes on" else []
    state = draw.integer(0, 2**31)
    events, _ = traced(Draw(state), steps, behind=behind)
    if ending == "kept":  # the first step is not the first in the list
        begun = [e["ts"] for e in events if e["name"].startswith(STEP)]
        events.sort(key=lambda e: e["name"].startswith(STEP) and e["ts"] == min(begun))
    _, free = traced(Draw(state), steps, waiting=False, latency_us=latency, behind=behind)
    want = max(end for _, end in free.seen.work) - free.seen.begin_us
    if ending != "beside":
        return events, want
    wait = min(_over(events, math.inf), key=lambda e: e["ts"] + e["dur"])
    during = round(wait["ts"] + wait["dur"] / 2, 3)
    took = round(want + 40.0, 3)
    events += _asked(events, at=during, took=took)
    return events, during - _first_step(events) + latency + took + SECOND_US


def _over(events: Sequence[Event], moment: float) -> list[Event]:
    """The waits that ended before this moment."""
    waits = [e for e in events if e["ph"] == "X" and e["name"].endswith("Synchronize")]
    return [e for e in waits if e["ts"] + e["dur"] <= moment]


def _asked(events: Sequence[Event], *, at: float, took: float) -> list[Event]:
    """Two copies that two threads ask for, on a stream of their own: the calls, and the copies.
    The first call takes longer, so the device begins with the copy of the second."""
    call = next(e for e in events if e["name"] == "cudaMemcpyAsync")
    copy = next(e for e in events if e["ph"] == "X" and e["cat"] == "gpu_memcpy")
    number = max(e["args"].get("correlation", 0) for e in events if "args" in e)
    second = at + 2.0
    asked = [(at, 8.0, second + LATENCY_US + SECOND_US, took)]
    asked += [(second, 2.5, second + LATENCY_US, SECOND_US)]
    made = []
    for k, (called, call_us, begin, copy_us) in enumerate(asked):
        args, thread = {"correlation": number + 1 + k}, call["pid"] + LOADER + k
        made += [
            {**call, "tid": thread, "ts": called, "dur": call_us, "args": call["args"] | args},
            {**copy, "tid": 17, "ts": begin, "dur": copy_us, "args": copy["args"] | args},
        ]
    return made


def _step(draw: Draw, large: tuple[float, float], first: bool) -> list[Any]:
    forward = [*operators(draw, 3, (5, 9)), *operators(draw, 2, large)]
    back = backward(draw, [*operators(draw, 1, large), *operators(draw, 2, (8, 20))])
    log = function(draw, "log_loss", [read_number(draw)])
    ahead = Copy("HtoD (Pinned -> Device)", 4096, us(draw, 9, 30), us(draw, 2, 4), stream=13)
    names = [("void cutlass::Kernel2", us(draw, 6, 12)) for _ in range(2)]
    graph = Launch("cudaGraphLaunch", us(draw, 9, 14), names)
    zeros = Fill(us(draw, 20, 40), us(draw, 2, 4))
    optimizer = [*operators(draw, 4, (6, 12)), zeros, *_whole_wait(draw, first)]
    return [
        region(draw, "data", [ahead]),
        region(draw, "forward", [*forward, log]),
        region(draw, "backward", [back, graph]),
        region(draw, "optimizer", optimizer),
    ]


def _whole_wait(draw: Draw, first: bool) -> list[Any]:
    """A wait for every stream, or none; in the first step there is one."""
    waits = [Wait("cudaDeviceSynchronize", us(draw, 0.3, 0.8), stream=0)]
    return [function(draw, "stop_the_clock", waits)] if first or draw.integer(0, 1) else []


def _replayed(
    events: Sequence[Event],
    latency: float,
    *,
    earlier: bool = True,
    queues: bool = True,
    between: bool = False,
    which: Callable[[Event, Event], bool] = lambda wait, call: True,
    last_alone: bool = False,
    step: bool = True,
    streams: bool = True,
    cats: Sequence[str] = WORK,
    waiting: str | tuple[str, ...] = "Synchronize",
    after_the_call: bool = False,
    in_order: bool = True,
    until: Callable[[Iterable[float]], float] = max,
    played: slice = slice(None),
    begun: bool = False,
    as_listed: bool = False,
) -> float:
    """Played again from the trace, and the ways to get it wrong. between: the latency lies
    between any two works of a stream as well. played: which works of a graph count; as_listed: in
    the order of the list. begun: a wait counts from its beginning on."""
    whole = [e for e in events if e["ph"] == "X"]
    begin = min(e["ts"] for e in whole if e["name"].startswith(STEP))
    waits = [e for e in whole if e["name"].endswith(waiting)] if earlier else []
    work: dict[int, list[Event]] = {}
    for e in whole if as_listed else sorted(whole, key=lambda e: e["ts"]):
        if e["cat"] in cats:
            given = [*work.get(e["args"]["correlation"], []), e]
            work[e["args"]["correlation"]] = given[played]
    free: dict[int, float] = {}
    calls = [e for e in whole if e["cat"] == "cuda_runtime"]
    for call in sorted(calls, key=lambda e: e["ts"]) if in_order else calls:
        given = work.get(call["args"]["correlation"], [])
        over = [
            w
            for w in waits
            if w["ts"] + (0.0 if begun else w["dur"]) <= call["ts"] and which(w, call)
        ]
        over.sort(key=lambda w: w["ts"])
        saved = sum(w["dur"] for w in (over[-1:] if last_alone else over))
        begins = call["ts"] - saved + latency + (call["dur"] if after_the_call else 0.0)
        for e in given:
            stream, start = e["tid"] if streams else 0, begins
            if queues:
                start = max(start, free.get(stream, 0.0) + (latency if between else 0.0))
            free[stream] = max(start + e["dur"], free.pop(stream, 0.0))
    first = begin if step else min(e["ts"] for e, *_ in work.values())
    return float(until(free.values()) - first)


def _wrong(name: str, sentence: str, answer: Callable[[Sequence[Event], float], Any]) -> None:
    time_without_waits.wrong(
        name, sentence, time_without_waits=lambda events, latency: answer(events, latency)
    )


def _as_it_was(events: Sequence[Event], latency: float = LATENCY_US) -> float:
    return _replayed(events, latency, earlier=False)


def _waits(events: Sequence[Event]) -> float:
    waits = (e for e in events if e["ph"] == "X" and e["name"].endswith("Synchronize"))
    return float(sum(e["dur"] for e in waits))


_wrong("all_waits_saved", SAVED, lambda events, latency: _as_it_was(events) - _waits(events))
_wrong(
    "all_waits_saved_of_the_play",
    SAVED,
    lambda events, latency: _as_it_was(events, latency) - _waits(events),
)
_wrong("as_it_was", AS_IT_WAS, lambda events, latency: _as_it_was(events))
_wrong("played_with_waits", AS_IT_WAS, _as_it_was)
_wrong(
    "no_queue",
    "Each kernel began as soon as it was launched. A stream does one thing at a time: a kernel "
    "waits for the one before it.",
    lambda events, latency: _replayed(events, latency, queues=False),
)
_wrong(
    "no_latency",
    "Kernels began at the moment of their launch. `latency` lies between the two.",
    lambda events, latency: _replayed(events, 0.0),
)
_wrong(
    "since_the_first_kernel",
    "The time began with the first work of the device. It begins with the first step, and the host "
    "comes first.",
    lambda events, latency: _replayed(events, latency, step=False),
)
_wrong(
    "work_alone",
    "This is the sum of what the device does. It has nothing to do while the host prepares the "
    "next launch, with or without waits.",
    lambda events, latency: sum(e["dur"] for e in events if e["ph"] == "X" and e["cat"] in WORK),
)


_wrong(
    "one_stream",
    "All work stands in one queue. Each stream has its own: a copy does not wait for the kernels "
    "of another stream.",
    lambda events, latency: _replayed(events, latency, streams=False),
)
_wrong(
    "after_the_call",
    "`latency` was counted from the end of the call. It begins where the call begins.",
    lambda events, latency: _replayed(events, latency, after_the_call=True),
)
_wrong(
    "kernels_alone",
    "Copies are missing. They are work of a stream as well, and may be the last.",
    lambda events, latency: _replayed(events, latency, cats=("kernel",)),
)
_wrong(
    "fills_left_out",
    "`gpu_memset` is missing. A fill is work of a stream as well, and may be the last.",
    lambda events, latency: _replayed(events, latency, cats=("kernel", "gpu_memcpy")),
)
_wrong(
    "streams_alone",
    "Only `cudaStreamSynchronize` was taken away. `cudaDeviceSynchronize` waits as well: every "
    "name that ends in `Synchronize` is a wait.",
    lambda events, latency: _replayed(events, latency, waiting="StreamSynchronize"),
)
_wrong(
    "not_in_order",
    "The calls were played as the list has them, and the list is in no order. Sort them by `ts`.",
    lambda events, latency: _replayed(events, latency, in_order=False),
)
_wrong(
    "first_stream_done",
    "This is the end of the stream that is done first. The last one counts.",
    lambda events, latency: _replayed(events, latency, until=min),
)
_wrong(
    "since_the_first_event",
    "The time began with the first event of the trace. It begins with the first `ProfilerStep#`.",
    lambda events, latency: (
        _replayed(events, latency)
        + _first_step(events)
        - min(e["ts"] for e in events if e["ph"] == "X")
    ),
)
_wrong(
    "since_the_first_call",
    "The time began with the first call of the runtime. It begins with the first `ProfilerStep#`.",
    lambda events, latency: (
        _replayed(events, latency)
        + _first_step(events)
        - min(e["ts"] for e in events if e["cat"] == "cuda_runtime")
    ),
)
_wrong(
    "moment_not_time",
    "This is the moment of the end, on the clock of the trace. Take the beginning of the first "
    "step from it.",
    lambda events, latency: _replayed(events, latency) + _first_step(events),
)
_wrong(
    "time_saved",
    "This is what the repair saves. Asked for is how long the steps take then.",
    lambda events, latency: _as_it_was(events, latency) - _replayed(events, latency),
)
_wrong(
    "of_one_step",
    "This is the time of a step on average. Asked for is that of all steps.",
    lambda events, latency: _replayed(events, latency) / _steps(events),
)
_wrong(
    "waits_of_its_own_thread",
    "Only the waits of a launch's own thread were taken off. Autograd's thread begins when the "
    "main one calls it: it is earlier by all waits that ended before.",
    lambda events, latency: _replayed(
        events, latency, which=lambda wait, call: wait["tid"] == call["tid"]
    ),
)
_wrong(
    "waits_that_go_on",
    "A wait was taken off that was not over yet: another thread called while it went on. A call is "
    "earlier by the waits that ended before it.",
    lambda events, latency: _replayed(events, latency, begun=True),
)
_wrong(
    "last_wait_alone",
    "Each launch is earlier by the last wait before it alone. Without waits it is earlier by all "
    "that ended before it.",
    lambda events, latency: _replayed(events, latency, last_alone=True),
)
_wrong(
    "latency_on_a_busy_stream",
    "`latency` was added behind the work before as well. It is counted from the call: a kernel "
    "that its stream keeps waiting begins as soon as the stream is free.",
    lambda events, latency: _replayed(events, latency, between=True),
)
for _name, _of_a_graph, _as_listed in (
    ("one_work_for_each_call", slice(-1, None), False),
    ("first_work_of_each_call", slice(1), False),
    ("last_listed_of_each_call", slice(-1, None), True),
    ("first_listed_of_each_call", slice(1), True),
):
    _wrong(
        _name,
        "Work of the device is missing: one call may bring a whole graph of kernels, all with its "
        "`correlation`. They run one behind the other.",
        partial(_replayed, played=_of_a_graph, as_listed=_as_listed),
    )
_wrong(
    "latency_of_the_trace",
    "The time between a call and its work was that of this trace. The one to play with is given: "
    "`latency`.",
    lambda events, latency: _replayed(events, LATENCY_US),
)
_wrong(
    "since_the_first_in_the_list",
    ANOTHER_STEP,
    lambda events, latency: (
        _replayed(events, latency) + _first_step(events) - _steps_begin(events)[0]
    ),
)
_wrong(
    "since_the_last_step",
    ANOTHER_STEP,
    lambda events, latency: (
        _replayed(events, latency) + _first_step(events) - max(_steps_begin(events))
    ),
)
_wrong(
    "copies_as_waits",
    "Calls of `cudaMemcpyAsync` were taken off as waits. A wait is a call whose name ends in "
    "`Synchronize`.",
    lambda events, latency: _replayed(events, latency, waiting=("Synchronize", "cudaMemcpyAsync")),
)
_wrong(
    "end_of_the_last_launched",
    "This is the end of the work that was launched last. On another stream an earlier one may end "
    "later.",
    lambda events, latency: _replayed(events, latency, until=lambda ends: [*ends][-1]),
)
_wrong(
    "end_of_the_busiest",
    "This is the end of the stream that works most. Another one may end later.",
    lambda events, latency: _replayed(_busiest_alone(events), latency),
)
_wrong(
    "until_the_host_ends",
    "The time goes on until the host is done with its last step. It ends with the last work on the "
    "device.",
    lambda events, latency: max(_replayed(events, latency), _hosts_time(events)),
)
_wrong("milliseconds", MILLISECONDS, lambda events, latency: _replayed(events, latency) / 1000)


def _busiest_alone(events: Sequence[Event]) -> list[Event]:
    """Without the work of any stream but that which works most."""
    work = _work_of_streams(events)
    busiest = max(work, key=lambda stream: work[stream])
    return [e for e in events if e["cat"] not in WORK or e["tid"] == busiest]


def _work_of_streams(events: Sequence[Event]) -> dict[int, float]:
    streams: dict[int, float] = {}
    for e in events:
        if e["ph"] == "X" and e["cat"] in WORK:
            streams[e["tid"]] = streams.get(e["tid"], 0.0) + e["dur"]
    return streams


def _first_step(events: Sequence[Event]) -> float:
    return float(min(e["ts"] for e in events if e["name"].startswith(STEP)))


def _steps(events: Sequence[Event]) -> int:
    return len(_steps_begin(events))


def _steps_begin(events: Sequence[Event]) -> list[float]:
    """As the list has them."""
    notes = [e for e in events if e["cat"] == "user_annotation"]
    return [e["ts"] for e in notes if e["name"].startswith(STEP)]


def _hosts_time(events: Sequence[Event]) -> float:
    """Of the steps on the host, without the waits in them."""
    notes = [e for e in events if e["cat"] == "user_annotation" and e["name"].startswith(STEP)]
    end = max(e["ts"] + e["dur"] for e in notes)
    waits = [e for e in events if e["ph"] == "X" and e["name"].endswith("Synchronize")]
    took = sum(w["dur"] for w in waits if w["ts"] + w["dur"] <= end)
    return float(end - took - _first_step(events))


@time_without_waits.cost
def _(student: Student, draw: Draw) -> str:
    told = []
    for bound in ("host", "device"):
        events, _ = _drawn(draw, bound)
        was, would = _as_it_was(events), student.call("time_without_waits", events, LATENCY_US)
        told.append(f"{was:.0f} us would be {would:.0f} where the {bound} is the limit")
    return "; ".join(told)
