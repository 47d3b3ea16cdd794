"""What ran beside what: a profiler's trace as lanes, one for each host thread and CUDA stream.

`torch.profiler` writes Chrome's trace format, megabytes of it. This keeps when each lane was at
work and with what, which is enough to draw the lanes and to measure how they overlap.
(https://docs.pytorch.org/docs/stable/profiler.html)
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

from onelayer.drawing.words import say

_ON_STREAMS = {"kernel", "gpu_memcpy", "gpu_memset"}
_LONGEST_NAME = 48
_HOST, _COPIES, _KERNELS = "host thread", "copies, stream", "kernels, stream"
Span = tuple[float, float]


@dataclass(frozen=True)
class Work:
    """One operator on the host, or one kernel or copy on a stream. In microseconds since the first
    of the trace."""

    name: str
    start_us: float
    took_us: float

    @property
    def end_us(self) -> float:
        return self.start_us + self.took_us


@dataclass(frozen=True)
class StreamTrace:
    """Lane -> its work in order. Lanes are host threads first, then streams."""

    lanes: Mapping[str, tuple[Work, ...]]

    def __post_init__(self) -> None:
        if not self.lanes or not all(self.lanes.values()):
            raise ValueError(say("nothing was at work"))

    @property
    def span_us(self) -> float:
        """From the first beginning to the last end."""
        works = [work for lane in self.lanes.values() for work in lane]
        return max(w.end_us for w in works) - min(w.start_us for w in works)

    def busy_us(self, lane: str) -> float:
        """How long the lane was at work; what it does twice at once counts once."""
        return sum(end - start for start, end in _spans(self.lanes[lane]))

    def overlap_us(self, lane: str, other: str) -> float:
        """How long both lanes were at work at the same time."""
        one, two = list(_spans(self.lanes[lane])), list(_spans(self.lanes[other]))
        shared, i, j = 0.0, 0, 0
        while i < len(one) and j < len(two):
            shared += max(0.0, min(one[i][1], two[j][1]) - max(one[i][0], two[j][0]))
            if one[i][1] < two[j][1]:
                i += 1
            else:
                j += 1
        return shared

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        names = plain["names"]
        return cls(
            {
                lane: tuple(Work(names[n], float(start), float(took)) for n, start, took in works)
                for lane, works in plain["lanes"].items()
            }
        )

    def plain(self) -> dict[str, Any]:
        names = list(dict.fromkeys(w.name for lane in self.lanes.values() for w in lane))
        number = {name: n for n, name in enumerate(names)}
        return {
            "names": names,
            "lanes": {
                lane: [[number[w.name], round(w.start_us, 1), round(w.took_us, 1)] for w in works]
                for lane, works in self.lanes.items()
            },
        }

    def __str__(self) -> str:
        wide = max(len(lane_name(lane)) for lane in self.lanes)
        lines = [say("{ms:.2f} ms from the first line to the last", ms=self.span_us / 1e3)]
        for lane, works in self.lanes.items():
            busy, n = self.busy_us(lane), len(works)
            told = say(
                "{ms:8.2f} ms at work, {share:4.0%}, {n} calls",
                ms=busy / 1e3,
                share=busy / self.span_us,
                n=n,
            )
            lines.append(f"{lane_name(lane):<{wide}} {told}")
        return "\n".join([*lines, *self._overlaps()])

    def _overlaps(self) -> Iterator[str]:
        for lane, other in combinations(self.lanes, 2):
            brief, long = sorted((lane, other), key=self.busy_us)
            if (shared := self.overlap_us(lane, other)) > 0:
                yield say(
                    "{ms:.2f} ms of {brief}, {share:.0%}, beside {long}",
                    ms=shared / 1e3,
                    brief=lane_name(brief),
                    share=shared / self.busy_us(brief),
                    long=lane_name(long),
                )


def lane_name(lane: str) -> str:
    """A lane's name for the reader: "kernels, stream 7" in the reader's language."""
    kind, _, number = lane.rpartition(" ")
    return f"{say(kind)} {number}" if kind else lane


def read_trace(events: Iterable[Mapping[str, Any]]) -> StreamTrace:
    """The lanes of the `traceEvents` of a trace that the profiler exported.

    On the host only the outermost operators count. Raises ValueError for a trace without work.
    """
    hosts: dict[Any, list[Work]] = {}
    streams: dict[int, list[Work]] = {}
    copies: dict[int, bool] = {}
    for event in events:
        if event.get("ph") != "X":
            continue
        work = Work(_short(event["name"]), float(event["ts"]), float(event["dur"]))
        if event.get("cat") == "cpu_op":
            hosts.setdefault(event["tid"], []).append(work)
        elif event.get("cat") in _ON_STREAMS:
            stream = int(event["args"]["stream"])
            streams.setdefault(stream, []).append(work)
            copies[stream] = copies.get(stream, True) and event["cat"] != "kernel"
    found = sorted((_outermost(works) for works in hosts.values()), key=lambda w: w[0].start_us)
    lanes = {f"{_HOST} {n}": works for n, works in enumerate(found, start=1)}
    for stream in sorted(streams):
        kind = _COPIES if copies[stream] else _KERNELS
        lanes[f"{kind} {stream}"] = sorted(streams[stream], key=lambda w: w.start_us)
    return _from_zero(lanes)


def _from_zero(lanes: Mapping[str, list[Work]]) -> StreamTrace:
    start = min((w.start_us for works in lanes.values() for w in works), default=0.0)
    moved = {
        lane: tuple(Work(w.name, w.start_us - start, w.took_us) for w in works)
        for lane, works in lanes.items()
    }
    return StreamTrace(moved)


def _outermost(works: list[Work]) -> list[Work]:
    found: list[Work] = []
    for work in sorted(works, key=lambda w: (w.start_us, -w.took_us)):
        if not found or work.start_us >= found[-1].end_us:
            found.append(work)
    return found


def _spans(works: Iterable[Work]) -> Iterator[Span]:
    """Where the lane is at work, without gaps of its own in it."""
    begin = end = None
    for work in works:  # in order of their beginnings
        if end is None or begin is None or work.start_us > end:
            if begin is not None and end is not None:
                yield begin, end
            begin, end = work.start_us, work.end_us
        else:
            end = max(end, work.end_us)
    if begin is not None and end is not None:
        yield begin, end


def _short(name: str) -> str:
    """A kernel's name without its template's arguments, which run to hundreds of characters; of a
    node of autograd its own."""
    name = re.sub(r"^(void |autograd::engine::evaluate_function: )", "", name)
    return re.split(r"[<(](?!anonymous)", name, maxsplit=1)[0].strip()[:_LONGEST_NAME] or "?"
