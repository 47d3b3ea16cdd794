"""`show_stack`: kernels that call each other through the dispatcher, as frames of a call stack."""

from collections.abc import Sequence
from dataclasses import dataclass

from onelayer.drawing.sketch import Ink, Sketch, text_width
from onelayer.drawing.still import Still
from onelayer.drawing.words import say

_FILL, _CALLER, _EDGE, _WORDS = "#9fcfe8", "#e3e7eb", "#2e6f8e", "#1c2733"
_STEP, _HEIGHT, _SIZE, _SMALL = 2.0, 1.0, 8.0, 7.0  # units of a sketch; points
_WAY = "▼ {dispatcher} ▲"  # down as a call, up as a result
_BEGINS, _RETURNS = " begins", " returns"


@dataclass(frozen=True)
class Frame:
    """A kernel on the stack: how many stand around it, and between which events it ran."""

    name: str
    depth: int
    begin: int
    end: int


@dataclass(frozen=True, repr=False)
class Stack(Still):
    """What `show_stack` shows: the call, and the frames below it, time to the right."""

    call: str
    frames: tuple[Frame, ...]

    def __repr__(self) -> str:
        lines = [f"{'    ' * (frame.depth + 1)}{frame.name}" for frame in self.frames]
        return "\n".join([self.call, *lines])

    def drawn(self, ink: Ink) -> bytes:
        sketch = Sketch(ink)
        ends = 2 * len(self.frames)
        way = _WAY.format(dispatcher=say("dispatcher"))
        step = max(
            [text_width(way, _SMALL)]
            + [(text_width(f.name, _SIZE) + 0.4) / (f.end - f.begin) for f in self.frames]
        )
        self._frame(sketch, self.call, 0, left=0.3, width=step * (ends + 1), fill=_CALLER)
        for frame in self.frames:
            left = 0.3 + step * (frame.begin + 1)
            width = step * (frame.end - frame.begin)
            self._frame(sketch, frame.name, frame.depth + 1, left=left, width=width, fill=_FILL)
            y = 0.3 + _STEP * (frame.depth + 0.75)
            middle = left + width / 2
            sketch.text(middle, y, way, size=_SMALL, anchor="center", color=ink.soft)
        return sketch.png()

    def _frame(
        self, sketch: Sketch, name: str, depth: int, *, left: float, width: float, fill: str
    ) -> None:
        y = 0.3 + depth * _STEP
        sketch.box(left, y, width=width, height=_HEIGHT, facecolor=fill, edgecolor=_EDGE)
        middle = y + _HEIGHT / 2
        sketch.text(left + width / 2, middle, name, size=_SIZE, anchor="center", color=_WORDS)


def show_stack(call: str, log: Sequence[str]) -> Stack:
    """Draws what `call` ran, from a log that each kernel wrote as it began and as it returned.

        show_stack("head(x, W)", ["AutogradCPU begins", "CPU begins", "CPU returns", ...])

    Raises ValueError for an empty log, and for one in which a kernel returns that is not the last
    to have begun.
    """
    open_, frames = [], []
    for time, event in enumerate(log):
        if event.endswith(_BEGINS):
            open_.append((event.removesuffix(_BEGINS), time))
            continue
        name = event.removesuffix(_RETURNS)
        if not open_ or open_[-1][0] != name:
            raise ValueError(say("{event!r} closes no frame: {log}", event=event, log=list(log)))
        _, begin = open_.pop()
        frames.append(Frame(name, len(open_), begin, time))
    if open_ or not frames:
        raise ValueError(say("each kernel begins and returns: {log}", log=list(log)))
    return Stack(call, tuple(sorted(frames, key=lambda frame: frame.begin))).show()
