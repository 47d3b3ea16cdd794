"""A worker process: owns one jail, grades one submission after another, dies with its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import autograder.checks
from autograder.sandbox import Jail, Tier

from . import work
from .job import Fault

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Setting:
    """What a worker is told when it starts.

    log: where its warnings go. scratch: its folder for temporary files. parent: the process to die
    with.
    """

    tier: Tier
    log: Path
    scratch: Path
    parent: int


@dataclass(frozen=True)
class Ready:
    """The worker has its jail; answers follow."""


@dataclass(frozen=True)
class NoJail:
    """The worker has no jail and is gone."""

    reason: str


def serve(connection: Connection, setting: Setting) -> None:
    """Says Ready, grades each Job that arrives, answers with a Record or a Fault; None ends it.

    After a Fault the worker ends: the next submission gets a new process and a new jail.
    """
    die_with_parent(setting.parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    _write_to(setting.log)
    os.environ["TMPDIR"] = str(setting.scratch)  # torch makes a cache folder there and leaves it
    import torch._dynamo  # else the first question that opens a dispatch mode would wait for it

    torch.set_num_threads(1)
    with contextlib.ExitStack() as stack:
        try:
            jail = stack.enter_context(Jail(tier=setting.tier))
        except Exception as error:
            connection.send(NoJail(f"{type(error).__name__}: {error}"))
            return
        connection.send(Ready())
        _answer_jobs(connection, jail)


def _answer_jobs(connection: Connection, jail: Jail) -> None:
    labs = {lab.name: lab for lab in autograder.checks.labs()}
    while (job := connection.recv()) is not None:
        try:
            connection.send(work.grade(job, labs[job.lab], jail))
        except Exception as error:
            traceback.print_exc()  # into the log
            connection.send(Fault(f"{type(error).__name__}: {error}"))
            return


def die_with_parent(parent: int) -> None:
    """From now on this process is killed when `parent` ends, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)


def _write_to(log: Path) -> None:
    """Warnings of libraries go to the log, not between the lines of a progress bar."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
