"""What one rank does: a process of its own that joins the group, runs the function, and reports.

It lives outside `ranks` because the processes are forked from a server that has imported this
module and torch, and nothing else of the notebook.
"""

import contextlib
import faulthandler
import os
import signal
import socket
import sys
import threading
import traceback
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path

import cloudpickle
import torch
import torch.distributed as dist

STACK = signal.SIGUSR1
"""Asks a rank where it is; it answers into its stack file, also while it waits in C++."""


@dataclass(frozen=True)
class Task:
    """What every rank is told. payload: the pickled function and its arguments. folder: for the
    files of this run. backend: as `init_process_group` takes it; "" for no group."""

    payload: bytes
    world_size: int
    folder: Path
    backend: str
    timeout_s: float

    def printed(self, rank: int) -> Path:
        """What this rank printed, on stdout and stderr."""
        return self.folder / f"printed-{rank}"

    def stack(self, rank: int) -> Path:
        """Where this rank was when it was asked."""
        return self.folder / f"stack-{rank}"


Frame = tuple[str, int, str]
"""A file, a line in it, and the function that it belongs to."""


@dataclass(frozen=True)
class Failed:
    """A rank's exception: its type, its message and the frames that are neither ours nor torch's,
    outermost first. kind: "" where the process ended without a word."""

    kind: str
    message: str
    frames: tuple[Frame, ...]


def run_rank(rank: int, task: Task, answers: Connection) -> None:
    """Runs the function as `rank` and sends back its pickled result, or a Failed."""
    _die_with_the_notebook()
    _print_into(task.printed(rank))
    torch.set_num_threads(1)  # the ranks share this machine's cores
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": str(task.world_size)}
    if task.backend == "gloo":  # it moves the CPU's memory; FSDP would take the GPU that it sees
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with open(task.stack(rank), "w") as stack:
        faulthandler.register(STACK, file=stack, all_threads=False)
        answers.send(_outcome(rank, task))
    answers.recv()  # a group falls apart when one of its processes ends: all end together
    sys.stdout.flush()
    os._exit(0)  # no destructor of a group that others have left already


def _outcome(rank: int, task: Task) -> bytes | Failed:
    try:
        if task.backend:
            _join(rank, task)
        function, args = cloudpickle.loads(task.payload)
        pickled: bytes = cloudpickle.dumps(function(*args))
        return pickled
    except BaseException as error:  # also SystemExit: the notebook asked for this rank's answer
        return Failed(type(error).__name__, str(error), _their_frames(error))


def _their_frames(error: BaseException) -> tuple[Frame, ...]:
    """The traceback without our frames and torch's, which say nothing about the fault."""
    frames = traceback.extract_tb(error.__traceback__)
    return tuple((f.filename, f.lineno or 0, f.name) for f in frames if is_theirs(f.filename))


def is_torchs(file: str) -> bool:
    """Whether a frame of this file is inside torch."""
    return Path(file).is_relative_to(Path(torch.__file__).parent)


def is_theirs(file: str) -> bool:
    """Whether a frame of this file is neither ours nor torch's."""
    return not is_torchs(file) and not Path(file).is_relative_to(Path(__file__).parents[1])


def _join(rank: int, task: Task) -> None:
    """Meets the others through a file: a port could be taken, by a stranger or by a second run."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback())
    if "nccl" in task.backend:
        torch.cuda.set_device(rank)  # NCCL takes no two ranks on one GPU
    dist.init_process_group(
        task.backend,
        init_method=(task.folder / "store").as_uri(),
        rank=rank,
        world_size=task.world_size,
        timeout=timedelta(seconds=2 * task.timeout_s),  # the notebook's own clock comes first
    )


def _loopback() -> str:
    """The network that every machine has: `lo` on Linux, `lo0` on a Mac."""
    names = [name for _, name in socket.if_nameindex()]
    return next(name for name in names if name.startswith("lo"))


def _print_into(path: Path) -> None:
    """Whatever writes to stdout or stderr, C++ included, writes there."""
    sys.stdout.flush()
    with open(path, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115


def _die_with_the_notebook() -> None:
    """Ends this process when the notebook's ends, however that ends."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        with contextlib.suppress(OSError):
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
