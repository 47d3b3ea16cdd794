"""`show_traces`: traces side by side on one scale, with lanes, waits and the arrow of each launch.

The drawing is in `traces_view.js`, so that the same view runs in a notebook, where it is an
anywidget, and on a page without a kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from onelayer.drawing.played import Played
from onelayer.drawing.words import counted, say
from onelayer.profiling.profiled import Event

ON_DEVICE = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "copy"}
_MOST_BARS = 6000
_LONGEST_NAME = 60


class TracesView(Played):
    """What `show_traces` shows; `view` follows what the reader changes."""

    name = "traces"

    def __repr__(self) -> str:
        return "\n".join(_text(side) for side in self.view["sides"])


def show_traces(traces: Mapping[str, Sequence[Event]]) -> TracesView:
    """The lanes of each trace, under the name that it has in `traces`, on one scale of time.

        show_traces({"before": events, "after": other_events})

    Lanes: regions of `record_function`, outermost operators of each host thread, calls of CUDA's
    runtime, each stream. The reader zooms in, moves, and chooses a bar: a call then shows its work
    on the device, and the other way round.

    Raises ValueError for no trace, for one in which nothing has a duration, and for more than 6,000
    bars.
    """
    sides = [_side(label, events) for label, events in traces.items()]
    bars = sum(len(lane["bars"]) for side in sides for lane in side["lanes"])
    if not sides or bars > _MOST_BARS:
        raise ValueError(
            say("show_traces draws 1 to {most:,} bars, got {bars:,}", most=_MOST_BARS, bars=bars)
        )
    return TracesView({"sides": sides, "from": 0.0, "zoom": 0, "chosen": None}).show()


def _side(label: str, events: Sequence[Event]) -> dict[str, Any]:
    whole = sorted(
        (e for e in events if e.get("ph") == "X"), key=lambda e: (e["ts"], -e.get("dur", 0))
    )
    steps = [e for e in whole if e["name"].startswith("ProfilerStep#")]
    lanes = _lanes(whole)
    if not lanes:
        raise ValueError(say("nothing in the trace {label!r} has a duration", label=label))
    first = min(e["ts"] for e in steps or whole)
    bars = {name: [_bar(e, first) for e in found] for name, found in lanes.items()}
    span = max(bar["start"] + bar["took"] for lane in bars.values() for bar in lane)
    return {
        "label": label,
        "span": span,
        "lanes": [{"name": name, "bars": lane} for name, lane in bars.items()],
        "counts": dict(Counter(bar["kind"] for lane in bars.values() for bar in lane)),
    }


def _lanes(whole: Sequence[Event]) -> dict[str, list[Event]]:
    """Events by lane; on the host only the outermost of each thread."""
    lanes: dict[str, list[Event]] = {}
    notes = [e for e in whole if e["cat"] == "user_annotation"]
    steps = {e["tid"] for e in notes if e["name"].startswith("ProfilerStep#")}
    regions = [e for e in notes if not e["name"].startswith("ProfilerStep#")]
    threads = sorted(
        {e["tid"] for e in whole if e["cat"] == "cpu_op"}, key=lambda t: t not in steps
    )
    if regions:
        lanes[say("regions")] = _outermost([e for e in regions if e["tid"] in steps] or regions)
    for number, thread in enumerate(threads, start=1):
        mine = [e for e in whole if e["cat"] == "cpu_op" and e["tid"] == thread]
        lanes[say("operators {n}", n=number)] = _outermost(mine)
    for e in whole:
        if e["cat"] == "cuda_runtime":
            lanes.setdefault(say("calls of CUDA"), []).append(e)
    for e in sorted(whole, key=lambda e: str(e["tid"])):
        if e["cat"] in ON_DEVICE:
            lanes.setdefault(say("stream {stream}", stream=e["tid"]), []).append(e)
    return lanes


def _outermost(events: Sequence[Event]) -> list[Event]:
    found: list[Event] = []
    for e in events:
        if not found or e["ts"] >= found[-1]["ts"] + found[-1]["dur"]:
            found.append(e)
    return found


def _bar(event: Event, first: float) -> dict[str, Any]:
    bar = {
        "start": round(event["ts"] - first, 2),
        "took": round(event["dur"], 2),
        "name": event["name"][:_LONGEST_NAME],
        "kind": _kind(event),
    }
    if event["cat"] == "cuda_runtime" or event["cat"] in ON_DEVICE:
        bar["link"] = event["args"].get("correlation", 0)
    return bar


def _kind(event: Event) -> str:
    """What a bar is coloured by: what the host does, or what the device does."""
    if event["cat"] == "cuda_runtime":
        return "wait" if event["name"].endswith("Synchronize") else "call"
    return ON_DEVICE.get(event["cat"]) or ("region" if "annotation" in event["cat"] else "operator")


def _text(side: Mapping[str, Any]) -> str:
    counts = side["counts"]
    words = {
        "call": ("{n:,} call", "{n:,} calls"),
        "wait": ("{n:,} wait", "{n:,} waits"),
        "kernel": ("{n:,} kernel", "{n:,} kernels"),
        "copy": ("{n:,} copy", "{n:,} copies"),
    }
    found = (counted(counts[kind], *both) for kind, both in words.items() if counts.get(kind))
    told = ", ".join(found) or say("on the host alone")
    return f"{side['label']}: {side['span'] / 1e3:.2f} ms; {told}"
