"""A student's functions, run far away: the handle that a check holds in grading."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from autograder.judge import Cause, GraderFault, Packed, Raised, Reply, Student, Text, text
from autograder.judge.answer import OURS
from autograder.judge.values import MAX_BYTES

from ..engines.gpu import Gpu
from ..engines.limits import Limits
from ..wire.messages import call_request, read_call_reply
from .loading import MAX_RESTARTS, MOST_BUSY, Cell, CellResult, Loader
from .request import LEFT_RUNNING, Lost, ask_in_a_row, expect_quiet
from .running import BUSY, Patience, Running

LESS_TIME = 5
"""Once something of it has, each question gets one in so many of its seconds, and of those again
where it was twice: a class does not wait for it as long as for others."""


class JailedStudent(Student, contextlib.AbstractContextManager["JailedStudent"]):
    """One submission. Its process can die or hang at any call: that costs this question, and the
    next call meets a fresh process in which the cells have run again.

    A context manager; `close` ends the process.
    """

    together = 100

    def __init__(
        self,
        start: Callable[[], Running],
        cells: Sequence[Cell],
        *,
        limits: Limits,
        where: str,
        total_s: float = math.inf,
        gpu: Gpu | None = None,
    ) -> None:
        """Runs the cells. gpu: where its calls find their tensors, unless a question keeps them on
        the CPU. Raises GraderFault for what is our fault, nothing for a student's."""
        super().__init__()
        self.where, self.gpu = where, gpu
        self.device = gpu.title if gpu else "cpu"
        self.kernels_on = gpu.title if gpu and gpu.builds else "simulated"
        self.suspects_device = False  # a process that may have used it is lost
        self._on, self._cap_bytes = "cpu", 0
        self._start, self._limits = start, limits
        self._total_s, self._until = total_s, time.monotonic() + total_s
        self._wall_s = self._budget_s = self._left_s = limits.wall_s
        self._restarts, self._closed = 0, False
        self._busy: list[Raised] = []  # what its answers started, and did not end
        self._cells, self._loader = tuple(cells), Loader(cells, limits)
        self._running: Running | None = self._loader.load(start, until=self._until)
        self.suspects_device = gpu is not None and self._loader.lost_a_process
        self.cells: tuple[CellResult, ...] = tuple(self._loader.results.values())
        """What became of each cell when it first ran."""

    @property
    def pid(self) -> int | None:
        """Of the process at work, as this machine counts; None when the last one was lost."""
        return None if self._running is None else self._running.pid

    @property
    def times_left_running(self) -> int:
        """How often something that its cells or its answers started kept the processor busy."""
        return len(self._busy) + self._loader.times_left_running

    def begin(
        self,
        *,
        may_write: bool,
        budget_s: float | None = None,
        on_host: bool = False,
        device_share: float = 0.0,
    ) -> None:
        super().begin(may_write=may_write)
        self._on = "cpu" if on_host or self.gpu is None else self.gpu.device
        self._cap_bytes = self.gpu.cap_bytes(device_share) if self.gpu else 0
        self._wall_s = self._limits.wall_s if budget_s is None else budget_s
        self._budget_s = self._wall_s / LESS_TIME**self.times_left_running
        self._left_s = self._budget_s + (self.gpu.start_s if self.gpu else 0.0)
        self._restarts = 0

    def beside(self, source: str) -> contextlib.AbstractContextManager["JailedStudent"]:
        return self._another([Cell(OURS, source)])

    @contextlib.contextmanager
    def afresh(self) -> Iterator[Student]:
        with self._another(self._cells) as other:
            other.calls = self.calls
            yield other

    @contextlib.contextmanager
    def _another(self, cells: Sequence[Cell]) -> Iterator["JailedStudent"]:
        limits = self._limits
        total_s = self._until - time.monotonic()
        with JailedStudent(
            self._start, cells, limits=limits, where=self.where, total_s=total_s, gpu=self.gpu
        ) as other:
            other.begin(may_write=False, budget_s=self._wall_s)
            other._on, other._cap_bytes = self._on, self._cap_bytes
            yield other

    @contextlib.contextmanager
    def clean_room(self, harness: str) -> Iterator[Student]:
        with self.beside(harness) as room:
            if fault := room.cells[0].error:
                raise GraderFault(f"the clean room is not ready: {fault}")
            yield self._entered(room)

    def cell_of(self, name: str) -> str:
        source = self._loader.source_defining(name)
        if source is None:
            raise self.missing(name)
        return source

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process and all that it started, for good. Can be called twice."""
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running = None

    def _send(self, function: str, requests: Sequence[Packed]) -> list[Reply]:
        if refused := self._refused():
            return [Reply(refused)]
        running = self._fresh_or_running()  # running the cells again is charged to no question
        left_s = self._until - time.monotonic()
        most_s = 0.0 if self.times_left_running else left_s  # it may be what takes the processors
        patience = Patience(min(self._left_s, left_s), most_s=most_s)
        replies, lost = self._ask(running, function, requests, patience)
        since_s = time.monotonic() - patience.began
        self._left_s -= max(since_s - patience.kept_waiting_s, since_s / BUSY)
        if lost is None:
            self._expect_quiet(running)
            return replies
        self._running = None
        self.suspects_device = self.gpu is not None
        raised = lost.raised
        if raised.error == LEFT_RUNNING:
            self._busy.append(raised)
        if raised.kind is Cause.TIMED_OUT and self._until <= time.monotonic():
            raised = replace(raised, why=self._used_up())
        return [*replies, Reply(raised)]

    def _expect_quiet(self, running: Running) -> None:
        """What an answer left running costs this answer nothing: its process is ended, and the
        next question meets a fresh one. Whoever does it again is asked no more."""
        try:
            expect_quiet(running)
        except Lost as busy:
            self._running, self.suspects_device = None, self.gpu is not None
            self._busy.append(busy.raised)

    def _refused(self) -> Raised | None:
        """Why nothing more is asked; None where it is."""
        if len(self._busy) > MOST_BUSY:
            last = self._busy[-1]
            return replace(last, why=text("asked_no_more", how=last.why))
        why = self._used_up()
        return Raised(Cause.TIMED_OUT, "TimeoutError", why=why) if why else None

    def _used_up(self) -> Text | None:
        """Which budget is spent; None while there is time left."""
        if self._until <= time.monotonic():
            return text("notebooks_time", seconds=self._total_s)
        if self._left_s <= 0 or self._restarts > MAX_RESTARTS:
            return text("questions_time", seconds=self._budget_s)
        return None

    def _fresh_or_running(self) -> Running:
        if self._closed:
            raise GraderFault("this student's process was closed")
        running = self._running
        if running is not None and (running.wait(0) or running.said_something_unasked()):
            self._drop()  # what happens between two calls costs no question
            self.suspects_device = self.gpu is not None
        if self._running is None:
            self._restarts += 1
            self._running = self._loader.load(self._start, until=self._until)
        return self._running

    def _ask(
        self, running: Running, function: str, requests: Sequence[Packed], patience: Patience
    ) -> tuple[list[Reply], Lost | None]:
        running.device_bytes = self._cap_bytes
        request = call_request(function, requests, device=self._on, cap_bytes=self._cap_bytes)
        most_bytes = MAX_BYTES + sum(map(len, request.blobs))
        replies, lost = ask_in_a_row(
            running, request, read_call_reply, patience=patience, max_body_bytes=most_bytes
        )
        running.output.take()
        for reply in replies:
            if isinstance(reply.value, Raised) and reply.value.kind is Cause.DEVICE:
                self._drop()
                self.suspects_device = True
        return replies, lost
