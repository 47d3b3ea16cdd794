"""`show_collectives`: what each rank holds before a collective and after it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onelayer.drawing.sketch import Ink, Sketch, text_width
from onelayer.drawing.still import Still
from onelayer.drawing.words import say

Held = tuple[tuple[int, ...], ...]
_RANKS, _MIXED = ("#9fcfe8", "#f3c58c", "#d8cdf0", "#f2b8ae"), "#b9dfc4"
_EDGE, _DIGITS = "#5a6672", "#1c2733"
_CELL, _STEP, _SIZE, _GAP = 1.35, 2.1, 8.0, 0.9  # in units of a sketch; size in points


@dataclass(frozen=True, repr=False)
class CollectivesPicture(Still):
    """What `show_collectives` shows: by name, the numbers of each rank; first those before."""

    rows: tuple[tuple[str, Held], ...]

    def __repr__(self) -> str:
        wide = max(len(name) for name, _ in self.rows)
        return "\n".join(
            f"{name:<{wide}}  " + "  ".join(f"rank {r}: {list(n)}" for r, n in enumerate(held))
            for name, held in self.rows
        )

    def drawn(self, ink: Ink) -> bytes:
        sketch = Sketch(ink)
        before = self.rows[0][1]
        cells = max(len(numbers) for _, held in self.rows for numbers in held)
        group = max(cells * _CELL, text_width("rank 0", _SIZE)) + _GAP
        for rank in range(len(before)):
            sketch.text(0.3 + rank * group, 0.5, f"rank {rank}", size=_SIZE, weight="bold")
        for row, (name, held) in enumerate(self.rows):
            y = 1.1 + row * _STEP
            sketch.text(0.3, y + 0.4, name, size=_SIZE, color=ink.soft)
            for rank, numbers in enumerate(held):
                for place, number in enumerate(numbers):
                    x = 0.3 + rank * group + place * _CELL
                    self._cell(sketch, x, y + 0.8, number, before)
        return sketch.png()

    def _cell(self, sketch: Sketch, x: float, y: float, number: int, before: Held) -> None:
        fill = _colour(number, before)
        sketch.box(x, y, width=_CELL - 0.1, height=1.05, facecolor=fill, edgecolor=_EDGE)
        middle = (x + (_CELL - 0.1) / 2, y + 0.52)
        sketch.text(*middle, str(number), size=_SIZE, anchor="center", color=_DIGITS)


def _colour(number: int, before: Held) -> str:
    """That of the rank which brought the number, or that of a sum."""
    owners = [rank for rank, numbers in enumerate(before) if number in numbers]
    return _RANKS[owners[0] % len(_RANKS)] if len(owners) == 1 else _MIXED


def show_collectives(ranks: Sequence[Mapping[str, Sequence[int]]]) -> CollectivesPicture:
    """Draws what each rank holds, in a row for each name; the first row is what they began with.

        show_collectives([{"has": [1, 2], "all_reduce": [11, 22]}, {"has": [10, 20], ...}])

    A number has the colour of the rank that began with it; one that nobody began with is a sum. So
    let no sum be equal to a number of the first row. Raises ValueError for no rank, and for ranks
    that do not name the same rows.
    """
    names = list(ranks[0]) if ranks else []
    if not names or any(list(rank) != names for rank in ranks):
        raise ValueError(
            say("each rank names the same rows, at least one: {ranks}", ranks=list(ranks))
        )
    rows = [(name, tuple(tuple(rank[name]) for rank in ranks)) for name in names]
    return CollectivesPicture(tuple(rows)).show()
