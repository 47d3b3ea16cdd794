"""`show_storage`: a row of cells per storage, and under it the tensors over it, as grids."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch

from onelayer.drawing.display import argument_names
from onelayer.drawing.sketch import Ink, Sketch, text_width
from onelayer.drawing.still import Still
from onelayer.drawing.words import say

from .layout import Layout, Scalar, Side
from .storage import Storage, storages_of
from .storage_grids import Pen, draw_tensors

_WIDTH = 26.0  # of the whole picture, in cell heights
_TRACK = 0.55  # height of a track

# Cells are tinted by address, pale to deep, in one hue per storage; a copy keeps the tints of what
# it copied, wherever its elements went. The order is in the lightness, so that it survives grey and
# colour blindness, and the deep end still carries dark digits.
_RAMPS = (
    ((255, 244, 207), (169, 214, 197), (84, 163, 200)),
    ((252, 239, 224), (233, 187, 200), (186, 139, 200)),
    ((246, 245, 214), (196, 218, 160), (122, 180, 118)),
)


@dataclass(frozen=True, repr=False)
class StoragePicture(Still):
    """What `show_storage` saw. It holds sizes and strides, not the tensors."""

    storages: tuple[Storage, ...]

    @property
    def alt(self) -> str:
        pairs = [(s, layout) for s in self.storages for layout in s.layouts]
        tensors = [f"{layout.name}: {', '.join(s.facts(layout))}." for s, layout in pairs]
        return " ".join([f"{s.title()}." for s in self.storages] + tensors)

    def __repr__(self) -> str:
        return "\n".join(map(str, self.storages))

    def drawn(self, ink: Ink) -> bytes:
        sketch, y = Sketch(ink), 0.5
        for storage, tints in zip(self.storages, _all_tints(self.storages), strict=True):
            longest = max([str(storage.cells), *map(storage.text, storage.values)], key=len)
            pen = Pen(sketch, tints, max(1.15, text_width(longest, 7.5) + 0.4))
            sketch.text(0.2, y, storage.title(), size=8.5, weight="bold")
            y = _draw_row(pen, storage, y + 0.75)
            y = draw_tensors(pen, storage, y + 0.3, room=_WIDTH) + 1.0
        return sketch.png()


def show_storage(*tensors: torch.Tensor, names: Sequence[str] | None = None) -> StoragePicture:
    """A picture of the storages behind `tensors`: a row of cells with addresses and values, and
    each tensor as a grid of values, each with the address in that row where it lies.

        show_storage(w, w.T)

    Tensors of any shape, stride, dtype and device. Only the values that are drawn are read; where
    there are none, as on meta, the cells stay empty. Of long sides only the ends are drawn, sizes
    are the true ones. `names` defaults to what the caller wrote. In a
    notebook the picture appears at once. The object returned draws itself again where it is
    displayed, says the same in plain text where it is printed, and has `alt`, the picture in words.

    Raises TypeError for what is not a strided tensor, ValueError without tensors or where names
    and tensors differ in number.
    """
    if names is None:
        written = argument_names(sys._getframe(1), len(tensors))
        names = written or [f"tensor {i}" for i in range(len(tensors))]
    return StoragePicture(storages_of(tensors, names)).show()


def _all_tints(storages: Sequence[Storage]) -> list[Mapping[int, str]]:
    """The tints of each storage; those of a copy are the tints of what an earlier one holds."""
    found: list[Mapping[int, str]] = []
    known: dict[Scalar, str] = {}  # by value, where no two cells hold the same
    for place, storage in enumerate(storages):
        held = storage.values
        if len(set(held.values())) > 1 and known.keys() >= set(held.values()):
            found.append({cell: known[value] for cell, value in held.items()})
            continue
        found.append(_tints(storage, place))
        if len(set(held.values())) == len(held):
            known |= {value: found[-1][cell] for cell, value in held.items()}
    return found


def _tints(storage: Storage, place: int) -> Mapping[int, str]:
    """A colour for each cell that is drawn and read; by rank, as addresses may lie far apart."""
    if not storage.values:
        return {}
    ramp, cells = _RAMPS[place % len(_RAMPS)], [c for c in storage.drawn if c is not None]
    return {
        cell: _blend(ramp, rank / max(len(cells) - 1, 1))
        for rank, cell in enumerate(cells)
        if any(layout.readers(cell) for layout in storage.layouts)
    }


def _blend(ramp: Sequence[tuple[int, int, int]], t: float) -> str:
    low, high = ramp[:2] if t < 0.5 else ramp[1:]
    t = 2 * t if t < 0.5 else 2 * t - 1
    return "#" + "".join(f"{round(a + (b - a) * t):02x}" for a, b in zip(low, high, strict=True))


def _draw_row(pen: Pen, storage: Storage, y: float) -> float:
    """The storage as lines of cells, under each one track per tensor. Returns where it ends."""
    if not storage.drawn:
        pen.note(0.2, y + 0.4, say("no cells"))
        return y + 1.0
    labels = [say("address"), *(layout.name for layout in storage.layouts)]
    left = 0.6 + max(text_width(label, pen.small) for label in labels)
    for line in _lines(storage.drawn, left, pen):
        pen.note(left - 0.3, y + 0.2, labels[0], anchor="right")
        for place in line:
            pen.index(place.x + pen.width / 2, y + 0.2, place.cell, anchor="center")
        y += 0.5
        for place in line:
            value = "" if place.cell is None else storage.text(place.cell)
            pen.cell(place.x, y, place.cell, value, address=False)
        y += 1.3
        for layout in storage.layouts:
            pen.sketch.text(left - 0.3, y, layout.name, size=pen.small, anchor="right")
            _draw_track(pen, layout, line, y)
            y += _TRACK
        y += 0.1
    return y


@dataclass(frozen=True)
class _Place:
    x: float
    cell: int | None


def _lines(cells: Side, left: float, pen: Pen) -> list[list[_Place]]:
    """The cells from left to right, on as many lines as they need."""
    lines: list[list[_Place]] = [[]]
    x = left
    for cell in cells:
        if x + pen.step(cell) > _WIDTH and lines[-1]:
            lines.append([])
            x = left
        lines[-1].append(_Place(x, cell))
        x += pen.step(cell)
    return lines


def _draw_track(pen: Pen, layout: Layout, line: list[_Place], y: float) -> None:
    """A bar along the cells that `layout` reads once, and a count where it reads more often."""
    readers = [(p.x, 0 if p.cell is None else layout.readers(p.cell)) for p in line]
    for n, group in groupby(readers, key=lambda pair: pair[1]):
        xs = [x for x, _ in group]
        if n == 1:
            pen.bar(xs[0] + 0.12, y, width=xs[-1] - xs[0] + pen.width - 0.24)
        for x in xs if n > 1 else []:
            middle = x + pen.width / 2
            words = f"{n}\u00d7" if n < 1000 else say("many")
            pen.sketch.text(middle, y, words, size=6, anchor="center", weight="bold")
