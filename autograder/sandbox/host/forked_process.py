"""The grader's end of one fork in the jail."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.judge import GraderFault, Text, text

from ..engines import cgroups
from ..engines.memory import used_by_tree
from ..inside.serve import READY
from ..wire.channel import Line
from .running import Died, Running, TooLate, how_it_ended, wait_for_end

if TYPE_CHECKING:
    from .zygote_client import ZygoteClient

ORDER_S = 10.0  # what the zygote and the kernel may take for anything


class WardenLost(Exception):
    """The zygote does not answer any more: nothing of a student's is to blame."""


class JailedProcess(Running):
    """A fork of the zygote: process 1 of a namespace whose every process dies with it."""

    def __init__(
        self,
        zygote_client: ZygoteClient,
        fork: tuple[int, int],
        line: Line,
        cgroup: cgroups.Cgroup | None,
    ) -> None:
        super().__init__(line, zygote_client.limits, zygote_client.gpu)
        self._zygote, (self._inner_pid, self._handle) = zygote_client, fork
        self.pid = _pid_here(self._handle)
        self._cgroup = cgroup
        try:
            self.expect(READY, deadline=time.monotonic() + ORDER_S)
        except (OSError, Died, TooLate) as error:
            self.kill()
            raise GraderFault(
                f"a fork is not ready: {error} {self.output.take()[-500:]}"
            ) from error

    def wait(self, patience_s: float) -> bool:
        return wait_for_end(self._handle, patience_s=patience_s)

    def check_memory(self) -> None:
        if "limits" in self._zygote.without:
            return
        if self._cgroup is not None and self._cgroup.holds_memory:
            return  # the kernel does
        used, processes = used_by_tree(self.pid)
        if used > self.limits.memory_bytes:
            raise Died(self._out_of_memory())
        if processes > self.limits.processes:
            raise Died(text("started_processes", processes=self.limits.processes))

    def _out_of_memory(self) -> Text:
        return text("needed_memory", mib=self.limits.memory_bytes // 2**20)

    def _end(self) -> Text:
        was_alive = not self.wait(0)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        if not wait_for_end(self._handle, patience_s=ORDER_S):
            raise GraderFault("a process of a submission cannot be killed")
        status = self._reaped()
        starved = self._cgroup is not None and self._cgroup.ran_out_of_memory
        if self._cgroup:
            self._cgroup.remove()
        os.close(self._handle)
        if starved and status == -signal.SIGKILL:
            return self._out_of_memory()
        return text("ended_by_us") if was_alive else how_it_ended(status)

    def _reaped(self) -> int | None:
        try:
            return self._zygote.reap(self._inner_pid)
        except WardenLost:
            self.jail_lost = True
            return None


def _pid_here(handle: int) -> int:
    """The process id behind a pidfd, as this machine counts."""
    for line in Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1
