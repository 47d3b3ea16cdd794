"""How many launches each part of a step takes, and what they give the device to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, Wrong, describe, expect_kind, expect_tuple, within

from . import lab
from .draw_step import backward, operator, operators, region, traced, us
from .machine import ENGINE, STEP, Copy, Event, Fill, Launch, Span, Wait
from .times import MILLISECONDS, expect_us, related

Regions = dict[str, tuple[int, int, float]]
NAMES = ("forward", "backward", "clip", "optimizer", "ema", "loss", "augment", "metrics")
_FORM = "{region: (launches, kernels, us of the device)}"
NO_DICT = "A dict was asked for: {region: (launches, kernels, us)}."
NO_ROW = "Each region has three numbers: (launches, kernels, us)."
NO_REGION = "There is a row for something that is no `user_annotation` of this trace."
STEPS_NAMED = (
    "A step itself has a row. Asked for are the outermost annotations inside a `ProfilerStep#`."
)
INNER = (
    "An inner annotation has a row of its own here, as torch's for `Optimizer.step`. Asked for "
    "is the outermost one inside the step."
)
AROUND = (
    "A row is there for an annotation around the steps. Asked for are the outermost annotations "
    "inside a `ProfilerStep#`."
)
EMPTY = "A region is there that launches no kernel. Such regions were to be left out."
LATE = (
    "A region is there that launches no kernel, and launches are counted for it. A launch belongs "
    "to the region in which the host is at the call; one that lies in no region belongs to none."
)
OUTSIDE = (
    "A region is there that is in no step. Behind the steps the program may launch as well: asked "
    "for are the annotations inside a `ProfilerStep#`."
)
ONE_THREAD = (
    "The launches of `backward` are missing. They stand on autograd's thread, and its annotation "
    "on the main one: compare their times alone."
)
NO_GRAPHS = (
    "A region is missing, or has too few: `cudaGraphLaunch` launches as well. Go by what came of a "
    "call, not by its name."
)
LATER = (
    "A kernel was given to the region in which the host was when the kernel ran. By then the host "
    "is further on: ask where it was when it launched."
)
NONE_AT_ALL = (
    "No region was found. Here another annotation lies around all steps: it is in no step itself, "
    "and asked for are the outermost of those that are."
)
NO_SUCH = "A region is missing that launches kernels, with one call or with many, on any thread."
COUNTED = (
    (
        "Calls of this region are missing. A call belongs to the region in which the host is at "
        "its `ts`; those of all steps count, on whatever thread, and whatever they are called.",
        "More calls were counted than launch a kernel in this region.",
    ),
    (
        "Kernels of this region are missing. One call can bring many, and all steps count.",
        "More kernels were counted than the calls of this region bring.",
    ),
)
LESS_TIME = (
    "This is shorter than the kernels of this region take. All kernels that the calls of this "
    "region bring count, in all steps."
)
MORE_TIME = "This is longer than the kernels of this region take on the device."
_RAISED = {
    "KeyError": "Arrows (`ph` is `s` or `f`) have no `dur` and no `args`. A wait has a "
    "`correlation` with which no kernel came.",
}


@lab.question(
    "launches",
    points=4,
    minutes=10,
    difficulty=4,
    hints=(
        "Where does the host stand when it launches, and where when the kernel runs?",
        "The region of a launch is the annotation around its call, at that time. Annotations stand "
        "on the main thread, launches of a backward on another: compare times, not threads. A call "
        "can bring many kernels, all with its `correlation`.",
        "around = [r for r in regions if r['ts'] <= call['ts'] < r['ts'] + r['dur']]",
    ),
)
def launches(student: Student, draw: Draw) -> None:
    """For each region of the steps that launches kernels: how many launches, how many kernels they
    bring, and how long those take on the device. A region is an outermost `user_annotation` inside
    a `ProfilerStep#`.

    events -> {region: (launches, kernels, us)}, summed over all steps.
    """
    for _ in draw.cases(2):
        events, want = _drawn(draw)
        with explaining(_RAISED):
            got = student.call("launches", events)
        _expect(got, want, events)


def _expect(got: Any, want: Regions, events: Sequence[Event]) -> None:
    with within("", why=NO_DICT):
        regions = expect_kind(got, dict, _FORM)
    names = sorted(map(str, regions))
    if names != sorted(want):
        counted = {str(name) for name, row in regions.items() if _has_a_number(row)}
        why = _of_names({*names}, want, events, counted)
        raise Wrong(expected=describe(sorted(want)), got=describe(names), why=why)
    for name, (calls, kernels, took) in sorted(want.items()):
        row = expect_tuple(regions[name], 3, _FORM, where=f"in {name}", why=NO_ROW)
        counts = zip(("launches", "kernels"), row, (calls, kernels), COUNTED, strict=False)
        for what, came, wanted, (fewer, more) in counts:
            if type(came) is not int or came != wanted:
                why = (fewer if came < wanted else more) if type(came) is int else ""
                told = f"{wanted} {what}"
                raise Wrong(expected=told, got=describe(came), where=f"in {name}", why=why)
        with within("", why=related(row[2], took, less=LESS_TIME, more=MORE_TIME)):
            expect_us(row[2], took, f"the device's time, in {name}")


def _has_a_number(row: Any) -> bool:
    """Whether a row has anything but zeros in it."""
    return isinstance(row, (list, tuple)) and any(type(one) in (int, float) and one for one in row)


def _of_names(got: set[str], want: Regions, events: Sequence[Event], counted: set[str]) -> str:
    """What is wrong with the regions: those that are too many go first. counted: those that were
    given a launch."""
    notes = [e for e in events if e["cat"] == "user_annotation"]
    steps = [e for e in notes if STEP in e["name"]]
    here = {e["name"]: any(_around(s, e) for s in steps) for e in notes}
    around = {e["name"] for e in notes if any(_around(e, s) for s in steps)}
    inner = {e["name"] for e in notes if any(_around(o, e) for o in _regions(notes))}
    for name in sorted(got - {*want}):
        if name not in here:
            return NO_REGION
        if STEP in name:
            return STEPS_NAMED
        if name in around:
            return AROUND
        if name in inner or not here[name]:
            return INNER if name in inner else OUTSIDE
        return LATE if name in counted else EMPTY
    return NO_SUCH if got else NONE_AT_ALL


def _regions(notes: Sequence[Event]) -> list[Event]:
    """What lies in a step, also where something else lies around it."""
    steps = [e for e in notes if STEP in e["name"]]
    return [e for e in notes if any(_around(s, e) for s in steps)]


def _around(outer: Event, e: Event) -> bool:
    return e is not outer and bool(outer["ts"] < e["ts"] < outer["ts"] + outer["dur"])


def _drawn(draw: Draw) -> tuple[list[Event], Regions]:
    """One region has many small kernels, one is a graph, one has another annotation in it, and one
    of its own name, one runs on autograd's thread and has one there, one only copies, one comes
    twice in the last step and in no other, with a call of another name and on another stream, and
    one, with another in it, is behind the steps. All steps lie in an annotation, as of an epoch."""
    small, graph, nested, plain, rare = draw.shuffled([n for n in NAMES if n != "backward"])[:5]
    many, in_graph = draw.integer(13, 18), draw.integer(6, 11)
    steps = []
    for step in range(2):
        again = [region(draw, plain, operators(draw, 1, (9, 20)))]  # a name that others have alone
        inner = Span(
            "user_annotation",
            f"Optimizer.step#{draw.choice(('AdamW', 'SGD'))}.step",
            us(draw, 3, 6),
            [*operators(draw, 3, (20, 40)), *again * (step == 1)],
        )
        parts = [
            region(draw, plain, [*operators(draw, 3, (30, 60)), operator(draw, (120, 200))]),
            region(draw, "backward", [_backward(draw)]),
            region(draw, small, operators(draw, many, (1, 3))),
            region(draw, graph, [_graph(draw, in_graph)]),
            region(draw, nested, [operator(draw, (9, 20)), _again(draw, nested), inner]),
        ]
        kernels = [("nvjet_tst_128x64_64x9", us(draw, 9, 20))]
        other = Launch("cudaLaunchKernelExC", us(draw, 2.5, 5), kernels, stream=13)
        parts += [region(draw, rare, [operator(draw, (9, 20)), other]) for _ in range(2 * step)]
        alone = operator(draw, (9, 20))  # in no region
        steps.append([_data(draw), alone, *_shuffled_but_backward(draw, parts)])
    batch = Span("user_annotation", "batch", us(draw, 3, 6), operators(draw, 3, (9, 20)))
    behind = region(draw, "evaluate", [*operators(draw, 2, (9, 20)), batch])
    events, machine = traced(draw, steps, behind=[behind])
    truth = {k: (int(c), int(n), took) for k, (c, n, took) in machine.seen.regions.items() if k}
    return draw.shuffled([*events, _epoch(events), *_fills_of_graphs(draw, events)]), truth


def _fills_of_graphs(draw: Draw, events: Sequence[Event]) -> list[Event]:
    """Each graph also fills some memory, beside its kernels, on another stream."""
    calls = [e for e in events if e["cat"] == "cuda_runtime" and e["name"] == "cudaGraphLaunch"]
    graphs = {e["args"]["correlation"] for e in calls}
    first = {e["args"]["correlation"]: e for e in reversed(events) if e["cat"] == "kernel"}
    return [
        {
            **first[graph],
            "cat": "gpu_memset",
            "name": "Memset (Device)",
            "tid": 20,
            "dur": us(draw, 1, 2),
            "args": {**first[graph]["args"], "stream": 20},
        }
        for graph in sorted(graphs)
    ]


def _epoch(events: Sequence[Event]) -> Event:
    """An annotation around all steps, and around nothing else."""
    steps = [e for e in events if e["cat"] == "user_annotation" and STEP in e["name"]]
    begin = min(e["ts"] for e in steps) - 0.1
    end = max(e["ts"] + e["dur"] for e in steps) + 0.1
    return {**steps[0], "name": "epoch", "ts": round(begin, 3), "dur": round(end - begin, 3)}


def _again(draw: Draw, name: str) -> Span:
    """A region inside the one of its own name, as where a function calls itself."""
    return region(draw, name, operators(draw, 2, (9, 20)))


def _backward(draw: Draw) -> Span:
    """With an annotation on autograd's thread, as a hook or an `autograd.Function` makes one."""
    hook = Span("user_annotation", "hook", us(draw, 3, 6), operators(draw, 2, (9, 20)), ENGINE)
    return backward(draw, [*operators(draw, 4, (30, 60)), hook])


def _shuffled_but_backward(draw: Draw, parts: list[Span]) -> list[Span]:
    """A step whose longest work comes before its shortest launches: the device is behind."""
    plain, back, *others = parts
    return [plain, back, *draw.shuffled(others)]


def _data(draw: Draw) -> Span:
    copy = Copy("HtoD (Pinned -> Device)", 4096 * draw.integer(9, 30), us(draw, 6, 20), 2.5)
    zeros = Span("cpu_op", "aten::zero_", us(draw, 3, 6), [Fill(us(draw, 2, 5), us(draw, 2, 4))])
    called = Wait("cudaLaunchHostFunc", us(draw, 2, 4), stream=21)  # of the host: no kernel
    copied = Span("cpu_op", "aten::copy_", us(draw, 3, 6), [copy])
    return region(draw, "data", [copied, zeros, called])


def _graph(draw: Draw, many: int) -> Launch:
    names = ("ampere_sgemm_64x64_nn", "void at::native::vectorized_elementwise_kernel<4, Add>")
    kernels = [(draw.choice(names), us(draw, 2, 9)) for _ in range(many)]
    return Launch("cudaGraphLaunch", us(draw, 9, 14), kernels)


def _read(
    events: Sequence[Event],
    *,
    launch: Callable[[Event, Sequence[Event]], bool] = lambda call, work: bool(work),
    by_kernel: bool = False,
    whole_kernel: bool = False,
    innermost: bool = False,
    all_around: bool = False,
    each_of_its_name: bool = False,
    threads: bool = False,
    one_for_each_kernel: bool = False,
    cats: Sequence[str] = ("kernel",),
    notes_cat: str = "user_annotation",
    steps: bool = False,
    nowhere: bool = False,
    in_steps: bool = True,
    around_them: bool = False,
    step_named: Callable[[Event], bool] = lambda step: True,
) -> Regions:
    """Read from the trace, and the ways to get it wrong. whole_kernel: it lies in the region."""
    whole = [e for e in events if e["ph"] == "X"]
    notes = [e for e in whole if e["cat"] == notes_cat and (steps or STEP not in e["name"])]
    notes = [e for e in notes if around_them or e["name"] != "epoch"]
    notes.sort(key=lambda e: (e["ts"], -e["dur"]))
    if in_steps and not steps:
        inside = [e for e in whole if e["cat"] == "user_annotation" and STEP in e["name"]]
        inside = list(filter(step_named, inside))
        notes = [e for e in notes if any(_around(s, e) or notes_cat != s["cat"] for s in inside)]
    work: dict[int, list[Event]] = {}
    for e in whole:
        if e["cat"] in cats:
            work.setdefault(e["args"]["correlation"], []).append(e)
    found: dict[str, list[float]] = {}
    for call in (e for e in whole if e["cat"] == "cuda_runtime"):
        given = work.get(call["args"]["correlation"], [])
        when = given[0]["ts"] if by_kernel and given else call["ts"]
        until = when + given[0]["dur"] if whole_kernel and given else when
        around = [
            e
            for e in notes
            if e["ts"] <= when
            and until < e["ts"] + e["dur"]
            and (e["tid"] == call["tid"] or not threads)
        ]
        if not launch(call, given) or not (around or nowhere):
            continue
        names = [e["name"] for e in around] or [""]
        if each_of_its_name:
            names = [name for name in names if name == names[0]]
        elif not all_around:
            names = names[-1:] if innermost else names[:1]
        for name in names:
            row = found.setdefault(name, [0, 0, 0.0])
            row[0] += len(given) if one_for_each_kernel else 1
            row[1] += len(given)
            row[2] += sum(e["dur"] for e in given)
    return {name: (int(c), int(n), took) for name, (c, n, took) in found.items()}


def _wrong(name: str, sentence: str, **how: Any) -> None:
    launches.wrong(name, sentence, launches=lambda events: _read(events, **how))


_wrong(
    "a_launch_for_each_kernel",
    "Kernels were counted as launches. `cudaGraphLaunch` is one call of the host, and brings all "
    "kernels of its graph.",
    one_for_each_kernel=True,
)
_wrong("where_the_kernel_runs", LATER, by_kernel=True)
_wrong("where_the_whole_kernel_runs", LATER, by_kernel=True, whole_kernel=True)
_wrong("innermost", INNER, innermost=True)
_wrong(
    "each_of_its_name",
    "Calls of this region are counted more than once: a region of the same name lies in it, and "
    "both count. Asked for is the outermost one.",
    each_of_its_name=True,
)
_wrong("one_thread", ONE_THREAD, threads=True)
_wrong(
    "copies_too",
    "A copy was counted as a launch, or its time as a kernel's. Asked for are kernels.",
    cats=("kernel", "gpu_memcpy"),
)


_wrong(
    "fills_of_graphs_too",
    "What a graph fills or copies was counted as a kernel. It comes of the same call, and has a "
    "`cat` of its own. Asked for are kernels.",
    cats=("kernel", "gpu_memcpy", "gpu_memset"),
    launch=lambda call, work: any(one["cat"] == "kernel" for one in work),
)


_wrong(
    "every_region_around",
    "A launch inside an inner annotation was counted for that one as well. Asked for are the "
    "outermost regions alone: each launch counts once.",
    all_around=True,
)


@launches.wrong(
    "of_one_step", "These are the numbers of a step on average. Asked for is the sum of all."
)
def _(events: Sequence[Event]) -> Regions:
    found = _read(events)
    return {name: (c // 2, n // 2, took / 2) for name, (c, n, took) in found.items()}


_wrong("graphs_left_out", NO_GRAPHS, launch=lambda call, work: call["name"] == "cudaLaunchKernel")
_wrong(
    "graphs_left_out_by_a_part_of_the_name",
    NO_GRAPHS,
    launch=lambda call, work: "LaunchKernel" in call["name"],
)


@launches.wrong(
    "outermost_by_name",
    "A region is missing that has the name of an inner annotation. Its time says whether one lies "
    "inside another, and not its name.",
)
def _(events: Sequence[Event]) -> Regions:
    regions = _regions([e for e in events if e["cat"] == "user_annotation"])
    inner = {e["name"] for e in regions if any(_around(o, e) for o in regions)}
    return {name: row for name, row in _read(events).items() if name not in inner}


_wrong("steps_named", STEPS_NAMED, steps=True)
_wrong("outside_the_steps", OUTSIDE, in_steps=False)
_wrong("around_the_steps", AROUND, in_steps=False, around_them=True)
_wrong(
    "fills_too",
    "A fill was counted as a launch: the work of `cudaMemsetAsync` is a `gpu_memset`. Asked for "
    "are kernels.",
    cats=("kernel", "gpu_memset"),
)
_wrong(
    "all_work",
    "Copies and fills were counted as well. Of the work on the device, asked for are events whose "
    "`cat` is `kernel`.",
    cats=("kernel", "gpu_memcpy", "gpu_memset"),
)
_wrong(
    "labels",
    "The regions are those of `gpu_user_annotation`, which say when the device worked for them. "
    "Asked for is where the host was at the launch: `user_annotation`.",
    notes_cat="gpu_user_annotation",
)
_wrong(
    "every_call",
    "Calls were counted that launch no kernel: copies, waits. Count those with whose `correlation` "
    "a kernel came.",
    launch=lambda call, work: True,
)
_wrong(
    "nowhere",
    "Launches outside of all regions have a row. Only regions were asked for.",
    nowhere=True,
)


def _changed(name: str, sentence: str, row: Callable[[int, int, float], Any]) -> None:
    launches.wrong(
        name, sentence, launches=lambda events: {k: row(*v) for k, v in _read(events).items()}
    )


_changed(
    "one_kernel_each",
    "Launches were counted as kernels. A graph brings many kernels with one launch.",
    lambda calls, kernels, took: (calls, calls, took),
)
_changed(
    "kernels_first",
    "The kernels came before the launches: (launches, kernels, us).",
    lambda calls, kernels, took: (kernels, calls, took),
)
_changed(
    "mean_kernel",
    "The time is that of a kernel on average. Asked for is how long they take in all.",
    lambda calls, kernels, took: (calls, kernels, took / kernels),
)
_changed("milliseconds", MILLISECONDS, lambda calls, kernels, took: (calls, kernels, took / 1000))
_changed(
    "launches_alone",
    "Only the launches are counted. Asked for are three numbers: (launches, kernels, us).",
    lambda calls, kernels, took: calls,
)
launches.wrong(
    "as_rows",
    "This is a list of rows. A dict was asked for: {region: (launches, kernels, us)}.",
    launches=lambda events: sorted((name, *row) for name, row in _read(events).items()),
)


@launches.wrong(
    "hosts_time",
    "The time is that of the calls on the host. Asked for is how long the kernels take on the "
    "device.",
)
def _(events: Sequence[Event]) -> Regions:
    calls = {e["args"]["correlation"]: e["dur"] for e in events if e["cat"] == "cuda_runtime"}

    def timed(e: Event) -> Event:
        """A kernel with its call's time, which counts once."""
        is_kernel = e["cat"] == "kernel"
        return {**e, "dur": calls.pop(e["args"]["correlation"], 0.0)} if is_kernel else e

    return _read([timed(e) for e in events])


@launches.wrong("regions_without_any", EMPTY)
def _(events: Sequence[Event]) -> Regions:
    notes = [e for e in events if e["cat"] == "user_annotation"]
    steps = [e for e in notes if STEP in e["name"]]
    names = [
        e["name"]
        for e in notes
        if any(_around(s, e) for s in steps) and not any(_around(o, e) for o in _regions(notes))
    ]
    return dict.fromkeys(names, (0, 0, 0.0)) | _read(events)


@launches.wrong("where_each_kernel_runs", LATER)
def _(events: Sequence[Event]) -> Regions:
    """By the kernel's own beginning, also of those that one call brings."""
    notes = _regions([e for e in events if e["cat"] == "user_annotation"])
    here: dict[str, list[Event]] = {}
    for e in (e for e in events if e["cat"] == "kernel"):
        for note in notes:
            if _around(note, e) and not any(_around(other, note) for other in notes):
                here.setdefault(note["name"], []).append(e)
    return {
        name: (len({e["args"]["correlation"] for e in ran}), len(ran), sum(e["dur"] for e in ran))
        for name, ran in here.items()
    }


@launches.wrong(
    "last_step_alone",
    "These are the numbers of the last step of a region alone. Asked for is the sum of all steps.",
)
def _(events: Sequence[Event]) -> Regions:
    last = max(e["ts"] for e in events if e["cat"] == "user_annotation" and STEP in e["name"])
    return _read(events, step_named=lambda step: step["ts"] == last)


@launches.wrong(
    "first_step_alone",
    "These are the numbers of the first step alone. Asked for is the sum of all steps.",
)
def _(events: Sequence[Event]) -> Regions:
    first = min(e["ts"] for e in events if e["cat"] == "user_annotation" and STEP in e["name"])
    return _read(events, step_named=lambda step: step["ts"] == first)


@launches.wrong(
    "outermost_of_its_thread",
    "An annotation on autograd's thread has a row. It lies inside `backward`, by its time: compare "
    "times alone, of annotations as well.",
)
def _(events: Sequence[Event]) -> Regions:
    inner = _on_other_threads(events)
    ours = [e for e in events if e["ph"] != "X" or e["name"] not in inner]
    by_innermost = _read(events, innermost=True)
    found = _read(ours)
    return found | {name: by_innermost[name] for name in inner}


def _on_other_threads(events: Sequence[Event]) -> set[str]:
    """Annotations that stand on another thread than the steps."""
    notes = [e for e in events if e["cat"] == "user_annotation"]
    main = {e["tid"] for e in notes if STEP in e["name"]}
    return {e["name"] for e in notes if e["tid"] not in main}


@launches.wrong("thread_of_the_outermost", ONE_THREAD)
def _(events: Sequence[Event]) -> Regions:
    inner = _on_other_threads(events)
    return _read([e for e in events if e["ph"] != "X" or e["name"] not in inner], threads=True)


@launches.cost
def _(student: Student, draw: Draw) -> str:
    events, _ = _drawn(draw)
    found = student.call("launches", events)
    name, (calls, _, took) = min(found.items(), key=lambda item: item[1][2] / item[1][0])
    return f"{name}: {calls} launches for {took:.0f} us of the device, {took / calls:.1f} us each"
