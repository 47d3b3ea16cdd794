"""The pictures of a run on the mocked device. Each says that it is mocked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from onelayer.drawing.display import Shown
from onelayer.drawing.words import say
from onelayer.memory import allocator_picture, stream_lanes
from onelayer.memory.allocator_history import AllocatorHistory, read_snapshots
from onelayer.memory.stream_trace import StreamTrace, read_trace
from onelayer.mock_cuda.calls import Call
from onelayer.mock_cuda.launches import launch_table


@dataclass(frozen=True, repr=False)
class Picture(Shown):
    """What a run shows: a line about the device, the text, and a drawing where there is one."""

    about: str
    text: str
    drawing: str = ""

    def __repr__(self) -> str:
        return f"{self.about}\n{self.text}"

    def bundle(self) -> dict[str, Any]:
        body = self.drawing or f"<pre>{escape(self.text)}</pre>"
        return {"text/plain": repr(self), "text/html": f"<p>{escape(self.about)}</p>{body}"}


def timeline(device: str, events: Sequence[Any]) -> Picture:
    """Host and streams of torch.profiler's trace, side by side."""
    trace: StreamTrace = read_trace(events)
    return _shown(
        device, say("times are modelled"), str(trace), stream_lanes.page_of(trace, _mocked(device))
    )


def memory(device: str, snapshot: dict[str, Any]) -> Picture:
    """Bytes in use over the requests to the allocator, on the first device."""
    nothing: dict[str, Any] = {"segments": [], "device_traces": [[]]}
    history: AllocatorHistory = read_snapshots(nothing, [(say("the run"), snapshot)])
    drawing = allocator_picture.page_of(history, _mocked(device))
    return _shown(device, say("the allocator is torch's own"), str(history), drawing)


def launches(device: str, calls: Sequence[Call]) -> Picture:
    """The kernels as a table."""
    about = say("launches are torch's own, times are modelled")
    return _shown(device, about, launch_table(calls))


def _mocked(device: str) -> str:
    return say("mocked {device}", device=device)


def _shown(device: str, words: str, text: str, drawing: str = "") -> Picture:
    picture = Picture(say("Mocked {device}: {words}.", device=device, words=words), text, drawing)
    picture.show()
    return picture
