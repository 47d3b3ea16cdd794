"""One command, timed: wall seconds, processor seconds, and the most memory that each of its
processes held."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

END_EVERY_S, MEMORY_EVERY_S = 0.1, 2.0
"""Between two looks: whether it has ended; at its memory, for which the kernel walks all its pages
while the process has to wait for those that it asks for."""
MARK_EVERY_S = 0.005
_counter = itertools.count()
ACCOUNTS = (Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup"))


@dataclass(frozen=True)
class Run:
    """wall_s: of the whole command. cpu_s: of it and all that it starts, jailed processes too; 0
    where the machine lends no cgroup to count them in. Beside others it moves far less than wall
    time. peak_bytes: by the first argument words of a process, the most
    that one such process held (unique to it, so that what forks share counts once). mark_cpu_s: as
    cpu_s, up to the mark that was asked for."""

    wall_s: float
    cpu_s: float
    peak_bytes: Mapping[str, int]
    mark_cpu_s: float = 0.0


@dataclass(frozen=True)
class Mark:
    """count: tells how far the command is. at: the count up to which its processor time is asked
    for."""

    count: Callable[[], int]
    at: int


def run(
    command: Sequence[str],
    *,
    cwd: Path,
    cpus: Sequence[int] | None = None,
    mark: Mark | None = None,
) -> Run:
    """Runs `command` to its end, on `cpus` only. Raises CalledProcessError with what it said."""
    log = cwd / "bench.log"
    started = time.monotonic()
    with open(log, "w") as file, _account() as account:
        process = subprocess.Popen(
            [*_inside(account), *command],
            cwd=cwd,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=_environment(),
        )
        parent = psutil.Process(process.pid)  # while it is sure to be there
        if cpus is not None:
            os.sched_setaffinity(process.pid, cpus)
        mark_cpu_s = _used_up_to(mark, process, account) if mark else 0.0
        peaks = _watched(process, parent)
        wall_s, cpu_s = time.monotonic() - started, _used_s(account)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, log.read_text()[-2000:])
    return Run(wall_s, cpu_s, peaks, mark_cpu_s)


@contextlib.contextmanager
def _account() -> Iterator[Path | None]:
    """A cgroup that counts processor time, of version 1 or 2; None where there can be none."""
    place = (
        ACCOUNTS[0] if ACCOUNTS[0].is_dir() else ACCOUNTS[1]
    ) / f"bench-{os.getpid()}-{next(_counter)}"
    try:
        place.mkdir()
    except OSError:
        yield None
        return
    try:
        yield place
    finally:
        with contextlib.suppress(OSError):  # somebody of it is still on the way out
            place.rmdir()


def _inside(account: Path | None) -> list[str]:
    """What moves itself into the account and then becomes the command."""
    if account is None:
        return []
    return ["sh", "-c", f'echo 0 > {account}/cgroup.procs && exec "$@"', "sh"]


def _used_s(account: Path | None) -> float:
    if account is None:
        return 0.0
    if (account / "cpuacct.usage").exists():
        return int((account / "cpuacct.usage").read_text()) / 1e9
    stat = dict(line.split() for line in (account / "cpu.stat").read_text().splitlines())
    return int(stat["usage_usec"]) / 1e6


def _environment() -> dict[str, str]:
    """Ours, with the commands beside this Python in front: nbgrader calls alembic by name."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return os.environ | {"PATH": path}


def _used_up_to(mark: Mark, process: subprocess.Popen[bytes], account: Path | None) -> float:
    while process.poll() is None and mark.count() < mark.at:
        time.sleep(MARK_EVERY_S)
    return _used_s(account)


def _watched(process: subprocess.Popen[bytes], parent: psutil.Process) -> dict[str, int]:
    peaks: dict[str, int] = {}
    next_look = time.monotonic()
    while process.poll() is None:
        if time.monotonic() >= next_look:
            for name, held in _held(parent):
                peaks[name] = max(held, peaks.get(name, 0))
            next_look = time.monotonic() + MEMORY_EVERY_S
        time.sleep(END_EVERY_S)
    return peaks


def _held(parent: psutil.Process) -> list[tuple[str, int]]:
    """Each process of the command's own (not the jailed ones, which belong to students)."""
    found = []
    try:
        mine = [("grader", parent)]
        mine += [("worker", child) for child in parent.children()]
        for name, one in mine:
            found.append((name, one.memory_full_info().uss))
    except psutil.Error:  # one of them has ended
        pass
    return found
