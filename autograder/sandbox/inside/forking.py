"""Inside the jail: a fork with namespaces of its own, walled in before a student's code runs.

Standard library only, and torch neither here nor in what is imported here: `trial` builds all of
this once to see whether a machine can, and should not take seconds for it.
"""

import ctypes
import os
import platform
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from ..engines.limits import Limits, bind_this_process
from . import landlock, namespaces, seccomp

_libc = ctypes.PyDLL(None, use_errno=True)


def fork(student: Callable[[], NoReturn], without: frozenset[str]) -> int:
    """Runs `student` in a new fork, in namespaces of its own; its process id as seen here.

    Raises OSError.
    It takes two forks: a process that leaves its process namespace stays where it is, and only its
    child becomes process 1 of the new one. The process between then ends, and the child is ours.
    """
    reading, writing = os.pipe()
    between = _bare_fork()
    if between == 0:
        _between(writing, student, without)
    os.close(writing)
    try:
        answer = os.read(reading, 4096).decode()
    finally:
        os.close(reading)
        os.waitpid(between, 0)
    if not answer.isdigit():
        raise OSError(f"the fork got no namespaces of its own: {answer or 'it died'}")
    return int(answer)


def _bare_fork() -> int:
    """fork(2) by itself. os.fork() has Python put itself in order in the child, which writes to so
    many pages that it takes as long again: what has one thread and ends at once needs none of it.
    """
    pid: int = _libc.fork()
    if pid < 0:
        raise OSError(ctypes.get_errno(), "fork")
    return pid


def _between(writing: int, student: Callable[[], NoReturn], without: frozenset[str]) -> NoReturn:
    try:
        namespaces.leave(without)
        pid = os.fork()
        if pid == 0:
            student()
        os.write(writing, str(pid).encode())
    except BaseException as error:
        os.write(writing, f"{type(error).__name__}: {error}".encode()[:4000])
    finally:
        os._exit(0)


def enter(procs_files: Iterable[int]) -> None:
    """This process moves into the cgroups whose files these are (see
    `cgroups.Cgroup.joined_by`)."""
    for procs_file in procs_files:
        os.write(procs_file, b"0")  # 0 is whoever writes it


def build_walls(order: dict[str, Any]) -> None:
    """Own files, limits, no capabilities, Landlock, seccomp: the order of the grader's side, minus
    the walls that it leaves out. Raises OSError where one of them cannot be built."""
    limits, without = Limits(**order["limits"]), frozenset(order["without"])
    namespaces.furnish(limits, paths=order["paths"], without=without)
    if "limits" not in without:
        bind_this_process(limits, own_namespace=True, kernel=kernel())
    if "privileges" not in without:
        namespaces.give_up_capabilities()
    if "landlock" not in without:
        landlock.install()
    if "seccomp" not in without:
        seccomp.install(internet=limits.loopback)


def kernel() -> tuple[int, ...]:
    """Its version: (6, 1) is 6.1."""
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)
