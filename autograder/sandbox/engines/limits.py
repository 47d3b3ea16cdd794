"""How much of the machine one submission may use, and the part of it that the kernel can hold a
process to by itself (resource limits, set by the process on itself before any student's code runs).
"""

import resource
from dataclasses import dataclass

from .memory import told_by

OPEN_FILES = 256
# From this kernel on, RLIMIT_NPROC counts the processes of a user *namespace*. Before, it counts
# those of the user on the whole machine: a small limit would then stop an innocent fork.
COUNTS_PER_NAMESPACE = (5, 14)


@dataclass(frozen=True)
class Limits:
    """Of one submission.

    wall_s: seconds for all calls of one question. load_s: seconds for running all cells.
    memory_bytes: of all its processes together, beyond what the fork began with.
    cores: processors that all its processes together may keep busy, where cgroups can be had.
    file_bytes: the largest single file; tmp_bytes: all files together.
    output_bytes: of what the cells print; the rest is read and thrown away.
    loopback: whether its processes may talk TCP/IP among themselves (ranks need it); nobody else
    is on that network. reserved_bytes: of address space that may be asked for beyond memory_bytes;
    what is really used is held to memory_bytes all the same.
    """

    wall_s: float = 10.0
    memory_bytes: int = 2 * 2**30
    processes: int = 64
    file_bytes: int = 16 * 2**20
    tmp_bytes: int = 64 * 2**20
    output_bytes: int = 64 * 2**10
    load_s: float = 20.0
    loopback: bool = False
    cores: float = 1.0
    reserved_bytes: int = 0


def private_bytes() -> int:
    """The private writable memory of this process, as RLIMIT_DATA counts it; 0 where unknown."""
    return told_by("/proc/self/status", "VmData:") or 0


def bind_this_process(
    limits: Limits, *, own_namespace: bool, kernel: tuple[int, ...] = (0, 0)
) -> None:
    """Sets hard resource limits on this process and on all that it starts. No way back."""
    _hold(resource.RLIMIT_CORE, 0)
    _hold(resource.RLIMIT_FSIZE, limits.file_bytes)
    _hold(resource.RLIMIT_NOFILE, OPEN_FILES)
    if inherited := private_bytes():
        # One huge allocation then fails where it is made, as an exception that a student can read.
        _hold(resource.RLIMIT_DATA, inherited + limits.memory_bytes + limits.reserved_bytes)
    if own_namespace and kernel >= COUNTS_PER_NAMESPACE:
        _hold(resource.RLIMIT_NPROC, limits.processes)


def _hold(kind: int, most: int) -> None:
    _, ceiling = resource.getrlimit(kind)
    if ceiling != resource.RLIM_INFINITY:
        most = min(most, ceiling)
    resource.setrlimit(kind, (most, most))
