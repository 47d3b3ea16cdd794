"""`show_curves`: a few sequences of numbers, drawn over their steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import isfinite

from .sketch import Ink
from .still import Still
from .words import say

_COLOURS, _STYLES = ("#2f83ad", "#c2571a", "#4d8a4a"), ("-", "--", "-.")
_TOLD = 9  # values of a curve that its text gives


@dataclass(frozen=True, repr=False)
class Curves(Still):
    """What `show_curves` shows: named values, one for each step, and what is counted."""

    values: tuple[tuple[str, tuple[float, ...]], ...]
    step: str
    unit: str

    def __repr__(self) -> str:
        """Some values of each curve, evenly spaced, the first and the last among them."""
        wide = max(len(name) for name, _ in self.values)
        lines = [say("{unit} over {step}", unit=self.unit, step=self.step)]
        for name, ys in self.values:
            places = sorted({round(i * (len(ys) - 1) / (_TOLD - 1)) for i in range(_TOLD)})
            told = ", ".join(
                say("{value:.3g} at {place}", value=ys[place], place=place) for place in places
            )
            lines.append(f"  {name:<{wide}}  {told}")
        return "\n".join(lines)

    def drawn(self, ink: Ink) -> bytes:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure((5.2, 2.2), dpi=200, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        longest = max(len(ys) for _, ys in self.values)
        for (name, ys), colour, style in zip(self.values, _COLOURS, _STYLES, strict=False):
            axes.plot(ys, label=name, color=colour, linestyle=style, linewidth=1.6)
            if len(ys) < longest:  # it ends here, and may be no more than this point
                axes.plot(len(ys) - 1, ys[-1], "x", color=colour, markersize=6, clip_on=False)
        axes.set_xlabel(self.step, color=ink.strong, fontsize=8)
        axes.set_ylabel(self.unit, color=ink.strong, fontsize=8)
        axes.tick_params(colors=ink.soft, labelsize=7)
        for edge, spine in axes.spines.items():
            spine.set(color=ink.soft, visible=edge in ("left", "bottom"))
        axes.axhline(0, color=ink.soft, linewidth=0.5)
        axes.legend(
            loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(self.values),
            fontsize=8, labelcolor=ink.strong, frameon=False,
        )  # fmt: skip
        file = BytesIO()
        figure.savefig(file, format="png", transparent=True)
        return file.getvalue()


def show_curves(values: Mapping[str, Sequence[float]], *, step: str, unit: str) -> Curves:
    """Draws each sequence of `values` as a line over its steps 0, 1, 2, ...: three at most. One
    that is shorter than the longest has a cross where it ends.

        show_curves({"loss": [2.3, 1.7, 1.2]}, step="step", unit="loss")

    Raises ValueError for no curve, for more than three, for an empty one, and for NaN or infinity.
    """
    curves = tuple((name, tuple(map(float, ys))) for name, ys in values.items())
    whole = all(ys and all(map(isfinite, ys)) for _, ys in curves)
    if not 0 < len(curves) <= len(_COLOURS) or not whole:
        raise ValueError(
            say(
                "show_curves draws one to three curves of finite numbers, got {values}",
                values=values,
            )
        )
    return Curves(curves, step, unit).show()
