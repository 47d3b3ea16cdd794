"""The process whose forks run the functions of `on_mock_gpu`: it has imported torch over the mocked
library, which takes seconds, and has asked nothing of a device, which a fork would not survive.

    python -m onelayer.mock_cuda.zygote SOCKET

An order is a message on the inherited socket: the variables of one run, with two descriptors. The
first is the run's line: its exit code is written there, and when the other end is closed, the run
is killed. The second takes what it prints. When nobody can order any more, it ends after its last
run.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from onelayer.mock_cuda.environment import MOCKED

PRELOADED = ("onelayer.mock_cuda.child", "onelayer.mock_cuda.instruments", "torch._dynamo")
"""torch comes with the first; every optimizer and checkpoint imports dynamo at its first use."""
MAX_ORDER_BYTES = 1 << 16
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Order:
    """variables: those in which this run differs from its zygote. line, printed: descriptors."""

    variables: dict[str, str]
    line: socket.socket
    printed: int


class Zygote:
    """Forks a run for each order, and tells its exit code."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._runs: dict[int, socket.socket] = {}  # by process id: the run's line
        self._ready = selectors.DefaultSelector()
        self._ready.register(orders, selectors.EVENT_READ)
        woken, waking = socket.socketpair()
        for end in (woken, waking):
            end.setblocking(False)
        self._woken, self._waking = woken, waking
        self._ready.register(woken, selectors.EVENT_READ)
        signal.set_wakeup_fd(waking.fileno())
        signal.signal(signal.SIGCHLD, _do_nothing)

    def serve(self) -> Order | None:
        """The order that this process is to carry out, in each fork; None at the end of it all."""
        ordering = True
        while ordering or self._runs:
            for key, _ in self._ready.select():
                if key.fileobj is self._orders:
                    order = _read_order(self._orders)
                    if order is None:
                        ordering = False
                        self._ready.unregister(self._orders)
                    elif self._fork(order):
                        return order
                elif key.fileobj is not self._woken:
                    _kill(key.data)
            self._bury()
        return None

    def _fork(self, order: Order) -> bool:
        """Whether this is the fork."""
        zygote, pid = os.getpid(), os.fork()
        if pid == 0:
            self._leave()
            _become(order, zygote)
            return True
        os.close(order.printed)
        self._runs[pid] = order.line
        self._ready.register(order.line, selectors.EVENT_READ, pid)
        return False

    def _leave(self) -> None:
        """What is the zygote's alone, a fork does not keep."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._ready.close()
        for end in (self._orders, self._woken, self._waking, *self._runs.values()):
            end.close()

    def _bury(self) -> None:
        """Tells the exit code of each run that has ended, and ends what it started and left."""
        _drain(self._woken)
        for pid, line in list(self._runs.items()):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            _kill(pid)  # the group still has its number: nobody has waited for its first process
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            self._ready.unregister(line)
            with line:
                _tell(line, code)
            del self._runs[pid]


def _do_nothing(_signal: int, _frame: FrameType | None) -> None:
    """A signal that is ignored would wake nobody."""


def _drain(end: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while end.recv(4096):
            pass


def _read_order(orders: socket.socket) -> Order | None:
    """The next order, or None where nobody can give one any more."""
    message, descriptors, _, _ = socket.recv_fds(orders, MAX_ORDER_BYTES, 2)
    if not message:
        return None
    line, printed = descriptors
    return Order(json.loads(message), socket.socket(fileno=line), printed)


def _kill(pid: int) -> None:
    """Ends a run and all that it started, also where it has not yet made a group of its own."""
    for end, number in ((os.kill, pid), (os.killpg, pid)):
        with contextlib.suppress(ProcessLookupError):
            end(number, signal.SIGKILL)


def _tell(line: socket.socket, code: int) -> None:
    with contextlib.suppress(OSError):  # who ordered it is gone
        line.send(str(code).encode())


def _become(order: Order, zygote: int) -> None:
    """A process as good as a fresh one: its own group, variables, output and random numbers."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != zygote:  # it ended before it was asked for
        os._exit(1)
    os.setsid()
    order.line.close()
    for number in (1, 2):
        os.dup2(order.printed, number)
    os.close(order.printed)
    os.environ.update(order.variables)
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()


def _end_at_once() -> None:
    """Python would now take down every module, for a second; nothing of it can be seen."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(int(hasattr(sys, "last_value")))  # an exception that nobody caught


def main(descriptor: int) -> None:
    atexit.register(_end_at_once)  # before torch is imported: what is registered later runs first
    for module in PRELOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a fork that collected these would copy the pages that they lie on
    order = Zygote(socket.socket(fileno=descriptor)).serve()
    if order:
        importlib.import_module("sitecustomize").watch()
        importlib.import_module("onelayer.mock_cuda.child").main(Path(order.variables[MOCKED]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
