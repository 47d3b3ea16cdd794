"""A kernel to time, on a modelled device: slow at first, faster when its data lie in the cache.

It is a model, and every number in it is made up. What it has of a real device: a launch returns at
once, the first runs are slow, a cache that was not flushed makes the next run fast, and an event
can be read when it is over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from onelayer.drawing.words import say


@dataclass
class TimedKernel:
    """cold_us, hot_us: of a run whose data lie in memory, in the cache. slow: so many first runs
    take ten times as long. launch_us: what a launch costs the host. now_us: the host's clock.
    over_us: when all that was launched is over. took_us: of each run."""

    cold_us: float
    hot_us: float
    slow: int = 3
    launch_us: float = 5.0
    flush_us: float = 60.0
    now_us: float = 0.0
    over_us: float = 0.0
    took_us: list[float] = field(default_factory=list)
    clocks: dict[str, float] = field(default_factory=dict)
    events: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._runs, self._cached = 0, False

    def play(self, steps: Iterable[tuple[Any, ...]]) -> TimedKernel:
        """Carries out ("run",), ("flush",), ("sync",), ("clock", name), which reads the host's
        clock, and ("record", name), which puts an event into the stream."""
        for verb, *name in steps:
            getattr(self, verb)(*name)
        return self

    def run(self) -> None:
        """The kernel that is to be timed."""
        us = self.hot_us if self._cached else self.cold_us
        self.took_us.append(us * (10 if self._runs < self.slow else 1))
        self._launch(self.took_us[-1])
        self._runs, self._cached = self._runs + 1, True

    def flush(self) -> None:
        """A kernel that writes over the whole cache."""
        self._launch(self.flush_us)
        self._cached = False

    def sync(self) -> None:
        """The host waits until all is over."""
        self.now_us = max(self.now_us, self.over_us)

    def clock(self, name: str) -> None:
        """`time.perf_counter`."""
        self.clocks[name] = self.now_us

    def record(self, name: str) -> None:
        """`torch.cuda.Event.record`."""
        self._launch(0.0)
        self.events[name] = self.over_us

    def elapsed_us(self, start: str, end: str) -> float:
        """Between two readings of the clock, or two events. Raises RuntimeError for an event that
        is not over, and KeyError for a name that nobody gave."""
        if start in self.clocks:
            return self.clocks[end] - self.clocks[start]
        if max(self.events[start], self.events[end]) > self.now_us:
            raise RuntimeError(
                say("the event {end!r} is not over: the host has not waited for it", end=end)
            )
        return self.events[end] - self.events[start]

    def _launch(self, us: float) -> None:
        self.now_us += self.launch_us
        self.over_us = max(self.now_us, self.over_us) + us
