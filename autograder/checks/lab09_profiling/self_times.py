"""Detective case: a table of operators whose times add up to more than there was."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, Wrong, describe, expect_kind, within

from . import lab
from .draw_step import STEPS, backward, function, module, operators, read_number, region, traced, us
from .machine import LOADER, Copy, Event, Span
from .times import CLOSE_US, MILLISECONDS, as_number, expect_us

Times = dict[str, float]
_FORM = "{operator: us}"
_RAISED = {
    "KeyError": "Not every event has a `dur`: the ends of arrows (`ph` is `s` or `f`) have none.",
}
NO_OPERATOR = "The table names something that is no `cpu_op` of this trace."
MISSING = (
    "An operator is missing. Each name of a `cpu_op` has a time, also where it is 0 or all of it "
    "is spent inside another operator."
)
BELOW_ZERO = (
    "No operator's own time is below zero. Each of its calls adds its whole duration, and only the "
    "operators directly inside that call are taken off, each once."
)
WHOLE = "This is the whole duration of its calls: what the operators inside it took is still there."
TOO_MUCH = (
    "Some time is in it that is not its own. What the operators directly inside it took "
    "is taken off, all of it."
)
TOO_LITTLE = (
    "A part of its own time is missing, as where a call was left out, or more was taken off "
    "than the operators directly inside it took."
)

NONE_LEFT = (
    "All of its own time is missing. Each of its calls adds its duration, less what the operators "
    "directly inside that call took."
)


@lab.question(
    "self_times",
    points=4,
    minutes=9,
    difficulty=3,
    hints=(
        "Take one `aten::to` out of the trace: which operators lie inside it, and inside those?",
        "An operator's own time is its duration less that of its children: the operators that are "
        "directly inside it, on its thread. Grandchildren are in the children's time already.",
        "parent = the innermost operator around this one with the same tid; own[parent] -= dur",
    ),
)
def self_times(student: Student, draw: Draw) -> None:
    """Detective case: for each operator the time of its own on the host, summed over its calls,
    without the operators that it calls. The function as found takes some of them off twice, and
    some that it did not call.

    events -> {name of a cpu_op: us}.
    """
    for events, want in [*(_drawn(draw) for _ in draw.cases(2)), _touching(draw)]:
        with explaining(_RAISED):
            got = expect_kind(student.call("self_times", events), dict, _FORM)
        _expect_names(sorted(map(str, got)), sorted(want))
        below = [n for n in sorted(want) if _is_below(got[n], -CLOSE_US)]
        for name in [*below, *sorted(want)]:
            calls = [e["dur"] for e in events if e["cat"] == "cpu_op" and e["name"] == name]
            with within("", why=_why(got[name], want[name], sum(calls))):
                expect_us(got[name], want[name], f"the own time of {name}")


def _expect_names(got: Sequence[str], want: Sequence[str]) -> None:
    if got != want:
        why = MISSING if {*want} - {*got} else NO_OPERATOR
        raise Wrong(expected=describe(want), got=describe(got), why=why)


def _is_below(got: Any, limit: float) -> bool:
    number = as_number(got)
    return isinstance(number, (int, float)) and number < limit


def _why(got: Any, want: float, whole: float) -> str:
    """What a time has to do with the right one, and with the whole duration of the calls; nothing
    of what is no time."""
    got = as_number(got)
    if isinstance(got, bool) or not isinstance(got, (int, float)) or not math.isfinite(got):
        return ""
    if got < -CLOSE_US:
        return BELOW_ZERO
    if abs(got - whole) <= CLOSE_US:
        return WHOLE
    if got > want:
        return TOO_MUCH if got < whole else ""
    return TOO_LITTLE if got > CLOSE_US else NONE_LEFT


def _drawn(draw: Draw) -> tuple[list[Event], Times]:
    """Operators four deep, one in another of its name, one with two others directly inside, one
    that took no time, one that calls Python, which calls an operator, one behind the steps, and a
    thread that loads data while the main one waits."""
    steps: list[Sequence[Any]] = []
    for _ in range(STEPS):
        copy = Copy("HtoD (Pageable -> Device)", 4096 * draw.integer(30, 60), us(draw, 30, 50), 3.0)
        inner = Span("cpu_op", "aten::copy_", us(draw, 5, 9), [copy])
        empty = Span("cpu_op", "aten::empty_strided", us(draw, 3, 5))
        middle = Span("cpu_op", "aten::_to_copy", us(draw, 5, 9), [empty, inner])
        again = Span("cpu_op", "aten::to", us(draw, 5, 9), [middle])
        none = Span("cpu_op", "aten::result_type", 0.0)
        fetch = Span("cpu_op", "aten::to", us(draw, 5, 9), [none, again])
        forward = [*operators(draw, 4, (20, 60)), *operators(draw, 1, (300, 500))]
        hooked = function(draw, "hook", [module(draw, operators(draw, 1, (4, 9)))])
        forward.append(
            Span("cpu_op", "HeadLoss", us(draw, 5, 9), [region(draw, "hooks", [hooked])])
        )
        log = function(draw, "log_loss", [read_number(draw)])
        back = backward(draw, operators(draw, 3, (20, 60)))
        parts = [region(draw, "data", [fetch]), region(draw, "forward", [*forward, log])]
        steps.append([*parts, region(draw, "backward", [back])])
    behind = [region(draw, "evaluate", operators(draw, 3, (20, 60)))]
    events, machine = traced(draw, steps, behind=behind)
    loaded, times = _loaded(draw, events)
    own = {name: machine.seen.self_us.get(name, 0.0) + times.get(name, 0.0) for name in
           {*machine.seen.self_us, *times}}  # fmt: skip
    return [*events, *loaded], own


def _touching(draw: Draw) -> tuple[list[Event], Times]:
    """One that begins where its caller does, one that begins where the one before it ends, and one
    that ends where its caller does."""
    at, half, whole = 100.0, draw.integer(4, 9), draw.integer(20, 30)
    times = {"aten::relu": (at, half), "aten::linear": (at, whole), "aten::add": (at + half, 3.0)}
    times |= {"aten::mm": (2 * at + 5.0, whole - 5.0), "aten::matmul": (2 * at, whole)}
    place = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "args": {"External id": 0}}
    events = [{**place, "name": n, "ts": ts, "dur": float(dur)} for n, (ts, dur) in times.items()]
    own = {"aten::relu": half, "aten::linear": whole - half - 3.0, "aten::add": 3.0}
    return events, own | {"aten::mm": whole - 5.0, "aten::matmul": 5.0}


def _loaded(draw: Draw, events: Sequence[Event]) -> tuple[list[Event], Times]:
    """What a loader's thread runs while the main thread stands in `aten::item`."""
    found, own = [], {"aten::stack": 0.0, "aten::cat": 0.0}
    for e in events:
        if e["ph"] == "X" and e["name"] == "cudaStreamSynchronize":
            whole = min(e["dur"] - 6, us(draw, 40, 90))
            part = whole - us(draw, 8, 15)
            at = e["ts"] + 2
            for name, begin, took in (("aten::stack", at, whole), ("aten::cat", at + 3, part)):
                place = {"ph": "X", "cat": "cpu_op", "pid": e["pid"], "tid": e["pid"] + LOADER}
                times = {"ts": round(begin, 3), "dur": round(took, 3), "args": {"External id": 0}}
                found.append({**place, "name": name, **times})
            own["aten::stack"] += whole - part
            own["aten::cat"] += part
    return found, own


def _holds(outer: Event, inner: Event) -> bool:
    begin, end = outer["ts"], outer["ts"] + outer["dur"]
    inside = begin <= inner["ts"] and inner["ts"] + inner["dur"] <= end + 0.002
    return outer is not inner and inside


def _begins_later(outer: Event, inner: Event) -> bool:
    return bool(outer["ts"] < inner["ts"]) and _holds(outer, inner)


def _ends_earlier(outer: Event, inner: Event) -> bool:
    end = outer["ts"] + outer["dur"]
    return bool(outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] < end)


def _goes_on(outer: Event, inner: Event) -> bool:
    return bool(inner["ts"] < outer["ts"] + outer["dur"])


def _read(
    events: Sequence[Event],
    *,
    grandchildren: bool = False,
    threads: bool = True,
    children: bool = True,
    calls: bool = False,
    outermost: bool = False,
    own_name: bool = True,
    holds: Callable[[Event, Event], bool] = _holds,
) -> Times:
    """Read from the trace, and the ways to get it wrong."""
    whole = [e for e in events if e["ph"] == "X"]
    operators = sorted(
        (e for e in whole if e["cat"] == "cpu_op"), key=lambda e: (e["ts"], -e["dur"])
    )
    inner = [*operators, *(e for e in whole if calls and e["cat"] == "cuda_runtime")]
    own: Times = {}
    for e in operators:
        own[e["name"]] = own.get(e["name"], 0.0) + e["dur"]
    for e in inner if children else ():
        around = [o for o in operators if holds(o, e) and (o["tid"] == e["tid"] or not threads)]
        for outer in around if grandchildren else around[:1] if outermost else around[-1:]:
            own[outer["name"]] -= e["dur"] if own_name or outer["name"] != e["name"] else 0.0
    return own


def _reaches(outer: Event, inner: Event) -> bool:
    return bool(outer["ts"] <= inner["ts"] <= outer["ts"] + outer["dur"])


def _wrong(name: str, sentence: str, **how: Any) -> None:
    self_times.wrong(name, sentence, self_times=lambda events: _read(events, **how))


_wrong(
    "as_found",
    "These are the times of the function as found: grandchildren are taken off too, though the "
    "children's time holds them, and so are operators of other threads.",
    grandchildren=True,
    threads=False,
)
_wrong(
    "grandchildren_too",
    "Grandchildren are taken off. They are in the time of the children already, so they are taken "
    "off twice.",
    grandchildren=True,
)
_wrong(
    "any_thread",
    "Operators of another thread are taken off. They ran at the same time, and nobody here called "
    "them: compare the `tid`.",
    threads=False,
)
_wrong(
    "whole_times",
    "These are whole durations. `aten::linear` holds `aten::addmm`: added up, the table has some "
    "time twice.",
    children=False,
)
_wrong(
    "calls_taken_off",
    "Calls of CUDA's runtime are taken off as well. Asked for is what an operator takes without "
    "the operators that it calls.",
    calls=True,
)


_wrong(
    "from_the_outermost",
    "Each operator is taken off the outermost one around it. The one that called it is the "
    "innermost.",
    outermost=True,
)
_wrong(
    "together_at_one_end_kept",
    "An operator that begins together with its caller, or ends with it, lies inside it too: it is "
    "taken off.",
    holds=lambda outer, inner: _begins_later(outer, inner) and _ends_earlier(outer, inner),
)
_wrong(
    "together_at_the_beginning_kept",
    "An operator that begins together with its caller lies inside it too: it is taken off.",
    holds=_begins_later,
)
_wrong(
    "together_at_the_end_kept",
    "An operator that ends together with its caller lies inside it too: it is taken off.",
    holds=lambda outer, inner: outer is not inner and _ends_earlier(outer, inner),
)
_wrong(
    "own_name_kept",
    "An operator inside another one of the same name is not taken off. Its time is in the table "
    "for itself already, so it is there twice.",
    own_name=False,
)


def _alone(events: Sequence[Event], wanted: Callable[[Event, Sequence[Event]], bool]) -> Times:
    """Whole durations of those operators that `wanted` says, given the others of their thread."""
    operators = [e for e in events if e["cat"] == "cpu_op"]
    own: Times = {}
    for e in operators:
        if wanted(e, [o for o in operators if o["tid"] == e["tid"]]):
            own[e["name"]] = own.get(e["name"], 0.0) + e["dur"]
    return own


self_times.wrong(
    "leaves_alone",
    "Only operators that call no other have a time. The others do something of their own as well: "
    "their duration less that of their children.",
    self_times=lambda events: _alone(
        events, lambda e, others: not any(_holds(e, o) for o in others)
    ),
)
self_times.wrong(
    "outermost_alone",
    "Only operators that nobody calls have a time. Those inside them have one of their own, too.",
    self_times=lambda events: _alone(
        events, lambda e, others: not any(_holds(o, e) for o in others)
    ),
)


def _changed(name: str, sentence: str, answer: Callable[[Times, Sequence[Event]], Any]) -> None:
    self_times.wrong(name, sentence, self_times=lambda events: answer(_read(events), events))


def _calls(events: Sequence[Event], name: str) -> int:
    return sum(e["cat"] == "cpu_op" and e["name"] == name for e in events)


_changed(
    "mean_call",
    "These are times of a call on average. The sum over the calls was asked for.",
    lambda own, events: {name: us / _calls(events, name) for name, us in own.items()},
)
_changed("milliseconds", MILLISECONDS, lambda own, _: {name: us / 1000 for name, us in own.items()})
_changed(
    "as_rows",
    "This is a list of rows. A dict was asked for: {operator: us}.",
    lambda own, _: sorted(own.items(), key=lambda row: -row[1]),
)
_changed(
    "childrens_time",
    "This is the time of the children. An operator's own time is what remains without it.",
    lambda own, events: {
        name: us - own[name] for name, us in _read(events, children=False).items()
    },
)
self_times.wrong(
    "below_zero_cut_off",
    "The times below zero were set to 0, and the fault is still there: grandchildren and operators "
    "of other threads are taken off.",
    self_times=lambda events: {
        name: max(0.0, us) for name, us in _read(events, grandchildren=True, threads=False).items()
    },
)


@self_times.wrong(
    "never_closed",
    "An operator that is over still counts as the parent of what comes behind it. It is the "
    "parent of none that begins after its end.",
)
def _(events: Sequence[Event]) -> Times:
    own: Times = {}
    last: dict[int, str] = {}
    for e in sorted((e for e in events if e["cat"] == "cpu_op"), key=lambda e: e["ts"]):
        own[e["name"]] = own.get(e["name"], 0.0) + e["dur"]
        if e["tid"] in last:
            own[last[e["tid"]]] -= e["dur"]
        last[e["tid"]] = e["name"]
    return own


CUT_OFF = (
    "A time below zero was set to 0, and the fault is still there: more is taken off than the "
    "operators directly inside took."
)
UNSIGNED = (
    "A time below zero lost its sign, and the fault is still there: more is taken off than the "
    "operators directly inside took."
)


def _cut_each(events: Sequence[Event]) -> Times:
    """Each call cut off at 0, before the calls are added up."""
    operators = [e for e in events if e["cat"] == "cpu_op"]
    own: Times = {}
    for e in operators:
        mine = [o for o in operators if o["tid"] == e["tid"]]
        took = e["dur"] - sum(o["dur"] for o in mine if _holds(e, o))
        own[e["name"]] = own.get(e["name"], 0.0) + max(0.0, took)
    return own


def _added_back(events: Sequence[Event]) -> Times:
    """All inside taken off, and what is inside of that added again."""
    operators = [e for e in events if e["cat"] == "cpu_op"]
    own: Times = {}
    for e in operators:
        mine = [o for o in operators if o["tid"] == e["tid"]]
        inside = [o for o in mine if _holds(e, o)]
        twice = sum(o["dur"] for i in inside for o in mine if _holds(i, o))
        took = e["dur"] - sum(o["dur"] for o in inside) + twice
        own[e["name"]] = own.get(e["name"], 0.0) + took
    return own


self_times.wrong(
    "grandchildren_added_back",
    "What was taken off twice was added back, and with one more level inside it comes back too "
    "often. Take off the operators directly inside, and no others.",
    self_times=_added_back,
)
for _at, _threads in (("on_its_thread", True), ("on_any_thread", False)):
    self_times.wrong(
        f"without_its_sign_{_at}",
        UNSIGNED,
        self_times=lambda events, threads=_threads: {
            name: abs(us) for name, us in _read(events, grandchildren=True, threads=threads).items()
        },
    )
self_times.wrong("each_call_cut_off", CUT_OFF, self_times=_cut_each)
self_times.wrong(
    "cut_off_on_its_thread",
    CUT_OFF,
    self_times=lambda events: {
        name: max(0.0, us) for name, us in _read(events, grandchildren=True).items()
    },
)


def _with_a_stack(
    events: Sequence[Event],
    *,
    order: Callable[[Event], Any] | None = lambda e: (e["ts"], -e["dur"]),
    closes: int | None = None,
    holds: Callable[[Event, Event], bool] = _holds,
) -> Times:
    """The way of a stack for each thread, which takes off as many that are over as `closes`.
    order: None for that of the list. holds: whether one is not yet over."""
    operators = [e for e in events if e["cat"] == "cpu_op"]
    own: Times = {}
    stacks: dict[int, list[Event]] = {}
    for e in sorted(operators, key=order) if order else operators:
        stack = stacks.setdefault(e["tid"], [])
        closed = 0
        while stack and not holds(stack[-1], e) and closed != closes:
            stack.pop()
            closed += 1
        own[e["name"]] = own.get(e["name"], 0.0) + e["dur"]
        if stack:
            own[stack[-1]["name"]] -= e["dur"]
        stack.append(e)
    return own


self_times.wrong(
    "not_sorted",
    "The operators were taken as the list has them, and the list is in no order. Sort them by `ts` "
    "first.",
    self_times=lambda events: _with_a_stack(events, order=None),
)
self_times.wrong(
    "touching_is_inside",
    "An operator that begins in the moment in which another ends was taken for its child. It comes "
    "behind it: one is over when `ts + dur <= ts` of the next.",
    self_times=lambda events: _with_a_stack(events, holds=_reaches),
)
self_times.wrong(
    "caller_taken_off",
    "A caller was taken off its child: of two operators that begin together the longer one is the "
    "caller. Sort the longer first.",
    self_times=lambda events: _with_a_stack(
        events, order=lambda e: (e["ts"], e["dur"]), holds=_goes_on
    ),
)
self_times.wrong(
    "one_closed_at_a_time",
    "Several operators may have ended before the next one begins. Take all of them off the stack, "
    "not the last one alone.",
    self_times=lambda events: _with_a_stack(events, closes=1),
)
self_times.wrong(
    "longest_child_alone",
    "Only the longest operator inside is taken off. All that are directly inside are.",
    self_times=lambda events: _child_alone(events, max),
)


def _child_alone(events: Sequence[Event], which: Callable[..., float]) -> Times:
    operators = [e for e in events if e["cat"] == "cpu_op"]
    own: Times = {}
    for e in operators:
        inside = [o["dur"] for o in operators if o["tid"] == e["tid"] and _holds(e, o)]
        own[e["name"]] = own.get(e["name"], 0.0) + e["dur"] - which(inside, default=0.0)
    return own


@self_times.wrong(
    "last_call_alone",
    "The time is that of the last call of a name alone. Add up those of all its calls.",
)
def _(events: Sequence[Event]) -> Times:
    last: dict[str, Event] = {}
    for e in sorted((e for e in events if e["cat"] == "cpu_op"), key=lambda e: e["ts"]):
        last[e["name"]] = e
    return {name: _own(events, e) for name, e in last.items()}


def _own(events: Sequence[Event], e: Event) -> float:
    """Of one call: its duration less those of the operators directly inside."""
    inside = [o for o in events if o["cat"] == "cpu_op" and o["tid"] == e["tid"] and _holds(e, o)]
    direct = (o for o in inside if not any(_holds(other, o) for other in inside))
    return float(e["dur"] - sum(o["dur"] for o in direct))


self_times.wrong(
    "one_thread",
    "Operators of other threads are missing. The table holds those of every thread.",
    self_times=lambda events: _read(
        [e for e in events if e["tid"] == min(o["tid"] for o in events if o["cat"] == "cpu_op")]
    ),
)


@self_times.cost
def _(student: Student, draw: Draw) -> str:
    events, _ = _drawn(draw)
    own = student.call("self_times", events)
    name = max(own, key=own.get)
    return f"{len(own)} operators, {sum(own.values()):,.0f} us of their own; most in {name}"
