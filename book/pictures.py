"""A small picture for each unit, in the page's own colours: what the unit is about, in one mark."""

from __future__ import annotations

from collections.abc import Iterable

WIDE, TALL = 120, 60
SOFT, STRONG = 0.25, 0.9  # opacity


def picture(number: str) -> str:
    """The mark of the unit `number` as an SVG; a bare layer for a unit that has none yet."""
    marks = "".join(DRAWN.get(number, layer)())
    return (
        f'<svg class="ol-mark" viewBox="0 0 {WIDE} {TALL}" preserveAspectRatio="xMinYMid" '
        f'aria-hidden="true" fill="currentColor" stroke="currentColor" '
        f'stroke-width="0">{marks}</svg>'
    )


def box(x: float, y: float, width: float, height: float, ink: float = SOFT) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="2" '
        f'fill-opacity="{ink:g}"/>'
    )


def line(*points: float) -> str:
    path = " ".join(f"{value:g}" for value in points)
    return f'<polyline points="{path}" fill="none" stroke-width="1.5" stroke-opacity=".7"/>'


def dot(x: float, y: float, ink: float = STRONG) -> str:
    return f'<circle cx="{x:g}" cy="{y:g}" r="4" fill-opacity="{ink:g}"/>'


def layer() -> Iterable[str]:
    """Few rows in, many rows out."""
    yield from (box(14, 12 + 9 * k, 8, 7, STRONG) for k in range(4))
    yield from (line(24, 16 + 9 * k, 94, 6 + 10 * n) for k in range(4) for n in range(0, 6, 2))
    yield from (box(96, 3 + 9 * k, 8, 7) for k in range(6))


def strides() -> Iterable[str]:
    """A grid whose ink follows the address."""
    yield from (
        box(24 + 18 * c, 6 + 17 * r, 15, 14, 0.15 + 0.07 * (4 * r + c))
        for r in range(3)
        for c in range(4)
    )


def dispatcher() -> Iterable[str]:
    """One name, four kernels, of which one runs."""
    yield dot(16, 30)
    yield from (line(20, 30, 84, 9 + 14 * k) for k in range(4))
    yield from (box(84, 4 + 14 * k, 26, 10, STRONG if k == 2 else SOFT) for k in range(4))


def autograd() -> Iterable[str]:
    """A graph that is walked from its root to its leaves."""
    yield from (line(*edge) for edge in ((60, 8, 60, 28), (60, 28, 28, 50), (60, 28, 92, 50)))
    yield from (dot(60, 8), dot(60, 28, 1), dot(28, 50), dot(92, 50))
    yield line(70, 10, 70, 22, 67, 18, 70, 22, 73, 18)


def contracts() -> Iterable[str]:
    """What the forward keeps waits below for the backward."""
    yield from (box(12 + 26 * k, 6, 20, 14, STRONG) for k in range(4))
    yield from (line(22 + 26 * k, 22, 22 + 26 * k, 36) for k in (0, 2))
    yield from (box(12 + 26 * k, 38, 20, 14, STRONG if k % 2 == 0 else SOFT) for k in range(4))


def memory() -> Iterable[str]:
    """Bytes held over a step: up in the forward, down in the backward."""
    heights = (8, 16, 26, 38, 48, 40, 28, 18, 10)
    yield from (
        box(11 + 11 * k, 56 - high, 9, high, STRONG if high == 48 else SOFT)
        for k, high in enumerate(heights)
    )


def operator() -> Iterable[str]:
    """A box of one's own between torch's."""
    yield from (box(8, 20, 28, 20), box(46, 14, 28, 32, STRONG), box(84, 20, 28, 20))
    yield from (line(36, 30, 46, 30), line(74, 30, 84, 30))


def tiles() -> Iterable[str]:
    """A matrix cut into tiles, one at work."""
    yield from (
        box(18 + 14 * c, 4 + 14 * r, 12, 12, STRONG if (r, c) == (1, 3) else SOFT)
        for r in range(4)
        for c in range(6)
    )


def compiled() -> Iterable[str]:
    """Four kernels become one."""
    yield from (box(10, 3 + 14 * k, 34, 11) for k in range(4))
    yield from (line(46, 9 + 14 * k, 74, 30) for k in range(4))
    yield box(76, 20, 34, 20, STRONG)


def profile() -> Iterable[str]:
    """Two lanes, and the gap that somebody waits in."""
    yield from (box(x, 12, wide, 12) for x, wide in ((8, 16), (28, 14), (46, 44), (94, 16)))
    yield from (box(x, 34, wide, 12, STRONG) for x, wide in ((16, 20), (38, 14), (92, 18)))


def bits() -> Iterable[str]:
    """A sign, an exponent, a fraction."""
    inks = (1.0, *[0.55] * 5, *[SOFT] * 10)
    yield from (box(5 + 7 * k, 18, 5.5, 24, ink) for k, ink in enumerate(inks))


def ring() -> Iterable[str]:
    """Four ranks in a ring."""
    yield line(60, 8, 96, 30, 60, 52, 24, 30, 60, 8)
    yield from (dot(x, y) for x, y in ((60, 8), (96, 30), (60, 52), (24, 30)))


def parcel() -> Iterable[str]:
    """A parcel with its label."""
    yield from (box(30, 8, 60, 44), box(30, 8, 60, 10, 0.5), box(54, 8, 12, 24, STRONG))


DRAWN = {
    "00": layer,
    "01": strides,
    "02": dispatcher,
    "03": autograd,
    "04": contracts,
    "05": memory,
    "06": operator,
    "07": tiles,
    "08": compiled,
    "09": profile,
    "10": bits,
    "11": ring,
    "12": parcel,
}
