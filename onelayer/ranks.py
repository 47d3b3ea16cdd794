"""Run a function of a notebook cell on several processes that form one group."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import cloudpickle
from torch import distributed

from . import one_rank
from .one_rank import STACK, Failed, Task, run_rank

MAX_RANKS = 64
GRACE_S = 1.0
"""For the others, once one rank has failed; and for a rank to say where it is."""
_FRAME = re.compile(r'File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.+)')


class RanksFailed(RuntimeError):
    """At least one rank raised, ended or did not come back; the message says which, and where."""


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
    one waited, when a rank raises, ends or is not back after `timeout_s`; ValueError for n < 1.
    """
    if not 1 <= n <= MAX_RANKS:
        raise ValueError(f"n = {n} ranks: from 1 to {MAX_RANKS} run on one machine.")
    payload = cloudpickle.dumps((function, args))
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        task = Task(payload, n, Path(folder), backend, timeout_s)
        with _started(task) as ranks:
            _collect(ranks, timeout_s)
            late = [rank for rank in ranks if rank.answer is None]
            _ask_where(late, task)
        printed = [task.printed(rank.number).read_text(errors="replace") for rank in ranks]
        if show:
            _show(printed)
        if all(isinstance(rank.answer, bytes) for rank in ranks):
            return Results([cloudpickle.loads(rank.answer) for rank in ranks], printed)
        raise RanksFailed(_report(ranks, task))


@dataclass
class _Rank:
    """One process, as seen from the notebook. answer: None until it comes. order: when
    it came, and first of all where the process ended, since others may have noticed that before."""

    number: int
    process: BaseProcess
    connection: Connection
    answer: bytes | Failed | None = None
    order: float = 0.0

    def take(self) -> None:
        try:
            self.answer, self.order = self.connection.recv(), time.monotonic()
        except (EOFError, OSError):
            self.process.join(GRACE_S)
            self.answer = Failed("", f"exit code {self.process.exitcode}", ())


@contextlib.contextmanager
def _started(task: Task) -> Iterator[list[_Rank]]:
    """The ranks at work; whichever way this is left, none of their processes is."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["onelayer.one_rank"])
    ranks: list[_Rank] = []
    try:
        for number in range(task.world_size):
            ours, theirs = context.Pipe()
            process = context.Process(target=run_rank, args=(number, task, theirs))
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


def _dismiss(ranks: list[_Rank]) -> None:
    """Lets those that answered end by themselves, so that what they printed is whole."""
    for rank in ranks:
        if isinstance(rank.answer, bytes):
            with contextlib.suppress(OSError):
                rank.connection.send(None)
            rank.process.join(GRACE_S)


def _collect(ranks: list[_Rank], timeout_s: float) -> None:
    """Takes every answer that comes in time; after a failure the others have a second."""
    deadline = time.monotonic() + timeout_s
    while waiting := {rank.connection: rank for rank in ranks if rank.answer is None}:
        ready = wait(list(waiting), timeout=max(0.0, deadline - time.monotonic()))
        for connection in ready:
            assert isinstance(connection, Connection)
            waiting[connection].take()
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


def _show(printed: list[str]) -> None:
    for number, text in enumerate(printed):
        for line in text.splitlines():
            print(f"[rank {number}] {line}")


def _report(ranks: list[_Rank], task: Task) -> str:
    """A paragraph for each rank that failed or waited, causes first; a line for those done."""
    failed = [rank for rank in ranks if isinstance(rank.answer, Failed)]
    failed.sort(key=lambda rank: rank.order)
    lines = ["not every rank came back", *(_fault(rank) for rank in failed)]
    for rank in ranks:
        if rank.answer is None:
            how = "was still" if failed else f"was not back after {task.timeout_s:g} s, and"
            stack = task.stack(rank.number).read_text()
            lines.append(f"rank {rank.number} {how} waiting{_waiting_in(stack)}")
    done = [str(rank.number) for rank in ranks if isinstance(rank.answer, bytes)]
    return "\n".join(lines + [f"done: rank {', '.join(done)}"] * bool(done))


def _fault(rank: _Rank) -> str:
    failed = rank.answer
    assert isinstance(failed, Failed)
    if not failed.kind:
        return f"rank {rank.number} ended with {failed.message}"
    lines = [f"rank {rank.number} raised {failed.kind}: {failed.message}", *failed.lines]
    return "\n    ".join(lines)


def _waiting_in(stack: str) -> str:
    """Where a rank was: torch's function, and the lines that led to it, innermost last; "" where
    it said nothing. stack: as faulthandler writes it, innermost first."""
    frames = [match.groupdict() for match in map(_FRAME.search, stack.splitlines()) if match]
    frames = list(itertools.takewhile(lambda frame: frame["file"] != one_rank.__file__, frames))
    inside = [frame["name"] for frame in frames if one_rank.is_torchs(frame["file"])]
    named = [name for name in inside if name.isidentifier() and not name.startswith("_")]
    public = [name for name in named if hasattr(distributed, name)]
    what = f" in {public[-1]}()" if public else ""
    theirs = [frame for frame in reversed(frames) if not one_rank.is_torchs(frame["file"])]
    lines = [f"{f['file']}, line {f['line']}, in {f['name']}" for f in theirs]
    return "\n    ".join([what, *lines])
