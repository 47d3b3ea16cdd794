"""`show_moved`: the elements that one load of a warp asks for, and what memory sends."""

from collections.abc import Iterable
from dataclasses import dataclass

from onelayer.drawing.sketch import Ink, Sketch
from onelayer.drawing.still import Still
from onelayer.drawing.words import say

SECTOR_BYTES, ITEMSIZE = 32, 4
_PER_SECTOR = SECTOR_BYTES // ITEMSIZE
_ASKED, _MOVED, _EDGE = "#2f83ad", "#f3c58c", "#5a6672"
_CELL, _SIZE, _ROWS, _COLUMNS = 0.5, 8.0, 16, 16  # of the matrix, its corner is drawn


@dataclass(frozen=True, repr=False)
class Moved(Still):
    """What `show_moved` shows: by name, the (row, column) that a warp asks for."""

    columns: int
    loads: tuple[tuple[str, frozenset[tuple[int, int]]], ...]

    def sectors(self, asked: Iterable[tuple[int, int]]) -> set[int]:
        """The numbers of the sectors in which these elements lie, from the matrix's first byte."""
        return {(row * self.columns + column) // _PER_SECTOR for row, column in asked}

    def told(self, asked: frozenset[tuple[int, int]]) -> str:
        moved = len(self.sectors(asked)) * SECTOR_BYTES
        return say("{wanted} bytes wanted, {sent} sent", wanted=len(asked) * ITEMSIZE, sent=moved)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {self.told(asked)}" for name, asked in self.loads)

    def drawn(self, ink: Ink) -> bytes:
        sketch = Sketch(ink)
        for panel, (name, asked) in enumerate(self.loads):
            left = 0.3 + panel * (_COLUMNS * _CELL + 1.6)
            sketch.text(left, 0.4, name, size=_SIZE, weight="bold")
            sent = self.sectors(asked)
            for row in range(_ROWS):
                for column in range(_COLUMNS):
                    here = (row * self.columns + column) // _PER_SECTOR
                    self._cell(sketch, left, (row, column), asked=asked, sent=here in sent)
            sketch.text(left, 1.4 + _ROWS * _CELL, self.told(asked), size=7, color=ink.soft)
        return sketch.png()

    def _cell(
        self,
        sketch: Sketch,
        left: float,
        at: tuple[int, int],
        *,
        asked: frozenset[tuple[int, int]],
        sent: bool,
    ) -> None:
        row, column = at
        fill = _ASKED if at in asked else _MOVED if sent else "none"
        x = left + column * _CELL + column // _PER_SECTOR * 0.12  # a gap between sectors
        style = {"facecolor": fill, "edgecolor": _EDGE, "linewidth": 0.4}
        sketch.box(x, 0.9 + row * _CELL, width=_CELL, height=_CELL - 0.04, **style)


def show_moved(columns: int, **loads: Iterable[tuple[int, int]]) -> Moved:
    """Draws the corner of a float32 matrix of so many columns, once for each load: the elements
    that the threads of a warp ask for, and the sectors of 32 bytes that memory sends for them.

        show_moved(64, naive=[(v, 0) for v in range(16)], tiled=[(0, d) for d in range(16)])

    Raises ValueError for no load, for one that asks for nothing or for more than 32 elements, and
    for an element outside the corner of 16 by 16.
    """
    wanted = {name: frozenset(asked) for name, asked in loads.items()}
    if not wanted or not all(0 < len(asked) <= 32 for asked in wanted.values()):
        raise ValueError(say("a load asks for 1 to 32 elements: {wanted}", wanted=wanted))
    for row, column in frozenset().union(*wanted.values()):
        if not (0 <= row < _ROWS and 0 <= column < min(_COLUMNS, columns)):
            raise ValueError(
                say("({row}, {column}) is not in the corner that is drawn", row=row, column=column)
            )
    return Moved(columns, tuple(wanted.items())).show()
