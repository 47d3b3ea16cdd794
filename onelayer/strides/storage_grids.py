"""Each tensor of a storage picture: its facts as a caption, its addresses as grids."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from onelayer.drawing.sketch import Sketch, text_width
from onelayer.drawing.words import say

from .layout import Layout, Panel, Side
from .storage import Storage

_GAP = 0.06  # around a cell
_ELLIPSIS = 0.75  # what the place of something left out takes
_CAPTION = 8.0  # the narrowest tensor, for its caption's sake
_LINE = 0.62
_BETWEEN = 0.8  # two grids of one tensor
_ACROSS = 4  # grids side by side at most
_DIGITS = "#12202b"  # on every tint
_FAINT = "#1c2c38"  # an address: 4.5:1 on every tint


@dataclass(frozen=True)
class Pen:
    """Draws cells of one width onto a sketch, each with its tint, its value and its address."""

    sketch: Sketch
    tints: Mapping[int, str]
    width: float
    small = 6.8  # points
    tiny = 7.0
    corner = 6.5

    def step(self, cell: int | None) -> float:
        return _ELLIPSIS if cell is None else self.width

    def cell(self, x: float, y: float, cell: int | None, value: str, *, address: bool) -> None:
        """A cell with `value` in it, and its address in the corner if that is wanted."""
        if cell is None:
            self.dots(x + _ELLIPSIS / 2, y + 0.5)
            return
        tint = self.tints.get(cell)  # None: nobody reads it
        self.sketch.box(
            x + _GAP / 2,
            y + _GAP / 2,
            width=self.width - _GAP,
            height=1 - _GAP,
            facecolor=tint or "none",
            edgecolor=tint or self.sketch.ink.soft,
            linestyle="-" if tint else ":",
        )
        middle = x + self.width / 2, y + (0.36 if address else 0.5)
        self.sketch.text(*middle, value, anchor="center", color=_DIGITS)
        if address:
            right, colour = x + self.width - 0.12, _FAINT if tint else self.sketch.ink.soft
            self.sketch.text(
                right, y + 0.79, str(cell), size=self.corner, anchor="right", color=colour
            )

    def dots(self, x: float, y: float, *, down: float = 0.0, right: float = 0.17) -> None:
        """Three dots around (x, y) for what is left out."""
        for step in (-1, 0, 1):
            place = x + step * right - 0.04, y + step * down - 0.04
            soft = self.sketch.ink.soft
            self.sketch.box(*place, width=0.08, height=0.08, facecolor=soft, edgecolor="none")

    def bar(self, x: float, y: float, *, width: float) -> None:
        ink = self.sketch.ink.strong
        self.sketch.box(x, y - 0.07, width=width, height=0.14, facecolor=ink, edgecolor="none")

    def note(
        self, x: float, y: float, words: str, *, anchor: Literal["left", "center", "right"] = "left"
    ) -> None:
        self.sketch.text(x, y, words, size=self.small, anchor=anchor, color=self.sketch.ink.soft)

    def index(
        self, x: float, y: float, i: int | None, *, anchor: Literal["center", "right"]
    ) -> None:
        if i is not None:
            soft = self.sketch.ink.soft
            self.sketch.text(x, y, str(i), size=self.tiny, anchor=anchor, color=soft)


def draw_tensors(pen: Pen, storage: Storage, y: float, *, room: float) -> float:
    """The tensors side by side, as many as fit into `room`. Returns where the lowest ends."""
    x, bottom = 0.2, y
    for layout in storage.layouts:
        grids = _grids(pen, layout, room)
        if x > 0.2 and x + grids.width > room:
            x, y = 0.2, bottom + 0.7
        facts = [_unbroken(fact, storage) for fact in storage.facts(layout)]
        below = _draw_caption(pen, x, y, layout.name, facts, room=grids.width)
        bottom = max(bottom, _draw_grids(pen, grids, x, below))
        x += grids.width + 0.9
    return bottom


def _draw_caption(
    pen: Pen, x: float, y: float, name: str, facts: Sequence[str], *, room: float
) -> float:
    pen.sketch.text(x, y + 0.4, name, size=8.5, weight="bold")
    y += 1.1
    for line in _filled(facts, int(room / text_width("0", pen.small))):
        pen.note(x, y, line)
        y += _LINE
    return y


def _unbroken(fact: str, storage: Storage) -> str:
    """The fact with its names kept in one piece, however the caption is filled."""
    for layout in storage.layouts:
        fact = fact.replace(layout.name, layout.name.replace(" ", "\u00a0"))
    return fact


def _filled(facts: Sequence[str], characters: int) -> list[str]:
    """The facts on as few lines as they need, broken between facts where that is possible."""
    lines: list[str] = []
    for fact in facts:
        joined = f"{lines[-1]} · {fact}" if lines else fact
        if lines and len(joined) <= characters:
            lines[-1] = joined
        else:
            lines += textwrap.wrap(fact, characters, subsequent_indent="  ", break_on_hyphens=False)
    return lines


@dataclass(frozen=True)
class _Grids:
    """How one tensor's grids are arranged: `across` side by side, `grid` wide, in `width`."""

    layout: Layout
    margin: float  # left of each grid, for the row numbers
    grid: float
    across: int
    width: float


def _grids(pen: Pen, layout: Layout, room: float) -> _Grids:
    caption = max(_CAPTION, text_width(layout.name, 8.5))
    if not layout.panels:
        return _Grids(layout, margin=0.0, grid=0.0, across=1, width=caption)
    first = layout.panels[0]
    rows = layout.shape[-2] if len(layout.shape) > 1 else 0  # a vector has no row to number
    margin = text_width(str(rows - 1), pen.tiny) + 0.25 if rows else 0.0
    grid = margin + sum(pen.step(c) for c in first.columns)
    fit = int((room + _BETWEEN) // (grid + _BETWEEN))
    lines_up = layout.shape[-3] if len(layout.shape) > 2 else 1  # one line per leading index
    across = max(1, min(fit, _ACROSS, lines_up, len(layout.panels)))
    width = max(caption, across * (grid + _BETWEEN) - _BETWEEN)
    return _Grids(layout, margin=margin, grid=grid, across=across, width=width)


def _draw_grids(pen: Pen, grids: _Grids, x: float, y: float) -> float:
    if not grids.layout.panels:
        pen.note(x, y + 0.4, say("no elements"))
        return y + 0.8
    bottom = y
    for place, panel in enumerate(grids.layout.panels):
        line, column = divmod(place, grids.across)
        if line and column == 0:
            y = bottom + 0.3
        left = x + column * (grids.grid + _BETWEEN)
        bottom = max(bottom, _draw_panel(pen, grids, panel, left, y))
    if grids.layout.panels_left_out:
        pen.note(x, bottom + 0.5, say("… and {n:,} more", n=grids.layout.panels_left_out))
        bottom += 0.9
    return bottom


def _draw_panel(pen: Pen, grids: _Grids, panel: Panel, x: float, y: float) -> float:
    """One grid with its row and column numbers. Returns where it ends."""
    if panel.outer:
        outer = ", ".join(map(str, panel.outer))
        pen.sketch.text(x, y + 0.4, f"[{outer}, …]", size=pen.small)
        y += 0.85
    x += grids.margin
    places = _places(pen, panel.columns, x)
    if grids.layout.shape:  # a scalar has no column to number
        for left, c in zip(places, panel.columns, strict=True):
            pen.index(left + pen.width / 2, y + 0.2, c, anchor="center")
        y += 0.5
    for r, cells in zip(panel.rows, panel.cells, strict=True):
        if grids.margin:
            pen.index(x - 0.2, y + 0.5, r, anchor="right")
        y = _draw_cells(
            pen, grids.layout, cells, places, y, columns=panel.columns, left_out=r is None
        )
    return y


def _draw_cells(
    pen: Pen,
    layout: Layout,
    cells: Side,
    places: list[float],
    y: float,
    *,
    columns: Side,
    left_out: bool,
) -> float:
    for left, cell, c in zip(places, cells, columns, strict=True):
        if left_out:
            right = 0.14 if c is None else 0.0
            pen.dots(left + pen.step(c) / 2, y + _ELLIPSIS / 2, down=0.14, right=right)
        else:
            value = "" if cell is None or cell not in layout.values else layout.text(cell)
            pen.cell(left, y, cell, value, address=True)
    return y + (_ELLIPSIS if left_out else 1.0)


def _places(pen: Pen, columns: Side, x: float) -> list[float]:
    places = []
    for c in columns:
        places.append(x)
        x += pen.step(c)
    return places
