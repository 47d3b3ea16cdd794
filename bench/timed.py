"""One command, timed: wall seconds, and the most memory that each of its processes held."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class Run:
    """wall_s: of the whole command. peak_bytes: by the first argument words of a process, the most
    that one such process held (unique to it, so that what forks share counts once)."""

    wall_s: float
    peak_bytes: Mapping[str, int]


def run(command: Sequence[str], *, cwd: Path, cpus: Sequence[int] | None = None) -> Run:
    """Runs `command` to its end, on `cpus` only. Raises CalledProcessError with what it said."""
    log = cwd / "bench.log"
    started = time.monotonic()
    with open(log, "w") as file:
        process = subprocess.Popen(
            command, cwd=cwd, stdout=file, stderr=subprocess.STDOUT, env=_environment()
        )
        if cpus is not None:
            os.sched_setaffinity(process.pid, cpus)
        peaks = _watched(process)
    wall_s = time.monotonic() - started
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, log.read_text()[-2000:])
    return Run(wall_s, peaks)


def _environment() -> dict[str, str]:
    """Ours, with the commands beside this Python in front: nbgrader calls alembic by name."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return os.environ | {"PATH": path}


def _watched(process: subprocess.Popen[bytes]) -> dict[str, int]:
    peaks: dict[str, int] = {}
    parent = psutil.Process(process.pid)
    while process.poll() is None:
        for name, held in _held(parent):
            peaks[name] = max(held, peaks.get(name, 0))
        time.sleep(LOOK_EVERY_S)
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
