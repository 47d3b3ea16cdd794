"""The grader's side of the zygote: starts the jail, orders forks, notices when it is gone."""

import contextlib
import json
import socket
import threading
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from autograder.judge import GraderFault

from ..engines import bubblewrap, cgroups
from ..engines.choice import ENGINES
from ..engines.gpu import Gpu
from ..engines.isolation import JailSpec
from ..engines.limits import Limits
from ..wire.channel import Line
from .forked_process import ORDER_S, ForkedProcess, ZygoteLost

START_S = 120.0  # importing torch from a cold disk
MAX_MESSAGE = 65_536
PROGRAM = "from autograder.sandbox.inside.zygote import main; main(int(sys.argv[1]))"


class ZygoteClient:
    """One running jail. Thread-safe; use `close`."""

    def __init__(
        self,
        limits: Limits,
        *,
        readable: Sequence[str | Path] = (),
        without: frozenset[str] = frozenset(),
        engine: str = "bubblewrap",
        gpu: Gpu | None = None,
    ) -> None:
        """Raises GraderFault when the jail does not come up. engine: see `engines`. gpu: what its
        submissions are lent."""
        self.limits, self.without, self.gpu = limits, without, gpu
        self._lock, self._lost = threading.Lock(), False
        self._hierarchies = cgroups.find()
        cgroups.sweep(self._hierarchies)
        self._paths = bubblewrap.visible(readable)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                spec = JailSpec(
                    bubblewrap.python(PROGRAM),
                    paths=self._paths,
                    tmp_bytes=limits.tmp_bytes,
                    handed=theirs.fileno(),
                    without=without,
                    gpu=gpu,
                )
                self._jailed = ENGINES[engine](spec)
        except OSError as error:
            self._control.close()
            raise GraderFault(f"the jail cannot be started: {error}") from error
        self._await_ready()

    def _await_ready(self) -> None:
        try:
            message, _ = self._hear(START_S)
        except ZygoteLost as error:
            reason = self._jailed.last_words()
            self.close()
            raise GraderFault(f"the jail did not start: {reason or error}") from error
        if message.get("threads") != 1:
            self.close()
            raise GraderFault("the zygote has more than one thread: a fork of it could hang")

    @property
    def pid(self) -> int:
        """Of the jail's outermost process, as this machine counts."""
        return self._jailed.process.pid

    def _hear(self, patience_s: float) -> tuple[dict[str, Any], list[int]]:
        self._control.settimeout(patience_s)
        try:
            message, handles, _, _ = socket.recv_fds(self._control, MAX_MESSAGE, 1)
        except OSError as error:
            raise ZygoteLost("no answer") from error
        if not message:
            raise ZygoteLost("it ended")
        try:
            return json.loads(message), handles
        except ValueError as error:
            raise ZygoteLost("it is damaged") from error

    def _order(self, order: dict[str, Any], *handles: int) -> tuple[dict[str, Any], list[int]]:
        """Once lost, always lost: a late answer could be taken for that to another order."""
        with self._lock:
            if self._lost:
                raise ZygoteLost("it was lost before")
            try:
                self._control.settimeout(ORDER_S)
                socket.send_fds(self._control, [json.dumps(order).encode()], list(handles))
                return self._hear(ORDER_S)
            except (OSError, ZygoteLost) as error:
                self._lost = True
                raise ZygoteLost("it takes no orders") from error

    def fork(self, *, loopback: bool = False) -> ForkedProcess:
        """A new process for one submission, with all its walls.

        loopback: whether this one may talk TCP/IP with itself, whatever the limits of others say.
        Raises ZygoteLost or GraderFault.
        """
        cgroup = self.cgroup()
        try:
            with Line(keep_bytes=self.limits.output_bytes) as line, contextlib.ExitStack() as stack:
                procs_files = stack.enter_context(cgroup.joined_by()) if cgroup else []
                inner_pid, handle = self._forked(*line.theirs, *procs_files, loopback=loopback)
        except BaseException:
            if cgroup:
                cgroup.remove()
            raise
        return ForkedProcess(
            line,
            self.limits,
            self.gpu,
            inner_pid=inner_pid,
            handle=handle,
            cgroup=cgroup,
            counted="limits" not in self.without and not (cgroup and cgroup.holds_memory),
            reap=self.reap,
        )

    def _forked(self, *ends: int, loopback: bool) -> tuple[int, int]:
        """(process id in the jail, pidfd) of a new fork that holds `ends`."""
        limits = replace(self.limits, loopback=loopback or self.limits.loopback)
        order = {"do": "fork", "limits": asdict(limits), "paths": self._paths}
        order["without"] = sorted(self.without)
        message, handles = self._order(order, *ends)
        if not handles:
            raise GraderFault(f"no fork: {message.get('fault')}")
        return message["pid"], handles[0]

    def cgroup(self) -> cgroups.Cgroup | None:
        """A cgroup for one submission, where this machine lends us any."""
        if not self._hierarchies or "limits" in self.without:
            return None
        return cgroups.Cgroup(self._hierarchies, self.limits)

    def reap(self, pid: int) -> int | None:
        """How a fork ended; None if nobody knows. Raises ZygoteLost."""
        message, _ = self._order({"do": "reap", "pid": pid})
        status: int | None = message.get("status")
        return status

    def close(self) -> None:
        """Ends the jail and everything in it."""
        self._control.close()  # the zygote leaves when it hears nothing more
        self._jailed.end()
