"""What CUDA's caching allocator did, request by request, from torch's own snapshots of it.

`torch.cuda.memory._snapshot()` returns the segments that the allocator holds and a trace of what it
was asked for. This is that trace as small plain data: addresses count from the lowest segment,
streams are numbered, and each request knows the phase of the program in which it came.
(https://docs.pytorch.org/docs/stable/torch_cuda_memory.html)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Self

from onelayer.drawing.words import say

BEFORE = "before"  # the phase of what was held when the recording began
_MORE, _LESS = {"segment_alloc", "segment_map"}, {"segment_free", "segment_unmap"}
_MIB = 2**20


@dataclass(frozen=True)
class Request:
    """A line of the trace. action: torch's word for it, "alloc", "free_requested",
    "free_completed", "segment_alloc" (cudaMalloc), "segment_free" (cudaFree). bytes: as many as
    were asked for; a block is rounded up from there. time_us: since the first line."""

    phase: str
    action: str
    address: int
    bytes: int
    stream: int
    time_us: int


@dataclass(frozen=True)
class Segment:
    """What one cudaMalloc returned. pool: "small" or "large". blocks: (bytes, bytes asked for,
    state) from its beginning to its end; state as torch names it, "inactive" for a free one."""

    address: int
    bytes: int
    stream: int
    pool: str
    blocks: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class AllocatorHistory:
    """requests in order; the segments as they were before the first and after the last one."""

    requests: tuple[Request, ...]
    before: tuple[Segment, ...]
    after: tuple[Segment, ...]

    def __post_init__(self) -> None:
        if not any(request.action == "alloc" for request in self.requests):
            raise ValueError(say("nobody asked the allocator for anything"))

    @property
    def phases(self) -> tuple[str, ...]:
        """In the order in which they came."""
        return tuple(dict.fromkeys(request.phase for request in self.requests))

    def held(self) -> Iterator[dict[str, int]]:
        """After each request: the phase that asked for it -> bytes that are still in use."""
        owner: dict[int, Request] = {}
        held = {BEFORE: _in_use(self.before)} | dict.fromkeys(self.phases, 0)
        for request in self.requests:
            if request.action == "alloc":
                owner[request.address] = request
                held[request.phase] += request.bytes
            elif request.action == "free_requested":
                asked = owner.pop(request.address, None)
                held[asked.phase if asked else BEFORE] -= asked.bytes if asked else request.bytes
            yield dict(held)

    def reserved(self) -> Iterator[int]:
        """After each request: bytes that the allocator had from CUDA, in use or not."""
        total = sum(segment.bytes for segment in self.before)
        for request in self.requests:
            total += request.bytes * (request.action in _MORE)
            total -= request.bytes * (request.action in _LESS)
            yield total

    @property
    def peak(self) -> tuple[Request, int]:
        """The request after which most bytes were in use, and how many."""
        sums = [sum(held.values()) for held in self.held()]
        at = max(range(len(sums)), key=sums.__getitem__)
        return self.requests[at], sums[at]

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        phases, actions = plain["phases"], plain["actions"]
        requests = (Request(phases[p], actions[a], *rest) for p, a, *rest in plain["requests"])
        sides = [
            tuple(
                Segment(address, size, stream, pool, tuple((b, asked, s) for b, asked, s in blocks))
                for address, size, stream, pool, blocks in plain[side]
            )
            for side in ("before", "after")
        ]
        return cls(tuple(requests), *sides)

    def plain(self) -> dict[str, Any]:
        actions = list(dict.fromkeys(request.action for request in self.requests))
        return {
            "phases": list(self.phases),
            "actions": actions,
            "requests": [
                [self.phases.index(r.phase), actions.index(r.action), *astuple(r)[2:]]
                for r in self.requests
            ],
            "before": [list(astuple(segment)) for segment in self.before],
            "after": [list(astuple(segment)) for segment in self.after],
        }

    def __str__(self) -> str:
        at, most = self.peak
        told = say(
            "{n:,} lines of trace; at the peak, in {phase}, {used:.1f} MiB are in use and "
            "{reserved:.1f} reserved",
            n=len(self.requests),
            phase=at.phase,
            used=most / _MIB,
            reserved=max(self.reserved()) / _MIB,
        )
        head = say("MiB in use at the end of each phase, by the phase that asked for them:")
        return "\n".join([told, head, *self._table()])

    def _table(self) -> list[str]:
        ends = {r.phase: held for r, held in zip(self.requests, self.held(), strict=True)}
        asked = [p for p in (BEFORE, *self.phases) if any(held[p] for held in ends.values())]
        wide = max(10, *(len(phase) + 2 for phase in (*asked, *self.phases)))
        lines = ["".join(f"{word:>{wide}}" for word in ("", *map(say, asked), say("in all")))]
        for phase, held in ends.items():
            numbers = [held[one] for one in asked] + [sum(held.values())]
            lines.append(f"{phase:>{wide}}" + "".join(f"{n / _MIB:>{wide}.2f}" for n in numbers))
        return lines


def read_snapshots(
    before: Mapping[str, Any], phases: Sequence[tuple[str, Mapping[str, Any]]], *, device: int = 0
) -> AllocatorHistory:
    """The history of `device` from torch's snapshots: one before all, one at each phase's end.

    Raises ValueError where the trace did not grow from one snapshot to the next: then its ring
    was too short, and lines are lost.
    """
    _, last = phases[-1]
    segments = [*before["segments"], *last["segments"]]
    lines = [(phase, entry) for phase, entry in _in_phases(before, phases, device) if _acts(entry)]
    trace = [entry for _, entry in lines]
    lowest = min((one.get("address", one.get("addr")) for one in [*segments, *trace]), default=0)
    start = trace[0].get("time_us", 0) if trace else 0
    streams = {stream: n for n, stream in enumerate(_streams([*segments, *trace]))}
    requests = [
        Request(
            phase=phase,
            action=entry["action"],
            address=entry["addr"] - lowest,
            bytes=entry["size"],
            stream=streams[entry["stream"]],
            time_us=entry.get("time_us", 0) - start,
        )
        for phase, entry in lines
    ]
    sides = [
        tuple(_segment(s, lowest, streams) for s in side if s.get("device", device) == device)
        for side in (before["segments"], last["segments"])
    ]
    return AllocatorHistory(tuple(requests), *sides)


def _in_phases(
    before: Mapping[str, Any], phases: Sequence[tuple[str, Mapping[str, Any]]], device: int
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each phase's own lines. `before` has some where somebody else keeps a trace already."""
    seen = len(before["device_traces"][device])
    for phase, snapshot in phases:
        trace = snapshot["device_traces"][device]
        if len(trace) < seen:
            raise ValueError(
                say("the trace is shorter after {phase} than before: lines are lost", phase=phase)
            )
        yield from ((phase, entry) for entry in trace[seen:])
        seen = len(trace)


def _acts(entry: Mapping[str, Any]) -> bool:
    """Whether the allocator did something: a snapshot is noted too, and an attempt in vain."""
    return "snapshot" not in entry["action"] and "addr" in entry


def _streams(seen: Sequence[Mapping[str, Any]]) -> list[int]:
    """Handles of streams in the order of their first use; 0, the default one, before all."""
    return list(dict.fromkeys([0, *(one["stream"] for one in seen)]))


def _segment(held: Mapping[str, Any], lowest: int, streams: Mapping[int, int]) -> Segment:
    blocks = [(b["size"], b.get("requested_size", 0), b["state"]) for b in held["blocks"]]
    address = held["address"] - lowest
    size, stream = held["total_size"], streams[held["stream"]]
    return Segment(address, size, stream, held["segment_type"], tuple(blocks))


def _in_use(segments: Sequence[Segment]) -> int:
    return sum(
        asked for segment in segments for _, asked, state in segment.blocks if state != "inactive"
    )
