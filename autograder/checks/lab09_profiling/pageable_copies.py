"""What comes from pageable memory, and what that costs the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, Wrong, describe, expect_tuple, within

from . import lab
from .draw_step import STEPS, backward, function, operators, region, traced, us
from .machine import PAGEABLE_IN, Copy, Event, Span, Wait
from .times import MILLISECONDS, expect_us, related

KIND = f"Memcpy {PAGEABLE_IN}"
_FORM = "(copies, bytes, us)"
_RAISED = {
    "KeyError": "Only some events have `args`, and only copies have `bytes` in them. Ask for the "
    "category first.",
}
NO_THREE = "Three numbers were asked for: (copies, bytes, us)."
NOT_WHOLE = {
    "copies": "A whole number of copies was asked for first.",
    "bytes": "A whole number of bytes was asked for second.",
}
RELATED = {
    "copies": (
        "Copies are missing. Those of the whole trace count, however small.",
        "More is counted than the copies from pageable memory to the device.",
    ),
    "bytes": (
        "These copies have more bytes: those of all of them count, also of small ones and of "
        "two of one size.",
        "These copies do not have so many bytes.",
    ),
}
"""Less than was asked for, or more."""
TIME_LESS = (
    "The host stands longer in the calls of these copies: each counts, from its beginning to "
    "its end."
)
TIME_MORE = "This is longer than the host stands in the calls of these copies."
Copies = tuple[int, int, float]


@lab.question(
    "pageable_copies",
    points=3,
    minutes=8,
    difficulty=3,
    hints=(
        "How does a trace name a copy from pageable memory to the device? Which other kinds are in "
        "it?",
        "The copy on the stream says what and how many bytes. The `cuda_runtime` event with "
        "the same `correlation` says how long the host stood in it.",
        "blocked = sum(calls[c['args']['correlation']]['dur'] for c in copies)",
    ),
)
def pageable_copies(student: Student, draw: Draw) -> None:
    """How many copies come to the device from pageable memory, how many bytes, and how long the
    host stands in the calls that ask for them.

    events -> (copies, bytes, us).
    """
    for _ in draw.cases(3):
        events, want = _drawn(draw)
        with explaining(_RAISED):
            got = expect_tuple(student.call("pageable_copies", events), 3, _FORM, why=NO_THREE)
        for name, came, wanted in zip(("copies", "bytes"), got, want, strict=False):
            if type(came) is not int or came != wanted:
                why = RELATED[name][came > wanted] if type(came) is int else NOT_WHOLE[name]
                told = f"{wanted:,} {name}"
                raise Wrong(expected=told, got=describe(came), where=name, why=why)
        with within("", why=related(got[2], want[2], less=TIME_LESS, more=TIME_MORE)):
            expect_us(got[2], want[2], "the time of the host")


def _drawn(draw: Draw) -> tuple[list[Event], Copies]:
    """Batches from pageable memory, of one size in each step, beside copies of every other kind."""
    batch = [draw.integer(20, 90) * 4096 + 64 * draw.integer(0, 60) for _ in range(2)]
    steps = [_step(draw, batch) for _ in range(STEPS)]
    pageable = batch * STEPS
    wait = Wait("cudaStreamSynchronize", us(draw, 0.3, 0.9))  # behind a whole step of launches
    steps[0] = [*steps[0], region(draw, "log", [function(draw, "shown", [wait])])]
    small = [8 * draw.integer(3, 100), 4, 4]
    call_us = us(draw, 2, 5)  # some of them last equally long
    rates = [_moved(draw, PAGEABLE_IN, n, call_us=call_us) for n in small]
    asked = Wait("cudaStreamSynchronize", us(draw, 2, 4))  # behind a copy that did not wait
    by_graph = Copy(PAGEABLE_IN, 512, us(draw, 2, 4), us(draw, 9, 14), call="cudaGraphLaunch")
    steps[-1] = [*steps[-1], region(draw, "lr", [*rates, asked, by_graph])]
    pageable += [*small, by_graph.nbytes]
    odd = 4096 * draw.integer(5, 19) + 4  # behind the steps, on a stream of its own
    table = Copy(PAGEABLE_IN, 4096, us(draw, 2, 4), us(draw, 9, 14), True, call="cudaMemcpy")
    moved = _moved(draw, PAGEABLE_IN, odd, stream=13)
    behind = [region(draw, "evaluate", [moved, table])]  # and one that torch did not ask for
    pageable += [odd, table.nbytes]
    events, machine = traced(draw, steps, behind=behind)
    graph = next(e["args"]["correlation"] for e in events if e["name"] == by_graph.call)
    copies = (e for e in events if e["cat"] == "gpu_memcpy")
    other = next(e for e in copies if e["args"]["correlation"] == graph)
    events.append({**other, "ts": round(other["ts"] + other["dur"], 3)})  # two copies of one size
    pageable.append(by_graph.nbytes)
    return events, (len(pageable), sum(pageable), machine.seen.blocked_us)


def _step(draw: Draw, nbytes: Sequence[int]) -> list[Any]:
    large = draw.integer(20, 90) * 4096
    out = "DtoH (Device -> Pageable)"
    kinds = [("HtoD (Pinned -> Device)", large), (out, large - 64)]
    kinds.append(("DtoD (Device -> Device)", large // 2))
    kinds.append(("HtoH (Pageable -> Pinned)", large + 64))
    others = [_moved(draw, kind, n + 64 * draw.integer(1, 40)) for kind, n in kinds]
    batch = [_moved(draw, PAGEABLE_IN, n) for n in nbytes]
    forward = operators(draw, 3, (20, 60))
    return [
        region(draw, draw.choice(("data", "fetch")), [function(draw, "to_device", batch)]),
        region(draw, "forward", [*forward, *others]),
        region(draw, "backward", [backward(draw, operators(draw, 3, (20, 60)))]),
    ]


def _moved(
    draw: Draw, kind: str, nbytes: int, *, stream: int = 7, call_us: float | None = None
) -> Span:
    """A copy as torch asks for it. From pageable memory the host stands in the call until the
    device has its bytes, but for few of them: then for `call_us`, if given."""
    waits = "Pageable" in kind and nbytes > 2**16
    rate = us(draw, 20, 26) if "Pinned" in kind else us(draw, 9, 13)  # kB in a us
    least = us(draw, 2, 5) if call_us is None else call_us
    copy = Copy(kind, nbytes, nbytes / 1e3 / rate + 1.2, least, waits, stream)
    return Span("cpu_op", "aten::to", us(draw, 4, 8), [_copy_of(draw, copy)])


def _copy_of(draw: Draw, copy: Copy) -> Span:
    calls: list[Any] = [copy]
    if "Pageable" in copy.kind:  # torch waits behind it too, in a call of its own
        calls.append(Wait("cudaStreamSynchronize", us(draw, 0.6, 0.9), copy.stream))
    inner = Span("cpu_op", "aten::copy_", us(draw, 2, 5), calls)
    return Span("cpu_op", "aten::_to_copy", us(draw, 2, 5), [inner])


def _read(
    events: Sequence[Event],
    *,
    which: Callable[[str], bool] = lambda name: name == KIND,
    on_device: bool = False,
    by_place: bool = False,
    over: int = 0,
    each: bool = False,
    named: Sequence[str] = ("cudaMemcpyAsync", "cudaMemcpy", "cudaGraphLaunch"),
) -> Copies:
    """Read from the trace, and the ways to get it wrong. each: a call's time for each copy."""
    whole = [e for e in events if e["ph"] == "X"]
    calls = [e for e in whole if e["name"] in named]
    copies = [e for e in whole if e["cat"] == "gpu_memcpy" and which(e["name"])]
    copies = [e for e in copies if e["args"]["bytes"] > over]
    stood = {e["args"]["correlation"]: e["dur"] for e in calls}
    asked = [e["args"]["correlation"] for e in copies]
    took = [stood.get(number, 0.0) for number in (asked if each else set(asked))]
    if on_device:
        took = [e["dur"] for e in copies]
    if by_place:
        took = [e["dur"] for e in calls[: len(copies)]]
    return len(copies), sum(e["args"]["bytes"] for e in copies), sum(took)


def _wrong(name: str, sentence: str, **how: Any) -> None:
    pageable_copies.wrong(name, sentence, pageable_copies=lambda events: _read(events, **how))


_wrong(
    "asynchronous_calls_alone",
    "A call is missing. A copy may be asked for by `cudaMemcpy` as well: the one with the copy's "
    "`correlation` counts, whatever it is called.",
    named=("cudaMemcpyAsync",),
)
_wrong(
    "copying_calls_alone",
    "A call is missing. A graph may copy as well, and its call is `cudaGraphLaunch`: the one with "
    "the copy's `correlation` counts, whatever it is called.",
    named=("cudaMemcpyAsync", "cudaMemcpy"),
)
_wrong(
    "call_for_each_copy",
    "The time of a call was counted once for each of its copies. One call may ask for several, and "
    "the host stands in it once.",
    each=True,
)
_wrong(
    "pinned_too",
    "Copies from pinned memory are among them. The host does not wait for those.",
    which=lambda name: "HtoD" in name,
)
for _name, _place in (("both_ways", "Memcpy"), ("both_ways_of_the_device", "Device")):
    _wrong(
        _name,
        "Copies to the host are among them. `DtoH` goes the other way.",
        which=lambda name, place=_place: "Pageable" in name and place in name,
    )
_wrong(
    "to_pinned_too",
    "A copy from pageable to pinned memory is among them. `HtoH` stays on the host: asked for are "
    "copies to the device.",
    which=lambda name: "(Pageable ->" in name,
)
_wrong(
    "every_copy",
    "Every copy is counted. The name of each says from where it comes and where it goes.",
    which=lambda name: True,
)
_wrong(
    "the_devices_time",
    "This is how long the copies took on their stream. How long the host stands in their calls "
    "is another time: for many bytes it also waits for what is queued before, for few it does "
    "not wait.",
    on_device=True,
)
_wrong(
    "by_place",
    "Calls and copies were matched by their place in the list. `correlation` says which belong "
    "together.",
    by_place=True,
)


@pageable_copies.wrong("time_of_every_copy", "The time is that of all copies, not only of these.")
def _(events: Sequence[Event]) -> Copies:
    count, nbytes, _ = _read(events)
    return count, nbytes, _read(events, which=lambda name: True)[2]


@pageable_copies.wrong(
    "calls_counted",
    "Calls were counted, not copies. One call may ask for several, all with its `correlation`: a "
    "graph's does here.",
)
def _(events: Sequence[Event]) -> Copies:
    return len(_numbers(events)), *_read(events)[1:]


@pageable_copies.wrong(
    "one_copy_of_each_call",
    "Of each call one copy was counted, with its bytes. One call may ask for several, all with its "
    "`correlation`: a graph's does here.",
)
def _(events: Sequence[Event]) -> Copies:
    nbytes = {e["args"]["correlation"]: e["args"]["bytes"] for e in events if e["name"] == KIND}
    return len(nbytes), sum(nbytes.values()), _read(events)[2]


@pageable_copies.wrong(
    "largest_each",
    "These are the bytes of one copy. Asked for is their sum.",
)
def _(events: Sequence[Event]) -> Copies:
    count, _, took = _read(events)
    found = [e["args"]["bytes"] for e in events if e.get("name") == KIND]
    return count, max(found), took


_wrong(
    "other_way",
    "These are the copies to the host. `HtoD` goes to the device.",
    which=lambda name: name == "Memcpy DtoH (Device -> Pageable)",
)
_wrong(
    "pinned_alone",
    "These are the copies from pinned memory. Those from pageable memory were asked for.",
    which=lambda name: name == "Memcpy HtoD (Pinned -> Device)",
)


def _timed(name: str, sentence: str, took: Callable[[Sequence[Event], Copies], float]) -> None:
    """The right copies and bytes, with another time."""

    def answer(events: Sequence[Event]) -> Copies:
        found = _read(events)
        whole = [e for e in events if e["ph"] == "X"]
        return found[0], found[1], took(whole, found)

    pageable_copies.wrong(name, sentence, pageable_copies=answer)


def _durations(events: Sequence[Event], which: Callable[[Event], bool]) -> float:
    return float(sum(e["dur"] for e in events if which(e)))


_timed(
    "every_call",
    "The time is that of every call of the runtime. Asked for are the calls of these copies.",
    lambda events, _: _durations(events, lambda e: e["cat"] == "cuda_runtime"),
)
_timed(
    "waits_alone",
    "The time is that of the calls named `...Synchronize`. Here the host stands in the call that "
    "asks for the copy.",
    lambda events, _: _durations(events, lambda e: e["name"].endswith("Synchronize")),
)
WAITS_TOO = (
    "The calls named `...Synchronize` are in the time. Asked for are the calls that ask for these "
    "copies, and no other."
)
_timed(
    "waits_too",
    WAITS_TOO,
    lambda events, found: (
        found[2] + _durations(events, lambda e: e["name"].endswith("Synchronize"))
    ),
)
_timed(
    "waits_of_its_operator",
    WAITS_TOO,
    lambda events, found: (
        found[2]
        + _durations(
            events,
            lambda e: (
                e["name"].endswith("Synchronize")
                and e["args"]["External id"]
                in {c["args"]["External id"] for c in events if c["name"] == KIND}
            ),
        )
    ),
)
_timed(
    "call_and_copy",
    "The time of the call and that of the copy are added. Asked for is how long the host stands "
    "in the call: take the call alone.",
    lambda events, found: found[2] + _durations(events, lambda e: e["name"] == KIND),
)
_timed(
    "operators_time",
    "This is the time of `aten::copy_`. An operator does more than to stand in the call.",
    lambda events, _: _durations(events, lambda e: e["name"] == "aten::copy_"),
)
_timed(
    "mean_call",
    "The time is that for a copy on average. Asked for is the sum of the calls.",
    lambda events, found: found[2] / found[0],
)
_timed(
    "longest_call",
    "The time is that of the longest call. Asked for is the sum of all calls for these copies.",
    lambda events, _: max(_call_times(events)),
)
_timed(
    "durations_once",
    "Calls that took equally long are counted once: a set keeps equal numbers once. Which calls "
    "are the same says their `correlation`.",
    lambda events, _: sum({*_call_times(events)}),
)
_timed(
    "until_the_copy_begins",
    "The time goes from the call to the beginning of the copy on its stream. The host stands in "
    "the call until the call ends.",
    lambda events, _: sum(
        e["ts"] - _numbers(events)[e["args"]["correlation"]] for e in events if e["name"] == KIND
    ),
)


def _numbers(events: Sequence[Event]) -> dict[int, float]:
    """When each call for these copies began, by its `correlation`."""
    numbers = {e["args"]["correlation"] for e in events if e["name"] == KIND}
    calls = [e for e in events if e["cat"] == "cuda_runtime"]
    began = {e["args"]["correlation"]: e["ts"] for e in calls}
    return {number: began[number] for number in numbers}


def _call_times(events: Sequence[Event]) -> list[float]:
    """How long the host stands in each call for these copies."""
    numbers = _numbers(events)
    calls = (e for e in events if e["cat"] == "cuda_runtime")
    return [e["dur"] for e in calls if e["args"]["correlation"] in numbers]


_timed("milliseconds", MILLISECONDS, lambda events, found: found[2] / 1000)


@pageable_copies.wrong(
    "until_the_copy_ends",
    "The time goes from the call to the end of the copy on its stream. The host stands in the call "
    "until the call ends.",
)
def _(events: Sequence[Event]) -> Copies:
    count, nbytes, _ = _read(events)
    calls = {e["args"]["correlation"]: e["ts"] for e in events if e["cat"] == "cuda_runtime"}
    copies = [e for e in events if e["name"] == KIND]
    return count, nbytes, sum(e["ts"] + e["dur"] - calls[e["args"]["correlation"]] for e in copies)


for _name, _over in (("small_left_out", 4096), ("a_number_left_out", 4)):
    _wrong(
        _name,
        "A small copy is missing. Few bytes from pageable memory are a copy from there as well.",
        over=_over,
    )


@pageable_copies.wrong(
    "sizes_once",
    "Copies of one size are counted once: a set keeps equal numbers once. The batches of two steps "
    "are two copies.",
)
def _(events: Sequence[Event]) -> Copies:
    count, _, took = _read(events)
    return count, sum({e["args"]["bytes"] for e in events if e.get("name") == KIND}), took


def _in_bytes(name: str, sentence: str, answer: Callable[[Copies], Any]) -> None:
    pageable_copies.wrong(name, sentence, pageable_copies=lambda events: answer(_read(events)))


_in_bytes(
    "mean_bytes",
    "These are the bytes of a copy on average. Asked for is their sum.",
    lambda found: (found[0], found[1] / found[0], found[2]),
)
_in_bytes(
    "megabytes",
    "These are megabytes. Asked for are bytes, as the copies have them in `args`.",
    lambda found: (found[0], found[1] / 1e6, found[2]),
)
_in_bytes(
    "of_one_step",
    "These are numbers of a step on average. Asked for are those of the whole trace.",
    lambda found: tuple(n / STEPS for n in found),
)
_in_bytes(
    "time_before_bytes",
    "The time came before the bytes: (copies, bytes, us).",
    lambda found: (found[0], found[2], found[1]),
)


@pageable_copies.wrong("bytes_first", "The bytes came before the count: (copies, bytes, us).")
def _(events: Sequence[Event]) -> Copies:
    count, nbytes, took = _read(events)
    return nbytes, count, took


pageable_copies.wrong(
    "without_bytes",
    "Two numbers came. Three were asked for: (copies, bytes, us).",
    pageable_copies=lambda events: _read(events)[::2],
)


@pageable_copies.cost
def _(student: Student, draw: Draw) -> str:
    events, _ = _drawn(draw)
    copies, nbytes, stood = student.call("pageable_copies", events)
    return (
        f"{copies} copies, {nbytes:,} bytes, {stood:,.0f} us of the host: pinned, it would not wait"
    )
