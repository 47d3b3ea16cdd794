"""The plots of a lab's page: SVG that stands in the page, in its colours and its letters.

Every shade differs from its neighbours in lightness and in texture too, so the plots can be read in
grey. matplotlib writes fixed colours; each of ours stands for a variable of the page's style sheet,
which has a light and a dark value for it.
"""

import io
import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from .items import Item, Spread

INK, SOFT, LINE, GROUND = "#010101", "#020202", "#030303", "#040404"
PASSED, WRONG, BLANK, OPEN = "#050505", "#060606", "#070707", "#080808"
VARIABLES = {
    INK: "ink", SOFT: "soft", LINE: "line", GROUND: "ground",
    PASSED: "passed", WRONG: "wrong", BLANK: "blank", OPEN: "open",
}  # fmt: skip

STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "one layer deep",
    "font.size": 10,
    "hatch.linewidth": 0.7,
    "lines.linewidth": 1.4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": LINE,
    "axes.labelcolor": SOFT,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.2,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": INK,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}

OUTCOMES = (
    ("passed", PASSED, "", GROUND),
    ("wrong", WRONG, "////", GROUND),
    ("open", OPEN, "xxxx", INK),
    ("blank", BLANK, "", INK),
)
NAMES = {"passed": "passed", "wrong": "wrong", "open": "for a person", "blank": "not answered"}
ROW = 0.34
"""Inches of height for a question."""


@dataclass(frozen=True)
class Shape:
    """A plot is drawn for a desk and for a phone, and the page shows the one that fits: letters
    that shrink with a wide plot cannot be read. name: a class of the page's style sheet. width: in
    inches."""

    name: str
    width: float
    legend_columns: int


WIDE, NARROW = Shape("plot", 9, 4), Shape("small-plot", 4, 2)


def scores(points: Sequence[float], max_points: float, shape: Shape = WIDE) -> str:
    """How many students have how many points; the median is marked."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(shape.width, 2.7), layout="constrained")
        axes = figure.subplots()
        edges = _edges(max_points)
        counts, *_ = axes.hist(points, bins=edges, color=PASSED, edgecolor=GROUND, linewidth=1.2)
        if points:
            middle = statistics.median(points)
            axes.axvline(middle, color=INK, linestyle="dashed", zorder=0.8)
            side = "right" if middle > max_points / 2 else "left"
            text = f" median {middle:g} "
            top = axes.get_xaxis_transform()
            axes.text(middle, 1.03, text, transform=top, ha=side)
        axes.set(xlim=(edges[0], edges[-1]), ylim=(0, (max(counts) or 1.0) * 1.06))
        axes.set_xlabel(f"points of {max_points:g}, from the checks")
        axes.set_ylabel("students")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12 if shape is WIDE else 6))
        axes.grid(axis="y")
        axes.tick_params(colors=SOFT)
        return _svg(figure, "scores", shape, _scores_in_words(points, max_points))


def _edges(max_points: float) -> list[float]:
    """Bins of whole points, 45 at most. The last one holds `max_points`."""
    width = max(1, round(max_points / 30))
    count = math.ceil(max_points / width + 0.5)
    return [width * (i - 0.5) for i in range(count + 1)]


def _scores_in_words(points: Sequence[float], max_points: float) -> str:
    if not points:
        return "Histogram of the points: nobody has been graded yet."
    low, high, middle = min(points), max(points), statistics.median(points)
    return (
        f"Histogram of the points of {len(points)} students: from {low:g} to {high:g} of "
        f"{max_points:g}, median {middle:g}."
    )


def questions(items: Sequence[Item], shape: Shape = WIDE) -> str:
    """A bar of outcomes per question, and how well the question tells students apart."""
    with mpl.rc_context(STYLE):
        figure, (bars, dots) = _pair(shape, items, widths=(2.4, 1))
        _outcomes(bars, items, columns=shape.legend_columns)
        _discriminations(dots, items)
        return _svg(figure, "questions", shape, _questions_in_words(items))


def _pair(
    shape: Shape, items: Sequence[Item], widths: tuple[float, float] = (1, 1)
) -> tuple[Figure, Sequence[Axes]]:
    """Two plots with a row for each question: side by side, or one above the other, each with the
    names of the questions."""
    height = 0.95 + ROW * max(len(items), 1)
    if shape is WIDE:
        figure = Figure(figsize=(shape.width, height), layout="constrained")
        made = figure.subplots(1, 2, sharey=True, width_ratios=widths)
    else:
        figure = Figure(figsize=(shape.width, 2 * height), layout="constrained")
        made = figure.subplots(2, 1)
    for axes in made:
        names = [item.question.name for item in items]
        axes.set_yticks(range(len(items)), names, family="monospace")
        axes.set_ylim(max(len(items), 1) - 0.5, -0.5)  # the first one on top
    return figure, made


def _outcomes(axes: Axes, items: Sequence[Item], *, columns: int) -> None:
    rows = range(len(items))
    start = [0.0] * len(items)
    totals = [max(1, i.passed + i.wrong + i.open + i.blank) for i in items]
    for name, colour, hatch, hatched in OUTCOMES:
        shares = [getattr(i, name) / t for i, t in zip(items, totals, strict=True)]
        axes.barh(rows, shares, left=start, height=0.66, color=colour, label=NAMES[name],
                  hatch=hatch, edgecolor=hatched, linewidth=0)  # fmt: skip
        axes.barh(rows, shares, left=start, height=0.66, fill=False, edgecolor=SOFT, linewidth=0.6)
        start = [a + b for a, b in zip(start, shares, strict=True)]
    axes.set(xlim=(0, 1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    axes.set_xlabel("share of the students")
    axes.spines["left"].set_visible(False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns)


def _discriminations(axes: Axes, items: Sequence[Item]) -> None:
    for row, item in enumerate(items):
        if item.discrimination is None:
            axes.text(0.08, row, "cannot be said", color=SOFT, va="center")
            continue
        axes.hlines(row, 0, item.discrimination, color=SOFT)
        axes.plot(item.discrimination, row, "o", color=INK)
    known = [item.discrimination for item in items if item.discrimination is not None]
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set(xlim=(min([-0.2, *known]) - 0.1, 1.05))
    axes.grid(axis="x")
    axes.set_xlabel("discrimination")
    axes.spines["left"].set_visible(False)


def _questions_in_words(items: Sequence[Item]) -> str:
    text = "; ".join(
        f"{i.question.name}: {i.passed} passed, {i.wrong} wrong, {i.blank} not answered, "
        f"{i.open} for a person, discrimination "
        + ("cannot be said" if i.discrimination is None else f"{i.discrimination:.2f}")
        for i in items
    )
    return f"Bars of the outcomes per question. {text}."


def costs(items: Sequence[Item], shape: Shape = WIDE) -> str:
    """Time and memory per question: from the median to what 95 of 100 stay below."""
    with mpl.rc_context(STYLE):
        figure, (time, memory) = _pair(shape, items)
        _spreads(time, [item.wall_s for item in items], "time", seconds)
        _spreads(memory, [item.peak_bytes for item in items], "memory", in_bytes)
        return _svg(figure, "costs", shape, _costs_in_words(items))


def _spreads(
    axes: Axes, spreads: Sequence[Spread | None], label: str, form: Callable[[float], str]
) -> None:
    """A dot at the median, a line to the 95th percentile; on a logarithmic axis where values lie
    far apart."""
    known = [s for s in spreads if s is not None]
    for row, one in enumerate(spreads):
        if one is not None:
            axes.hlines(row, one.median, one.most, color=SOFT, linewidth=3)
            axes.plot(one.most, row, "|", color=INK, markersize=9, markeredgewidth=1.6)
            axes.plot(one.median, row, "o", color=INK)
    axes.set_xlabel(label)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    if known:
        low, high = min(s.median for s in known), max(s.most for s in known)
        axes.set_xscale("log")
        axes.set_xlim(low / 2, high * 2)
        axes.xaxis.set_major_locator(LogLocator(subs=_digits(high / low)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=SOFT)
        axes.set_xticks([])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: form(value)))


def _digits(ratio: float) -> tuple[float, ...]:
    """What the numbers at a logarithmic axis begin with, whose ends lie so far apart: there are at
    least two of them, since one alone tells no scale."""
    if ratio > 50:
        return (1.0,)
    return (1.0, 3.0) if ratio > 3 else (1.0, 2.0, 5.0)


def seconds(value: float) -> str:
    """A duration with its unit, two digits; from a hundred seconds on whole ones."""
    if value < 0.0995:
        return f"{value * 1000:.2g} ms"
    return f"{value:.2g} s" if value < 99.5 else f"{value:.0f} s"


def in_bytes(value: float) -> str:
    """A size with its unit."""
    for unit in ("B", "kB", "MB"):
        if value < 999.5:  # what rounds to 1000 is one of the next unit
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def _costs_in_words(items: Sequence[Item]) -> str:
    text = "; ".join(
        f"{i.question.name}: median "
        + (seconds(i.wall_s.median) if i.wall_s else "not measured")
        + ", "
        + (in_bytes(i.peak_bytes.median) if i.peak_bytes else "memory not measured")
        for i in items
    )
    return f"Time and memory per question. {text}."


_ELSEWHERE = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<style.*?</style>", re.S
)
_ID = re.compile(r'(\bid="|url\(#|href="#)')
_SIZE = re.compile(r'(<svg [^>]*?) width="[^"]*"')
_HEIGHT = re.compile(r'(<svg [^>]*?) height="[^"]*"')


def _svg(figure: Figure, name: str, shape: Shape, words: str) -> str:
    """`figure` as an element of the page: named, text in words, in the page's colours."""
    out = io.StringIO()
    figure.savefig(out, format="svg")
    text = _ID.sub(rf"\1{name}-{shape.name}-", _ELSEWHERE.sub("", out.getvalue())).strip()
    text = _HEIGHT.sub(r"\1", _SIZE.sub(r"\1", text))
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    head = f'<svg class="{shape.name}" role="img" aria-label="{escape(words, quote=True)}" '
    return text.replace("<svg ", head)
