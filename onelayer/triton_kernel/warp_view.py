"""`show_warp`: what 32 threads ask of memory in one instruction, drawn as sectors or banks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onelayer.drawing.sketch import Ink, Sketch
from onelayer.drawing.still import Still
from onelayer.drawing.words import counted, say

LANES = 32
SECTOR_BYTES = 32
BANKS, BANK_BYTES = 32, 4
_FILL, _EDGE, _FREE, _SIZE = "#54a3c8", "#2e6f8e", "none", 8.0
_CELL = 0.55


@dataclass(frozen=True, repr=False)
class Warps(Still):
    """What `show_warp` shows: by name, how many lanes hit each sector or bank."""

    rows: tuple[tuple[str, tuple[int, ...]], ...]
    unit: str

    def __repr__(self) -> str:
        wide = max(len(name) for name, _ in self.rows)
        return "\n".join(f"{name:<{wide}}  {self._words(hits)}" for name, hits in self.rows)

    def _words(self, hits: Sequence[int]) -> str:
        touched = sum(hit > 0 for hit in hits)
        if self.unit == "sector":
            sectors = counted(touched, "{n} sector", "{n} sectors")
            return say("{sectors} of {size} bytes", sectors=sectors, size=SECTOR_BYTES)
        banks = counted(touched, "{n} bank", "{n} banks")
        return f"{banks}, {counted(max(hits), '{n} turn', '{n} turns')}"

    def drawn(self, ink: Ink) -> bytes:
        sketch = Sketch(ink)
        left = 0.4 + max(len(name) for name, _ in self.rows) * 0.27
        most = max(max(hits) for _, hits in self.rows)
        for row, (name, hits) in enumerate(self.rows):
            y = 0.3 + 1.5 * row
            sketch.text(left, y + _CELL / 2, name, size=_SIZE, anchor="right")
            for place, hit in enumerate(hits):
                style = {"facecolor": _FILL, "edgecolor": _EDGE, "alpha": 0.25 + 0.75 * hit / most}
                free = {"facecolor": _FREE, "edgecolor": ink.soft, "alpha": 0.5}
                x = left + 0.4 + place * (_CELL + 0.05)
                sketch.box(x, y, width=_CELL, height=_CELL, **(style if hit else free))
            end = left + 0.8 + len(hits) * (_CELL + 0.05)
            sketch.text(end, y + _CELL / 2, self._words(hits), size=_SIZE, color=ink.soft)
        return sketch.png()


def show_sectors(warps: Mapping[str, Sequence[int]]) -> Warps:
    """Draws which sectors of global memory the byte addresses of one warp lie in, up to 32 of them
    from the first one on, in the order of the addresses.

        show_sectors({"a row": range(0, 128, 4)})

    Raises ValueError for a warp of no address, or of more than 32.
    """
    _check(warps)
    rows = []
    for name, addresses in warps.items():
        hits = Counter(address // SECTOR_BYTES for address in addresses)
        shown = [hits[sector] for sector in sorted(hits)]
        rows.append((name, tuple(shown + [0] * (LANES - len(shown)))))
    return Warps(tuple(rows), "sector").show()


def show_banks(warps: Mapping[str, Sequence[int]]) -> Warps:
    """Draws how many different words each bank of shared memory is asked for by one warp's byte
    addresses. A bank gives one word of 4 bytes a turn; a word that several lanes want, it gives
    once.

    Raises ValueError for a warp of no address, or of more than 32.
    """
    _check(warps)
    rows = []
    for name, addresses in warps.items():
        hits = Counter(word % BANKS for word in {address // BANK_BYTES for address in addresses})
        rows.append((name, tuple(hits[bank] for bank in range(BANKS))))
    return Warps(tuple(rows), "bank").show()


def _check(warps: Mapping[str, Sequence[int]]) -> None:
    if not warps or not all(0 < len(addresses) <= LANES for addresses in warps.values()):
        raise ValueError(
            say("a warp is 1 to {lanes} addresses; got {warps}", lanes=LANES, warps=dict(warps))
        )
