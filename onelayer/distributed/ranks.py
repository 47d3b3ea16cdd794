"""Run a function of a notebook cell on several processes that form one group."""

import contextlib
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from onelayer.drawing.words import say

from .one_rank import STACK, Failed, Task, run_rank
from .rank_report import report

MAX_RANKS = 64
START = "ONELAYER_RANKS"
"""Environment: "fork" in a process that imported torch, has one thread, and ends soon."""
PRELOADED = ["onelayer.distributed.one_rank", "onelayer.distributed.collectives", "torch._dynamo"]
"""Imported once, by the server whose forks all ranks are: DDP, FSDP and every dispatch mode import
dynamo when they are first used, which would take seconds in each rank of each call."""
MAX_LAST_WORDS = 300  # characters of what a rank wrote before it ended: C++ says why it aborts
GRACE_S = 1.0
"""For the others, once one rank has failed; and for a rank to say where it is."""


class RanksFailed(RuntimeError):
    """At least one rank raised, ended or did not come back; the message says which, and where.

    waiting: the ranks that did not come back, in order.
    """

    waiting: tuple[int, ...] = ()
    says_where = True  # to a verdict: the lines of who called these ranks say nothing more


class RanksWait(RanksFailed):
    """No rank failed: some are done, and the others were still waiting when the time was over."""


class Results(list[Any]):
    """What each rank returned, in order; `printed[rank]` is what it printed."""

    def __init__(self, results: list[Any], printed: list[str]) -> None:
        super().__init__(results)
        self.printed = printed


def run_ranks(
    n: int,
    function: Callable[..., Any],
    *args: Any,
    backend: str = "gloo",
    timeout_s: float = 30.0,
    show: bool = True,
) -> Results:
    """What `function(*args)` returned on each of `n` ranks, in a process of its own each.

        def step(x):
            dist.all_reduce(x)
            return x
        run_ranks(2, step, torch.ones(3))

    The processes form a group (`torch.distributed.get_rank()`), on `backend`, and end with the
    call. The function may come from a cell; it and what it uses travel by cloudpickle, so a rank
    changes its own copy. What a rank prints is shown under its number unless `show` is False. The
    first call takes two seconds, to import torch once for all later ones.

    Raises RanksFailed, with the traceback of every rank that raised and the place where each other
    one waited, when a rank raises, ends or is not back after `timeout_s`: RanksWait where that is
    all, and others are done. Raises ValueError for n < 1.
    """
    if not 1 <= n <= MAX_RANKS:
        raise ValueError(
            say("n = {n} ranks: from 1 to {most} run on one machine.", n=n, most=MAX_RANKS)
        )
    payload = cloudpickle.dumps((function, args))
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        task = Task(payload, n, Path(folder), backend, timeout_s)
        with _started(task) as ranks:
            _collect(ranks, task)
            late = [rank for rank in ranks if rank.answer is None]
            _ask_where(late, task)
        printed = [task.printed(rank.number).read_text(errors="replace") for rank in ranks]
        for number, text in enumerate(printed if show else []):
            print("".join(f"[rank {number}] {line}\n" for line in text.splitlines()), end="")
        if all(isinstance(rank.answer, bytes) for rank in ranks):
            return Results([cloudpickle.loads(rank.answer) for rank in ranks], printed)
        kinds = {type(rank.answer) for rank in ranks}
        kind = RanksWait if kinds == {bytes, type(None)} else RanksFailed
        error = kind(_report(ranks, task))
        error.waiting = tuple(rank.number for rank in late)
        raise error


@dataclass
class _Rank:
    """One process, as seen from the notebook. answer: None until it comes. order: when
    it came, and first of all where the process ended, since others may have noticed that before."""

    number: int
    process: BaseProcess
    connection: Connection
    answer: bytes | Failed | None = None
    order: float = 0.0

    def take(self, printed: Path) -> None:
        try:
            self.answer, self.order = self.connection.recv(), time.monotonic()
        except (EOFError, OSError):
            self.process.join(GRACE_S)
            lines = printed.read_text(errors="replace").split("\n")
            last = next((line.strip() for line in reversed(lines) if line.strip()), "")
            said = say("exit code {code}", code=self.process.exitcode)
            if last:
                said += say("; the last it wrote was: {words}", words=last[-MAX_LAST_WORDS:])
            self.answer = Failed("", said, ())


@contextlib.contextmanager
def _started(task: Task) -> Iterator[list[_Rank]]:
    """The ranks at work; whichever way this is left, none of their processes is."""
    context = _context()
    ranks: list[_Rank] = []
    try:
        for number in range(task.world_size):
            ours, theirs = context.Pipe()
            process = context.Process(target=run_rank, args=(number, task, theirs))
            with _no_main():
                process.start()
            theirs.close()
            ranks.append(_Rank(number, process, ours))
        yield ranks
        _dismiss(ranks)
    finally:
        for rank in ranks:
            rank.process.kill()
            rank.process.join()
            rank.process.close()
            rank.connection.close()


def _context() -> ForkContext | ForkServerContext:
    """What starts a rank: a server without threads, which has imported torch; or this very process,
    where that is said to be as good, and has no thread either."""
    if os.environ.get(START) == "fork" and _one_thread():
        return multiprocessing.get_context("fork")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


@contextlib.contextmanager
def _no_main() -> Iterator[None]:
    """Keeps a new process from importing, as it else would, the program that this one runs: what it
    needs of that comes pickled by value."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _one_thread() -> bool:
    """Whether this process has no thread of a library either, as a fork would leave behind."""
    return len(os.listdir("/proc/self/task")) == 1


def _dismiss(ranks: list[_Rank]) -> None:
    """Lets those that answered end by themselves, so that what they printed is whole."""
    for rank in ranks:
        if isinstance(rank.answer, bytes):
            with contextlib.suppress(OSError):
                rank.connection.send(None)
            rank.process.join(GRACE_S)


def _collect(ranks: list[_Rank], task: Task) -> None:
    """Takes every answer that comes in time; after a failure the others have a second."""
    deadline = time.monotonic() + task.timeout_s
    while waiting := {rank.connection: rank for rank in ranks if rank.answer is None}:
        ready = wait(list(waiting), timeout=max(0.0, deadline - time.monotonic()))
        for connection in ready:
            assert isinstance(connection, Connection)
            rank = waiting[connection]
            rank.take(task.printed(rank.number))
        if any(isinstance(rank.answer, Failed) for rank in ranks):
            deadline = min(deadline, time.monotonic() + GRACE_S)
        if not ready:  # it is late
            return


def _ask_where(late: list[_Rank], task: Task) -> None:
    """Has each late rank write down its stack; one that cannot leaves an empty file."""
    for rank in late:
        with contextlib.suppress(OSError):
            os.kill(rank.process.pid or 0, STACK)
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline:
        if all(task.stack(rank.number).stat().st_size for rank in late if rank.process.is_alive()):
            return
        time.sleep(0.01)  # a signal handler tells nobody when it is done


def _report(ranks: list[_Rank], task: Task) -> str:
    answers = {rank.number: rank.answer for rank in sorted(ranks, key=lambda rank: rank.order)}
    stacks = {n: task.stack(n).read_text() for n, answer in answers.items() if answer is None}
    return report(answers, stacks, task.timeout_s)
