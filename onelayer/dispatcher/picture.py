"""The drawing of `show_dispatch`: one box per key, a line along the way of the call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onelayer.drawing.sketch import DARK, LIGHT, Sketch, text_width

if TYPE_CHECKING:
    from .dispatch import Stop

_STEP = 1.5  # from one key to the next
_DIGITS = "#12202b"  # readable on every fill


def draw(title: str, stops: Sequence["Stop"], *, dark: bool) -> bytes:
    """The picture as a PNG on a transparent ground, with inks for a light or a dark page."""
    sketch = Sketch(DARK if dark else LIGHT)
    sketch.text(0.2, 0.5, title, size=8.5, weight="bold")
    wide = 0.8 + max((text_width(stop.entry.key, 7.5) for stop in stops), default=4.0)
    for place, stop in enumerate(stops):
        _draw_stop(sketch, stop, 1.3 + place * _STEP, wide)
    return sketch.png()


def _draw_stop(sketch: Sketch, stop: "Stop", y: float, wide: float) -> None:
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
