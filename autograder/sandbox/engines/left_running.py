"""What a submission starts beside its main thread and leaves running: it takes the processor from
its own answers, and from everybody else's.

After an answer nobody has anything to do. While an answer is awaited its own processes may well
work for it; then its main thread waits for them, and is not ready to run itself.
"""

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

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
"""By (process, thread): ticks of processor time, or nanoseconds without it."""


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
        self.pid, self._ready = pid, 0
        self._first = self._last = _looked_at(pid)

    def look(self) -> float:
        """For how many seconds, since the last look, it was ready and others of this machine ran
        instead; 0 where Linux does not tell."""
        before, self._last = self._last, _looked_at(self.pid)
        self._ready = self._ready + 1 if self._last.state == "R" else 0
        return _kept_waiting_s(before, self._last)

    def starved_by(self) -> int:
        """How many others keep the main thread from running, at the last look and those before."""
        main, beside = self._last.main - self._first.main, self._last.beside - self._first.beside
        starved = beside > MOST_BESIDE_S * TICKS_PER_S and beside > SHARE * main
        return self._last.running if starved and self._ready >= LOOKS else 0


@dataclass(frozen=True)
class _Look:
    """at: of time.monotonic(). state: the main thread's, a letter in proc(5). main, beside: ticks,
    its own and of all others. running: how many others run or are ready to. ran: ticks of all, the
    ended too. delayed: nanoseconds in which each was ready and did not run."""

    at: float
    state: str
    main: int
    beside: int
    running: int
    ran: int
    delayed: Used


def _looked_at(pid: int) -> _Look:
    state, main = "", 0
    with contextlib.suppress(OSError):
        state, main = _state_of(pid, pid)
    used, running = _others(pid)
    ran, delayed = sum(map(_ran, tree(pid))), _delayed([(pid, pid), *used])
    return _Look(time.monotonic(), state, main, sum(used.values()), running, ran, delayed)


def _kept_waiting_s(before: _Look, now: _Look) -> float:
    """As long as the thread did that waited longest, less what was their own doing: they have one
    processor, and what they used of that nobody kept from them."""
    waited = (ns - before.delayed.get(who, 0) for who, ns in now.delayed.items())
    idle_s = now.at - before.at - (now.ran - before.ran) / TICKS_PER_S
    return max(0.0, min(max(waited, default=0) / 1e9, idle_s))


def _ran(process: int) -> int:
    """Ticks of its threads and of its children, as far as it has waited for them."""
    with contextlib.suppress(OSError):
        return sum(map(int, _stat(f"/proc/{process}/stat")[11:15]))
    return 0


def _delayed(threads: Iterable[tuple[int, int]]) -> Used:
    delayed = {}
    for process, thread in threads:
        schedstat = Path(f"/proc/{process}/task/{thread}/schedstat")
        with contextlib.suppress(OSError, ValueError, IndexError):
            delayed[process, thread] = int(schedstat.read_text().split()[1])
    return delayed


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
    fields = _stat(f"/proc/{process}/task/{thread}/stat")
    return fields[0], int(fields[11]) + int(fields[12])


def _stat(path: str) -> list[str]:
    """The fields of a stat file in proc(5) from the state on: the name before may hold anything."""
    with open(path) as stat:
        return stat.read().rpartition(")")[2].split()
