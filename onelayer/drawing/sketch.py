"""Rounded boxes and monospaced text on a transparent ground, for a light page or a dark one."""

import warnings
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

# One unit of a sketch is the height of a cell.
_UNIT_INCHES = 0.26
_DPI = 200  # drawn at twice the size it is shown in
_CHARACTER = 0.602 / 72 / _UNIT_INCHES  # width of a character, in units per point of its size


@dataclass(frozen=True)
class Ink:
    """Colours of what stands on the page itself: 7:1 and 4.5:1 against either ground."""

    strong: str
    soft: str


LIGHT, DARK = Ink("#1c2733", "#5a6672"), Ink("#eef1f4", "#a3afba")


def text_width(words: str, size: float) -> float:
    """How wide `words` are, in units."""
    return len(words) * size * _CHARACTER


class Sketch:
    """Marks at (x, y) in units, y downwards. It grows to the right and down with what is put on."""

    def __init__(self, ink: Ink) -> None:
        self.ink = ink
        self._right = self._bottom = 0.0
        self._marks: list[tuple[str, dict[str, Any]]] = []

    def box(self, x: float, y: float, *, width: float, height: float, **style: Any) -> None:
        """A rounded rectangle; `style` is a matplotlib patch's."""
        self._reach(x + width, y + height)
        style = {"xy": (x, y), "width": width, "height": height, "linewidth": 0.7} | style
        self._marks.append(("box", style))

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 7.5,
        anchor: Literal["left", "center", "right"] = "left",
        **style: Any,
    ) -> None:
        """Words around the height y; `style` is a matplotlib text's."""
        reach = {"left": 1.0, "center": 0.5, "right": 0.0}[anchor]
        self._reach(x + reach * text_width(words, size), y + 0.5)
        style = {"x": x, "y": y, "s": words, "fontsize": size, "ha": anchor} | style
        self._marks.append(("text", {"color": self.ink.strong} | style))

    def png(self) -> bytes:
        """The sketch, without pyplot: no figure is left open and no backend is chosen."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.patches import FancyBboxPatch

        right, bottom = self._right + 0.2, self._bottom + 0.2
        figure = Figure((right * _UNIT_INCHES, bottom * _UNIT_INCHES), dpi=_DPI)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, right), ylim=(bottom, 0))
        axes.set_axis_off()
        for kind, style in self._marks:
            if kind == "text":
                axes.text(va="center", family="DejaVu Sans Mono", parse_math=False, **style)
            else:
                radius = min(0.16, style["height"] / 2, style["width"] / 2)
                corner = f"round,pad=0,rounding_size={radius}"
                axes.add_patch(FancyBboxPatch(boxstyle=corner, **style))
        return _png(figure)

    def _reach(self, x: float, y: float) -> None:
        self._right, self._bottom = max(self._right, x), max(self._bottom, y)


def _png(figure: Any) -> bytes:
    file = BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a name in a script that the font lacks
        figure.savefig(file, format="png", transparent=True)
    return file.getvalue()
