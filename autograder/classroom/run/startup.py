"""The first worker, begun before the class is read: importing torch and starting a jail take it
longer than anything else that a command does, and nothing of that needs to wait for the hand-ins.

Standard library only, and nothing of ours: whoever imports this has not imported torch yet.
"""

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess


@dataclass(frozen=True)
class Begun:
    """A worker that waits for its Setting, and ends when it gets None instead. since: when it was
    begun, by the monotonic clock."""

    process: BaseProcess
    connection: Connection
    since: float = field(default_factory=time.monotonic)


_waiting: list[Begun] = []


def begin() -> None:
    """Begins it; `take` gets it. Call `end` whatever happens."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, os.getpid()), daemon=True)
    with without_ctrl_c():
        process.start()
    theirs.close()
    _waiting.append(Begun(process, ours))


def take() -> Begun | None:
    """The worker that was begun, for whoever asks first."""
    return _waiting.pop() if _waiting else None


def end() -> None:
    """Ends the worker that nobody took: there was nothing to be graded, or a mistake."""
    while begun := take():
        begun.process.kill()
        begun.process.join()
        begun.connection.close()
        from autograder.sandbox import sweep  # not before: it imports torch

        sweep(patience_s=2.0)


@contextlib.contextmanager
def without_ctrl_c() -> Iterator[None]:
    """Ctrl-C goes to all processes of a terminal and is the parent's to answer: what starts here
    does not hear it, from its first instruction until it ignores it itself. The parent answers one
    that came meanwhile when this ends."""
    resource_tracker.ensure_running()  # it lets all signals in again when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, parent: int) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)  # until it is told where its log is
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.close(quiet)
    # Imports no torch: the zygote does that beside this worker, and not after it.
    from autograder.sandbox import begin_usual

    tier, zygote = begin_usual()
    from . import worker

    worker.serve_when_told(connection, parent, tier, zygote)
