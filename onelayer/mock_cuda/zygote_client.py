"""The notebook's side of a zygote: one is kept for each environment that runs were asked in."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from onelayer.drawing.words import say
from onelayer.mock_cuda.environment import OF_ONE_RUN

MOST_KEPT = 2
"""A zygote holds about 350 MB of its own."""
MAX_WORDS_BYTES = 1 << 16


def run_forked(environment: Mapping[str, str], printed: Path, timeout_s: float) -> str:
    """How the run ended in a fork with `environment`; what it wrote is in `printed`. Nothing that
    it started is alive afterwards, also where this call is interrupted."""
    shared = {name: text for name, text in environment.items() if name not in OF_ONE_RUN}
    own = {name: text for name, text in environment.items() if name in OF_ONE_RUN}
    line, theirs = socket.socketpair()
    with line, printed.open("wb") as out:
        with theirs:
            zygote = _order(shared, own, [theirs.fileno(), out.fileno()])
        try:
            line.settimeout(timeout_s)
            code = line.recv(64).decode()
        except TimeoutError:
            return say("no answer after {s:g} s", s=timeout_s)
        finally:
            _end(line)
    if not code:
        return f"{say('nothing could fork it:')}\n{zygote.last_words()}"
    return say("exit code {code}", code=code)


def _end(line: socket.socket) -> None:
    """Has the run killed, if it is still there, and waits until it is not."""
    line.settimeout(None)
    line.shutdown(socket.SHUT_WR)
    while line.recv(64):
        pass


class ZygoteClient:
    """A zygote that this process started."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._wrote = os.memfd_create("zygote")
        weakref.finalize(self, os.close, self._wrote)
        command = [sys.executable, "-m", "onelayer.mock_cuda.zygote", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=self._wrote,
                stderr=self._wrote,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # an interrupt of the notebook is not for it
            )

    def order(self, variables: dict[str, str], descriptors: list[int]) -> None:
        """Has it fork a run. Raises OSError where it is no longer there."""
        socket.send_fds(self._orders, [json.dumps(variables).encode()], descriptors)

    def close(self) -> None:
        """Lets it end, after its last run."""
        self._orders.close()

    def ended(self, *, waiting: bool = False) -> bool:
        """Whether it has ended."""
        return (self._process.wait() if waiting else self._process.poll()) is not None

    def last_words(self) -> str:
        """The end of what it wrote itself: why it could not start."""
        wrote = os.pread(self._wrote, MAX_WORDS_BYTES, 0).decode(errors="replace")
        return "\n".join(wrote.strip().splitlines()[-3:])


_Key = tuple[int, str, tuple[tuple[str, str], ...]]
_kept: OrderedDict[_Key, ZygoteClient] = OrderedDict()
_leaving: list[ZygoteClient] = []
_one_at_a_time = threading.Lock()


def _order(shared: dict[str, str], own: dict[str, str], descriptors: list[int]) -> ZygoteClient:
    """The zygote of this environment, which was given the order."""
    key = (os.getpid(), os.getcwd(), tuple(sorted(shared.items())))
    with _one_at_a_time:
        try:
            _kept[key].order(own, descriptors)
        except (KeyError, OSError):  # it is the first of its kind, or somebody killed the last one
            _forget(key)
            _kept[key] = ZygoteClient(shared)
            _kept[key].order(own, descriptors)
        _kept.move_to_end(key)
        while len(_kept) > MOST_KEPT:
            _forget(next(iter(_kept)))
        return _kept[key]


def _forget(key: _Key) -> None:
    """Takes no new order to this zygote, and forgets those that have ended since."""
    if zygote := _kept.pop(key, None):
        zygote.close()
        _leaving.append(zygote)
    _leaving[:] = [zygote for zygote in _leaving if not zygote.ended()]


@atexit.register
def _end_all() -> None:
    for key in list(_kept):
        _forget(key)
    for zygote in _leaving:
        zygote.ended(waiting=True)
