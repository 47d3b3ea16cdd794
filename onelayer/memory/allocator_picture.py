"""How the allocator's history is drawn: bytes in use, line by line, in the colour of the phase
that asked for them."""

from dataclasses import dataclass

from onelayer.drawing.sketch import Ink, Sketch, text_width
from onelayer.drawing.still import Still
from onelayer.drawing.words import say

from .allocator_history import AllocatorHistory

_COLUMNS, _WIDTH, _HEIGHT, _SIZE = 96, 24.0, 8.0, 8.0
_FILLS = ("#9aa5b1", "#54a3c8", "#e0a03c", "#5fb37a", "#b07cc6", "#d1605e")


@dataclass(frozen=True, repr=False)
class AllocatorPicture(Still):
    """Bytes in use over the trace; its text is the table that says the same in numbers. device:
    what it stands in the picture for, such as "mocked NVIDIA L4"."""

    history: AllocatorHistory
    device: str = ""

    @property
    def alt(self) -> str:
        return say("bytes in use over the trace; the table has the numbers")

    def __repr__(self) -> str:
        return str(self.history)

    def drawn(self, ink: Ink) -> bytes:
        sketch, columns = Sketch(ink), _columns(self.history)
        _, most = self.history.peak
        width = _WIDTH / len(columns)
        asked = [name for name in columns[0][1] if any(held[name] for _, held in columns)]
        kinds = list(dict.fromkeys(_kind(name) for name in asked))
        fills = {kind: _FILLS[n % len(_FILLS)] for n, kind in enumerate(kinds)}
        for n, (_, held) in enumerate(columns):
            top = 1.0 + _HEIGHT
            for name in (name for name in asked if held[name]):
                height = _HEIGHT * held[name] / most
                top -= height
                style = {"facecolor": fills[_kind(name)], "edgecolor": "none"}
                sketch.box(n * width, top, width=width, height=height, **style)
        peak = say("{mib:.1f} MiB at the peak", mib=most / 2**20)
        sketch.text(0.0, 0.4, peak, size=_SIZE, color=ink.soft)
        sketch.text(_WIDTH, 0.4, self.device, size=_SIZE, anchor="right", color=ink.soft)
        _phases(sketch, columns, width, ink)
        _legend(sketch, fills)
        return sketch.png()


def page_of(history: AllocatorHistory, device: str = "") -> str:
    """The picture, which says of which device it is, and under it its text."""
    return AllocatorPicture(history, device).with_text()


def _columns(history: AllocatorHistory) -> list[tuple[str, dict[str, int]]]:
    """At most `_COLUMNS` moments: of each stretch of lines the one with the most bytes in use."""
    held = list(history.held())
    stretch = -(-len(held) // _COLUMNS)
    found = []
    for start in range(0, len(held), stretch):
        lines = range(start, min(start + stretch, len(held)))
        at = max(lines, key=lambda line: sum(held[line].values()))
        found.append((history.requests[at].phase, held[at]))
    return found


def _phases(
    sketch: Sketch, columns: list[tuple[str, dict[str, int]]], width: float, ink: Ink
) -> None:
    """Each phase's name under its beginning, where the one before it leaves room."""
    names, free = [say(phase) for phase, _ in columns], 0.0
    for n, name in enumerate(names):
        if n and names[n - 1] == name:
            continue
        style = {"facecolor": ink.soft, "edgecolor": "none"}
        sketch.box(n * width, 1.0 + _HEIGHT, width=0.05, height=0.4, **style)
        if n * width >= free:
            sketch.text(n * width + 0.15, 1.7 + _HEIGHT, name, size=_SIZE, color=ink.soft)
            free = n * width + text_width(name, _SIZE) + 0.6


def _kind(phase: str) -> str:
    """Of "forward 2", the second forward, it is "forward": both have one colour."""
    return phase.rstrip(" 0123456789")


def _legend(sketch: Sketch, fills: dict[str, str]) -> None:
    asked = say("asked for in:")
    sketch.text(0.0, 3.1 + _HEIGHT, asked, size=_SIZE)
    x, y = 0.8 + text_width(asked, _SIZE), 3.1 + _HEIGHT
    for kind, fill in fills.items():
        name = say(kind)
        sketch.box(x, y - 0.3, width=0.6, height=0.6, facecolor=fill, edgecolor="none")
        sketch.text(x + 0.85, y, name, size=_SIZE)
        x += 1.9 + text_width(name, _SIZE)
