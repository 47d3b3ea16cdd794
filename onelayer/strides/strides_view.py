"""`show_strides`: sizes, strides and an offset to play with, over a row of floats.

All arithmetic and drawing is in `strides_view.js`, so that the same view runs in a notebook, where
it is an anywidget, and on a page without a kernel.
"""

import math
from collections.abc import Sequence

from onelayer.drawing.played import Played
from onelayer.drawing.words import say

from .layout import Layout, grid_text

_LIMIT = 100_000  # elements, as in strides_view.js


class StridesView(Played):
    """The stride visualizer. `shape`, `stride` and `offset` follow what the reader does with it."""

    name = "strides"

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.view["shape"])

    @property
    def stride(self) -> tuple[int, ...]:
        return tuple(self.view["stride"])

    @property
    def offset(self) -> int:
        return int(self.view["offset"])

    def __repr__(self) -> str:
        layout = Layout("x", "float32", self.shape, self.stride, self.offset, 0, "")
        title = say(
            "x: shape {shape}, strides {stride}, offset {offset}, over {size} floats",
            shape=self.shape,
            stride=self.stride,
            offset=self.offset,
            size=self.view["size"],
        )
        return "\n".join([title, *grid_text(layout)])


def show_strides(
    shape: Sequence[int] = (3, 4), stride: Sequence[int] | None = None, *, offset: int = 0
) -> StridesView:
    """The stride visualizer: change sizes, strides and offset, apply views, see which float each
    element reads.

        show_strides((3, 4))
        show_strides((2, 3), stride=(1, 1), offset=4)

    `stride` is row-major unless given; strides and offset count elements. The storage is just long
    enough for the start. In a notebook with anywidget the view answers to the kernel; elsewhere it
    is the same view as HTML.

    Raises ValueError for negative numbers, for strides that do not match the sizes in number, and
    for more than 100,000 elements.
    """
    sizes = [int(n) for n in shape]
    if min([*sizes, *(stride or ()), offset, 0]) < 0:
        raise ValueError(
            say(
                "a negative number in {sizes}, strides {stride} or offset {offset}",
                sizes=sizes,
                stride=stride,
                offset=offset,
            )
        )
    if (numel := math.prod(sizes)) > _LIMIT:
        raise ValueError(
            say(
                "{numel:,} elements are too many to walk over: at most {most:,}",
                numel=numel,
                most=_LIMIT,
            )
        )
    steps = _row_major(sizes) if stride is None else [int(s) for s in stride]
    if len(steps) != len(sizes):
        raise ValueError(
            say(
                "{n} sizes {sizes}, but {count} strides {steps}",
                n=len(sizes),
                sizes=sizes,
                count=len(steps),
                steps=steps,
            )
        )
    reach = 1 + sum((n - 1) * s for n, s in zip(sizes, steps, strict=True)) if numel else 0
    view = {"shape": sizes, "stride": steps, "offset": int(offset), "size": int(offset) + reach}
    return StridesView(view).show()


def _row_major(sizes: list[int]) -> list[int]:
    import torch  # here, as a page with strides of its own does not need it

    return list(torch.empty(sizes, device="meta").stride())
