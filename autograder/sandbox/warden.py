"""The grader's side of the zygote: starts the jail, orders forks, notices when it is gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from autograder.judge import GraderFault

from . import bubblewrap, cgroups
from .limits import Limits
from .memory import used_by_tree
from .running import Died, Output, Running, TooLate, how_it_ended, wait_for_end
from .serve import READY
from .spawn import spawn

START_S = 120.0  # importing torch from a cold disk
ORDER_S = 10.0
MAX_MESSAGE = 65_536


class WardenLost(Exception):
    """The zygote does not answer any more: nothing of a student's is to blame."""


class Warden:
    """One running jail. Thread-safe; use `close`."""

    def __init__(self, limits: Limits, *, readable: Sequence[str | Path] = ()) -> None:
        """Raises GraderFault when the jail does not come up."""
        self.limits = limits
        self._lock, self._lost = threading.Lock(), False
        self._hierarchies = cgroups.find()
        cgroups.sweep(self._hierarchies)
        self._paths = bubblewrap.visible(readable)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._process = start_jailed(
                    bubblewrap.python(
                        "from autograder.sandbox.zygote import main; main(int(sys.argv[1]))",
                        theirs.fileno(),
                    ),
                    paths=self._paths,
                    tmp_bytes=limits.tmp_bytes,
                    keep=(theirs.fileno(),),
                    log=self._log,
                )
        except OSError as error:
            self._release()
            raise GraderFault(f"the jail cannot be started: {error}") from error
        self._await_ready()

    def _await_ready(self) -> None:
        try:
            message, _ = self._hear(START_S)
        except WardenLost as error:
            reason = self.last_words()
            self.close()
            raise GraderFault(f"the jail did not start: {reason or error}") from error
        if message.get("threads") != 1:
            self.close()
            raise GraderFault("the zygote has more than one thread: a fork of it could hang")

    def last_words(self) -> str:
        """The end of what the jail itself printed; never a student's."""
        self._log.seek(0)
        return self._log.read()[-500:].decode("utf-8", errors="replace").strip()

    @property
    def pid(self) -> int:
        """Of the jail's outermost process, as this machine counts."""
        return self._process.pid

    def _hear(self, patience_s: float) -> tuple[dict[str, Any], list[int]]:
        self._control.settimeout(patience_s)
        try:
            message, handles, _, _ = socket.recv_fds(self._control, MAX_MESSAGE, 1)
        except OSError as error:
            raise WardenLost("no answer") from error
        if not message:
            raise WardenLost("it ended")
        try:
            return json.loads(message), handles
        except ValueError as error:
            raise WardenLost("it is damaged") from error

    def _order(self, order: dict[str, Any], *handles: int) -> tuple[dict[str, Any], list[int]]:
        """Once lost, always lost: a late answer could be taken for that to another order."""
        with self._lock:
            if self._lost:
                raise WardenLost("it was lost before")
            try:
                self._control.settimeout(ORDER_S)
                socket.send_fds(self._control, [json.dumps(order).encode()], list(handles))
                return self._hear(ORDER_S)
            except (OSError, WardenLost) as error:
                self._lost = True
                raise WardenLost("it takes no orders") from error

    def fork(self) -> JailedProcess:
        """A new process for one submission, with every door shut.

        Raises WardenLost or GraderFault.
        """
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        output = Output(reading, keep_bytes=self.limits.output_bytes)
        order = {"do": "fork", "limits": asdict(self.limits), "paths": self._paths}
        try:
            message, handles = self._order(order, theirs.fileno(), writing)
        except WardenLost:
            ours.close()
            output.close()
            raise
        finally:
            theirs.close()
            os.close(writing)
        if not handles:
            ours.close()
            output.close()
            raise GraderFault(f"no fork: {message.get('fault')}")
        return JailedProcess(self, (message["pid"], handles[0]), ours, output)

    def cage(self) -> cgroups.Cage | None:
        """A cgroup for one submission, where this machine lends us any."""
        if not self._hierarchies:
            return None
        limits = self.limits
        return cgroups.Cage(
            self._hierarchies, memory_bytes=limits.memory_bytes, processes=limits.processes
        )

    def reap(self, pid: int) -> int | None:
        """How a fork ended; None if nobody knows. Raises WardenLost."""
        message, _ = self._order({"do": "reap", "pid": pid})
        status: int | None = message.get("status")
        return status

    def close(self) -> None:
        """Ends the jail and everything in it."""
        self._control.close()  # the zygote leaves when it hears nothing more
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self._release()

    def _release(self) -> None:
        self._control.close()
        self._log.close()


def start_jailed(
    program: list[str],
    *,
    paths: Sequence[str],
    tmp_bytes: int,
    keep: Sequence[int] = (),
    log: IO[Any],
) -> subprocess.Popen[bytes]:
    """Starts `program` in a jail. Raises OSError."""
    passwd, group = _readable(bubblewrap.PASSWD), _readable(bubblewrap.GROUP)
    try:
        command = bubblewrap.command(
            program, paths=paths, tmp_bytes=tmp_bytes, descriptors=(passwd, group)
        )
        return spawn(command, pass_fds=[*keep, passwd, group], stderr=log, env={}, cwd="/")
    finally:
        os.close(passwd)
        os.close(group)


def _readable(text: str) -> int:
    reading, writing = os.pipe()
    os.write(writing, text.encode())  # less than a pipe holds
    os.close(writing)
    return reading


class JailedProcess(Running):
    """A fork of the zygote: process 1 of a namespace whose every process dies with it."""

    def __init__(
        self, warden: Warden, fork: tuple[int, int], channel: socket.socket, output: Output
    ) -> None:
        super().__init__(channel, output, warden.limits)
        self._warden, (self._inner_pid, self._handle) = warden, fork
        self.pid = _pid_here(self._handle)
        self._cage: cgroups.Cage | None = None
        try:
            self._cage = warden.cage()
            if self._cage:
                self._cage.add(self.pid)
            self.expect(READY, deadline=time.monotonic() + ORDER_S)
        except (OSError, Died, TooLate) as error:
            self.kill()
            raise GraderFault(
                f"a fork is not ready: {error} {self.output.take()[-500:]}"
            ) from error

    def wait(self, patience_s: float) -> bool:
        return wait_for_end(self._handle, patience_s=patience_s)

    def check_memory(self) -> None:
        if self._cage is not None:
            return  # the kernel does
        used, processes = used_by_tree(self.pid)
        if used > self.limits.memory_bytes:
            raise Died(self._out_of_memory())
        if processes > self.limits.processes:
            raise Died(f"it started more than {self.limits.processes} processes")

    def _out_of_memory(self) -> str:
        return f"it needed more than {self.limits.memory_bytes // 2**20:,} MiB of memory"

    def _end(self) -> str:
        was_alive = not self.wait(0)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        if not wait_for_end(self._handle, patience_s=ORDER_S):
            raise GraderFault("a process of a submission cannot be killed")
        status = self._reaped()
        starved = self._cage is not None and self._cage.ran_out_of_memory
        if self._cage:
            self._cage.remove()
        os.close(self._handle)
        if starved:
            return self._out_of_memory()
        return "it was ended by us" if was_alive else how_it_ended(status)

    def _reaped(self) -> int | None:
        try:
            return self._warden.reap(self._inner_pid)
        except WardenLost:
            self.jail_lost = True
            return None


def _pid_here(handle: int) -> int:
    """The process id behind a pidfd, as this machine counts."""
    for line in Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1
