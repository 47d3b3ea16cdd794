"""Leaving root behind: started by root, becomes an unprivileged user and then another program.

    python -I -S privileges.py '{"uid": 65534, "readable": ["/opt/venv"], "command": ["bwrap"]}'

A jail started by root would hold root for every file bound into it. But an interpreter below root's
home is closed to anybody else: so first, in a mount namespace of its own, this lays an empty open
directory over each closed one and binds what the command needs back into it. Nobody outside that
namespace sees a difference.

Runs before anything of ours is importable: standard library only, no import from this package.
"""

import ctypes
import json
import os
import stat
import sys
from collections.abc import Iterable
from typing import Any

NEW_MOUNTS = 0x0002_0000  # CLONE_NEWNS
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
NOBODY = 65534

LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> int:
    """`result` of a C call. Raises OSError with errno and `what` when it is -1."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def unshare(flags: int) -> None:
    """Leaves the namespaces named in `flags` (CLONE_NEW*). Raises OSError."""
    checked(LIBC.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, *, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2). Raises OSError."""
    texts = (ctypes.c_char_p(t.encode()) for t in (source, target, kind))
    result = LIBC.mount(*texts, ctypes.c_ulong(flags), ctypes.c_char_p(options.encode()))
    checked(result, f"mount {kind or source} on {target}")


def closed_ancestor(path: str) -> str | None:
    """The uppermost directory above `path` that others may not pass through, if there is one."""
    parts = path.strip("/").split("/")[:-1]
    above = ["/" + "/".join(parts[: k + 1]) for k in range(len(parts))]
    return next((d for d in above if not os.stat(d).st_mode & stat.S_IXOTH), None)


def expect_open(path: str) -> None:
    """Ends the program, with a reason, where `path` itself is closed to others."""
    mode = os.stat(path).st_mode
    wanted = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
    if mode & wanted != wanted:
        sys.exit(f"{path} is closed to others: chmod o+rX {path}")


def open_the_way(paths: Iterable[str]) -> None:
    """Makes `paths` reachable for everybody, in a mount namespace of this process alone."""
    closed = {path: closed_ancestor(path) for path in paths}
    closed = {path: above for path, above in closed.items() if above}
    if not closed:
        return
    unshare(NEW_MOUNTS)
    mount("", "/", flags=MS_REC | MS_PRIVATE)
    handles = {path: os.open(path, os.O_PATH) for path in closed}
    for above in sorted({above for above in closed.values() if above}):
        options = "mode=0755,size=1m"
        mount("tmpfs", above, kind="tmpfs", flags=MS_NOSUID | MS_NODEV, options=options)
    for path in sorted(handles, key=len):
        bind_back(handles[path], path)


def bind_back(handle: int, path: str) -> None:
    """Makes what `handle` holds open visible at `path` again, after something was laid over it."""
    if os.path.exists(path):
        return  # came back with a directory above it
    if stat.S_ISDIR(os.fstat(handle).st_mode):
        os.makedirs(path, mode=0o755)
    else:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(f"/proc/self/fd/{handle}", path, flags=MS_BIND | MS_REC)
    os.close(handle)


def become(uid: int) -> None:
    """This process is user and group `uid` from now on, for good. Raises PermissionError."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def main(spec: dict[str, Any]) -> None:
    os.umask(0o022)
    for path in spec["readable"]:
        expect_open(path)
    open_the_way(spec["readable"])
    become(spec["uid"])
    os.chdir("/")
    os.execv(spec["command"][0], spec["command"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
