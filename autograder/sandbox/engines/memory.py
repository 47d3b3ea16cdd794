"""How much memory a process tree uses, for machines that lend us no cgroup."""

import contextlib
import os


def tree(pid: int) -> list[int]:
    """`pid` and all its descendants, by their ids in /proc. Empty when it is gone."""
    if not os.path.exists(f"/proc/{pid}"):
        return []
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        tasks = f"/proc/{found[-1]}/task"
        with contextlib.suppress(OSError):
            for task in os.listdir(tasks):  # after every answer: pathlib takes twice as long
                # A thread that has ended since hides no child of the others.
                with contextlib.suppress(OSError), open(f"{tasks}/{task}/children") as children:
                    todo += map(int, children.read().split())
    return found


def shared_fairly(pid: int) -> int:
    """Bytes of memory of one process, pages that n processes share counted 1/n times (PSS).

    Where the kernel does not tell that, all resident bytes.
    """
    shared = told_by(f"/proc/{pid}/smaps_rollup", "Pss:")
    return shared if shared is not None else told_by(f"/proc/{pid}/status", "VmRSS:") or 0


def told_by(file: str, key: str) -> int | None:
    """The bytes in the line of a /proc file that begins with `key`; None where there is none."""
    with contextlib.suppress(OSError), open(file) as lines:
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), None)
    return None


def used_by_tree(pid: int) -> tuple[int, int]:
    """(bytes, processes) of `pid` and its descendants."""
    pids = tree(pid)
    return sum(map(shared_fairly, pids)), len(pids)
