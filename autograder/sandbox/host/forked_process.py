"""The grader's end of one fork in the jail."""

import contextlib
import os
import select
import signal
from collections.abc import Callable
from pathlib import Path

from autograder.judge import GraderFault, Text, text

from ..engines.cgroups import Cgroup
from ..engines.gpu import Gpu
from ..engines.limits import Limits
from ..wire.channel import Line
from .running import Running, how_it_ended

ORDER_S = 10.0  # what the zygote and the kernel may take for anything


class ZygoteLost(Exception):
    """The zygote does not answer any more: nothing of a student's is to blame."""


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
        cgroup: Cgroup | None,
        counted: bool,
        reap: Callable[[int], int | None],
    ) -> None:
        """inner_pid: as the jail counts. handle: a pidfd. counted: whether memory and processes are
        ours to count, as no wall is missing and no kernel does. reap: asks the zygote how this fork
        ended; it raises ZygoteLost where nobody answers. Raises GraderFault when the fork does not
        get ready."""
        super().__init__(line, limits, gpu)
        self.pid, self.inner_pid = _pid_here(handle), inner_pid
        self._handle, self._cgroup, self._counted, self._reap = handle, cgroup, counted, reap
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
        if not self.wait(ORDER_S):
            raise GraderFault("a process of a submission cannot be killed")
        status = self._reaped()
        # Asked before the cgroup goes: with it goes its count of kills.
        starved = self._cgroup is not None and self._cgroup.ran_out_of_memory
        if self._cgroup:
            self._cgroup.remove()
        os.close(self._handle)
        if starved and status == -signal.SIGKILL:
            return self.out_of_memory
        return text("ended_by_us") if was_alive else how_it_ended(status)

    def _reaped(self) -> int | None:
        try:
            return self._reap(self.inner_pid)
        except ZygoteLost:
            self.jail_lost = True
            return None


def _pid_here(handle: int) -> int:
    """The process id behind a pidfd, as this machine counts."""
    for line in Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1
