"""`show_dispatch`: a call's way through the dispatcher, one box per key, a line along the way."""

from dataclasses import dataclass

import torch

from onelayer.drawing.sketch import Ink, Sketch, text_width
from onelayer.drawing.still import Still
from onelayer.drawing.words import say

from .dispatch import Stop, path

_STEP = 1.5  # from one key to the next
_DIGITS = "#12202b"  # readable on every fill


@dataclass(frozen=True, repr=False)
class DispatchPicture(Still):
    """What `show_dispatch` saw: the keys of one call and what becomes of each."""

    op: str
    stops: tuple[Stop, ...]

    @property
    def ran(self) -> tuple[str, ...]:
        """The keys whose kernels run, in order."""
        return tuple(stop.entry.key for stop in self.stops if stop.fate == "runs")

    @property
    def alt(self) -> str:
        stops = " ".join(f"{stop.entry.key}: {stop.words}." for stop in self.stops)
        return say("The keys of this call of {op}, highest priority first. ", op=self.op) + stops

    def __repr__(self) -> str:
        mark = {"runs": ">", "falls through": "|", "excluded": "x", "not reached": " "}
        wide = max((len(stop.entry.key) for stop in self.stops), default=0)
        lines = [f"  {mark[s.fate]} {s.entry.key:{wide}}  {s.words}" for s in self.stops]
        return "\n".join([say("{op}: highest priority first", op=self.op), *lines])

    def drawn(self, ink: Ink) -> bytes:
        sketch = Sketch(ink)
        title = say("{op}: the keys of this call, highest priority first", op=self.op)
        sketch.text(0.2, 0.5, title, size=8.5, weight="bold")
        wide = 0.8 + max((text_width(stop.entry.key, 7.5) for stop in self.stops), default=4.0)
        for place, stop in enumerate(self.stops):
            _draw_stop(sketch, stop, 1.3 + place * _STEP, wide)
        return sketch.png()


def show_dispatch(op: str, *tensors: torch.Tensor) -> DispatchPicture:
    """A picture of one call's way through the dispatcher, in the mode of this moment.

        show_dispatch("aten::addmm", bias, x, weight)

    Nothing is called: the key set comes from the tensors and the thread, the kernels from the
    operator's table. In a notebook the picture appears at once; `ran` lists the keys whose kernels
    would run.

    Raises RuntimeError for an operator that does not exist.
    """
    return DispatchPicture(op, path(op, *tensors)).show()


def _draw_stop(sketch: Sketch, stop: Stop, y: float, wide: float) -> None:
    runs, passed = stop.fate == "runs", stop.fate == "falls through"
    ink = sketch.ink.strong if runs else sketch.ink.soft
    fill = "#a9d6c5" if runs else "none"
    edge = "solid" if runs or passed else "dotted"
    sketch.box(1.2, y, width=wide, height=1.1, facecolor=fill, edgecolor=ink, linestyle=edge)
    words = _DIGITS if runs else ink
    sketch.text(1.2 + wide / 2, y + 0.55, stop.entry.key, anchor="center", color=words)
    mark = {"runs": "▶", "falls through": "│", "excluded": "✕"}.get(stop.fate, "")
    sketch.text(0.6, y + 0.55, mark, anchor="center", size=9, color=ink)
    room = " " * (1 + len(stop.words) // 20)  # hinted letters are a little wider than counted
    sketch.text(1.6 + wide, y + 0.55, stop.words + room, color=ink)
