"""`show_ring`: the turns of a ring, in each of which a rank sends one slice to the next rank."""

from collections.abc import Sequence
from dataclasses import dataclass

from onelayer.drawing.sketch import Ink, Sketch
from onelayer.drawing.still import Still
from onelayer.drawing.words import say

Held = tuple[tuple[int, ...], ...]  # [rank][slice]: of how many ranks it is the sum
_FILL, _EDGE, _CAME, _DIGITS = "#54a3c8", "#5a6672", "#c2571a", "#1c2733"
_CELL, _SIZE, _ARROW = 0.95, 8.0, 1.2  # in units of a sketch; size in points
_COLUMNS = 2  # panels side by side


@dataclass(frozen=True, repr=False)
class RingPicture(Still):
    """What `show_ring` shows: what each rank holds before the first turn and after each."""

    turns: tuple[Held, ...]

    @property
    def came(self) -> list[set[tuple[int, int]]]:
        """For each turn the (rank, slice) that changed in it."""
        n = range(len(self.turns[0]))
        pairs = zip(self.turns, self.turns[1:], strict=False)
        return [
            {(rank, k) for rank in n for k in range(len(old[rank])) if old[rank][k] != new[rank][k]}
            for old, new in pairs
        ]

    def __repr__(self) -> str:
        lines = []
        for turn, (held, came) in enumerate(zip(self.turns[1:], self.came, strict=True), start=1):
            ranks = (
                " ".join(
                    f"{number}{'*' if (rank, k) in came else ''}" for k, number in enumerate(h)
                )
                for rank, h in enumerate(held)
            )
            lines.append(say("turn {n}", n=turn) + ": " + " | ".join(ranks))
        return "\n".join([*lines, say("* came in this turn")])

    def drawn(self, ink: Ink) -> bytes:
        sketch = Sketch(ink)
        n, slices = len(self.turns[0]), len(self.turns[0][0])
        across, box = -(-n // 2), slices * _CELL + 0.2
        wide, high = across * (box + _ARROW) + 0.6, 5.6
        for turn, (held, came) in enumerate(zip(self.turns[1:], self.came, strict=True)):
            left, top = 0.3 + turn % _COLUMNS * wide, 0.3 + turn // _COLUMNS * high
            sketch.text(left, top + 0.3, say("turn {n}", n=turn + 1), size=_SIZE, weight="bold")
            for rank in range(n):
                below = rank >= across
                column = n - 1 - rank if below else rank
                x, y = left + column * (box + _ARROW), top + (3.2 if below else 0.9)
                _arrow(sketch, x, y, rank=rank, n=n, box=box)
                _rank(sketch, x, y, rank, held[rank], {k for r, k in came if r == rank}, n)
        return sketch.png()


def _rank(
    sketch: Sketch, x: float, y: float, rank: int, held: Sequence[int], came: set[int], n: int
) -> None:
    """A rank's slices, darker with each rank in the sum; what just came has a thick edge."""
    for k, number in enumerate(held):
        new = {"edgecolor": _CAME, "linewidth": 2} if k in came else {"edgecolor": _EDGE}
        place = x + 0.1 + k * _CELL
        sketch.box(place, y, width=_CELL - 0.1, height=0.9, facecolor="#ffffff", edgecolor="none")
        fill = {"facecolor": (*_rgb(_FILL), 0.15 + 0.75 * (number - 1) / max(n - 1, 1))}
        sketch.box(place, y, width=_CELL - 0.1, height=0.9, **fill, **new)
        middle = place + (_CELL - 0.1) / 2
        sketch.text(middle, y + 0.45, str(number), size=_SIZE, anchor="center", color=_DIGITS)
    sketch.text(x + 0.1, y + 1.3, f"rank {rank}", size=7, color=sketch.ink.soft)


def _arrow(sketch: Sketch, x: float, y: float, *, rank: int, n: int, box: float) -> None:
    """From this rank to the next: right above, left below, and down and up at the ends."""
    across = -(-n // 2)
    sign, dx, dy = "→", box + _ARROW / 2 - 0.1, 0.45
    if rank == across - 1:
        sign, dx, dy = "↓", box - 0.5, 1.6
    elif rank == n - 1:
        sign, dx, dy = "↑", box - 0.5, -0.45
    elif rank >= across:
        sign, dx = "←", -_ARROW / 2 + 0.1
    sketch.text(x + dx, y + dy, sign, size=11, anchor="center", weight="bold")


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return red, green, blue


def show_ring(turns: Sequence[Sequence[Sequence[int]]]) -> RingPicture:
    """Draws the turns of a ring: `turns[t][rank][slice]` says of how many ranks this slice is the
    sum, first before any turn and then after each.

        show_ring([[[1, 1], [1, 1]], [[1, 2], [2, 1]], [[2, 2], [2, 2]]])

    Raises ValueError for less than a turn or two ranks, and for ranks that hold different numbers
    of slices.
    """
    shapes = {(len(held), *(len(rank) for rank in held)) for held in turns}
    if len(turns) < 2 or len(shapes) != 1 or len(turns[0]) < 2 or len({*map(len, turns[0])}) != 1:
        raise ValueError(
            say("a ring has two ranks or more, alike in each turn: {turns}", turns=turns)
        )
    return RingPicture(tuple(tuple(tuple(rank) for rank in held) for held in turns)).show()
