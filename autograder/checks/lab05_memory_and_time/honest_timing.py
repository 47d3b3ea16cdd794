"""A benchmark that lies, repaired."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

from autograder.judge import Draw, Student, Wrong, describe, expect_kind, expect_tuple
from onelayer.memory.timed_kernel import TimedKernel

from . import lab

Step = tuple[str, ...]
Answer = tuple[list[Step], list[tuple[str, str]]]
VERBS = {"run": 1, "flush": 1, "sync": 1, "clock": 2, "record": 2}
MOST_SLOW = 10
ALLOWED = 0.02
_STEPS = (
    'The first list holds the steps. Each is a tuple, its verb first: ("run",), ("record", name).'
)


@lab.question(
    "honest_timing",
    points=4,
    minutes=12,
    difficulty=3,
    by_effect=True,
    hints=(
        "What does the plan as found measure? Ask of each interval what lies between its two ends.",
        "Ten runs before the first reading. Then for each repeat: flush, record, run, record. One "
        "sync before anybody reads an event. The flush keeps the device busy while the host "
        "launches the rest, so no launch lies between the two events.",
        'steps += [("flush",), ("record", f"a{k}"), ("run",), ("record", f"b{k}")]',
    ),
)
def honest_timing(student: Student, draw: Draw) -> None:
    """A plan that times a kernel whose data do not lie in the cache.

    repeats (at least 1) -> (steps, intervals): steps as `TimedKernel.play` takes them, intervals a
    list of `repeats` pairs of names, the two ends of each. The first 10 runs, at the most, are
    slow. Each of the intervals has to be the kernel's cold time, within 2 %.
    """
    for repeats in (1, 5, 2 * draw.integer(14, 20) + 1):  # more than there are digits, or letters
        for kernel in _drawn_kernels(draw):
            answer = student.call("honest_timing", repeats)
            steps, intervals = _checked(answer, repeats)
            times = _measured(kernel, steps, intervals)
            _expect_cold(median(times), kernel, steps, intervals)
            for us, pair in zip(times, intervals, strict=True):  # few do not move a median
                _expect_cold(us, kernel, steps, [pair])


def _drawn_kernels(draw: Draw) -> list[TimedKernel]:
    """A brief one that a launch takes longer than, and a long one."""
    brief, long = draw.integer(2, 4), draw.integer(200, 900)
    return [
        TimedKernel(cold_us=us * 2.0, hot_us=float(us), slow=slow, flush_us=draw.integer(60, 90))
        for us, slow in ((brief, draw.integer(2, 3)), (long, MOST_SLOW))
    ]


def _checked(got: Any, repeats: int) -> Answer:
    if not isinstance(got, (list, tuple)) or len(got) != 2:
        why = "Two things come back: the list of steps, and the list of intervals."
        raise Wrong(expected="(steps, intervals)", got=describe(got), why=why)
    steps, intervals = got
    known = [_step(step) for step in expect_tuple(steps, None, "a list of steps")]
    pairs = expect_tuple(intervals, None, f"{repeats} intervals, pairs of names")
    _expect_pairs(pairs, repeats)
    if len(set(map(str, pairs))) < len(pairs):
        why = (
            "Two intervals are one pair of names, and a name keeps only its last time: name each "
            "interval's ends anew."
        )
        raise Wrong(expected=f"{repeats} intervals", got="the same one twice", why=why)
    named = {step[1] for step in known if len(step) == 2}
    for pair in pairs:
        for name in expect_tuple(pair, 2, "a pair of names"):
            if _as_text(name) not in named:
                why = "No clock is read and no event recorded under this name."
                raise Wrong(
                    expected="the name of a clock or record step", got=describe(name), why=why
                )
    return known, [(_as_text(start), _as_text(end)) for start, end in pairs]


def _expect_pairs(intervals: Sequence[Any], repeats: int) -> None:
    why = ""
    if any(not isinstance(pair, (list, tuple)) or len(pair) != 2 for pair in intervals):
        why = "Each interval is a pair of names: that of its begin, that of its end."
    elif len(intervals) < repeats:
        why = "There are fewer intervals than `repeats`."
    elif len(intervals) > repeats:
        why = "There are more intervals than `repeats`. What only warms up is not among them."
    if why:
        raise Wrong(
            expected=f"{repeats} intervals, pairs of names", got=describe(intervals), why=why
        )


def _step(got: Any) -> Step:
    if not isinstance(got, (list, tuple)):
        raise Wrong(expected=f"a step: one of {', '.join(VERBS)}", got=describe(got), why=_STEPS)
    step = expect_tuple(got, None, f"a step: one of {', '.join(VERBS)}")
    if not step or VERBS.get(expect_kind(step[0], str, "a text")) != len(step):
        raise Wrong(expected=f"a step: one of {', '.join(VERBS)}", got=describe(got), why=_STEPS)
    return (step[0], *map(_as_text, step[1:]))


def _as_text(name: Any) -> str:
    """A name is a text, or whatever else tells two events apart: TimedKernel takes numbers too."""
    return name if isinstance(name, str) else f"<{name!r}>"


def _measured(
    kernel: TimedKernel, steps: list[Step], intervals: list[tuple[str, str]]
) -> list[float]:
    kernel.play(steps)
    try:
        return [kernel.elapsed_us(start, end) for start, end in intervals]
    except KeyError as error:
        why = "Both ends of an interval are readings of one kind: two clocks, or two events."
        raise Wrong(expected="two of one kind", got=str(error), why=why) from None
    except RuntimeError as error:
        why = "An event can be read when the host has waited for it, with a sync behind its record."
        raise Wrong(expected="a sync behind the last record", got=str(error), why=why) from None


def _timed(steps: list[Step], intervals: list[tuple[str, str]]) -> str:
    """The steps of the last interval, from the flush on if there is one: what it measures."""
    first, last = (
        max(n for n, step in enumerate(steps) if step[1:] == (end,)) for end in intervals[-1]
    )
    before = [step[0] for step in steps[:first]]
    since_run = before[len(before) - before[::-1].index("run") :] if "run" in before else before
    flushed = since_run[since_run.index("flush") :] if "flush" in since_run else []
    timed = ", ".join([*flushed, *(step[0] for step in steps[first : last + 1])])
    return f"the last of {len(intervals)}, ({timed})"


def _what_is_timed(steps: list[Step], intervals: list[tuple[str, str]]) -> str:
    """What such a plan does beside what was asked, seen in its steps; "" where that is nothing."""
    place = {step[1]: n for n, step in enumerate(steps) if len(step) == 2}
    return next((why for pair in intervals for why in _in_one(steps, *map(place.get, pair))), "")


def _in_one(steps: list[Step], start: int | None, end: int | None) -> Iterator[str]:
    if start is None or end is None:
        return
    if end < start:
        yield "An interval ends before it begins."
    inside = [step[0] for step in steps[start + 1 : end]]
    before = [step[0] for step in steps[:start]]
    if "flush" in inside:
        yield "A flush lies between the two ends of an interval, so its time is counted too."
    if inside.count("run") > 1:
        yield "Between the two ends of an interval lies more than one run."
    if "run" not in inside:
        yield "Between the two ends of an interval lies no run."
    if before.count("run") < MOST_SLOW:
        yield "Fewer than ten runs come before an interval. Up to ten are slow; a flush is no run."
        return
    since_run = before[len(before) - before[::-1].index("run") :]
    if "flush" not in since_run:
        yield "Between an interval and the run before it is no flush, so the cache is not empty."
    others = [verb for verb in before if verb != "clock"]
    if steps[start][0] == "clock" and "sync" not in inside[inside.index("run") :]:
        yield "The second clock is read when the launch returns: no sync lies behind the run."
    if steps[start][0] == "clock" and others[-1:] != ["sync"]:
        yield (
            "The host's clock is read while the device still works on what came before, and the "
            "rest of that is counted."
        )
    if steps[start][0] == "record" and "sync" in inside:
        yield (
            "A sync lies between the two events. It empties the queue, and while the host gives "
            "the next command the device waits: that is counted."
        )


def _expect_cold(
    got_us: float, kernel: TimedKernel, steps: list[Step], intervals: list[tuple[str, str]]
) -> None:
    if abs(got_us - kernel.cold_us) > ALLOWED * kernel.cold_us:
        timed = _timed(steps, intervals)
        told = f"a kernel of {kernel.cold_us:g} us cold and {kernel.hot_us:g} us hot"
        raise Wrong(
            expected=f"{kernel.cold_us:g} us",
            got=f"{got_us:g} us",
            where=f"{told}, launched in {kernel.launch_us:g} us; timed: {timed}",
            why=_what_is_timed(steps, intervals),
        )


def _plan(
    repeats: int,
    once: Callable[[int], list[Step]],
    *,
    warm: int = MOST_SLOW,
    settled: bool = True,
    end: tuple[Step, ...] = (("sync",),),
) -> Answer:
    """settled: a sync behind the warm-up."""
    steps: list[Step] = [("run",)] * warm
    steps += [("sync",)] if warm and settled else []
    for k in range(repeats):
        steps += once(k)
    return [*steps, *end], [(f"a{k}", f"b{k}") for k in range(repeats)]


def _events(k: int) -> list[Step]:
    return [("flush",), ("record", f"a{k}"), ("run",), ("record", f"b{k}")]


honest_timing.wrong(
    "as_found",
    "The host's clock is read after a launch, as in the benchmark that was found, and a launch "
    "returns before its kernel is over.",
    honest_timing=lambda repeats: _plan(
        repeats, lambda k: [("clock", f"a{k}"), ("run",), ("clock", f"b{k}")], warm=0, end=()
    ),
)
honest_timing.wrong(
    "no_sync",
    "The clock is read when the launch returns, and the kernel has not even begun: this is the "
    "time of a launch.",
    honest_timing=lambda repeats: _plan(
        repeats, lambda k: [("flush",), ("clock", f"a{k}"), ("run",), ("clock", f"b{k}")]
    ),
)
honest_timing.wrong(
    "no_warm_up",
    "The first runs are slow: they load code, choose kernels and allocate. Run ten times before "
    "the first interval.",
    honest_timing=lambda repeats: _plan(repeats, _events, warm=0),
)
honest_timing.wrong(
    "one_warm_up",
    "One run before is not enough here: up to ten are slow.",
    honest_timing=lambda repeats: _plan(repeats, _events, warm=1),
)
for name, settled in (("hot_cache", True), ("hot_cache_at_once", False)):
    honest_timing.wrong(
        name,
        "The run before left the data in the cache, so this is the hot time. In training other "
        "kernels have been there since: flush before each run.",
        honest_timing=lambda repeats, settled=settled: _plan(
            repeats,
            lambda k: [("record", f"a{k}"), ("run",), ("record", f"b{k}")],
            settled=settled,
        ),
    )
for name, settled in (("flush_inside", True), ("flush_inside_at_once", False)):
    honest_timing.wrong(
        name,
        "The flush lies between the two events, so its time is counted too.",
        honest_timing=lambda repeats, settled=settled: _plan(
            repeats,
            lambda k: [("record", f"a{k}"), ("flush",), ("run",), ("record", f"b{k}")],
            settled=settled,
        ),
    )
honest_timing.wrong(
    "hot_by_the_hosts_clock",
    "Two faults: the run before left the data in the cache, and the host's clock also counts the "
    "launch. Flush before each run, and read events.",
    honest_timing=lambda repeats: _plan(
        repeats,
        lambda k: [("sync",), ("clock", f"a{k}"), ("run",), ("sync",), ("clock", f"b{k}")],
    ),
)
honest_timing.wrong(
    "host_clock_with_sync",
    "With a sync on both sides the host's clock also counts the launch. For a kernel of a few "
    "microseconds that is much of it. An event takes its time on the device, and a launch during "
    "the flush is not in it.",
    honest_timing=lambda repeats: _plan(
        repeats,
        lambda k: [
            ("flush",),
            ("sync",),
            ("clock", f"a{k}"),
            ("run",),
            ("sync",),
            ("clock", f"b{k}"),
        ],
    ),
)
honest_timing.wrong(
    "sync_after_flush",
    "After that sync the queue is empty: the first event is over at once, and then the device "
    "waits for the launch. Leave the device busy with the flush.",
    honest_timing=lambda repeats: _plan(
        repeats,
        lambda k: [("flush",), ("sync",), ("record", f"a{k}"), ("run",), ("record", f"b{k}")],
    ),
)
honest_timing.wrong(
    "read_too_early",
    "The events are read before the host has waited for them: one sync at the end is missing.",
    honest_timing=lambda repeats: _plan(repeats, _events, end=()),
)
honest_timing.wrong(
    "flush_once",
    "Not every run found an empty cache. Flush before each of them.",
    honest_timing=lambda repeats: _plan(repeats, lambda k: _events(k)[1 if k else 0 :]),
)


honest_timing.wrong(
    "half_warm",
    "So few runs before are not enough here: up to ten are slow.",
    honest_timing=lambda repeats: _plan(repeats, _events, warm=5),
)
honest_timing.wrong(
    "ends_swapped",
    "An interval goes from its first name to its second: here the time is negative.",
    honest_timing=lambda repeats: (
        _plan(repeats, _events)[0],
        [(end, start) for start, end in _plan(repeats, _events)[1]],
    ),
)
honest_timing.wrong(
    "one_interval_less",
    "There are fewer intervals than `repeats`.",
    honest_timing=lambda repeats: _plan(repeats - 1, _events),
)


@honest_timing.cost
def _(student: Student, draw: Draw) -> str:
    steps, intervals = _checked(student.call("honest_timing", 9), 9)
    kernel = TimedKernel(cold_us=6.0, hot_us=3.0)
    found = median(_measured(kernel, steps, intervals))
    host = kernel.now_us
    return f"a modelled kernel of 6 us: {found:g} us measured, {host:g} us of the host for it"
