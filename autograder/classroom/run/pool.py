"""The workers, seen from the one process that writes: who has which submission, since when, and
what to do when one of them does not come back."""

import contextlib
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from multiprocessing.connection import Connection, wait
from operator import attrgetter

from autograder.judge import Cause
from autograder.sandbox import sweep

from ..errors import UserError
from ..store.journal import Record
from .devices import emptiest
from .job import Fault, Job
from .startup import Begun, without_ctrl_c
from .worker import NoDevice, NoJail, Ready, Setting, serve

MAX_ATTEMPTS = 3
"""One, and two retries: only for what failed on our side."""
START_S = 120.0
SLACK_S = 60.0
"""For a worker to start, and to answer beyond its submission's limits. It keeps those itself; past
this it hangs."""
STOP_S = 10.0
SWEEP_S = 2.0  # for the last processes of a killed jail
LOOK_S = 0.25  # between two looks whether one worker more pays

Outcome = tuple[Job, Record | Fault]
Answer = Record | Fault | NoJail | NoDevice | Ready


@dataclass
class _Worker:
    """One worker process and what it is busy with. begun: when it was started, or its job was."""

    process: multiprocessing.process.BaseProcess
    connection: Connection
    device: str = ""
    job: Job | None = None
    attempt: int = 0
    patience_s: float = 0.0
    deadline: float = 0.0
    begun: float = field(default_factory=time.monotonic)
    is_ready: bool = False
    has_company: bool = False

    def give(self, job: Job, attempt: int) -> None:
        self.job, self.attempt, self.has_company = job, attempt, False
        if self.is_ready:
            self.begun = time.monotonic()
        self.patience_s = job.total_s + SLACK_S
        self.deadline = time.monotonic() + (self.patience_s if self.is_ready else START_S)
        with contextlib.suppress(OSError):  # it is gone; waiting for its answer will say so
            self.connection.send(job)

    def begin(self) -> None:
        """Its jail is up: from now on the time is its submission's."""
        self.is_ready, self.begun = True, time.monotonic()
        self.deadline = self.begun + self.patience_s

    def answer(self) -> Answer:
        """What came back; for a worker that is gone, how it went."""
        try:
            received: Answer = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(STOP_S)
            reason = f"the grading process ended with {self.process.exitcode}"
            return Fault(reason) if self.is_ready else NoJail(reason)
        return received

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()

    def stop(self) -> None:
        """Asks it to close its jail and end; kills it when it does not."""
        with contextlib.suppress(OSError):
            self.connection.send(None)
        self.process.join(STOP_S)
        self.kill()


def graded(
    jobs: Sequence[Job],
    setting: Setting,
    *,
    workers: int,
    devices: Sequence[str] = (),
    target: Callable[[Connection, Setting], None] = serve,
    begun: Begun | None = None,
) -> Iterator[Outcome]:
    """Each job with its Record, or with the Fault that remained after three attempts; in the order
    in which they are done. devices: the GPUs that the workers divide among themselves. begun: a
    worker that is there already.

    Raises UserError where the sandbox does not start. Leaves no process behind, whichever way it is
    left.
    """
    pool = Pool(setting, target, size=min(workers, len(jobs)), devices=devices, begun=begun)
    try:
        yield from pool.run(jobs)
    finally:
        pool.close()


class Pool:
    """Worker processes that stay from one `run` to the next, until `close`."""

    def __init__(
        self,
        setting: Setting,
        target: Callable[[Connection, Setting], None],
        *,
        size: int,
        devices: Sequence[str] = (),
        begun: Begun | None = None,
    ) -> None:
        self.begun = begun
        self.setting, self.target, self.size, self.devices = setting, target, size, devices
        self.workers: list[_Worker] = []
        self.waiting: deque[tuple[Job, int]] = deque()
        self.again: deque[Job] = deque()  # to be asked once more when nothing else runs
        self.false_starts = 0
        self.start_s = 0.0  # what the last start took
        self.settled, self.settled_s = 0, 0.0  # submissions, and what they took together

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        self.waiting.extend(zip(jobs, repeat(1), strict=False))
        while self.waiting or self.again or self._busy():
            if self.again and not self.waiting and not self._busy():
                self.waiting.append((self.again.popleft(), 1))
            self._hand_out()
            for worker, answer in self._answers():
                if isinstance(answer, Ready):
                    self.false_starts, self.start_s = 0, time.monotonic() - worker.begun
                    worker.begin()
                else:
                    outcomes = [*self._settle(worker, answer)]
                    self._hand_out()  # whoever gets them will write to the disk first
                    yield from outcomes

    def _settle(
        self, worker: _Worker, answer: Record | Fault | NoJail | NoDevice
    ) -> Iterator[Outcome]:
        """Takes the worker's job from it: done, or to be tried again by another."""
        job, attempt = worker.job, worker.attempt
        assert job is not None
        worker.job = None
        if isinstance(answer, Record):
            self.settled += 1
            self.settled_s += time.monotonic() - worker.begun
        else:
            self.workers.remove(worker)
            worker.kill()
        if isinstance(answer, NoDevice):
            self._without(worker.device, answer.reason)
            self.waiting.append((job, attempt))
            return
        if isinstance(answer, NoJail):
            answer = self._false_start(answer)
        causes = answer.causes if isinstance(answer, Record) else {Cause.GRADER_FAULT}
        if attempt < MAX_ATTEMPTS and Cause.GRADER_FAULT in causes:  # it may not happen again
            self.waiting.append((job, attempt + 1))
        elif isinstance(answer, Record) and (
            Cause.PUT_OFF in causes or (answer.timed_out and worker.has_company)
        ):
            self.again.append(job.again(answer))
        else:
            yield job, answer

    def _busy(self) -> list[_Worker]:
        return [worker for worker in self.workers if worker.job is not None]

    def _false_start(self, answer: NoJail) -> Fault:
        """One can be the moment's fault; where none succeeds in between, it is the machine's."""
        self.false_starts += 1
        if self.false_starts >= MAX_ATTEMPTS:
            raise UserError(
                f"The grader does not start here: {answer.reason}. "
                f"See {self.setting.log} and `autograder doctor`."
            )
        return Fault(answer.reason)

    def _without(self, device: str, reason: str) -> None:
        """A GPU that does not work gets no more work; the others go on. Raises UserError where none
        is left: what is graded is in the journal, and the rest has not been tried."""
        left = [name for name in self.devices if name != device]
        if not left:
            raise UserError(
                f"{reason.rstrip('.')}. What is graded is kept: put the GPU right, and the same "
                "command goes on where it was."
            )
        if len(left) < len(self.devices):
            self.size = max(1, self.size * len(left) // len(self.devices))
        self.devices = left

    def _hand_out(self) -> None:
        idle = [worker for worker in self.workers if worker.job is None]
        while self.waiting and (idle or self._one_more_pays()):
            worker = idle.pop() if idle else self._new()
            worker.give(*self.waiting.popleft())
        if len(busy := self._busy()) > 1:
            for worker in busy:
                worker.has_company = True

    def _one_more_pays(self) -> bool:
        """Whether one more is ready before those that are there could do what waits: a start takes
        a processor for seconds, from the first verdict as well. Until one has started, nobody knows
        how long that takes: half of the processors start one, as each start is two processes."""
        if len(self.workers) >= self.size:
            return False
        ready = [worker for worker in self.workers if worker.is_ready]
        starting = len(self.workers) - len(ready)
        if starting >= max(1, processors() // 2):
            return False
        if not ready:
            return True
        longest_s: float = time.monotonic() - min(map(attrgetter("begun"), ready))
        each_s = max(longest_s, self.settled_s / max(1, self.settled))
        return len(self.waiting) * each_s / len(self.workers) > self.start_s

    def _new(self) -> _Worker:
        device = emptiest(self.devices, (worker.device for worker in self.workers))
        alone = bool(device) and self.size <= len(self.devices)
        begun = self._begun(replace(self.setting, device=device, alone=alone))
        worker = _Worker(begun.process, begun.connection, device, begun=begun.since)
        self.workers.append(worker)
        return worker

    def _begun(self, setting: Setting) -> Begun:
        if begun := self.begun:
            self.begun = None
            with contextlib.suppress(OSError):  # it is gone; waiting for its answer will say so
                begun.connection.send(setting)
            return begun
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=self.target, args=(theirs, setting), daemon=True)
        with without_ctrl_c():
            process.start()
        theirs.close()
        return Begun(process, ours)

    def _answers(self) -> list[tuple[_Worker, Answer]]:
        busy = self._busy()
        left_s = min(worker.deadline for worker in busy) - time.monotonic()
        if self.waiting and len(self.workers) < self.size:
            left_s = min(left_s, LOOK_S)
        ready = wait([worker.connection for worker in busy], timeout=max(0.0, left_s))
        answers: list[tuple[_Worker, Answer]] = []
        for worker in busy:
            if worker.connection in ready:
                answers.append((worker, worker.answer()))
            elif worker.deadline <= time.monotonic():
                answers.append((worker, _hanging(worker)))
        return answers

    def close(self) -> None:
        """Stops idle workers politely and busy ones at once; nothing of theirs stays behind."""
        for worker in self.workers:
            if worker.job is None:
                worker.stop()
            else:
                worker.kill()
        self.workers.clear()
        sweep(patience_s=SWEEP_S)


def _hanging(worker: _Worker) -> Fault | NoJail:
    if worker.is_ready:
        return Fault(f"no answer within {worker.patience_s:g} seconds")
    return NoJail(f"not ready within {START_S:g} seconds")


def processors() -> int:
    """How many workers this machine has room for."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
