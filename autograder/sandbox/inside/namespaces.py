"""A world of its own for one submission: namespaces, mounts, no capabilities.

Used inside the jail, between the zygote's fork and the first line of a student's code.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Sequence

from ..engines.limits import Limits
from ..engines.privileges import (
    LIBC,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    bind_back,
    checked,
    mount,
    unshare,
)

NEW_USER, NEW_MOUNTS, NEW_PIDS, NEW_NET = 0x1000_0000, 0x0002_0000, 0x2000_0000, 0x4000_0000
NEW_IPC, NEW_UTS, NEW_CGROUP = 0x0800_0000, 0x0400_0000, 0x0200_0000
EVERYTHING = NEW_USER | NEW_MOUNTS | NEW_PIDS | NEW_NET | NEW_IPC | NEW_UTS | NEW_CGROUP
INNER_ID = 1000
MAX_FILES = 4096

PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 24, 47, 4


def leave(without: frozenset[str] = frozenset()) -> None:
    """Leaves all namespaces of the zygote. The *next* fork of this process is process 1 of its own.

    without: walls to leave out (see `walls`). Raises OSError where the kernel does not let us.
    """
    uid, gid = os.getuid(), os.getgid()
    kept = (NEW_NET if "network" in without else 0) | (NEW_PIDS if "processes" in without else 0)
    unshare(EVERYTHING & ~kept)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{INNER_ID} {uid} 1")
    _write("/proc/self/gid_map", f"{INNER_ID} {gid} 1")


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY)  # open() writes to pages of memory that a fork has to copy
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def furnish(
    limits: Limits, *, paths: Sequence[str] = (), without: frozenset[str] = frozenset()
) -> None:
    """Own /tmp, /dev/shm, /dev/pts and /proc in place of the zygote's; the rest is read-only.

    Where the kernel refuses a nested /proc, an empty directory takes its place: the zygote's own
    would show the zygote and every sibling. Of `paths`, those below /tmp are seen again in the new
    one.
    """
    # The kernel's OOM killer takes us before the zygote.
    with contextlib.suppress(OSError):
        _write("/proc/self/oom_score_adj", "1000")
    mount("", "/", flags=MS_REC | MS_PRIVATE)
    if "files" not in without:
        _own_files(limits, paths)
    _own_terminals()
    if "processes" not in without:
        _own_proc()
    os.chdir("/tmp")  # the old working directory is the zygote's
    if limits.loopback and "network" not in without:
        _loopback_up()


def _own_files(limits: Limits, paths: Sequence[str]) -> None:
    covered = {p: os.open(p, os.O_PATH) for p in paths if p.startswith("/tmp/")}
    # Two places to fill, one limit.
    _tmpfs("/tmp", size=limits.tmp_bytes // 2)
    for path, handle in covered.items():
        bind_back(handle, path)
    _tmpfs("/dev/shm", size=limits.tmp_bytes // 2)


def _tmpfs(target: str, *, size: int) -> None:
    options = f"size={max(size, 4096)},nr_inodes={MAX_FILES},mode=1777"
    mount("tmpfs", target, kind="tmpfs", flags=MS_NOSUID | MS_NODEV, options=options)


def _own_terminals() -> None:
    try:
        options = "newinstance,ptmxmode=0666,mode=620"
        mount("devpts", "/dev/pts", kind="devpts", flags=MS_NOSUID | MS_NOEXEC, options=options)
    except OSError:
        _tmpfs("/dev/pts", size=0)


def _own_proc() -> None:
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    try:
        mount("proc", "/proc", kind="proc", flags=flags)
    except OSError:
        mount("tmpfs", "/proc", kind="tmpfs", flags=flags, options="size=4096,mode=0555")


def _loopback_up() -> None:
    get_flags, set_flags, up = 0x8913, 0x8914, 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        request = fcntl.ioctl(any_socket, get_flags, request)
        (flags,) = struct.unpack_from("H", request, 16)
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sH14s", b"lo", flags | up, b""))


def give_up_capabilities() -> None:
    """No capability in any set, and none to be gained by executing a file. Raises OSError."""
    checked(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    for capability in range(64):  # those that this kernel does not know are refused: no harm
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("=Ii", 0x2008_0522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    checked(LIBC.capset(ctypes.c_char_p(header), ctypes.c_char_p(bytes(24))), "capset")
