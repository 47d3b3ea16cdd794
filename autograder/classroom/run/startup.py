"""The first worker and its jail, begun before the class is read: importing torch takes longer than
anything else that a command does, and nothing of that needs to wait for the hand-ins. The jail
imports it beside the command; the worker is a fork of the command, and imports nothing.

Standard library only: whoever imports this has not imported torch yet.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.sandbox import BegunZygote, Tier

LEAVE_S = 2.0


@dataclass(frozen=True)
class Begun:
    """A worker that waits for its Setting, and ends when it gets None instead. since: when it was
    begun, by the monotonic clock."""

    process: BaseProcess
    connection: Connection
    since: float = field(default_factory=time.monotonic)


_jails: list[tuple[float, Tier, BegunZygote | None]] = []
_waiting: list[Begun] = []
_given: list[BegunZygote] = []


def begin_jail() -> None:
    """Begins the first worker's jail, which imports torch while this process does. Call `end`
    whatever happens. Nothing is begun on another system than Linux, which knows no such jail and
    may not survive a fork."""
    if sys.platform != "linux":
        return
    # numpy would start its BLAS's threads: what is forked should have one, and computes with one.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from autograder.sandbox import begin_usual

    _jails.append((time.monotonic(), *begin_usual()))


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Inside, nobody looks for garbage, and never again in what was imported: modules are none. To
    look for it took a quarter of what one hand-in cost the command."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def begin_worker() -> None:
    """Forks the first worker of this process, which has imported by now what a worker needs, and
    gives it the jail; `take` gets it. Does nothing where no jail was begun."""
    if not _jails:
        return
    since, tier, zygote = _jails[-1]
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_serve, args=(theirs, ours, os.getpid(), tier, zygote), daemon=True
    )
    with without_ctrl_c():
        process.start()
    theirs.close()
    _jails.pop()
    if zygote is not None:
        zygote.let_go()
        _given.append(zygote)
    _waiting.append(Begun(process, ours, since))


def take() -> Begun | None:
    """The worker that was begun, for whoever asks first."""
    return _waiting.pop() if _waiting else None


def end() -> None:
    """Ends the worker that nobody took, or its jail: nothing was to be graded, or a mistake."""
    while _jails:
        if (zygote := _jails.pop()[-1]) is not None:
            zygote.end()
    while begun := take():
        begun.process.kill()
        begun.process.join()
        begun.connection.close()
    while _given:
        _leave(_given.pop())
        from autograder.sandbox import sweep  # not at the top: it imports torch

        sweep(patience_s=2.0)


def _leave(zygote: BegunZygote) -> None:
    """It ends by itself when its worker has ended. Where Ctrl-C came between two verdicts, the
    worker is still there, and nobody needs it."""
    jailed = zygote.jailed
    try:
        jailed.process.wait(LEAVE_S)
    except subprocess.TimeoutExpired:
        jailed.process.kill()
        jailed.process.wait()
        jailed.tidy()


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


def _serve(
    connection: Connection,
    others: Connection,
    parent: int,
    tier: Tier,
    zygote: BegunZygote | None,
) -> None:
    others.close()
    quiet = os.open(os.devnull, os.O_WRONLY)  # until it is told where its log is
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.close(quiet)
    from . import worker

    worker.serve_when_told(connection, parent, tier, zygote)
