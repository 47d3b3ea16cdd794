"""How a trace's lanes are drawn: a row for each, bars where it was at work."""

from dataclasses import dataclass

from onelayer.drawing.sketch import Ink, Sketch, text_width
from onelayer.drawing.still import Still
from onelayer.drawing.words import say

from .stream_trace import StreamTrace, Work, lane_name

_WIDTH, _STEP, _HEIGHT, _SIZE = 24.0, 1.4, 0.9, 8.0
_HOST, _KERNELS, _COPIES = "#9aa5b1", "#54a3c8", "#e0a03c"
_FINEST = 240  # bars closer than this part of the whole are drawn as one


@dataclass(frozen=True, repr=False)
class StreamLanes(Still):
    """The lanes of a trace; its text says what they add up to. device: what stands in the picture
    for what ran it, such as "mocked NVIDIA L4"."""

    trace: StreamTrace
    device: str = ""

    @property
    def alt(self) -> str:
        return say("lanes of a trace; the text has the numbers")

    def __repr__(self) -> str:
        return str(self.trace)

    def drawn(self, ink: Ink) -> bytes:
        sketch, trace = Sketch(ink), self.trace
        left = 0.4 + max(text_width(lane_name(lane), _SIZE) for lane in trace.lanes)
        scale = _WIDTH / (trace.span_us or 1.0)
        for row, (lane, works) in enumerate(trace.lanes.items()):
            y = 0.2 + row * _STEP
            sketch.text(left, y + _HEIGHT / 2, lane_name(lane), size=_SIZE, anchor="right")
            style = {"facecolor": _fill(lane), "edgecolor": "none"}
            for start, end in _bars(works, trace.span_us / _FINEST):
                width = max((end - start) * scale, 0.03)
                sketch.box(left + 0.4 + start * scale, y, width=width, height=_HEIGHT, **style)
        below = 0.2 + len(trace.lanes) * _STEP + 0.2
        words = f"{trace.span_us / 1e3:.2f} ms"
        sketch.text(left + 0.4 + _WIDTH, below, words, size=_SIZE, anchor="right", color=ink.soft)
        sketch.text(left + 0.4, below, self.device, size=_SIZE, color=ink.soft)
        return sketch.png()


def page_of(trace: StreamTrace, device: str = "") -> str:
    """The picture, which says of which device it is, and under it its text."""
    return StreamLanes(trace, device).with_text()


def _fill(lane: str) -> str:
    kinds = {"host": _HOST, "copies": _COPIES}
    return next((fill for kind, fill in kinds.items() if lane.startswith(kind)), _KERNELS)


def _bars(works: tuple[Work, ...], gap_us: float) -> list[tuple[float, float]]:
    bars: list[tuple[float, float]] = []
    for work in works:
        if bars and work.start_us - bars[-1][1] <= gap_us:
            bars[-1] = (bars[-1][0], max(bars[-1][1], work.end_us))
        else:
            bars.append((work.start_us, work.end_us))
    return bars
