"""Memory, process and processor limits for a whole process tree, where this machine lets us make
cgroups.

An optional layer: both versions are found by looking, none is assumed. Without it, resource limits
and the watch in `memory` remain.
"""

import contextlib
import itertools
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import filterfalse
from operator import itemgetter
from pathlib import Path

from .limits import Limits

PREFIX = "onelayer"
CONTROLLERS = ("memory", "pids", "cpu")
PERIOD_US = 100_000
# Files that some kernels lack: without them the tree is held less tightly, and still held.
OPTIONAL = frozenset({"memory.swap.max", "cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.max"})
UNLIMITED = {"cpu.cfs_quota_us": "-1", "cpu.max": "max"}
_NAME = re.compile(PREFIX + r"-(\d+)-(\d+)-\d+")
_counter = itertools.count()


@dataclass(frozen=True)
class Hierarchy:
    """A directory in which we may make cgroups. version 2 has all controllers in one directory."""

    version: int
    controller: str
    parent: Path


def find(root: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc")) -> tuple[Hierarchy, ...]:
    """Where cgroups can be made: memory, pids and cpu of version 1, or one of version 2, or
    nothing."""
    try:
        own = _own_groups(proc)
    except OSError:
        return ()
    first = [
        Hierarchy(1, name, root / name / own[name].lstrip("/"))
        for name in CONTROLLERS
        if name in own
    ]
    if first:
        return tuple(h for h in first if _can_make(h.parent))
    for parent in _upwards(root, own.get("", "/")):
        if _delegates(parent) and _can_make(parent):
            return (Hierarchy(2, "", parent),)
    return ()


def hold_memory(hierarchies: Sequence[Hierarchy]) -> bool:
    """Whether the kernel counts memory and processes there, so that nobody else need."""
    held = {hierarchy.controller for hierarchy in hierarchies}
    return "" in held or {"memory", "pids"} <= held


def _own_groups(proc: Path) -> dict[str, str]:
    """The cgroup of this process by controller; "" is version 2."""
    groups: dict[str, str] = {}
    for line in (proc / "self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        groups.update(dict.fromkeys(names.split(","), path))
    return groups


def _upwards(root: Path, path: str) -> list[Path]:
    own = root / path.lstrip("/")
    return [d for d in (own, *own.parents) if d == root or root in d.parents]


def _delegates(directory: Path) -> bool:
    try:
        active = (directory / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False
    return {"memory", "pids"} <= set(active)


def _can_make(parent: Path) -> bool:
    trial = parent / _fresh_name()
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError:
        return False
    return True


def _fresh_name() -> str:
    return f"{_process_name(os.getpid())}-{next(_counter)}"


@cache
def _process_name(pid: int) -> str:
    return f"{PREFIX}-{pid}-{_started(pid)}"


def _started(pid: int) -> int:
    """When process `pid` started, in ticks since boot; 0 if there is none. Process ids come again,
    a pair of id and start does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


class Cgroup:
    """One cgroup (in each hierarchy) around one submission."""

    def __init__(self, hierarchies: Sequence[Hierarchy], limits: Limits) -> None:
        """Raises OSError where it cannot be made."""
        name, quota_us = _fresh_name(), int(limits.cores * PERIOD_US)
        self.places = [(h, h.parent / name) for h in hierarchies]
        files: dict[tuple[int, str], dict[str, object]] = {
            (1, "memory"): {"memory.limit_in_bytes": limits.memory_bytes},
            (1, "pids"): {"pids.max": limits.processes},
            (1, "cpu"): {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": quota_us},
            (2, ""): {
                "memory.max": limits.memory_bytes,
                "memory.swap.max": 0,
                "pids.max": limits.processes,
                "cpu.max": f"{quota_us} {PERIOD_US}",
            },
        }
        try:
            for hierarchy, place in self.places:
                _make(place, files[hierarchy.version, hierarchy.controller])
        except OSError:
            self.remove(patience_s=0.0)
            raise

    @contextlib.contextmanager
    def joined_by(self) -> Iterator[list[int]]:
        """Files, open for writing: a process that writes 0 into each is inside, and its children
        are born there. Raises OSError.

        A process that moves itself moves in a tenth of a millisecond. To move another one, version
        1 first waits until no processor is in the middle of anything: fifteen.
        """
        with contextlib.ExitStack() as stack:
            handles = []
            for hierarchy, place in self.places:
                name = "tasks" if hierarchy.version == 1 else "cgroup.procs"
                handles.append(os.open(place / name, os.O_WRONLY | os.O_CLOEXEC))
                stack.callback(os.close, handles[-1])
            yield handles

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed something in here for want of memory."""
        for _, place in self.places:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    if re.search(r"^oom_kill [1-9]", (place / name).read_text(), re.MULTILINE):
                        return True
        return False

    def let_end(self) -> None:
        """Lifts the limit on processors: what was killed needs one to end, and where it had used
        up its share it would wait for the next."""
        for _, place in self.places:
            for name, unlimited in UNLIMITED.items():
                with contextlib.suppress(OSError):
                    if (place / name).exists():
                        (place / name).write_text(unlimited)

    def remove(self, *, patience_s: float = 2.0) -> bool:
        """Kills what is left (version 2), and removes the directories. False if one resists."""
        deadline = time.monotonic() + patience_s
        left = list(map(itemgetter(1), self.places))
        for place in left:
            if (place / "cgroup.kill").exists():
                (place / "cgroup.kill").write_text("1")
        while left := list(filterfalse(_removed, left)):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)  # the last process is on its way out
        return True


def _make(place: Path, files: Mapping[str, object]) -> None:
    place.mkdir()
    for file, value in files.items():
        try:
            (place / file).write_text(str(value))
        except OSError:
            if file not in OPTIONAL:
                raise


def _removed(place: Path) -> bool:
    try:
        place.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def sweep(hierarchies: Sequence[Hierarchy] | None = None, *, patience_s: float = 0.0) -> int:
    """Removes what runs that were killed left behind; how many directories went.

    Ours by name, of processes that are no more, and empty: the kernel removes no other. patience_s:
    how long to wait for the last processes of a jail that is on its way out.
    """
    deadline = time.monotonic() + patience_s
    stale = _stale(find() if hierarchies is None else hierarchies)
    before = len(stale)
    while (stale := list(filterfalse(_removed, stale))) and time.monotonic() < deadline:
        time.sleep(0.005)
    return before - len(stale)


def _stale(hierarchies: Sequence[Hierarchy]) -> list[Path]:
    return [
        d
        for h in hierarchies
        for d in h.parent.glob(f"{PREFIX}-*")
        if (m := _NAME.fullmatch(d.name)) and _started(int(m[1])) != int(m[2])
    ]
