"""`show_tiles`: who computes what in the tiled product, and what is loaded when.

The index arithmetic is in `tiles.js`, so that the same view runs in a notebook, where it is an
anywidget, and on a page without a kernel.
"""

from onelayer.drawing.played import Played
from onelayer.drawing.words import say


class TilesView(Played):
    """A product z (N, V) = x (N, D) w (V, D).T in tiles; `view` follows the reader's choices."""

    name = "tiles"

    def __repr__(self) -> str:
        at = self.view
        n, v, d, tile = (at[name] for name in ("n", "v", "d", "tile"))
        wide, high = -(-v // tile), -(-n // tile)
        threads = wide * high * tile**2
        return say(
            "z ({n}, {v}) by {wide} x {high} blocks of {tile} x {tile} threads: {threads:,} "
            "threads, {idle:,} of them without an output, {steps} steps",
            n=n,
            v=v,
            wide=wide,
            high=high,
            tile=tile,
            threads=threads,
            idle=threads - n * v,
            steps=-(-d // tile),
        )


def show_tiles(*, n: int = 7, v: int = 600, d: int = 64, tile: int = 16) -> TilesView:
    """The tiled product of x (n, d) and w (v, d), as a grid of blocks of tile x tile threads.

        show_tiles(n=7, tile=16)

    Pick a block and a thread, go from step to step, and change N and the tile: the view shows which
    output each thread computes, which elements it brings to shared memory, and which are masked.

    Raises ValueError for a size below 1, and for a tile of more than 32: a block has up to 1,024
    threads.
    """
    sizes = {"n": n, "v": v, "d": d, "tile": tile}
    if min(sizes.values()) < 1 or tile > 32:
        raise ValueError(
            say("sizes are from 1 up, and a tile has up to 32 x 32 threads: {sizes}", sizes=sizes)
        )
    last = -(-v // tile) - 1
    return TilesView({**sizes, "bx": last, "by": 0, "tx": 0, "ty": 0, "step": 0}).show()
