"""What the host and the device do while the host runs ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from autograder.checks.explaining import saying
from autograder.judge import Draw, Student, expect_equal

from . import lab
from .stream_model import StreamModel

ONE_KERNEL = (
    "Host and device are right. Here is one kernel, so there is no gap: what lies before it and "
    "behind it is not idle time."
)
Steps = Sequence[Sequence[Any]]
Times = tuple[int, int, int]
Move = Callable[[int, int, int, int, int], Times]


@lab.question(
    "queue_times",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "Two clocks: one of the host, one that says when the device is done with all it was given.",
        "A launch costs the host its few microseconds. Its kernel begins when the device is free "
        "and not before the launch is over. Only a sync sets the host's clock to the device's.",
        "begin = max(host, device); idle += begin - device; device = begin + us",
    ),
)
def queue_times(student: Student, draw: Draw) -> None:
    """When the host is done, when the device is done, and how long the device had nothing to do.

    steps: list of ("host", us), ("launch", us of the kernel) or ("sync",); launch_us: what each
    launch costs the host. Everything is on one stream -> (host us, device us, idle us of the
    device between its first kernel's begin and its last kernel's end).
    """
    fixed: list[tuple[Steps, int]] = [
        ([("launch", 40), ("launch", 90)], 5),
        ([("launch", 3), ("launch", 2), ("launch", 70)], 6),
        # the longest gap first
        ([("launch", 10), ("host", 30), ("launch", 20), ("host", 35), ("launch", 5)], 5),
        ([("launch", 50), ("sync",), ("launch", 20), ("host", 60), ("launch", 30), ("sync",)], 4),
        ([("launch", 10), ("host", 60), ("sync",), ("launch", 20)], 5),  # a sync for nothing
        ([("host", 25), ("launch", 11), ("host", 7), ("sync",), ("host", 3)], 5),
        # nothing to wait for yet, and nothing any more
        ([("sync",), ("host", 6), ("launch", 40), ("sync",), ("sync",), ("launch", 9)], 5),
        ([("host", 30), ("sync",), ("launch", 20)], 5),  # the host keeps the time that it has
        ([("launch", 40), ("host", 60), ("launch", 8)], 0),  # a launch that costs nothing
        ([("launch", 0), ("host", 10), ("launch", 5)], 0),  # a kernel that is over at 0
        ([("launch", 3_000_000), ("launch", 2), ("launch", 4)], 1),  # seconds ahead of the device
        ([("launch", 90)] * 1_100, 5),  # and more launches than a real queue holds
    ]
    cases = fixed + [_drawn_steps(draw) for _ in draw.cases(6)]
    for case, got in zip(cases, student.each("queue_times", cases), strict=True):
        want = _times(*case)
        with saying(_made_of(got, want, *case)):
            expect_equal(got, want)


def _made_of(got: Any, want: Times, steps: Steps, launch_us: int) -> str:
    """What the first of the three times that is wrong is made of."""
    if not isinstance(got, (list, tuple)) or list(map(type, got)) != list(map(type, want)):
        return ""
    pieces = _played(steps, launch_us).pieces
    if got[0] != want[0]:
        launching, own = (
            launch_us * len(pieces),
            sum(us[0] for verb, *us in steps if verb == "host"),
        )
        return (
            f"The host launches for {launching} us, works for {own} us of its own, and stands "
            f"still at its syncs for {want[0] - launching - own} us."
        )
    if got[1] != want[1]:
        begin, end = int(pieces[-1].begin_us), int(pieces[-1].finish_us)
        return (
            f"The host's time is right. The last kernel begins at {begin} us, when its launch is "
            f"over and the kernel before it, and takes {end - begin} us."
        )
    gaps = [int(b.begin_us - a.finish_us) for a, b in pairwise(pieces)]
    if not gaps:
        return ONE_KERNEL
    return f"Host and device are right. The gaps between one kernel and the next are {gaps} us."


def _drawn_steps(draw: Draw) -> tuple[Steps, int]:
    kinds = [draw.choice(["launch", "launch", "launch", "host", "sync"]) for _ in range(14)]
    steps = [("launch", draw.integer(20, 60)), *(_step(draw, kind) for kind in kinds)]
    return steps, draw.integer(3, 9)


def _step(draw: Draw, kind: str) -> tuple[Any, ...]:
    high = {"launch": 50, "host": 80}.get(kind, 0)
    return (kind, draw.integer(1, high)) if high else (kind,)


def _played(steps: Steps, launch_us: float) -> StreamModel:
    model = StreamModel(launch_us=launch_us)
    for n, (verb, *us) in enumerate(steps):
        model.run([("launch", str(n), *us) if verb == "launch" else (verb, *us)])
    return model


def _times(steps: Steps, launch_us: int) -> Times:
    model = _played(steps, launch_us)
    worked = sum(piece.finish_us - piece.begin_us for piece in model.pieces)
    idle = model.done_us - model.pieces[0].begin_us - worked
    return int(model.now_us), int(model.done_us), int(idle)


def _synced(steps: Steps) -> Steps:
    """As with CUDA_LAUNCH_BLOCKING=1: the host waits for every kernel."""
    every = [[step, ("sync",)] if step[0] == "launch" else [step] for step in steps]
    return [step for pair in every for step in pair]


queue_times.wrong(
    "host_waits_for_every_kernel",
    "The host waited for each kernel. A launch returns as soon as the kernel is in the queue; only "
    "a sync waits.",
    queue_times=lambda steps, launch_us: _times(_synced(steps), launch_us),
)
queue_times.wrong(
    "sync_is_free",
    "A sync was skipped. There the host stands still until the device is done with all that it was "
    "given.",
    queue_times=lambda steps, launch_us: _times([s for s in steps if s[0] != "sync"], launch_us),
)
queue_times.wrong(
    "launch_is_free",
    "Each launch costs the host `launch_us`. Where kernels are shorter than that, the device waits "
    "for the host.",
    queue_times=lambda steps, launch_us: _times(steps, 0),
)
queue_times.wrong(
    "host_work_is_not_seen",
    "What the host does of its own takes time as well: meanwhile it launches nothing.",
    queue_times=lambda steps, launch_us: _times([s for s in steps if s[0] != "host"], launch_us),
)


@queue_times.wrong(
    "idle_from_zero",
    "The wait before the first kernel was counted as idle. Count from the beginning of the first "
    "kernel.",
)
def _(steps: Steps, launch_us: int) -> Times:
    host, device, idle = _times(steps, launch_us)
    return host, device, idle + int(_played(steps, launch_us).pieces[0].begin_us)


@queue_times.wrong(
    "idle_never",
    "The device is idle whenever its queue is empty: the host is still launching the next kernel, "
    "or busy with something of its own.",
)
def _(steps: Steps, launch_us: int) -> Times:
    host, device, _ = _times(steps, launch_us)
    return host, device, 0


@queue_times.wrong(
    "host_waits_at_the_end",
    "Nobody waits at the end unless there is a sync: the host may be done long before the device.",
)
def _(steps: Steps, launch_us: int) -> Times:
    host, device, idle = _times(steps, launch_us)
    return max(host, device), device, idle


@queue_times.wrong(
    "device_first",
    "The host's time comes first, then the device's.",
)
def _(steps: Steps, launch_us: int) -> Times:
    host, device, idle = _times(steps, launch_us)
    return device, host, idle


def _gap(host: int, device: int) -> int:
    """How long the device waits for a kernel that it gets when the host's clock says so; the wait
    for the first one is none."""
    return max(0, host - device) if device else 0


def _host(host: int, device: int, idle: int, us: int, launch: int) -> Times:
    return host + us, device, idle


def _sync(host: int, device: int, idle: int, us: int, launch: int) -> Times:
    return max(host, device), device, idle


def _kernel(host: int, device: int, idle: int, us: int, launch: int) -> Times:
    host += launch
    return host, max(host, device) + us, idle + _gap(host, device)


def _uncounted(host: int, device: int, idle: int, us: int, launch: int) -> Times:
    """The same kernel; the gap before it is not added up."""
    return (*_kernel(host, device, idle, us, launch)[:2], idle)


def _moved(
    name: str,
    sentence: str,
    *,
    host: Move = _host,
    sync: Move = _sync,
    kernel: Move = _kernel,
    end: Callable[[int, int, int], Times] = lambda host, device, idle: (host, device, idle),
) -> None:
    """The clocks moved by hand, step by step, and a way to move them wrong: of (host, device, idle,
    us of the step, launch_us)."""

    def answer(steps: Steps, launch_us: int) -> Times:
        clocks = 0, 0, 0
        for verb, *us in steps:
            move = {"host": host, "sync": sync}.get(verb, kernel)
            clocks = move(*clocks, sum(us), launch_us)
        return end(*clocks)

    queue_times.wrong(name, sentence, queue_times=answer)


_moved(
    "sync_sets_the_clock_back",
    "At a sync the host's clock became the device's, also where the device was done before: a sync "
    "waits for what is left, and time does not go back.",
    sync=lambda host, device, idle, us, launch: (device, device, idle),
)
_moved(
    "sync_adds",
    "At a sync the device's time was added to the host's. Both clocks began at 0: the host goes on "
    "when the device is done.",
    sync=lambda host, device, idle, us, launch: (host + device, device, idle),
)
_moved(
    "sync_costs_a_launch",
    "A sync costs what is left of the device's work. Only a launch costs `launch_us`.",
    sync=lambda host, device, idle, us, launch: (max(host, device) + launch, device, idle),
)
_moved(
    "sync_is_launched",
    "A sync costs what is left of the device's work. Only a launch costs `launch_us`.",
    sync=lambda host, device, idle, us, launch: (max(host + launch, device), device, idle),
)
_moved(
    "idle_until_the_launch_begins",
    "The device is idle until the launch is over, not until it begins.",
    kernel=lambda host, device, idle, us, launch: (
        host + launch,
        max(host + launch, device) + us,
        idle + _gap(host, device),
    ),
)
_moved(
    "kernel_takes_the_launch_too",
    "The device's time has the launches in it. A launch costs the host; the kernel takes its own "
    "time.",
    kernel=lambda host, device, idle, us, launch: _kernel(host, device, idle, us + launch, launch),
)
_moved(
    "device_never_waits",
    "A kernel began before its launch was over. It begins when the device is free and the launch "
    "is over, whichever is later.",
    kernel=lambda host, device, idle, us, launch: (
        host + launch,
        device + us,
        idle + _gap(host + launch, device),
    ),
)
_moved(
    "host_takes_the_kernel_too",
    "A launch costs the host `launch_us` and no more: the kernel's time is the device's.",
    kernel=lambda host, device, idle, us, launch: _kernel(host + us, device, idle, us, launch),
)


@queue_times.wrong(
    "device_until_the_host",
    "The device is done with its last kernel, however long the host goes on.",
)
def _(steps: Steps, launch_us: int) -> Times:
    host, device, idle = _times(steps, launch_us)
    return host, max(host, device), idle


_moved(
    "kernel_before_its_launch",
    "A kernel began when its launch began. It begins when its launch is over, `launch_us` later.",
    kernel=lambda host, device, idle, us, launch: (
        host + launch,
        max(host, device) + us,
        idle + _gap(host, device),
    ),
)
_moved(
    "kernels_side_by_side",
    "A kernel began when its launch was over, although the one before was still running. One "
    "stream runs one kernel after the other.",
    kernel=lambda host, device, idle, us, launch: (
        host + launch,
        host + launch + us,
        idle + _gap(host + launch, device),
    ),
)
_moved(
    "idle_with_a_sign",
    "Where the host is ahead the device's wait came out negative, and was taken away. It is idle "
    "only when its queue is empty: max(0, ...).",
    kernel=lambda host, device, idle, us, launch: (
        host + launch,
        max(host + launch, device) + us,
        idle + (host + launch - device if device else 0),
    ),
)
_moved(
    "idle_to_the_end",
    "The time after the last kernel was counted as idle. Count to the last kernel's end.",
    end=lambda host, device, idle: (host, device, idle + max(0, host - device)),
)
_moved(
    "host_work_holds_the_device",
    "What the host does of its own was taken for the device's time as well. Meanwhile the device "
    "works on, or has nothing to do.",
    host=lambda host, device, idle, us, launch: (host + us, max(device, host + us), idle),
)
_moved(
    "two_launches",
    "Each launch was counted twice: it costs the host `launch_us` once.",
    kernel=lambda host, device, idle, us, launch: _kernel(host, device, idle, us, 2 * launch),
)
_moved(
    "host_work_costs_a_launch",
    "What the host does of its own was charged a launch on top. Only a launch costs `launch_us`.",
    host=lambda host, device, idle, us, launch: (host + us + launch, device, idle),
)
_moved(
    "idle_at_syncs_only",
    "Only the waits at a sync were counted. The device is idle whenever a kernel's launch is over "
    "later than the kernel before it.",
    sync=lambda host, device, idle, us, launch: (
        max(host, device),
        device,
        idle + max(0, host - device),
    ),
    kernel=_uncounted,
)
_moved(
    "hosts_wait_for_idle",
    "This is how long the host waited at the syncs. Asked is how long the device had nothing to "
    "do.",
    sync=lambda host, device, idle, us, launch: (
        max(host, device),
        device,
        idle + max(0, device - host),
    ),
    kernel=_uncounted,
)
_moved(
    "last_gap_only",
    "Only the last gap was kept. Add them up: idle += ...",
    kernel=lambda host, device, idle, us, launch: _kernel(host, device, 0, us, launch),
)
_moved(
    "launches_for_idle",
    "The launches were counted as idle time. While the host launches, the device works on what it "
    "has.",
    kernel=lambda host, device, idle, us, launch: (
        *_kernel(host, device, idle, us, launch)[:2],
        idle + launch,
    ),
)
_moved(
    "the_earlier_at_a_sync",
    "At a sync the earlier of the two clocks was taken. The host waits for the device: the later "
    "one.",
    sync=lambda host, device, idle, us, launch: (min(host, device), device, idle),
)
_moved(
    "one_kernel_in_the_queue",
    "The host waited for the kernel before each launch. It runs ahead: the queue holds many "
    "kernels.",
    kernel=lambda host, device, idle, us, launch: _kernel(
        max(host, device), device, idle, us, launch
    ),
)


@queue_times.wrong(
    "busy_for_done",
    "This is how long the device worked. Asked is the moment at which it is done, waits and all.",
)
def _(steps: Steps, launch_us: int) -> Any:
    host, _, idle = _times(steps, launch_us)
    return host, sum(us[0] for verb, *us in steps if verb == "launch"), idle


@queue_times.wrong(
    "idle_left_out",
    "The third number is missing: how long the device had nothing to do.",
)
def _(steps: Steps, launch_us: int) -> Any:
    return _times(steps, launch_us)[:2]


@queue_times.cost
def _(student: Student, draw: Draw) -> str:
    kernels = [("launch", 2)] * 20
    _, device, idle = student.call("queue_times", kernels, 5)
    return f"20 kernels of 2 us, launched every 5 us: done after {device} us, idle for {idle} us"
