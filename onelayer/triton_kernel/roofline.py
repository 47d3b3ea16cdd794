"""`show_roofline`: what bytes and arithmetic allow, and where kernels stand under it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from math import ceil, floor, log10
from typing import NamedTuple

from onelayer.drawing.sketch import Ink
from onelayer.drawing.still import Still
from onelayer.drawing.words import say

_COLOURS, _MARKS = ("#2f83ad", "#c2571a", "#4d8a4a", "#8a5fa8"), "osD^vPX*"
_SCALES = {True: (1e12, "T"), False: (1e9, "G")}


class Roof(NamedTuple):
    """What a device can do at best: FLOP per second, and bytes per second of its memory."""

    flop_s: float
    bytes_s: float


class Work(NamedTuple):
    """What a kernel does. seconds: what it took, or None where nobody measured."""

    flops: float
    nbytes: float
    seconds: float | None = None

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flops / self.nbytes


@dataclass(frozen=True, repr=False)
class Roofline(Still):
    """What `show_roofline` shows."""

    roofs: tuple[tuple[str, Roof], ...]
    works: tuple[tuple[str, Work], ...]

    def __repr__(self) -> str:
        lines = [
            f"{name}: {_rate(roof.flop_s, 'FLOP')}, {_rate(roof.bytes_s, 'B')}, "
            + say("ridge at {ridge:,.3g} FLOP/byte", ridge=roof.flop_s / roof.bytes_s)
            for name, roof in self.roofs
        ]
        wide = max(len(name) for name, _ in self.works)
        for name, work in self.works:
            took = say("not measured")
            if work.seconds is not None:
                took = say("measured {rate}", rate=_rate(work.flops / work.seconds, "FLOP"))
            lines.append(f"  {name:<{wide}}  {work.intensity:>8,.3g} FLOP/byte, {took}")
        return "\n".join(lines)

    def drawn(self, ink: Ink) -> bytes:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import NullFormatter

        figure = Figure((6.4, 3.4), dpi=200, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot(xscale="log", yscale="log")
        least, most = self._span
        scale, unit = _SCALES[max(roof.flop_s for _, roof in self.roofs) >= 1e12]
        for (name, roof), colour in zip(self.roofs, _COLOURS, strict=False):
            xs = [least, roof.flop_s / roof.bytes_s, most]
            ys = [min(roof.flop_s, x * roof.bytes_s) / scale for x in xs]
            axes.plot(xs, ys, color=colour, linewidth=1.6, label=name)
        for n, (name, work) in enumerate(self.works):
            hollow = work.seconds is None  # on the roof: the bound, not a measurement
            heights = [work.flops / work.seconds] if work.seconds else self._bounds(work)
            axes.plot(
                [work.intensity] * len(heights), [y / scale for y in heights], label=name,
                marker=_MARKS[n % len(_MARKS)], color=ink.strong, linestyle="none", markersize=5,
                markerfacecolor="none" if hollow else ink.strong,
            )  # fmt: skip
        axes.set_xlabel(say("FLOP per byte of memory traffic"), color=ink.strong, fontsize=8)
        axes.set_ylabel(f"{unit}FLOP/s", color=ink.strong, fontsize=8)
        low, high = axes.dataLim.intervaly  # decades have labels
        axes.set_ylim(10 ** floor(log10(low)), 1.5 * 10 ** ceil(log10(high)))
        axes.tick_params(which="both", colors=ink.soft, labelsize=7)
        axes.yaxis.set_minor_formatter(NullFormatter())
        for edge, spine in axes.spines.items():
            spine.set(color=ink.soft, visible=edge in ("left", "bottom"))
        axes.legend(
            loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7, labelcolor=ink.strong,
            frameon=False,
        )  # fmt: skip
        file = BytesIO()
        figure.savefig(file, format="png", transparent=True)
        return file.getvalue()

    @property
    def _span(self) -> tuple[float, float]:
        """FLOP per byte at the two edges: every work and every ridge has room."""
        shown = [work.intensity for _, work in self.works]
        shown += [roof.flop_s / roof.bytes_s for _, roof in self.roofs]
        return min(shown) / 3, max(shown) * 3

    def _bounds(self, work: Work) -> list[float]:
        return [min(roof.flop_s, work.intensity * roof.bytes_s) for _, roof in self.roofs]


def show_roofline(roofs: Mapping[str, Roof], works: Mapping[str, Work]) -> Roofline:
    """Draws the roofs, and each work under them: filled where it was measured, hollow on every roof
    where it was not, for there it can be at best.

        show_roofline({"H100": Roof(989e12, 3.35e12)}, {"logits": Work(flops=2e9, nbytes=5e7)})

    Williams, Waterman, Patterson: https://doi.org/10.1145/1498765.1498785. Raises ValueError for
    no roof, more than four, no work, or numbers that are not positive.
    """
    numbers = [n for pair in (*roofs.values(), *works.values()) for n in pair if n is not None]
    if not 0 < len(roofs) <= len(_COLOURS) or not works or not all(n > 0 for n in numbers):
        raise ValueError(
            say(
                "show_roofline draws one to four roofs and works; got {roofs}, {works}",
                roofs=roofs,
                works=works,
            )
        )
    return Roofline(tuple(roofs.items()), tuple(works.items())).show()


def _rate(per_s: float, unit: str) -> str:
    scale, prefix = _SCALES[per_s >= 1e12]
    return f"{per_s / scale:,.3g} {prefix}{unit}/s"
