"""The grading folder for one command at a time. Whoever comes second is told who is at work."""

import getpass
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from autograder import atomic_write

from ..errors import UserError

HOLDER = ".lock.json"


@contextmanager
def alone(folder: Path, command: str) -> Iterator[None]:
    """The folder, which is there, for this process. Raises UserError where another one has it."""
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(f"{_at_work(folder)} Wait until it is done.") from None
    try:
        with suppress(OSError):  # on a full disk the lock holds all the same
            data = json.dumps(_holder(command)).encode()
            atomic_write.write(folder / HOLDER, data, waits=False)
        yield
    finally:
        with suppress(OSError):
            (folder / HOLDER).unlink()
        lock.release()


def _holder(command: str) -> dict[str, str]:
    return {
        "command": f"autograder {command}",
        "user": _user(),
        "machine": platform.node(),
        "process": str(os.getpid()),
        "since": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number that no name belongs to, as in some containers
        return f"user {os.getuid()}"


def _at_work(folder: Path) -> str:
    try:
        told = json.loads((folder / HOLDER).read_bytes())
        who = f"`{told['command']}` of {told['user']} is at work in {folder}"
        where = f"on {told['machine']}, process {told['process']}"
        return f"Since {told['since']} {who}, {where}."
    except (OSError, ValueError, KeyError, TypeError):
        return f"Another `autograder` is at work in {folder}."
