"""The process inside the jail that has imported everything and computed nothing: its forks run the
submissions.

It obeys one socket. {"do": "fork"} comes with two descriptors (a channel and a pipe for output) and
is answered with a handle (a pidfd) of the fork; {"do": "reap"} is answered with how a fork ended.
No bytes of a student ever reach it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import platform
import random
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import numpy
import torch

from . import face, landlock, namespaces, seccomp
from .limits import Limits, bind_this_process
from .serve import READY, serve, settle
from .shell import NotebookShell

# So that a cell that imports them costs nothing. torch imports its dynamo at the first use of any
# dispatch mode.
PRELOADED = (
    "numpy.random",
    "torch.nn.functional",
    "onelayer",
    "matplotlib.pyplot",
    "torch._dynamo",
)
MAX_MESSAGE = 65_536


def main(descriptor: int) -> None:
    """Serves the control socket `descriptor` until the other side closes it."""
    control = socket.socket(fileno=descriptor)
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    face.install()
    shell = NotebookShell()
    torch.seed()  # imports, the first time, what it seeds besides
    gc.collect()
    gc.freeze()  # a fork that collects garbage would otherwise copy every page of ours
    _say(control, {"ready": True, "threads": len(os.listdir("/proc/self/task"))})
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MAX_MESSAGE, 2)
        if not message:
            return
        _obey(json.loads(message), descriptors, control, shell)


def _say(control: socket.socket, message: dict[str, Any], *handles: int) -> None:
    socket.send_fds(control, [json.dumps(message).encode()], list(handles))


def _obey(
    order: dict[str, Any], descriptors: list[int], control: socket.socket, shell: NotebookShell
) -> None:
    if order["do"] == "reap":
        _say(control, {"status": _ended(order["pid"])})
        return
    try:
        without = frozenset(order["without"])
        pid = _fork(lambda: _become_student(order, descriptors, shell), without)
        handle = os.pidfd_open(pid)
        _say(control, {"pid": pid}, handle)
        os.close(handle)
    except OSError as error:
        _say(control, {"fault": str(error)})
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _ended(pid: int) -> int | None:
    """The exit status of a fork, negative for a signal; None if it has not ended."""
    with contextlib.suppress(ChildProcessError):
        ended, status = os.waitpid(pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if ended else None
    return None


def _fork(student: Callable[[], NoReturn], without: frozenset[str]) -> int:
    """Runs `student` in a new fork, in namespaces of its own; its process id as seen here.

    Raises OSError.
    It takes two forks: a process that leaves its process namespace stays where it is, and only its
    child becomes process 1 of the new one. The process between then ends, and the child is ours.
    """
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        _between(writing, student, without)
    os.close(writing)
    try:
        answer = os.read(reading, 4096).decode()
    finally:
        os.close(reading)
        os.waitpid(between, 0)
    if not answer.isdigit():
        raise OSError(f"the fork got no namespaces of its own: {answer or 'it died'}")
    return int(answer)


def _between(writing: int, student: Callable[[], NoReturn], without: frozenset[str]) -> NoReturn:
    try:
        namespaces.leave(without)
        pid = os.fork()
        if pid == 0:
            student()
        os.write(writing, str(pid).encode())
    except BaseException as error:
        os.write(writing, f"{type(error).__name__}: {error}".encode()[:4000])
    finally:
        os._exit(0)


def _become_student(
    order: dict[str, Any], descriptors: list[int], shell: NotebookShell
) -> NoReturn:
    """Shuts every door behind it, then serves. Whatever goes wrong before that ends the process."""
    try:
        os.setsid()
        channel = settle(*descriptors)
        _shut_doors(order)
        fresh_start()
        channel.sendall(READY)  # every door is shut
        serve(channel, shell)
    except BaseException:
        traceback.print_exc()  # into the output of this fork
        os._exit(1)
    os._exit(0)


def _shut_doors(order: dict[str, Any]) -> None:
    limits, without = Limits.from_mapping(order["limits"]), frozenset(order["without"])
    namespaces.furnish(limits, paths=order["paths"], without=without)
    if "limits" not in without:
        bind_this_process(limits, own_namespace=True, kernel=_kernel())
    if "privileges" not in without:
        namespaces.give_up_capabilities()
    if "landlock" not in without:
        landlock.install()
    if "seccomp" not in without:
        seccomp.install(internet=limits.loopback)


def _kernel() -> tuple[int, ...]:
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def fresh_start() -> None:
    """What a new interpreter has and a fork has not: its own random state, its own threads."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    numpy.random.seed()
    torch.set_num_threads(1)  # a pool of threads does not survive a fork
    torch.seed()
    if "" not in sys.path:
        sys.path.insert(0, "")  # as in a notebook: modules written by %%writefile are found
