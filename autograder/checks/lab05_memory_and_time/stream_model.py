"""A host that gives work to streams, and engines that do it: the rules, without a GPU.

The host goes on as soon as it has given the work away. A stream does its work in order, an engine
one piece at a time, in the order in which the host gave it. An event is over when all that its
stream was given before it is over. It is a model: what a kernel costs is told to it.
(https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Step = tuple[Any, ...]
"""("host", us); ("launch", name, us, stream, engine); ("record", event, stream); ("wait", event,
stream); ("sync",), which waits for all streams."""


@dataclass(frozen=True)
class Piece:
    """Work on an engine, in microseconds. after: the pieces that are over before it begins, because
    of its stream or an event."""

    name: str
    stream: int
    engine: str
    begin_us: float
    finish_us: float
    after: frozenset[str]


@dataclass
class StreamModel:
    """launch_us: what each launch, record and wait costs the host. now_us: the host's clock."""

    launch_us: float = 0.0
    now_us: float = 0.0
    pieces: list[Piece] = field(default_factory=list)
    events: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._free: dict[str, float] = {}  # engine -> when it is free
        self._ready: dict[int, float] = {}  # stream -> when all that it was given is over
        self._past: dict[int, frozenset[str]] = {}  # stream -> what is over by then
        self._seen: frozenset[str] = frozenset()  # what the host has waited for
        self._event_past: dict[str, frozenset[str]] = {}

    def run(self, steps: Iterable[Step]) -> StreamModel:
        """Carries out the steps. Raises KeyError for a wait for an event that nobody recorded."""
        for verb, *arguments in steps:
            getattr(self, verb)(*arguments)
        return self

    @property
    def done_us(self) -> float:
        """When the last piece of work is over; 0 without work."""
        return max((piece.finish_us for piece in self.pieces), default=0.0)

    def past(self, stream: int) -> frozenset[str]:
        """The pieces that are over before whatever the stream is given next, whatever they take."""
        return self._past.get(stream, frozenset()) | self._seen

    def host(self, us: float) -> None:
        """The host does something of its own."""
        self.now_us += us

    def launch(self, name: str, us: float, stream: int = 0, engine: str = "kernels") -> None:
        """Gives work to a stream."""
        self.now_us += self.launch_us
        begin = max(self.now_us, self._ready.get(stream, 0.0), self._free.get(engine, 0.0))
        past = self.past(stream)
        self.pieces.append(Piece(name, stream, engine, begin, begin + us, past))
        self._free[engine] = self._ready[stream] = begin + us
        self._past[stream] = past | {name}

    def record(self, event: str, stream: int = 0) -> None:
        """Puts an event into a stream."""
        self.now_us += self.launch_us
        self.events[event] = max(self.now_us, self._ready.get(stream, 0.0))
        self._ready[stream] = self.events[event]
        self._event_past[event] = self.past(stream)

    def wait(self, event: str, stream: int = 0) -> None:
        """Lets a stream wait for an event; the host goes on."""
        self.now_us += self.launch_us
        self._ready[stream] = max(self._ready.get(stream, 0.0), self.events[event])
        self._past[stream] = self.past(stream) | self._event_past[event]

    def sync(self) -> None:
        """Lets the host wait for all streams."""
        self.now_us = max(self.now_us, *self._ready.values(), 0.0)
        self._seen = frozenset(piece.name for piece in self.pieces)
