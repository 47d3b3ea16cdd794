"""A host and a device that run a drawn program and write down a trace of it, as torch.profiler
does: the same events with the same fields, less those that nobody here asks for.

The host's clock moves with what it does. A kernel begins when its stream is free, and not before
`LATENCY_US` after its launch began. Beside the trace the machine keeps what it knows to be true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

LATENCY_US = 4.0
GAP_US = 0.2
"""Between two things that the host does one after the other: a trace rounds to a nanosecond, and no
two of them may touch."""
STEP = "ProfilerStep#"
PAGEABLE_IN = "HtoD (Pageable -> Device)"
TORCHS = ("torch/", "nn.Module: ", "<built-in ")
"""How the calls into Python begin that are torch's own."""
MAIN, ENGINE, LOADER = 0, 1, 2
"""The threads: Python's own, autograd's, a loader's. Added to the number of the process."""
Event = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """What the host is inside of: an operator, an annotation, a call into Python. host_us: its own
    work, half of it before what is inside, half after."""

    cat: str
    name: str
    host_us: float
    inside: Sequence[Any] = ()
    thread: int | None = None
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Launch:
    """A call that gives the device kernels: one, or those of a graph. kernels: (name, us)."""

    call: str
    call_us: float
    kernels: Sequence[tuple[str, float]]
    stream: int = 7


@dataclass(frozen=True)
class Copy:
    """A copy. kind: as a trace names it, "HtoD (Pageable -> Device)". waits: the host stands in the
    call until it is done. call: what asks for it, `cudaMemcpyAsync` wherever torch does."""

    kind: str
    nbytes: int
    device_us: float
    call_us: float
    waits: bool = False
    stream: int = 7
    call: str = "cudaMemcpyAsync"


@dataclass(frozen=True)
class Fill:
    """A `cudaMemsetAsync`: memory of the device that is filled with one byte."""

    device_us: float
    call_us: float
    stream: int = 7


@dataclass(frozen=True)
class Wait:
    """A call in which the host waits until a stream is done, or all are (stream 0)."""

    call: str
    call_us: float
    stream: int = 7


@dataclass
class Seen:
    """What the machine knows to be true. waits: (function, us) of each wait in a step. blocked_us:
    in the calls of pageable copies to the device. regions: name -> [launches, kernels, us of the
    device]. self_us: name of an operator -> what it took without what is inside. work: (begin, end)
    of all that the device did. begin_us: of the first step; end_us: of the last thing that
    happened."""

    waits: list[tuple[str, float]] = field(default_factory=list)
    blocked_us: float = 0.0
    regions: dict[str, list[float]] = field(default_factory=dict)
    self_us: dict[str, float] = field(default_factory=dict)
    work: list[tuple[float, float]] = field(default_factory=list)
    begin_us: float = 0.0
    end_us: float = 0.0


@dataclass
class _Frame:
    """A span that has begun. inside_us: of the operators in it, on its own thread.
    device: (begin, end) of what the device does for it."""

    span: Span
    thread: int
    inside_us: float = 0.0
    device: list[tuple[float, float]] = field(default_factory=list)


class Machine:
    """Runs programs. waiting=False: every call that waits returns at once, in no time."""

    def __init__(
        self,
        *,
        start_us: float,
        pid: int,
        waiting: bool = True,
        latency_us: float = LATENCY_US,
    ) -> None:
        self.now, self.pid, self.waiting, self.latency_us = start_us, pid, waiting, latency_us
        self.free: dict[int, float] = {}
        self.seen = Seen()
        self._host: list[Event] = []
        self._device: list[Event] = []
        self._path: list[_Frame] = []
        self._thread = MAIN
        self._correlation = self._id = 0

    def run(self, program: Sequence[Any]) -> None:
        for part in program:
            if isinstance(part, Span):
                self._span(part)
            elif isinstance(part, Launch):
                self._launch(part)
            elif isinstance(part, Copy):
                self._copy(part)
            elif isinstance(part, Fill):
                begin = self._called("cudaMemsetAsync", part.call_us)
                self._give("gpu_memset", "Memset (Device)", begin, part.device_us, part.stream, {})
            else:
                self._wait(part)
        self.seen.end_us = max([self.now, *self.free.values()])

    @property
    def events(self) -> list[Event]:
        """The trace, in the order in which a profiler writes it: the host's spans as they ended,
        then calls and what they gave to the device."""
        return [*self._host, *self._device]

    def _span(self, span: Span) -> None:
        thread, begin = self._thread, self.now
        if span.name.startswith(STEP) and not self.seen.begin_us:
            self.seen.begin_us = begin
        frame = _Frame(span, self._thread if span.thread is None else span.thread)
        self._path.append(frame)
        self._thread = frame.thread
        self.now += span.host_us / 2
        self.run(span.inside)
        self.now += span.host_us / 2
        self._path.pop()
        took, self._id = self.now - begin, self._id + 1
        args = {"External id": self._id, **span.args}
        if span.cat == "cpu_op":
            self._know_self_time(frame, took)
        elif span.cat == "python_function":
            args = {"Python id": self._id}
        self._host.append(self._event(span.cat, span.name, begin, took, args))
        if span.cat == "user_annotation" and frame.device:
            self._annotate_device(span.name, frame.device)
        self._thread = thread
        self.now += GAP_US

    def _annotate_device(self, name: str, work: Sequence[tuple[float, float]]) -> None:
        """The lane of the device has each annotation too, from its first work to its last."""
        begin, end = min(b for b, _ in work), max(e for _, e in work)
        args = {"External id": self._id}
        event = self._event("gpu_user_annotation", name, begin, end - begin, args)
        self._device.append(event | {"pid": 0, "tid": 7})

    def _know_self_time(self, frame: _Frame, took: float) -> None:
        name = frame.span.name
        self.seen.self_us[name] = self.seen.self_us.get(name, 0.0) + took - frame.inside_us
        for outer in reversed(self._path):
            if outer.span.cat == "cpu_op" and outer.thread == frame.thread:
                outer.inside_us += took
                break

    def _launch(self, launch: Launch) -> None:
        begin = self._called(launch.call, launch.call_us)
        region = self._region()
        region[0] += 1
        for name, took in launch.kernels:
            region[1] += 1
            region[2] += took
            self._give("kernel", name, begin, took, launch.stream, {})

    def _copy(self, copy: Copy) -> None:
        begin = self.now
        correlation = self._correlation + 1
        done = max(begin + self.latency_us, self.free.get(copy.stream, 0.0)) + copy.device_us
        took = copy.call_us
        if copy.waits and self.waiting:
            took = max(took, done - begin + 1.5)
        self._called(copy.call, took)
        if copy.kind == PAGEABLE_IN:
            self.seen.blocked_us += took
        args = {"bytes": copy.nbytes}
        name = f"Memcpy {copy.kind}"
        self._give("gpu_memcpy", name, begin, copy.device_us, copy.stream, args, correlation)

    def _wait(self, wait: Wait) -> None:
        free = max(self.free.values(), default=0.0)
        until = free if wait.stream == 0 else self.free.get(wait.stream, 0.0)
        took = max(wait.call_us, until - self.now) if self.waiting else 0.0
        if function := self._function():
            self.seen.waits.append((function, took))
        self._called(wait.call, took)

    def _called(self, name: str, took: float) -> float:
        """Writes down a call of CUDA's runtime; when it began."""
        begin = self.now
        self.now += took
        self._correlation += 1
        args = {"External id": self._id, "cbid": 211, "correlation": self._correlation}
        self._device.append(self._event("cuda_runtime", name, begin, took, args))
        return begin

    def _give(
        self,
        cat: str,
        name: str,
        called: float,
        took: float,
        stream: int,
        args: dict[str, Any],
        correlation: int | None = None,
    ) -> None:
        """Puts work on a stream, behind what is there."""
        begin = max(called + self.latency_us, self.free.get(stream, 0.0))
        self.free[stream] = begin + took
        self.seen.work.append((begin, begin + took))
        for frame in self._path:
            frame.device.append((begin, begin + took))
        number = correlation or self._correlation
        args = {"External id": self._id, "stream": stream, "correlation": number, **args}
        work = self._event(cat, name, begin, took, args) | {"pid": 0, "tid": stream}
        arrow = {"id": number, "cat": "ac2g", "name": "ac2g"}
        here = {"pid": self.pid, "tid": self.pid + self._thread, "ts": round(called, 3)}
        there = {"pid": 0, "tid": stream, "ts": work["ts"], "bp": "e"}
        self._device += [{"ph": "s", **arrow, **here}, work, {"ph": "f", **arrow, **there}]

    def _function(self) -> str:
        """The innermost function of the program itself on this thread, if it is in a step."""
        if not any(frame.span.name.startswith(STEP) for frame in self._path):
            return ""
        calls = (
            frame.span.name
            for frame in reversed(self._path)
            if frame.span.cat == "python_function" and frame.thread == self._thread
        )
        return next((name for name in calls if not name.startswith(TORCHS)), "")

    def _region(self) -> list[float]:
        """Of the outermost annotation in the step; "" outside one."""
        names = [f.span.name for f in self._path if f.span.cat == "user_annotation"]
        name = names[1] if len(names) > 1 and STEP in names[0] else ""
        return self.seen.regions.setdefault(name, [0, 0, 0.0])

    def _event(self, cat: str, name: str, ts: float, dur: float, args: Any) -> Event:
        where = {"pid": self.pid, "tid": self.pid + self._thread}
        times = {"ts": round(ts, 3), "dur": round(dur, 3)}
        return {"ph": "X", "cat": cat, "name": name, **where, **times, "args": args}
