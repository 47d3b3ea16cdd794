"""What a repair would bring: the trace played again, without its waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student

from . import lab
from .draw_step import STEPS, backward, function, operators, read_number, region, traced, us
from .machine import LATENCY_US, STEP, Copy, Event, Wait
from .times import MILLISECONDS, expect_us

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
    for bound in ("host", "device", *(draw.choice(("host", "device")) for _ in draw.cases(1))):
        events, want = _drawn(draw, bound)
        with explaining(_RAISED):
            got = student.call("time_without_waits", events, LATENCY_US)
        expect_us(got, want, f"a loop whose repaired form waits for the {bound}")


def _drawn(draw: Draw, bound: str) -> tuple[list[Event], float]:
    """A trace with waits; and how long the same program takes on a machine whose calls do not
    wait. It is played anew, and nothing is read from the trace."""
    large = (50.0, 70.0) if bound == "host" else (160.0, 240.0)
    steps: list[Sequence[Any]] = [_step(draw, large, k == 0) for k in range(STEPS)]
    if bound == "device":  # the last work lies on another stream than the last kernel
        kept = Copy("DtoH (Device -> Pinned)", 2**23, us(draw, 900, 1200), us(draw, 2, 4), stream=5)
        steps[0] = [region(draw, "keep", [kept]), *steps[0]]
        late = Copy("DtoH (Device -> Pinned)", 2**23, us(draw, 900, 1200), us(draw, 2, 4), stream=5)
        steps[-1] = [*steps[-1], region(draw, "keep", [late])]
    state = draw.integer(0, 2**31)
    events, _ = traced(Draw(state), steps)
    _, free = traced(Draw(state), steps, waiting=False)
    last = max(end for _, end in free.seen.work)
    return events, last - free.seen.begin_us


def _step(draw: Draw, large: tuple[float, float], first: bool) -> list[Any]:
    forward = [*operators(draw, 3, (5, 9)), *operators(draw, 2, large)]
    back = backward(draw, [*operators(draw, 1, large), *operators(draw, 2, (8, 20))])
    log = function(draw, "log_loss", [read_number(draw)])
    ahead = Copy("HtoD (Pinned -> Device)", 4096, us(draw, 9, 30), us(draw, 2, 4), stream=13)
    return [
        region(draw, "data", [ahead]),
        region(draw, "forward", [*forward, log]),
        region(draw, "backward", [back]),
        region(draw, "optimizer", [*operators(draw, 4, (6, 12)), *_whole_wait(draw, first)]),
    ]


def _whole_wait(draw: Draw, first: bool) -> list[Any]:
    """A wait for every stream, or none; in the first step there is one."""
    waits = [Wait("cudaDeviceSynchronize", us(draw, 0.3, 0.8), stream=0)]
    return [function(draw, "stop_the_clock", waits)] if first or draw.integer(0, 1) else []


def _replayed(
    events: Sequence[Event],
    *,
    latency: float = LATENCY_US,
    earlier: bool = True,
    queues: bool = True,
    step: bool = True,
    streams: bool = True,
    cats: Sequence[str] = ("kernel", "gpu_memcpy", "gpu_memset"),
    waiting: str = "Synchronize",
    after_the_call: bool = False,
    in_order: bool = True,
    until: Callable[[Iterable[float]], float] = max,
) -> float:
    """Played again from the trace, and the ways to get it wrong."""
    whole = [e for e in events if e["ph"] == "X"]
    begin = min(e["ts"] for e in whole if e["name"].startswith(STEP))
    waits = [e for e in whole if e["name"].endswith(waiting)] if earlier else []
    work = {e["args"]["correlation"]: e for e in whole if e["cat"] in cats}
    free: dict[int, float] = {}
    calls = [e for e in whole if e["cat"] == "cuda_runtime"]
    for call in sorted(calls, key=lambda e: e["ts"]) if in_order else calls:
        if (given := work.get(call["args"]["correlation"])) is None:
            continue
        saved = sum(w["dur"] for w in waits if w["ts"] + w["dur"] <= call["ts"])
        stream = given["tid"] if streams else 0
        start = call["ts"] - saved + latency + (call["dur"] if after_the_call else 0.0)
        if queues:
            start = max(start, free.get(stream, 0.0))
        free[stream] = max(start + given["dur"], free.get(stream, 0.0))
    first = begin if step else min(e["ts"] for e in work.values())
    return float(until(free.values()) - first)


def _wrong(name: str, sentence: str, answer: Callable[[Sequence[Event]], float]) -> None:
    time_without_waits.wrong(
        name, sentence, time_without_waits=lambda events, latency: answer(events)
    )


def _as_it_was(events: Sequence[Event]) -> float:
    return _replayed(events, earlier=False)


def _waits(events: Sequence[Event]) -> float:
    waits = (e for e in events if e["ph"] == "X" and e["name"].endswith("Synchronize"))
    return float(sum(e["dur"] for e in waits))


_wrong(
    "all_waits_saved",
    "All that was waited was taken off the whole. But the device still has its work to do: while "
    "the host waited, it was busy.",
    lambda events: _as_it_was(events) - _waits(events),
)
_wrong(
    "as_it_was",
    "This is the time with the waits. Without them the host is at its later launches earlier.",
    _as_it_was,
)
_wrong(
    "no_queue",
    "Each kernel began as soon as it was launched. A stream does one thing at a time: a kernel "
    "waits for the one before it.",
    lambda events: _replayed(events, queues=False),
)
_wrong(
    "no_latency",
    "Kernels began at the moment of their launch. `latency` lies between the two.",
    lambda events: _replayed(events, latency=0.0),
)
_wrong(
    "since_the_first_kernel",
    "The time began with the first work of the device. It begins with the first step, and the host "
    "comes first.",
    lambda events: _replayed(events, step=False),
)
_wrong(
    "work_alone",
    "This is the sum of what the device does. It has nothing to do while the host prepares the "
    "next launch, with or without waits.",
    lambda events: sum(
        e["dur"] for e in events if e["ph"] == "X" and e["cat"] in ("kernel", "gpu_memcpy")
    ),
)


_wrong(
    "one_stream",
    "All work stands in one queue. Each stream has its own: a copy does not wait for the kernels "
    "of another stream.",
    lambda events: _replayed(events, streams=False),
)
_wrong(
    "after_the_call",
    "`latency` was counted from the end of the call. It begins where the call begins.",
    lambda events: _replayed(events, after_the_call=True),
)
_wrong(
    "kernels_alone",
    "Copies are missing. They are work of a stream as well, and may be the last.",
    lambda events: _replayed(events, cats=("kernel",)),
)
_wrong(
    "streams_alone",
    "Only `cudaStreamSynchronize` was taken away. `cudaDeviceSynchronize` waits as well: every "
    "name that ends in `Synchronize` is a wait.",
    lambda events: _replayed(events, waiting="StreamSynchronize"),
)
_wrong(
    "not_in_order",
    "The calls were played as the list has them, and the list is in no order. Sort them by `ts`.",
    lambda events: _replayed(events, in_order=False),
)
_wrong(
    "first_stream_done",
    "This is the end of the stream that is done first. The last one counts.",
    lambda events: _replayed(events, until=min),
)
_wrong(
    "since_the_first_event",
    "The time began with the first event of the trace. It begins with the first `ProfilerStep#`.",
    lambda events: (
        _replayed(events) + _first_step(events) - min(e["ts"] for e in events if e["ph"] == "X")
    ),
)
_wrong(
    "since_the_first_call",
    "The time began with the first call of the runtime. It begins with the first `ProfilerStep#`.",
    lambda events: (
        _replayed(events)
        + _first_step(events)
        - min(e["ts"] for e in events if e["cat"] == "cuda_runtime")
    ),
)
_wrong(
    "moment_not_time",
    "This is the moment of the end, on the clock of the trace. Take the beginning of the first "
    "step from it.",
    lambda events: _replayed(events) + _first_step(events),
)
_wrong(
    "time_saved",
    "This is what the repair saves. Asked for is how long the steps take then.",
    lambda events: _as_it_was(events) - _replayed(events),
)
_wrong(
    "of_one_step",
    "This is the time of a step on average. Asked for is that of all steps.",
    lambda events: _replayed(events) / _steps(events),
)
_wrong("milliseconds", MILLISECONDS, lambda events: _replayed(events) / 1000)


def _first_step(events: Sequence[Event]) -> float:
    return float(min(e["ts"] for e in events if e["name"].startswith(STEP)))


def _steps(events: Sequence[Event]) -> int:
    return sum(e["cat"] == "user_annotation" and e["name"].startswith(STEP) for e in events)


@time_without_waits.cost
def _(student: Student, draw: Draw) -> str:
    told = []
    for bound in ("host", "device"):
        events, _ = _drawn(draw, bound)
        was, would = _as_it_was(events), student.call("time_without_waits", events, LATENCY_US)
        told.append(f"{was:.0f} us would be {would:.0f} where the {bound} is the limit")
    return "; ".join(told)
