"""What one rank computed and sent, as plain data that can travel."""

from dataclasses import asdict, dataclass, field
from typing import Any

from onelayer.drawing.words import counted, say

_LINES = 24  # of calls that a printed log shows
_BETWEEN_TWO = ("send", "recv")  # messages from one rank to one other: no collective, no ring
_TOGETHER = (
    "{n} collective; a ring sends {sent:,} bytes",
    "{n} collectives; a ring sends {sent:,} bytes",
)
_MESSAGES = (
    "{n} message between two ranks; this rank sends {sent:,} bytes",
    "{n} messages between two ranks; this rank sends {sent:,} bytes",
)


@dataclass
class Collective:
    """One call on a process group, as one rank saw it.

    bytes: of the whole tensor, before it is cut or after it is joined. ring_bytes: what this rank
    sends for it if all stand in a ring, which no algorithm undercuts. started_ms: when it was
    issued; ended_ms: when the group said that it was done, None where nobody said so; waited_ms:
    from when to when Python waited for it, None where C++ did or nobody. Milliseconds of
    `time.monotonic`, the same clock for all ranks of a machine.
    """

    name: str
    bytes: int
    ring_bytes: int
    ranks: int
    device: str
    thread: str
    started_ms: float
    ended_ms: float | None = None
    waited_ms: tuple[float, float] | None = None


@dataclass
class Computed:
    """Operators that ran without a gap: the first one's name, how many, from when to when."""

    name: str
    operators: int
    started_ms: float
    ended_ms: float


@dataclass(repr=False)
class RankLog:
    """What `record_collectives` saw: collectives, and messages between two ranks. sent_bytes: what
    this process wrote to others meanwhile, by the kernel's count, the headers of gloo included;
    None where nobody counted."""

    rank: int
    backend: str
    collectives: list[Collective] = field(default_factory=list)
    compute: list[Computed] = field(default_factory=list)
    sent_bytes: int | None = None

    @property
    def ring_bytes(self) -> int:
        """What this rank sends if its collectives go around a ring, and its messages straight."""
        return sum(call.ring_bytes for call in self.collectives)

    def plain(self) -> dict[str, Any]:
        """The same as dicts, lists, numbers and strings."""
        return asdict(self)

    def __repr__(self) -> str:
        messages = [call.ring_bytes for call in self.collectives if call.name in _BETWEEN_TWO]
        together = [call.ring_bytes for call in self.collectives if call.name not in _BETWEEN_TWO]
        says = [
            counted(len(sent), *words, sent=sum(sent))
            for sent, words in ((together, _TOGETHER), (messages, _MESSAGES))
            if sent
        ]
        head = f"rank {self.rank}, {self.backend}: {'; '.join(says) or say('no collective')}"
        if self.sent_bytes is not None:
            head += say(", {n:,} were sent", n=self.sent_bytes)
        lines = [_line(call) for call in self.collectives[:_LINES]]
        if (more := len(self.collectives) - _LINES) > 0:
            lines.append(say("  and {n} more", n=more))
        return "\n".join([head, *lines])


def ring_bytes(name: str, nbytes: int, ranks: int) -> int:
    """What one rank sends for a collective of `nbytes` in all, if `ranks` of them form a ring.

    The whole tensor counts: of an all-gather the joined one, of a reduce-scatter the one that is
    cut. A send counts in full, a receive nothing. Of a broadcast, a reduce, a gather or a scatter,
    where ranks differ, it is what the average rank sends.
    (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters", 2009.)
    """
    if name == "send":
        return nbytes
    turns = {"all_reduce": 2, "recv": 0, "barrier": 0}.get(name, 1)
    shares = ranks * ranks if name in ("gather", "scatter") else ranks
    if name == "all_to_all":  # each rank holds `nbytes` of its own, and keeps a share
        shares = ranks
    return turns * nbytes * (ranks - 1) // shares


def _line(call: Collective) -> str:
    took = "" if call.ended_ms is None else f"{call.ended_ms - call.started_ms:9.2f} ms"
    return f"  {call.name:<14} {call.bytes:>11,} bytes  {call.ranks:>3} ranks{took}"
