"""What a submission starts beside its main thread and leaves running: it takes the processor from
its own answers, and from everybody else's.

After an answer nobody has anything to do. While an answer is awaited its own processes may well
work for it; then its main thread waits for them, and is not ready to run itself.
"""

import contextlib
import os
import time

from .memory import tree

MOST_CPU_S = 0.2
"""Of all that it left, together, after its answer: what ends is given the time to end."""
MOST_BESIDE_S = 0.5
"""Of the others, while the main thread is ready to run and gets less than a share of that."""
SHARE = 4
LOOKS = 5
PATIENCE_S = 2.0
LOOK_S = 0.01
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
Used = dict[tuple[int, int], int]
"""Ticks of processor time by (process, thread)."""


def left_running(pid: int) -> int:
    """How many threads and processes beside the main thread of `pid`, which waits to be asked, keep
    a processor busy; 0 where the first look finds none at work, or they end soon."""
    if is_alone(pid):
        return 0
    used, running = _others(pid)
    begun, until = sum(used.values()), time.monotonic() + PATIENCE_S
    while running and time.monotonic() < until:
        time.sleep(LOOK_S)
        now, running = _others(pid)
        used |= now  # one that has ended keeps what it used
        if running and sum(used.values()) - begun > MOST_CPU_S * TICKS_PER_S:
            return running
    return 0


class Watch:
    """Looks at a process that is answering."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._main, self._used = self._looked()[1:3]
        self._ready = 0

    def starved_by(self) -> int:
        """How many others keep the main thread from running, at this look and at those before."""
        state, main, used, running = self._looked()
        self._ready = self._ready + 1 if state == "R" else 0
        beside = used - self._used
        starved = beside > MOST_BESIDE_S * TICKS_PER_S and beside > SHARE * (main - self._main)
        return running if starved and self._ready >= LOOKS else 0

    def _looked(self) -> tuple[str, int, int, int]:
        """The main thread's state and ticks, the others' ticks, and how many of them run."""
        state, main = "", 0
        with contextlib.suppress(OSError):
            state, main = _state_of(self.pid, self.pid)
        used, running = _others(self.pid)
        return state, main, sum(used.values()), running


def is_alone(pid: int) -> bool:
    """Whether it has one thread and no child, as nearly all have: the same after every answer."""
    with contextlib.suppress(OSError):
        threads = os.stat(f"/proc/{pid}/task").st_nlink - 2  # proc(5): a folder for each
        children = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY)
        try:
            return threads == 1 and not os.read(children, 1)
        finally:
            os.close(children)
    return False


def _others(pid: int) -> tuple[Used, int]:
    """What the others have used so far, and how many of them are running or ready to."""
    used, running = {}, 0
    for process in tree(pid):
        with contextlib.suppress(OSError):
            for thread in map(int, os.listdir(f"/proc/{process}/task")):
                if (process, thread) == (pid, pid):
                    continue
                with contextlib.suppress(OSError):
                    state, used[process, thread] = _state_of(process, thread)
                    running += state == "R"
    return used, running


def _state_of(process: int, thread: int) -> tuple[str, int]:
    """Its letter in proc(5), and its ticks in user and in kernel mode."""
    with open(f"/proc/{process}/task/{thread}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return fields[0], int(fields[11]) + int(fields[12])
