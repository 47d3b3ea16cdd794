"""A worker process: owns one jail, grades one submission after another, dies with its parent."""

import contextlib
import ctypes
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path

import torch

import autograder.checks
from autograder.sandbox import MOCKED, SIMULATED, BegunZygote, Gpu, Jail, Tier, mocked_gpu

from . import nvidia_smi, work
from .devices import VISIBLE
from .health import DeviceLost, expect_healthy
from .job import Fault

PR_SET_PDEATHSIG = 1
SIMULATED_BYTES = 16 * 2**30


@dataclass(frozen=True)
class Setting:
    """What a worker is told when it starts.

    log: where its warnings go. scratch: its folder for temporary files. parent: the process to die
    with. device: the GPU to use, "" where none is needed. alone: nobody else uses that one.
    readable: what its jail may read besides; for our own answers alone.
    """

    tier: Tier
    log: Path
    scratch: Path
    parent: int
    device: str = ""
    alone: bool = False
    readable: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ready:
    """The worker has its jail; answers follow."""


@dataclass(frozen=True)
class NoJail:
    """The worker has no jail and is gone."""

    reason: str


@dataclass(frozen=True)
class NoDevice:
    """The worker's GPU does not work, so it is gone."""

    reason: str


def serve(connection: Connection, setting: Setting) -> None:
    """Says Ready, grades each Job that arrives, answers with a Record, a Fault or NoDevice; None
    ends it.

    After either of these the worker ends: the next submission gets a new process and a new jail.
    """
    _belong_to(setting.parent)
    with contextlib.ExitStack() as stack:
        _serve(connection, setting, partial(_opened, stack, setting))


def serve_when_told(
    connection: Connection, parent: int, tier: Tier, zygote: BegunZygote | None
) -> None:
    """The same for a worker that was begun before anybody knew its Setting, which arrives first:
    the jail, of this `tier`, starts meanwhile."""
    _belong_to(parent)
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(1) as beside:
        begun = beside.submit(_jail_beforehand, stack, tier, zygote)
        setting: Setting | None = connection.recv()
        if setting is None:
            return

        def opened() -> Jail:
            jail = begun.result()
            fits = jail is not None and jail.tier == setting.tier
            if jail is None or not fits or setting.device or setting.readable:
                return _opened(stack, setting)
            return jail

        _serve(connection, setting, opened)


def _belong_to(parent: int) -> None:
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # see `without_ctrl_c`
    torch.set_num_threads(1)
    gc.freeze()  # to look for garbage in what the command imported would copy every page of it


def _jail_beforehand(
    stack: contextlib.ExitStack, tier: Tier, zygote: BegunZygote | None
) -> Jail | None:
    """The jail that most classes are graded in."""
    return stack.enter_context(Jail(tier=tier, begun=zygote)) if tier.safe else None


def _opened(stack: contextlib.ExitStack, setting: Setting) -> Jail:
    return stack.enter_context(_jail(setting))


def _serve(
    connection: Connection,
    setting: Setting,
    opened: Callable[[], Jail],
) -> None:
    _write_to(setting.log)
    os.environ["TMPDIR"] = str(setting.scratch)
    # torch makes a folder for its cache and leaves it. By itself it would make it in the folder of
    # temporary files, and Python may know another one: that of when the jail began beforehand.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(setting.scratch / "torch")
    try:
        jail = opened()
        if jail.gpu:
            expect_healthy(jail, "in the jail")
    except DeviceLost as lost:
        connection.send(NoDevice(str(lost)))
        return
    except Exception as error:
        connection.send(NoJail(f"{type(error).__name__}: {error}"))
        return
    connection.send(Ready())
    _answer_jobs(connection, jail)


def _jail(setting: Setting) -> Jail:
    return Jail(tier=setting.tier, readable=setting.readable, gpu=_gpu(setting))


def _gpu(setting: Setting) -> Gpu | None:
    """What this worker's jail is lent. This process itself sees no GPU: what it computes to compare
    is computed on the CPU."""
    if not setting.device:
        return None
    os.environ[VISIBLE] = ""
    return lent_gpu(setting.device, alone=setting.alone)


def lent_gpu(device: str, *, alone: bool) -> Gpu:
    """The GPU of that name, watched. alone: whether nobody else uses it. Raises DeviceLost."""
    if device == SIMULATED:
        return Gpu(device, "simulated", SIMULATED_BYTES, kind=SIMULATED)
    if device == MOCKED:
        return mocked_gpu()
    facts = nvidia_smi.facts(device)
    if facts is None:
        raise DeviceLost(f"nvidia-smi does not know GPU {device}")
    watch = nvidia_smi.Watch(device, alone=alone)
    return Gpu(device, facts.title, facts.memory_bytes, used_bytes=watch)


def _answer_jobs(connection: Connection, jail: Jail) -> None:
    labs = cache(autograder.checks.lab)  # imported with the first job of its own
    while (job := connection.recv()) is not None:
        try:
            connection.send(work.grade(job, labs(job.lab), jail))
        except DeviceLost as lost:
            connection.send(NoDevice(str(lost)))
            return
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
