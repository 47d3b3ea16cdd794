"""The grader's side of the zygote and of its forks: starts the jail, orders forks, ends them,
notices when it is gone."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import signal
import socket
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from autograder.judge import GraderFault, Text, text

from ..engines import cgroups
from ..engines.gpu import Gpu
from ..engines.limits import Limits
from ..wire.channel import Line
from .running import Running, how_it_ended
from .zygote_startup import BegunZygote, begin

START_S = 120.0  # importing torch from a cold disk
ORDER_S = 10.0  # what the zygote and the kernel may take for anything
MANY = 12  # forks from which on it pays that the zygote gathers itself first: about 1 s for 25 ms
MAX_MESSAGE = 65_536


class ZygoteLost(Exception):
    """The zygote does not answer any more: nothing of a student's is to blame."""


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
        begun: BegunZygote | None = None,
    ) -> None:
        """Raises GraderFault when the jail does not come up. engine: see `engines`. gpu: what its
        submissions are lent. begun: one that was begun with the same."""
        self.limits, self.without, self.gpu = limits, without, gpu
        self._lock, self._lost = threading.Lock(), False
        self._forks = itertools.count(1)
        self._preloaded: frozenset[str] = frozenset()
        self._hierarchies = cgroups.find()
        cgroups.sweep(self._hierarchies)
        self._holds_memory = cgroups.hold_memory(self._hierarchies)
        try:
            self._begun = begun or begin(
                engine, limits, readable=readable, without=without, gpu=gpu
            )
        except OSError as error:
            raise GraderFault(f"the jail cannot be started: {error}") from error
        self._control = self._begun.control
        self._await_ready()

    def _await_ready(self) -> None:
        try:
            message, _ = self._hear(START_S)
        except ZygoteLost as error:
            reason = self._begun.jailed.last_words()
            self.close()
            raise GraderFault(f"the jail did not start: {reason or error}") from error
        self._expect_one_thread(message)

    def _expect_one_thread(self, message: dict[str, Any]) -> None:
        if message.get("threads") != 1:
            self.close()
            raise GraderFault("the zygote has more than one thread: a fork of it could hang")

    @property
    def pid(self) -> int:
        """Of the jail's outermost process, as this machine counts."""
        return self._begun.jailed.process.pid

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

    def _order(
        self, order: dict[str, Any], *handles: int, patience_s: float = ORDER_S
    ) -> tuple[dict[str, Any], list[int]]:
        """Once lost, always lost: a late answer could be taken for that to another order."""
        with self._lock:
            if self._lost:
                raise ZygoteLost("it was lost before")
            try:
                self._control.settimeout(ORDER_S)
                socket.send_fds(self._control, [json.dumps(order).encode()], list(handles))
                return self._hear(patience_s)
            except (OSError, ZygoteLost) as error:
                self._lost = True
                raise ZygoteLost("it takes no orders") from error

    def preload(self, names: Iterable[str]) -> None:
        """Has it import these modules, those that it can, before it forks again.

        Raises ZygoteLost or GraderFault.
        """
        if new := frozenset(names) - self._preloaded:
            order = {"do": "import", "names": sorted(new)}
            message, _ = self._order(order, patience_s=START_S)
            self._expect_one_thread(message)
            self._preloaded |= new

    def fork(self, *, loopback: bool = False) -> ForkedProcess:
        """A new process for one submission, with all its walls.

        loopback: whether this one may talk TCP/IP with itself, whatever the limits of others say.
        Raises ZygoteLost or GraderFault.
        """
        if next(self._forks) == MANY:
            message, _ = self._order({"do": "gather"}, patience_s=START_S)
            self._expect_one_thread(message)
        limits = replace(self.limits, loopback=loopback or self.limits.loopback)
        order = {"do": "fork", "limits": asdict(limits), "paths": self._begun.paths}
        order["without"] = sorted(self.without)
        is_limited = "limits" not in self.without
        lent = is_limited and self._hierarchies
        cgroup = cgroups.Cgroup(self._hierarchies, self.limits) if lent else None
        try:
            with Line(keep_bytes=self.limits.output_bytes) as line, contextlib.ExitStack() as stack:
                procs_files = stack.enter_context(cgroup.joined_by()) if cgroup else []
                message, handles = self._order(order, *line.theirs, *procs_files)
                if not handles:
                    raise GraderFault(f"no fork: {message.get('fault')}")
        except BaseException:
            if cgroup:
                cgroup.remove()
            raise
        return ForkedProcess(
            line,
            self.limits,
            self.gpu,
            inner_pid=message["pid"],
            handle=handles[0],
            cgroup=cgroup,
            counted=is_limited and not self._holds_memory,
            zygote=self,
        )

    def reap(self, pid: int) -> int | None:
        """How a fork ended; None if nobody knows. Raises ZygoteLost."""
        message, _ = self._order({"do": "reap", "pid": pid})
        status: int | None = message.get("status")
        return status

    def close(self) -> None:
        """Ends the jail and everything in it."""
        self._begun.end()


class ForkedProcess(Running):
    """A fork of the zygote: process 1 of a namespace whose every process dies with it."""

    def __init__(
        self,
        line: Line,
        limits: Limits,
        gpu: Gpu | None,
        *,
        inner_pid: int,
        handle: int,
        cgroup: cgroups.Cgroup | None,
        counted: bool,
        zygote: ZygoteClient,
    ) -> None:
        """inner_pid: as the jail counts. handle: a pidfd. counted: whether memory and processes are
        ours to count, as no wall is missing and no kernel does. zygote: knows how this fork ended.
        Raises GraderFault when the fork does not get ready."""
        super().__init__(line, limits, gpu)
        self.pid, self.inner_pid = _pid_here(handle), inner_pid
        self._handle, self._cgroup, self._counted, self._zygote = handle, cgroup, counted, zygote
        self.await_ready(ORDER_S)

    def wait(self, patience_s: float) -> bool:
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(patience_s * 1000))

    def check_memory(self) -> None:
        if self._counted:
            super().check_memory()

    def _end(self) -> Text:
        was_alive = not self.wait(0)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        if was_alive and self._cgroup:
            self._cgroup.let_end()
        if not self.wait(ORDER_S):
            raise GraderFault("a process of a submission cannot be killed")
        try:
            status = self._zygote.reap(self.inner_pid)
        except ZygoteLost:
            status, self.jail_lost = None, True
        # Asked before the cgroup goes: with it goes its count of kills.
        starved = self._cgroup is not None and self._cgroup.ran_out_of_memory
        if self._cgroup:
            self._cgroup.remove()
        os.close(self._handle)
        if starved and status == -signal.SIGKILL:
            return self.out_of_memory
        return text("ended_by_us") if was_alive else how_it_ended(status)


def _pid_here(handle: int) -> int:
    """The process id behind a pidfd, as this machine counts."""
    for line in Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1
