"""The process inside the jail that has imported everything and computed nothing: its forks run the
submissions.

It obeys one socket. {"do": "fork"} comes with descriptors (a channel, a pipe for output, one
that notifies, and the cgroups to enter) and is answered with a handle (a pidfd) of the fork;
{"do": "reap"} is answered with how a fork ended; {"do": "import"} with names of modules, and
{"do": "gather"}, cost it a second or two, and make each fork after it cheaper.
No bytes of a student ever reach it.
"""

import contextlib
import gc
import importlib
import json
import os
import random
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy
import torch

from autograder.judge.torch_settings import remember_threads

from ..engines import gpu
from ..wire.channel import READY
from . import face, forking, large_pages, seccomp
from .serve import serve, settle
from .shell import NotebookShell

# So that a cell that imports them costs nothing.
PRELOADED = (
    "numpy.random",
    "torch.nn.functional",
    "onelayer",
    "onelayer.distributed.collectives",
    "onelayer.distributed.ranks",
)
# What takes a second: matplotlib looks for the machine's fonts; torch imports its Dynamo at the
# first use of most dispatch modes.
PRELOADED_FOR_MANY = ("matplotlib.pyplot", "torch._dynamo")
THREAD_S = 5.0
MAX_MESSAGE = 65_536
MAX_DESCRIPTORS = 8


def main(descriptor: int) -> None:
    """Serves the control socket `descriptor` until the other side closes it."""
    control = socket.socket(fileno=descriptor)
    _preload(PRELOADED)
    face.install()
    shell = NotebookShell()
    seccomp.assembled(internet=False)  # once, and not in every fork
    _say_ready(control)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MAX_MESSAGE, MAX_DESCRIPTORS)
        if not message:
            return
        _obey(json.loads(message), descriptors, control, shell)


def _preload(names: Sequence[str]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _say_ready(control: socket.socket) -> None:
    gc.collect()
    gc.freeze()  # a fork that collects garbage would otherwise copy every page of ours
    gc.enable()
    _say(control, {"ready": True, "threads": _threads()})


def _threads() -> int:
    """How many there are, once those had time to end that were told to: matplotlib has one, which
    would have said that the search for fonts takes long."""
    deadline = time.monotonic() + THREAD_S
    while (found := len(os.listdir("/proc/self/task"))) > 1 and time.monotonic() < deadline:
        time.sleep(0.005)
    return found


def _say(control: socket.socket, message: dict[str, Any], *handles: int) -> None:
    socket.send_fds(control, [json.dumps(message).encode()], list(handles))


def _obey(
    order: dict[str, Any], descriptors: list[int], control: socket.socket, shell: NotebookShell
) -> None:
    if order["do"] == "reap":
        _say(control, {"status": _ended(order["pid"])})
        return
    if order["do"] == "import":
        _preload(order["names"])
        _say_ready(control)
        return
    if order["do"] == "gather":
        _preload(PRELOADED_FOR_MANY)
        large_pages.gather()
        _say_ready(control)
        return
    try:
        expect_untouched_gpu()
        without = frozenset(order["without"])
        pid = forking.fork(lambda: _become_student(order, descriptors, shell), without)
        handle = os.pidfd_open(pid)
        _say(control, {"pid": pid}, handle)
        os.close(handle)
    except OSError as error:
        _say(control, {"fault": str(error)})
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def expect_untouched_gpu() -> None:
    """Raises OSError where this process has used CUDA: no fork of it could, then."""
    if torch.cuda.is_initialized() or gpu.touched():  # type: ignore[no-untyped-call]
        raise OSError("the zygote has touched the GPU, so none of its forks can use it")


def expect_working_fork() -> None:
    """The same, in the fork, where torch itself can tell."""
    if torch.cuda._is_in_bad_fork():
        raise OSError("the zygote has asked CUDA for its GPUs, so this fork cannot use one")


def _ended(pid: int) -> int | None:
    """The exit status of a fork, negative for a signal; None if it has not ended."""
    with contextlib.suppress(ChildProcessError):
        ended, status = os.waitpid(pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if ended else None
    return None


def _become_student(
    order: dict[str, Any], descriptors: list[int], shell: NotebookShell
) -> NoReturn:
    """Builds its walls, then serves. Whatever goes wrong before that ends the process."""
    try:
        os.setsid()
        expect_working_fork()
        forking.enter(descriptors[3:])
        channel, notify_fd = settle(*descriptors[:3])
        forking.build_walls(order)
        fresh_start()
        channel.sendall(READY)
        serve(channel, notify_fd, shell)
    except BaseException:
        traceback.print_exc()  # into the output of this fork
        os._exit(1)
    os._exit(0)


def fresh_start() -> None:
    """What a new interpreter has and a fork has not: its own random state, its own threads."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    numpy.random.seed()
    torch.set_num_threads(1)  # a pool of threads does not survive a fork
    remember_threads()
    # torch.seed() tells the devices too, where a fork has none yet, and takes 1 ms for it.
    torch.default_generator.seed()
    if "ONELAYER_MOCK_DEVICE" in os.environ:
        importlib.import_module("onelayer.mock_cuda.instruments").prepare_torch()
    if "" not in sys.path:
        sys.path.insert(0, "")  # as in a notebook: modules written by %%writefile are found
