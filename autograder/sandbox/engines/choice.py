"""What builds a jail around a program: bubblewrap, or a container where that is missing."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from . import bubblewrap, container
from .isolation import JailSpec
from .spawn import spawn

CONTAINERS_NEED = ("PATH", "HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")


@dataclass(frozen=True)
class Jailed:
    """A program in a jail. process: the outermost one. tidy: called once it has ended."""

    process: subprocess.Popen[bytes]
    tidy: Callable[[], None]

    def end(self) -> None:
        """Ends the jail and everything in it."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self.tidy()


def by_bubblewrap(spec: JailSpec, log: IO[Any]) -> Jailed:
    """Starts the program in its jail; what that prints goes to `log`. Raises OSError."""
    files = (_readable(bubblewrap.PASSWD), _readable(bubblewrap.GROUP))
    try:
        command = bubblewrap.command(spec, descriptors=files)
        keep = [*files] if spec.handed is None else [*files, spec.handed]
        return Jailed(spawn(command, pass_fds=keep, stderr=log, env={}, cwd="/"), _nothing)
    finally:
        for file in files:
            os.close(file)


def by_container(spec: JailSpec, log: IO[Any]) -> Jailed:
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

    return Jailed(spawn(command, pass_fds=keep, stderr=log, env=env, cwd="/"), tidy)


def _nothing() -> None:
    """bubblewrap's jail goes with its process."""


def _readable(text: str) -> int:
    reading, writing = os.pipe()
    os.write(writing, text.encode())  # less than a pipe holds
    os.close(writing)
    return reading


ENGINES = {"bubblewrap": by_bubblewrap, "podman": by_container}
"""By the name of the tier."""
