"""`show_timeline`: a training step on several ranks, as bars of compute and of communication.

The model of DDP, FSDP and two pipelines and the drawing are in `timeline.js`, so that the same view
runs in a notebook, where it is an anywidget, and on a page without a kernel.
"""

from collections.abc import Sequence
from typing import Any

from onelayer.drawing.played import Played
from onelayer.drawing.words import say

from .rank_log import RankLog

WAYS = ("ddp", "fsdp", "gpipe", "1f1b")
_MOST_RANKS, _MOST_LAYERS, _MOST_PARTS = 8, 16, 16
_MIB = 2**20
_DEFAULT_CAP_MIB = 25  # of DDP, whose first bucket then closes at 1 MiB


class TimelineView(Played):
    """What `show_timeline` shows; `view` follows what the reader changes."""

    name = "timeline"

    def __repr__(self) -> str:
        view = self.view
        if view["way"] == "recorded":
            return _recorded_text(view["recorded"])
        model = say(
            "{way} on {ranks} ranks, {layers} layers",
            way=view["way"],
            ranks=view["ranks"],
            layers=len(view["layers"]),
        )
        if view["way"] not in WAYS[2:]:
            return model
        return model + say(", {parts} micro-batches", parts=view["parts"])


def show_timeline(
    way: str | Sequence[RankLog],
    *,
    ranks: int = 4,
    layers: Sequence[tuple[float, int]] = ((1.0, 4 * _MIB),) * 8,
    parts: int = 8,
    bucket_cap_mb: float = _DEFAULT_CAP_MIB,
) -> TimelineView:
    """A training step on several ranks to play with, or what a recording saw.

        show_timeline("ddp", ranks=4)
        show_timeline(onelayer.run_ranks(2, step))      # step returns a log of record_collectives

    A way is "ddp", "fsdp", "gpipe" or "1f1b". layers: for each its forward in ms, for one rank's
    share of the batch, and the bytes of its parameters; a backward takes twice as long. parts:
    micro-batches of a pipeline. The reader changes all of them, the way, the network's speed, and
    lets one rank be slow. In the model a rank has one collective on the wire at a time, as NCCL
    has on one stream, and FSDP gathers one layer ahead.

    Raises ValueError for another way, no or too many ranks (8), layers (16) or parts (16), negative
    times or bytes, and for no logs.
    """
    recorded = [] if isinstance(way, str) else recorded_bars(way)
    if isinstance(way, str) and way not in WAYS:
        raise ValueError(
            say(
                "show_timeline knows {known}, or logs of ranks, not {way!r}",
                known=", ".join(WAYS),
                way=way,
            )
        )
    for name, n, most in (
        ("ranks", ranks, _MOST_RANKS),
        ("layers", len(layers), _MOST_LAYERS),
        ("parts", parts, _MOST_PARTS),
    ):
        if not 1 <= n <= most:
            raise ValueError(
                say("show_timeline draws 1 to {most} {name}, got {n}", most=most, name=name, n=n)
            )
    if min(min(pair) for pair in layers) < 0 or bucket_cap_mb <= 0:
        raise ValueError(
            say("a layer cannot take less than 0 ms or bytes, nor a bucket hold nothing")
        )
    first = 1 if bucket_cap_mb == _DEFAULT_CAP_MIB else bucket_cap_mb
    return TimelineView(
        {
            "way": way if isinstance(way, str) else "recorded",
            "ranks": ranks,
            "layers": [{"time": float(time), "bytes": int(nbytes)} for time, nbytes in layers],
            "caps": [int(first * _MIB), int(bucket_cap_mb * _MIB)],
            "parts": parts,
            "speed": 2 * _MIB,
            "latency": 0.05,
            "activation": _MIB // 4,
            "slow": -1,
            "reshard": True,
            "recorded": recorded,
            "at": None,
        }
    ).show()


def recorded_bars(logs: Sequence[RankLog]) -> list[dict[str, Any]]:
    """The bars of what ranks recorded, in ms since the first of them began.

    A collective without an end is drawn to the end of the wait for it, or not at all.
    Raises ValueError where nothing was recorded.
    """
    bars = [bar for rank, log in enumerate(logs) for bar in _bars_of(log, rank)]
    if not bars:
        raise ValueError(say("show_timeline draws what was recorded, and these logs hold nothing"))
    begin = min(bar["start"] for bar in bars)
    return [bar | {"start": bar["start"] - begin, "end": bar["end"] - begin} for bar in bars]


def _bars_of(log: RankLog, rank: int) -> list[dict[str, Any]]:
    bars = []
    for done in log.compute:
        name = done.name
        if done.operators > 1:
            name = say("{name} and {n} more", name=done.name, n=done.operators - 1)
        bars.append(_bar(rank, "compute", "operators", name, (done.started_ms, done.ended_ms)))
    for call in log.collectives:
        if call.ended_ms is not None:
            times = (call.started_ms, call.ended_ms)
            bars.append(_bar(rank, "network", call.name, "", times) | {"bytes": call.ring_bytes})
        if call.waited_ms is not None:
            bars.append(_bar(rank, "wait", "wait", call.name, call.waited_ms))
    return bars


def _bar(rank: int, lane: str, kind: str, name: str, times: tuple[float, float]) -> dict[str, Any]:
    bar = {"rank": rank, "lane": lane, "kind": kind, "name": name, "bytes": 0}
    return bar | dict(zip(("start", "end"), times, strict=True))


def _recorded_text(bars: list[dict[str, Any]]) -> str:
    ranks = 1 + max(bar["rank"] for bar in bars)
    lanes = [bar["lane"] for bar in bars]
    span = max(bar["end"] for bar in bars)
    calls, spans = lanes.count("network"), lanes.count("compute")
    return say(
        "{ranks} ranks in {span:.1f} ms: {calls} collectives, {spans} stretches of compute",
        ranks=ranks,
        span=span,
        calls=calls,
        spans=spans,
    )
