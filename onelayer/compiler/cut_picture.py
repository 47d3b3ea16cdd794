"""`show_cut`: a joint graph's forward and backward, and what crosses the cut between them."""

from collections.abc import Sequence
from dataclasses import dataclass

from onelayer.drawing.sketch import Ink, Sketch, text_width
from onelayer.drawing.still import Still
from onelayer.drawing.words import say

from .fx_record import FxGraph, FxNode
from .piece import Kept, Piece
from .story import CompileStory

_STEP, _HEIGHT, _SIZE, _GAP = 1.05, 0.85, 7.0, 2.2  # in units of a sketch; size in points
_PLAIN, _KEPT, _AGAIN = "#dbe7ef", "#f4c98f", "#d8cdf0"
_EDGE, _DIGITS = "#5a6672", "#1c2733"


@dataclass(frozen=True)
class Row:
    """One operator. kept: the tensor that it makes and that crosses the cut. again: it belongs to
    the forward, and backward runs it once more. reads: the kept tensors that it reads."""

    name: str
    kept: Kept | None = None
    again: bool = False
    reads: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = [say("kept, {n:,} bytes", n=self.kept.nbytes)] if self.kept else []
        said += [say("a second time")] if self.again else []
        said += [say("reads {names}", names=", ".join(self.reads))] if self.reads else []
        return f"{self.name:<26} {'; '.join(said)}".rstrip()


@dataclass(frozen=True, repr=False)
class CutPicture(Still):
    """What `show_cut` shows: the operators on both sides, views left out."""

    forward: tuple[Row, ...]
    backward: tuple[Row, ...]

    def __repr__(self) -> str:
        sides = {"forward": self.forward, "backward": self.backward}
        blocks = [[f"{name}:", *(f"  {row}" for row in rows)] for name, rows in sides.items()]
        return "\n".join(line for block in blocks for line in block)

    def drawn(self, ink: Ink) -> bytes:
        sketch = Sketch(ink)
        left = _column(sketch, "forward", self.forward, x=0.3)
        chips = [f"{row.kept.nbytes:,} B" for row in self.forward if row.kept]
        middle = left + _GAP + max([4.0, *(text_width(chip, _SIZE) for chip in chips)])
        sketch.text((left + middle) / 2, 0.6, say("kept"), size=8, anchor="center", weight="bold")
        for number, row in enumerate(self.forward):
            if row.kept:
                _crossing(sketch, f"{row.kept.nbytes:,} B", left, middle, _y(number))
        _column(sketch, "backward", self.backward, x=middle)
        return sketch.png()


def show_cut(story: CompileStory, *, piece: int = 0) -> CutPicture:
    """A graph of the story as the partitioner cut it: forward on the left, backward on the right.

        show_cut(onelayer.compile_story(head_loss, x, W, b, target))

    Between them stands each tensor that was computed and kept, in the row of the operator that made
    it; an operator of the forward that backward runs a second time has a colour of its own. Views
    are left out, and so are inputs, which live anyway.

    Raises IndexError for a piece that the story does not have, ValueError for one without a
    backward.
    """
    return _picture(story.pieces[piece]).show()


def _picture(piece: Piece) -> CutPicture:
    if piece.forward is None or piece.backward is None:
        raise ValueError(say("no gradient was asked for: there is no backward, and no cut"))
    kept = [one for one in piece.saved if one.kind == "computed"]
    makers = {piece.forward.behind_views(one.name).name: one for one in kept}
    forward = tuple(Row(_word(n), makers.get(n.name)) for n in _operators(piece.forward))
    names = [one.name for one in kept]
    backward = tuple(
        Row(_word(n), again=n.side == "forward", reads=_reads(piece.backward, n, names))
        for n in _operators(piece.backward)
    )
    return CutPicture(forward, backward)


def _operators(graph: FxGraph) -> Sequence[FxNode]:
    return [node for node in graph.calls if not node.view]


def _word(node: FxNode) -> str:
    """What it calls, without library and overload; of a tuple's part, the node's own name."""
    parts = node.target.split(".")
    return parts[1] if parts[0] == "aten" else node.name


def _reads(graph: FxGraph, node: FxNode, kept: Sequence[str]) -> tuple[str, ...]:
    behind = (graph.behind_views(name).name for name in node.inputs)
    return tuple(dict.fromkeys(name for name in behind if name in kept))


def _y(number: int) -> float:
    return 1.3 + number * _STEP


def _column(sketch: Sketch, title: str, rows: Sequence[Row], *, x: float) -> float:
    """Draws the rows under their title, and returns where the boxes end."""
    wide = 0.8 + max(text_width(row.name, _SIZE) for row in rows)
    sketch.text(x + wide / 2, 0.6, title, size=8, anchor="center", weight="bold")
    for number, row in enumerate(rows):
        colour = _KEPT if row.kept else _AGAIN if row.again else _PLAIN
        y = _y(number)
        sketch.box(x, y, width=wide, height=_HEIGHT, facecolor=colour, edgecolor=_EDGE)
        middle = y + _HEIGHT / 2
        sketch.text(x + wide / 2, middle, row.name, size=_SIZE, anchor="center", color=_DIGITS)
        if row.reads:
            told = say("reads {names}", names=", ".join(row.reads))
            sketch.text(x + wide + 0.4, middle, told, size=_SIZE, color=sketch.ink.soft)
    return x + wide


def _crossing(sketch: Sketch, words: str, left: float, right: float, y: float) -> None:
    """An arrow across the cut, with its bytes on it."""
    middle = y + _HEIGHT / 2
    length = right - left - 0.8
    style = {"facecolor": _KEPT, "edgecolor": _KEPT}
    sketch.box(left, middle + 0.34, width=length, height=0.06, **style)
    sketch.text(left + length / 2, middle - 0.05, words, size=_SIZE, anchor="center")
    sketch.text(left + length + 0.05, middle + 0.36, ">", size=_SIZE, color=_KEPT, weight="bold")
