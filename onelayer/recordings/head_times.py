"""What the loss of the head costs in each of its versions, as `bench.head_loss` measures it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Self

from onelayer.drawing.bars import Bars
from onelayer.drawing.words import say


@dataclass(frozen=True)
class Measured:
    """One version at one batch size. floor: the least time that a GPU needs for it, or None."""

    tokens: int
    peer: str
    ms: float
    peak_bytes: int
    floor_ms: float | None


@dataclass(frozen=True)
class HeadTimes:
    """dtype: of the inputs; absent: versions that were not to be had; rows: each version at each
    batch size, forward and backward, the median."""

    dtype: str
    absent: tuple[str, ...]
    rows: tuple[Measured, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("nothing was measured")

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        rows = tuple(_rows(plain["tokens"]))
        return cls(str(plain["dtype"]), tuple(plain["absent"]), rows)

    def plain(self) -> dict[str, Any]:
        tokens: dict[str, dict[str, Any]] = {}
        for row in self.rows:
            at = tokens.setdefault(str(row.tokens), {"ms": {}, "bytes": {}})
            at["ms"][row.peer], at["bytes"][row.peer] = row.ms, row.peak_bytes
            if row.floor_ms is not None:
                at["floor"] = {"floor_ms": row.floor_ms}
        return {"dtype": self.dtype, "absent": list(self.absent), "tokens": tokens}

    @property
    def largest(self) -> tuple[Measured, ...]:
        """The rows of the largest batch."""
        most = max(row.tokens for row in self.rows)
        return tuple(row for row in self.rows if row.tokens == most)

    def __str__(self) -> str:
        head = f"{'tokens':>10}  {say('version'):<18} {'ms':>10} {say('peak MiB'):>10}"
        lines = [head + say("  of the floor")]
        for row in self.rows:
            mib = f"{row.peak_bytes / 2**20:,.1f}"
            floor = f"{row.floor_ms / row.ms:>13.0%}" if row.floor_ms else ""
            lines.append(f"{row.tokens:>10,}  {row.peer:<18} {row.ms:>10,.3f} {mib:>10}{floor}")
        last = say("{dtype}, forward and backward, medians", dtype=self.dtype)
        if self.absent:
            last += say("; not to be had: {names}", names=", ".join(self.absent))
        return "\n".join([*lines, last])


def page_of(times: HeadTimes, device: str = "") -> str:
    """The table, and bars for the largest batch, each of which says on which device."""
    on = say(" on {device}", device=device) if device else ""
    took = Bars(tuple((row.peer, row.ms) for row in times.largest), f"ms{on}")
    at_peak = tuple((row.peer, row.peak_bytes) for row in times.largest)
    peaks = Bars(at_peak, say("bytes at the peak") + on)
    return f"<pre>{escape(str(times))}</pre>{took.html()}{peaks.html()}"


def _rows(tokens: Mapping[Any, Mapping[str, Any]]) -> Iterator[Measured]:
    for n, at in tokens.items():
        floor = at.get("floor", {}).get("floor_ms")
        for peer, ms in at["ms"].items():
            yield Measured(int(n), peer, float(ms), int(at["bytes"][peer]), floor)
