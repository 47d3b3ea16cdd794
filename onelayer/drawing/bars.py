"""`show_bars`: a few numbers side by side, as lengths."""

from collections.abc import Mapping
from dataclasses import dataclass

from .sketch import Ink, Sketch, text_width
from .still import Still
from .words import say

_WIDTH = 11.0  # of the longest bar, in units of a sketch: wider, and a phone makes the words small
_STEP, _HEIGHT, _SIZE = 1.4, 0.9, 8.0
_FILL, _EDGE = "#54a3c8", "#2e6f8e"


@dataclass(frozen=True, repr=False)
class Bars(Still):
    """What `show_bars` shows: named numbers, none negative, and what they count."""

    values: tuple[tuple[str, float], ...]
    unit: str

    def __repr__(self) -> str:
        wide = max(len(name) for name, _ in self.values)
        bars = ("█" * round(30 * share) for share in self._shares)
        words = (self.words(value) for _, value in self.values)
        rows = zip((name for name, _ in self.values), words, bars, strict=True)
        longest = max(len(self.words(value)) for _, value in self.values)
        return "\n".join(f"{n:<{wide}}  {w:>{longest}}  {b}".rstrip() for n, w, b in rows)

    def words(self, value: float) -> str:
        """Whole numbers and thousands in full, others with three digits."""
        if isinstance(value, int):
            number = f"{value:,}"
        else:
            number = f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"
        return f"{number} {self.unit}".strip()

    @property
    def _shares(self) -> list[float]:
        longest = max(value for _, value in self.values) or 1
        return [value / longest for _, value in self.values]

    def drawn(self, ink: Ink) -> bytes:
        sketch = Sketch(ink)
        left = 0.4 + max(text_width(name, _SIZE) for name, _ in self.values)
        for row, ((name, value), share) in enumerate(zip(self.values, self._shares, strict=True)):
            y = 0.2 + row * _STEP
            length = max(_WIDTH * share, 0.06)
            style = {"facecolor": _FILL, "edgecolor": _EDGE}
            sketch.text(left, y + _HEIGHT / 2, name, size=_SIZE, anchor="right")
            sketch.box(left + 0.4, y, width=length, height=_HEIGHT, **style)
            end = left + 0.8 + length
            sketch.text(end, y + _HEIGHT / 2, self.words(value), size=_SIZE, color=ink.soft)
        return sketch.png()


def show_bars(values: Mapping[str, float], *, unit: str = "") -> Bars:
    """Draws each number of `values` as a bar under its name; the longest one sets the scale.

        show_bars({"weight": 153_600, "bias": 2_400}, unit="bytes")

    Raises ValueError for no values, for negative ones, and for NaN or infinity.
    """
    if not values or not all(0 <= value < float("inf") for value in values.values()):
        raise ValueError(
            say("show_bars draws finite numbers from 0 up, got {values}", values=dict(values))
        )
    return Bars(tuple(values.items()), unit).show()
