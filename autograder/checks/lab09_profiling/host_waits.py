"""Where the host waits for the device, by the Python function that asked for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, Wrong, describe, expect_tuple, within

from . import lab
from .draw_step import (
    HELPERS,
    STEPS,
    backward,
    function,
    module,
    operators,
    read_number,
    region,
    traced,
    us,
)
from .machine import LOADER, STEP, TORCHS, Event, Span, Wait
from .times import MILLISECONDS, expect_us, related

Waits = list[tuple[str, int, float]]
_FORM = "a list of (function, times, us), the longest first"
NO_LIST = "A list of rows was asked for: (function, times, us)."
NO_ROW = "Each row has three parts: (function, times, us)."
ORDER = "The functions are right, in another order. The one that waits longest in all comes first."
OTHERS = (
    "Something is named that is no innermost function of the program around a wait in its steps."
)
ELSEWHERE = (
    "A function is named that runs on a thread on which nothing waits. The wait and its function "
    "have the same `tid`."
)
REPEATED = "A function has several rows. All its waits are in one."
MISSING = "A function is missing that waits in a step, on its own thread."
FEWER = "Waits of this function are missing. Those of all steps count, whatever they wait for."
MORE = "More waits are counted than this function has in the steps."
SHORTER = "This is shorter than this function's waits: add up all of its waits in the steps."
LONGER = (
    "This is longer than this function's waits. They are the calls named `...Synchronize`, and "
    "last as long as those."
)
NO_FUNCTION = (
    "Around a wait there may be no function of the program on its thread: such a wait does not "
    "count. One whose innermost function is torch's may have one further out."
)
_HOOKED = ("utils/hooks.py(53)", "nn/utils/clip_grad.py(124)", "_tensor.py(741)")
_RAISED = {
    "KeyError": "Not every event has a `dur`: the ends of arrows (`ph` is `s` or `f`) have none.",
    "IndexError": NO_FUNCTION,
    "StopIteration": NO_FUNCTION,
    "ValueError": NO_FUNCTION,
}


@lab.question(
    "host_waits",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "How are the calls of CUDA's runtime named that wait, and on which thread do they stand?",
        "For each `cuda_runtime` event whose name ends in `Synchronize`, collect the "
        "`python_function` events on its thread that are around it. torch's own are not yours. The "
        "innermost is the one that began last.",
        "inside = [f for f in functions if f['tid'] == w['tid'] and f['ts'] <= w['ts'] and "
        "w['ts'] + w['dur'] <= f['ts'] + f['dur']]",
    ),
)
def host_waits(student: Student, draw: Draw) -> None:
    """In which functions of the program the host waits for the device in its steps, how often, and
    how long.

    events -> a list of (function as the trace names it, times, us), the longest first.
    """
    for _ in draw.cases(2):
        events, waits = _drawn(draw)
        with explaining(_RAISED):
            got = student.call("host_waits", events)
        _expect(got, _summed(waits), events)


def _summed(waits: Sequence[tuple[str, float]]) -> Waits:
    spent: dict[str, list[float]] = defaultdict(list)
    for name, took in waits:
        spent[name].append(took)
    rows = [(name, len(took), sum(took)) for name, took in spent.items()]
    return sorted(rows, key=lambda row: -row[2])


def _expect(got: Any, want: Waits, events: Sequence[Event]) -> None:
    rows = expect_tuple(got, None, _FORM, why=NO_LIST)
    named = [expect_tuple(row, 3, _FORM, where=f"[{k}]", why=NO_ROW) for k, row in enumerate(rows)]
    wanted, names = [row[0] for row in want], [row[0] for row in named]
    if names != wanted:
        why = _of_names(names, wanted, events)
        raise Wrong(expected=describe(wanted), got=describe(names), why=why)
    for row, (name, times, took) in zip(named, want, strict=True):
        if type(row[1]) is not int or row[1] != times:
            why = (FEWER if row[1] < times else MORE) if type(row[1]) is int else ""
            raise Wrong(
                expected=f"{times} waits", got=describe(row[1]), where=f"in {name}", why=why
            )
        with within("", why=related(row[2], took, less=SHORTER, more=LONGER)):
            expect_us(row[2], took, f"in {name}")


def _of_names(names: Sequence[Any], wanted: Sequence[str], events: Sequence[Event]) -> str:
    if sorted(map(str, names)) == sorted(wanted):
        return ORDER
    others = [name for name in names if name not in wanted]
    if others:
        return ELSEWHERE if any(_is_elsewhere(name, events) for name in others) else OTHERS
    return REPEATED if len({*names}) < len(names) else MISSING


def _is_elsewhere(name: Any, events: Sequence[Event]) -> bool:
    """Whether this function runs, and never on a thread that waits."""
    waiting = {e["tid"] for e in events if str(e["name"]).endswith("Synchronize")}
    threads = {e["tid"] for e in events if e["cat"] == "python_function" and e["name"] == name}
    return bool(threads) and not threads & waiting


def _drawn(draw: Draw) -> tuple[list[Event], list[tuple[str, float]]]:
    """One function waits while much is queued, one waits longer than that and only once,
    another twice while little is, a last one through torch's own function, for a stream, an
    event and all streams, one on autograd's thread, one there in torch's function alone, and one
    between steps and one behind them; a thread that loads data runs a function around each wait. A
    folder of the program's own is called torch, another begins so, and a function in each has the
    same name. One stands above the function that calls it, one below.

    In the list, who waits less comes before who waits more, and so do their waits."""
    long, short, through, once = draw.shuffled(HELPERS)[:4]
    names = {name: draw.integer(5, 400) for name in (through, once)}
    names |= {long: draw.integer(5, 19), short: draw.integer(121, 400)}
    files = {name: draw.choice(("train.py", "metrics.py", "losses.py")) for name in names}
    files[long] = f"runs/torch/{files[long]}"
    files[short] = f"torchtools/{files[short]}"
    files[once] = draw.choice(("losses.py", "metrics.py"))  # not in the order of how often
    own = {name: f"{files[name]}({line})" for name, line in names.items()}
    torchs = f"torch/nn/utils/clip_grad.py({draw.integer(20, 90)})"
    steps = [_step(draw, own, (long, short, through, once), torchs, step) for step in range(STEPS)]
    idle = Wait("cudaStreamSynchronize", us(draw, 0.3, 0.9), stream=21)  # while the step still runs
    last = function(draw, "evaluate", [idle, read_number(draw)])
    outside = [region(draw, "evaluate", [last])]
    events, machine = traced(draw, steps, between=outside, behind=outside)
    waits = machine.seen.waits
    events = _least_first([*_loaders(draw, events), *events], _summed(waits))
    return events, waits


def _least_first(events: Sequence[Event], rows: Waits) -> list[Event]:
    """The same events in the same places, but for the functions of `rows` and the waits: among
    these places, those of a function that waits less in all come first."""
    rank = {name: place for place, (name, *_) in enumerate(reversed(rows))}
    whole = [e for e in events if e["ph"] == "X"]
    functions = [e for e in whole if e["cat"] == "python_function" and e["name"] in rank]

    def of(e: Event) -> int:
        around = [f for f in functions if f["tid"] == e["tid"] and _holds(f, e)]
        around.sort(key=lambda f: f["ts"])
        return rank[around[-1]["name"]] if around else len(rank)

    def is_wait(e: Event) -> bool:
        return e["cat"] == "cuda_runtime" and str(e["name"]).endswith("Synchronize")

    moved = list(events)
    for ours in (functions, list(filter(is_wait, whole))):
        places = [k for k, e in enumerate(events) if any(e is one for one in ours)]
        ordered = sorted((events[k] for k in places), key=of)
        for place, e in zip(places, ordered, strict=True):
            moved[place] = e
    return moved


def _step(
    draw: Draw, own: dict[str, str], names: tuple[str, str, str, str], torchs: str, step: int
) -> list[Any]:
    long, short, through, once = names

    def called(name: str, inside: Sequence[Any]) -> Span:
        return function(draw, long if name == short else name, inside, file=own[name])

    forward = [module(draw, operators(draw, 3, (4, 9))), called(short, [read_number(draw)])]
    if step == 0:
        forward.append(called(short, [read_number(draw)]))
    if step == 1:
        forward += [*operators(draw, 4, (290, 330)), called(once, [read_number(draw)])]
    hook = function(draw, "hook", [read_number(draw)], file=f"torch/{draw.choice(_HOOKED)}")
    penalty = [called(short, [read_number(draw)])] * (step == 0)  # an `autograd.Function`'s
    back = backward(draw, [*penalty, hook, *operators(draw, 4, (150, 260))])
    clip = function(draw, "clip_grad_norm_", [read_number(draw)], file=torchs)
    event = Wait("cudaEventSynchronize", us(draw, 0.3, 0.9))
    over = function(draw, "norms", operators(draw, 1, (4, 9)))  # when the waits begin
    every = [Wait("cudaDeviceSynchronize", us(draw, 0.3, 0.9), stream=0)] * (step == 1)
    optimizer = [*operators(draw, 2, (30, 60)), called(through, [over, clip, event, *every])]
    if step == STEPS - 1:  # work that the device does behind the step
        optimizer += operators(draw, 2, (290, 330))
    return [
        region(draw, "forward", forward),
        region(draw, "backward", [back, called(long, [module(draw, [read_number(draw)])])]),
        region(draw, "optimizer", optimizer),
    ]


def _loaders(draw: Draw, events: Sequence[Event]) -> list[Event]:
    """Around each wait, what another thread was in."""
    name = f"data.py({draw.integer(5, 90)}): next_batch"
    found = []
    for e in events:
        if e["ph"] == "X" and e["name"] == "cudaStreamSynchronize":
            begin, end = e["ts"] - us(draw, 0.1, 0.9), e["ts"] + e["dur"] + us(draw, 0.1, 0.9)
            times = {"ts": round(begin, 3), "dur": round(end - begin, 3)}
            place = {"pid": e["pid"], "tid": e["pid"] + LOADER, "cat": "python_function"}
            found.append({"ph": "X", **place, "name": name, **times, "args": {"Python id": 0}})
    return found


def _read(
    events: Sequence[Event],
    *,
    waits: Callable[[Event], bool] = lambda e: (
        e["cat"] == "cuda_runtime" and e["name"].endswith("Synchronize")
    ),
    threads: bool = True,
    torchs: tuple[str, ...] = TORCHS,
    innermost: bool = True,
    over: bool = False,
    in_steps: bool = True,
    step: str = STEP,
    lanes: bool = False,
    gaps: bool = False,
    steps_thread: bool = False,
    anywhere: bool = False,
) -> list[tuple[str, float]]:
    """(function, us) of each wait, read from the trace, and the ways to get it wrong."""
    whole = [e for e in events if e["ph"] == "X"]
    calls = [e for e in whole if e["cat"] == "python_function" and not e["name"].startswith(torchs)]
    if anywhere:
        calls = [e for e in calls if "torch/" not in e["name"]]
    if in_steps:
        notes = [e for e in whole if e["cat"] == "user_annotation"]
        notes += [e for e in whole if lanes and e["cat"] == "gpu_user_annotation"]
        steps = [e for e in notes if e["name"].startswith(step)]
        if gaps:
            begin, end = min(s["ts"] for s in steps), max(s["ts"] + s["dur"] for s in steps)
            steps = [{"ts": begin, "dur": end - begin}]
        threads_of = {e["tid"] for e in (notes if steps_thread else whole)}
        whole = [e for e in whole if any(_holds(s, e) for s in steps) and e["tid"] in threads_of]
    found = []
    for wait in filter(waits, whole):
        mine = [e for e in calls if e["tid"] == wait["tid"] or not threads]
        around = [e for e in mine if _holds(e, wait) or (over and e["ts"] <= wait["ts"])]
        around.sort(key=lambda e: e["ts"])
        if around:
            found.append((around[-1 if innermost else 0]["name"], wait["dur"]))
    return found


def _holds(outer: Event, inner: Event) -> bool:
    begin, end = outer["ts"], outer["ts"] + outer["dur"]
    return bool(begin <= inner["ts"] and inner["ts"] + inner["dur"] <= end + 0.002)


def _wrong(name: str, sentence: str, **how: Any) -> None:
    host_waits.wrong(name, sentence, host_waits=lambda events: _summed(_read(events, **how)))


for _name, _torchs in (
    ("torchs_functions", ()),
    ("built_in_functions", ("torch/", "nn.Module: ")),
    ("modules", ("torch/", "<built-in ")),
    ("functions_in_torchs_files", ("nn.Module: ", "<built-in ")),
):
    _wrong(
        _name,
        "A function of torch is named, or a module's call. Asked for is the innermost function of "
        "the program: names that begin with `torch/`, `nn.Module: ` or `<built-in ` are not its "
        "own.",
        torchs=_torchs,
    )
_wrong(
    "outermost",
    "Each wait is given to the outermost function around it. That says that the loop waits, not "
    "where: take the innermost, which began last.",
    innermost=False,
)
_wrong(
    "any_thread",
    "A function of another thread is named. It ran at the same time, and called nothing here: the "
    "wait and its function have the same `tid`.",
    threads=False,
)
_wrong(
    "the_profilers_own",
    "A wait outside of all steps is counted. Behind them the program may wait as well, and so does "
    "the profiler when it stops.",
    in_steps=False,
)
_wrong(
    "from_first_to_last",
    "A wait between two steps is counted. It is in the time of neither, so it is in no step.",
    gaps=True,
)
_wrong(
    "in_the_devices_steps",
    "A wait behind a step is counted. The device's lane has a `ProfilerStep#` too, a "
    "`gpu_user_annotation`: it lasts as long as the step's work, and says nothing of the host.",
    lanes=True,
)
_wrong(
    "on_the_steps_thread",
    "A wait on autograd's thread is missing. It counts as well: its step is the one in whose time "
    "it lies, on whatever thread, and its function is one of its own thread.",
    steps_thread=True,
)
_wrong(
    "in_any_region",
    "A wait in a region outside of the steps is counted. A step is an annotation whose name "
    "begins with `ProfilerStep#`.",
    step="",
)
_wrong(
    "every_call",
    "Every call of CUDA's runtime is counted. A launch and an asynchronous copy come back at once; "
    "those that wait are named `...Synchronize`.",
    waits=lambda e: e["cat"] == "cuda_runtime",
)
_wrong(
    "whole_operators",
    "This is the time of `aten::item`. The wait inside it is a call of CUDA's runtime, which is "
    "shorter.",
    waits=lambda e: e["name"] == "aten::item",
)
_wrong(
    "anywhere_in_the_name",
    "A function of the program was taken for torch's. `torch/` stands inside its name: torch's own "
    "begin with it.",
    anywhere=True,
)
_wrong(
    "devices_alone",
    "Only `cudaDeviceSynchronize` is counted. The host waits for a stream and for an event as "
    "well: take every name that ends in `Synchronize`.",
    waits=lambda e: e["name"] == "cudaDeviceSynchronize",
)
host_waits.wrong(
    "by_name",
    "Sorted by the function's name. The one that waits longest in all comes first.",
    host_waits=lambda events: sorted(_summed(_read(events))),
)
host_waits.wrong(
    "every_function_around",
    "A wait is given to every function around it. It counts once: for the innermost of the "
    "program's own.",
    host_waits=lambda events: _summed(_all_around(events)),
)


def _all_around(events: Sequence[Event]) -> list[tuple[str, float]]:
    whole = [e for e in events if e["ph"] == "X"]
    steps = [e for e in whole if e["cat"] == "user_annotation" and e["name"].startswith(STEP)]
    calls = [e for e in whole if e["cat"] == "python_function" and not e["name"].startswith(TORCHS)]
    waits = [e for e in whole if e["name"].endswith("Synchronize")]
    return [
        (f["name"], wait["dur"])
        for wait in waits
        if any(_holds(step, wait) for step in steps)
        for f in calls
        if f["tid"] == wait["tid"] and _holds(f, wait)
    ]


@host_waits.wrong(
    "lost_in_torchs_functions",
    "Waits are missing whose innermost function is torch's. Go on outward from there, to the first "
    "function that is the program's own.",
)
def _(events: list[Event]) -> Waits:
    rows = _summed(_read(events, torchs=()))
    return [row for row in rows if not row[0].startswith(TORCHS)]


host_waits.wrong(
    "by_times",
    "Sorted by how often. The longest total comes first: a wait that is rare may be the dear one.",
    host_waits=lambda events: sorted(_summed(_read(events)), key=lambda row: (-row[1], -row[2])),
)
host_waits.wrong(
    "shortest_first",
    "The rows are right, the shortest first. The longest was asked for first.",
    host_waits=lambda events: _summed(_read(events))[::-1],
)
host_waits.wrong(
    "one_for_each_wait",
    "There is a row for each wait. Add up those of one function.",
    host_waits=lambda events: [(name, 1, took) for name, took in _read(events)],
)


_wrong(
    "streams_alone",
    "Only `cudaStreamSynchronize` is counted. The host waits for events and for the device as "
    "well: take every name that ends in `Synchronize`.",
    waits=lambda e: e["name"] == "cudaStreamSynchronize",
)
_wrong(
    "events_left_out",
    "A wait for an event is missing: `cudaEventSynchronize`. Take every name that ends in "
    "`Synchronize`.",
    waits=lambda e: e["name"] in ("cudaStreamSynchronize", "cudaDeviceSynchronize"),
)
_wrong(
    "copies_too",
    "Copies are counted as waits. A wait is a call whose name ends in `Synchronize`.",
    waits=lambda e: (
        e["cat"] == "cuda_runtime" and ("Synchronize" in e["name"] or "Memcpy" in e["name"])
    ),
)
_wrong(
    "already_over",
    "A function is named that was over before the wait began. Around the wait is what began before "
    "it and ends after it.",
    over=True,
)


def _changed(name: str, sentence: str, row: Callable[[str, int, float], Any]) -> None:
    host_waits.wrong(
        name, sentence, host_waits=lambda events: [row(*one) for one in _summed(_read(events))]
    )


_changed(
    "mean_wait",
    "The time is that of a wait on average. Asked for is how long in all.",
    lambda name, times, took: (name, times, took / times),
)
_changed(
    "time_before_times",
    "The rows are right, but the time comes before the count: (function, times, us).",
    lambda name, times, took: (name, took, times),
)
_changed("milliseconds", MILLISECONDS, lambda name, times, took: (name, times, took / 1000))
_changed(
    "without_its_file",
    "The file and the line are cut off. A function is named as the trace names it.",
    lambda name, times, took: (name.rpartition(": ")[2], times, took),
)
_changed(
    "without_times",
    "The count is missing. A row is (function, times, us).",
    lambda name, times, took: (name, took),
)
host_waits.wrong(
    "as_a_dict",
    "This is a dict. A list of rows was asked for, (function, times, us), the longest first.",
    host_waits=lambda events: {name: row for name, *row in _summed(_read(events))},
)
host_waits.wrong(
    "as_a_dict_of_tuples",
    "This is a dict. A list of rows was asked for, (function, times, us), the longest first.",
    host_waits=lambda events: {name: tuple(row) for name, *row in _summed(_read(events))},
)
host_waits.wrong(
    "longest_alone",
    "Only the longest row is there. Every function that waits was asked for.",
    host_waits=lambda events: _summed(_read(events))[:1],
)


@host_waits.wrong(
    "longest_wait",
    "The time is that of the longest wait. Asked for is how long in all: add them up.",
)
def _(events: list[Event]) -> Waits:
    waits = _read(events)
    most = {name: max(took for n, took in waits if n == name) for name, _ in waits}
    return [(name, times, most[name]) for name, times, _ in _summed(waits)]


@host_waits.cost
def _(student: Student, draw: Draw) -> str:
    events, waits = _drawn(draw)
    rows = student.call("host_waits", events)
    name, times, took = rows[0]
    share = took / sum(us for _, us in waits)
    return f"{len(waits)} waits in {len(rows)} functions: {share:.0%} in {name}, {times} calls"
