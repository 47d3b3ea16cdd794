"""What builds a jail around a program: bubblewrap, or a container where that is missing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from . import bubblewrap, container
from .gpu import Gpu
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


def by_bubblewrap(
    program: Sequence[str],
    *,
    paths: Sequence[str],
    tmp_bytes: int,
    log: IO[Any],
    handed: int | None = None,
    without: frozenset[str] = frozenset(),
    gpu: Gpu | None = None,
) -> Jailed:
    """Starts `program` in a jail. handed: a descriptor that it inherits; its number is the last
    argument of the program. Raises OSError."""
    passwd, group = _readable(bubblewrap.PASSWD), _readable(bubblewrap.GROUP)
    keep = [] if handed is None else [handed]
    try:
        command = bubblewrap.command(
            [*program, *map(str, keep)],
            paths=paths,
            tmp_bytes=tmp_bytes,
            descriptors=(passwd, group),
            without=without,
            gpu=gpu,
        )
        pass_fds = [*keep, passwd, group]
        return Jailed(spawn(command, pass_fds=pass_fds, stderr=log, env={}, cwd="/"), _nothing)
    finally:
        os.close(passwd)
        os.close(group)


def by_container(
    program: Sequence[str],
    *,
    paths: Sequence[str],
    tmp_bytes: int,
    log: IO[Any],
    handed: int | None = None,
    without: frozenset[str] = frozenset(),
    gpu: Gpu | None = None,
) -> Jailed:
    """The same in a container of podman's."""
    root = tempfile.TemporaryDirectory(prefix="onelayer-", ignore_cleanup_errors=True)
    container.make_root(Path(root.name))
    name = container.fresh_name()
    command = container.command(
        [*program, *([] if handed is None else [str(container.CONTROL)])],
        paths=paths,
        tmp_bytes=tmp_bytes,
        root=Path(root.name),
        name=name,
        handed=handed,
        without=without,
        gpu=gpu,
    )
    env = {name: os.environ[name] for name in CONTAINERS_NEED if name in os.environ}
    keep = [] if handed is None else [handed]

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
