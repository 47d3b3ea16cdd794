"""`show_regimes`: times over a size, both on logarithmic scales, each series in its colour."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from onelayer.drawing.sketch import Ink, Sketch
from onelayer.drawing.still import Still
from onelayer.drawing.words import say

_WIDTH, _HEIGHT, _SIZE, _DOT = 22.0, 11.0, 8.0, 0.28
_FILLS = ("#54a3c8", "#d1605e", "#e0a03c", "#5fb37a", "#b07cc6")
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, repr=False)
class Regimes(Still):
    """What `show_regimes` shows: series of (size, microseconds)."""

    series: tuple[tuple[str, tuple[tuple[float, float], ...]], ...]
    size: str

    @property
    def alt(self) -> str:
        return say("times over the size, on logarithmic scales; the text has the numbers")

    def __repr__(self) -> str:
        wide = max(len(name) for name, _ in self.series)
        first = say(
            "microseconds over {size}, first, middle and last point of each series", size=self.size
        )
        lines = [first]
        for name, points in self.series:
            told = [points[0], points[len(points) // 2], points[-1]]
            lines.append(f"{name:<{wide}}  " + "  ".join(f"{n:,.0f}: {us:,.3g}" for n, us in told))
        return "\n".join(lines)

    def drawn(self, ink: Ink) -> bytes:
        sketch, left = Sketch(ink), 4.0
        every = [point for _, points in self.series for point in points]
        (low_x, high_x), (low_y, high_y) = (_decades([p[k] for p in every]) for k in (0, 1))
        for decade in range(low_y, high_y + 1):
            y = 1.0 + _HEIGHT * (high_y - decade) / (high_y - low_y)
            style = {"facecolor": ink.soft, "edgecolor": "none", "alpha": 0.35}
            sketch.box(left, y, width=_WIDTH, height=0.02, **style)
            sketch.text(left - 0.3, y, _us(decade), size=_SIZE, anchor="right", color=ink.soft)
        for decade in range(low_x, high_x + 1):
            x = left + _WIDTH * (decade - low_x) / (high_x - low_x)
            label = f"{10**decade:,}"
            sketch.text(x, 1.7 + _HEIGHT, label, size=_SIZE, anchor="center", color=ink.soft)
        for n, (_, points) in enumerate(self.series):
            for size, us in points:
                x = left + _WIDTH * (log10(size) - low_x) / (high_x - low_x)
                y = 1.0 + _HEIGHT * (high_y - log10(us)) / (high_y - low_y)
                style = {"facecolor": _FILLS[n % len(_FILLS)], "edgecolor": "none"}
                sketch.box(x - _DOT / 2, y - _DOT / 2, width=_DOT, height=_DOT, **style)
        _legend(sketch, [name for name, _ in self.series], left, self.size)
        return sketch.png()


def show_regimes(series: Mapping[str, Points], *, size: str) -> Regimes:
    """Draws microseconds over a size, a colour for each series.

        show_regimes({"this CPU, measured": [(1, 9.0), (64, 30.0)]}, size="N tokens")

    Raises ValueError for no series, for one without points, and for what is not above zero.
    """
    if not series or not all(series.values()):
        raise ValueError(say("show_regimes draws at least one point of each series"))
    if min(number for points in series.values() for point in points for number in point) <= 0:
        raise ValueError(say("a logarithmic scale has no place for 0 or less"))
    held = tuple((name, tuple(points)) for name, points in series.items())
    return Regimes(held, size).show()


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around all values, at least two."""
    low = floor(log10(min(values)))
    return low, max(ceil(log10(max(values))), low + 1)


def _us(decade: int) -> str:
    unit, power = ("us", decade) if decade < 3 else ("ms", decade - 3)
    return f"{10**power:,} {unit}" if power >= 0 else f"{10.0**power:g} {unit}"


def _legend(sketch: Sketch, names: Sequence[str], left: float, size: str) -> None:
    x, y = left, 2.9 + _HEIGHT
    sketch.text(x, y, say("over {size}:", size=size), size=_SIZE)
    for n, name in enumerate(names):
        y += 1.0
        fill = _FILLS[n % len(_FILLS)]
        sketch.box(x, y - 0.2, width=0.4, height=0.4, facecolor=fill, edgecolor="none")
        sketch.text(x + 0.8, y, name, size=_SIZE)
