"""`play_masks`: tiles over a matrix whose sides they do not divide, and what a mask keeps away."""

import torch

from onelayer.drawing.explorable import Explorable, Line, Part, Scene, explorable
from onelayer.drawing.words import counted, say

_MEANS = {
    "blue": "a tile",
    "pale": "the tile after it",
    "grey": "lanes that the mask holds back",
    "red": "lanes beyond the edge, with no mask",
}
_WIDE, _HIGH = (8, 16, 64, 128, 256, 1024), (1, 4, 16)
_MASKED, _UNMASKED = "on", "off"
_ITEMSIZE = 4
_WORDS, _ROWS, _MASK = "words in a tile", "rows in a tile", "mask"
_START = (_WORDS, _ROWS)


def astray(n: int, v: int, high: int, wide: int) -> tuple[int, int]:
    """Lanes beyond the edge of z (n, v) in tiles of high x wide: (those whose address is another
    element of z, those whose address is no element of z at all)."""
    rows, columns = torch.arange(_padded(n, high)), torch.arange(_padded(v, wide))
    beyond = (rows >= n)[:, None] | (columns >= v)[None, :]
    address = rows[:, None] * v + columns[None, :]
    inside = address < n * v
    return int((beyond & inside).sum()), int((beyond & ~inside).sum())


def play_masks(*, n: int = 7, v: int = 600) -> Explorable:
    """A kernel that doubles z (n, v) in place, in tiles that the reader chooses.

        play_masks()

    Bytes are those that the programs ask for in float32; caches are not seen. Raises ValueError for
    a side below 1.
    """
    if min(n, v) < 1:
        raise ValueError(say("a matrix has at least one element, got {n} x {v}", n=n, v=v))

    def scene(wide: str, high: str, mask: str) -> Scene:
        return _scene(n, v, int(high), int(wide), mask == say(_MASKED))

    choices = {
        say(_WORDS): tuple(map(str, _WIDE)),
        say(_ROWS): tuple(map(str, _HIGH)),
        say(_MASK): (say(_MASKED), say(_UNMASKED)),
    }
    about = say("z ({n}, {v}) in tiles", n=n, v=v)
    means = {look: say(words) for look, words in _MEANS.items()}
    start = {say(name): "16" for name in _START}
    return explorable(about, choices, scene, means=means, start=start)


def _scene(n: int, v: int, high: int, wide: int, masked: bool) -> Scene:
    lanes = _padded(n, high) * _padded(v, wide)
    programs = lanes // (high * wide)
    touched = n * v if masked else lanes
    lines = [
        _side(_many_words(v), v, wide, masked, longest=max(_padded(v, tile) for tile in _WIDE)),
        _side(_many_rows(n), n, high, masked, longest=max(_padded(n, tile) for tile in _HIGH)),
    ]
    told = say(
        "{programs}, {lanes:,} lanes, {beyond:,} of them beyond the edge. ",
        programs=counted(programs, "{n} program", "{n} programs"),
        lanes=lanes,
        beyond=lanes - n * v,
    )
    told += say("Read and written: {n:,} bytes.", n=2 * _ITEMSIZE * touched)
    return Scene(lines, told if masked else f"{told} {_damage(n, v, high, wide)}")


def _many_words(n: int) -> str:
    return counted(n, "{n} word", "{n} words")


def _many_rows(n: int) -> str:
    return counted(n, "{n} row", "{n} rows")


def _padded(length: int, tile: int) -> int:
    """What tiles take that cover `length`."""
    return -(-length // tile) * tile


def _side(name: str, length: int, tile: int, masked: bool, *, longest: int) -> Line:
    """One side of the matrix, cut into tiles; as wide as the view if it takes `longest`."""
    padded = _padded(length, tile)
    live = [min(tile, length - first) for first in range(0, padded, tile)]
    parts = [Part(k / longest, ("blue", "pale")[i % 2], str(k)) for i, k in enumerate(live)]
    if over := padded - length:
        parts.append(Part(over / longest, "grey" if masked else "red", str(over)))
    return Line(name, parts, f"{len(live)} x {tile}")


def _damage(n: int, v: int, high: int, wide: int) -> str:
    inside, outside = astray(n, v, high, wide)
    if not inside + outside:
        return say("No lane is beyond the edge: here a mask changes nothing.")
    return say(
        "{inside:,} lanes double an element of the next rows once more, and {outside:,} write to "
        "memory that is not z's.",
        inside=inside,
        outside=outside,
    )
