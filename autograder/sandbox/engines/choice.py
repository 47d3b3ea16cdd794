"""What builds a jail around a program: bubblewrap, or a container where that is missing."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from . import bubblewrap, container
from .isolation import JailSpec
from .spawn import spawn

CLOSED = (
    "the jail's user cannot read {}, or a folder that its links lead through: make the environment "
    "where others may read it, as in /opt, with an interpreter that lies in such a folder too"
)
"""What "execvp: No such file" means of an interpreter that is there."""
CONTAINERS_NEED = ("PATH", "HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")


@dataclass(frozen=True)
class Jailed:
    """A program in a jail. process: the outermost one. handle: a pidfd of it. log: what the jail
    itself prints, and no student does. tidy: called once it has ended."""

    process: subprocess.Popen[bytes]
    handle: int
    log: IO[bytes]
    tidy: Callable[[], None] = lambda: None

    def end(self) -> None:
        """Ends the jail and everything in it: also in a fork of the process that started it.
        Can be called twice."""
        if self.log.closed:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)
        poll = select.poll()
        poll.register(self.handle, select.POLLIN)
        poll.poll()  # in a fork there is no child to wait for
        self.process.wait()
        self.tidy()
        self.let_go()

    def let_go(self) -> None:
        """Closes what this process holds of it; a fork of this process has its own."""
        os.close(self.handle)
        self.log.close()

    def last_words(self) -> str:
        """The end of the log, or what it means."""
        self.log.seek(0)
        said = self.log.read()[-500:].decode("utf-8", errors="replace").strip()
        return CLOSED.format(sys.executable) if f"execvp {sys.executable}" in said else said


def by_bubblewrap(spec: JailSpec) -> Jailed:
    """Starts the program in its jail. Raises OSError."""
    files = (_readable(bubblewrap.PASSWD), _readable(bubblewrap.GROUP))
    try:
        command = bubblewrap.command(spec, descriptors=files)
        keep = [*files] if spec.handed is None else [*files, spec.handed]
        return Jailed(*_started(command, keep, {}))
    finally:
        for file in files:
            os.close(file)


def by_container(spec: JailSpec) -> Jailed:
    """The same in a container of podman's."""
    root = tempfile.TemporaryDirectory(prefix="onelayer-", ignore_cleanup_errors=True)
    container.make_root(Path(root.name))
    name = container.fresh_name()
    command = container.command(spec, root=Path(root.name), name=name)
    env = {name: os.environ[name] for name in CONTAINERS_NEED if name in os.environ}
    keep = [] if spec.handed is None else [spec.handed]

    def tidy() -> None:
        container.remove(name)
        root.cleanup()

    return Jailed(*_started(command, keep, env), tidy)


def _started(
    command: list[str], keep: list[int], env: dict[str, str]
) -> tuple[subprocess.Popen[bytes], int, IO[bytes]]:
    """The jail's outermost process, a handle of it, and the file that it prints into."""
    log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `Jailed.end`
    try:
        process = spawn(command, pass_fds=keep, stderr=log, env=env, cwd="/")
        return process, os.pidfd_open(process.pid), log
    except OSError:
        log.close()
        raise


def _readable(text: str) -> int:
    reading, writing = os.pipe()
    os.write(writing, text.encode())  # less than a pipe holds
    os.close(writing)
    return reading


ENGINES = {"bubblewrap": by_bubblewrap, "podman": by_container}
"""By the name of the tier."""
