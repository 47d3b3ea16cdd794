"""How a tensor walks over a storage: sizes, strides, an offset, and the corners worth drawing."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice, product

from onelayer.drawing.words import say

_FEW = 64  # elements that may all be drawn
_COUNTED = 10_000  # elements up to which different cells are counted one by one

Side = tuple[int | None, ...]  # indices along one side; None stands for those left out
Scalar = bool | int | float | complex


@dataclass(frozen=True)
class Panel:
    """A two-dimensional slice: the leading index, and the cell of each element that is drawn."""

    outer: tuple[int, ...]
    rows: Side
    columns: Side
    cells: tuple[Side, ...]


@dataclass(frozen=True)
class Layout:
    """What a tensor adds to a storage: a name, sizes, strides and an offset.

    A cell is one element of the storage. Where tensors of several element sizes share a storage
    (`x.view(torch.int16)`), cells have the smallest of these sizes and `width` of them make one
    element of this tensor; strides and offset stay in elements, as PyTorch prints them. `order`
    says whether it is contiguous. `values` holds what was read, by the cell where it starts.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    nbytes: int
    order: str
    width: int = 1
    values: Mapping[int, Scalar] = field(default_factory=dict)

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    def cell(self, index: Iterable[int]) -> int:
        """The cell where the element at `index` starts."""
        steps = sum(i * s for i, s in zip(index, self.stride, strict=True))
        return (self.offset + steps) * self.width

    def readers(self, cell: int) -> int:
        """How many elements of this tensor cover `cell`."""
        if self.numel == 0:
            return 0
        return _ways(self.shape, self.stride, cell // self.width - self.offset)

    @cached_property
    def distinct(self) -> int | None:
        """How many different floats the elements are; None where there are too many to count."""
        if self.numel > _COUNTED:
            return None
        return len({self.cell(index) for index in product(*map(range, self.shape))})

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        """The slices to draw, corners only where a side is long; none if there are no elements."""
        if self.numel == 0:
            return ()
        *outer, rows, columns = (1, 1, *self.shape)[-max(2, len(self.shape)) :]
        few, flat = self.numel <= _FEW, len(self.shape) <= 2
        panels, longest_row, ends = (6, 12, 4) if few else (1, 12, 4) if flat else (3, 4, 2)
        sides = _side(rows, min(longest_row, 8), ends), _side(columns, longest_row, ends)
        indices = islice(product(*map(range, outer)), panels)
        return tuple(self._panel(index, *sides) for index in indices)

    @property
    def panels_left_out(self) -> int:
        return math.prod(self.shape[:-2]) - len(self.panels) if self.panels else 0

    @cached_property
    def drawn(self) -> frozenset[int]:
        """The cells where the drawn elements start."""
        return frozenset(cell for _, cell in self.drawn_elements)

    @property
    def drawn_elements(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """Index and cell of each element that is drawn."""
        extra = max(0, 2 - len(self.shape))  # a vector has no row, a scalar no column either
        for panel in self.panels:
            for r, cells in zip(panel.rows, panel.cells, strict=True):
                for c, cell in zip(panel.columns, cells, strict=True):
                    if r is not None and c is not None and cell is not None:
                        yield (*panel.outer, r, c)[extra:], cell

    def text(self, cell: int) -> str:
        """What to write for an element: its value, or its address where nothing was read."""
        return written(self.values[cell]) if cell in self.values else str(cell)

    def _panel(self, outer: tuple[int, ...], rows: Side, columns: Side) -> Panel:
        extra = len(outer) + 2 - len(self.shape)  # a vector has no row, a scalar no column either

        def cell(r: int | None, c: int | None) -> int | None:
            return None if r is None or c is None else self.cell((*outer, r, c)[extra:])

        grid = tuple(tuple(cell(r, c) for c in columns) for r in rows)
        return Panel(outer, rows, columns, grid)


def runs(cells: Iterable[int]) -> Iterator[int | None]:
    """Sorted cells, with None wherever two or more are left out between neighbours."""
    last = None
    for cell in sorted(cells):
        if last is not None and cell == last + 2:
            yield last + 1  # an ellipsis would take the place of the one cell that it hides
        elif last is not None and cell > last + 1:
            yield None
        yield cell
        last = cell


def written(value: Scalar) -> str:
    """A value in six characters or so: two digits of what is no whole number, one of a tiny one."""
    if isinstance(value, complex):
        return f"{value.real:.1g}{value.imag:+.1g}j"
    if isinstance(value, float) and not value.is_integer() and abs(value) < 100:
        return f"{value:.2g}" if abs(value) >= 0.01 else f"{value:.0e}"
    return f"{value:.0f}" if abs(value) < 100_000 else f"{value:.0e}"


def grid_text(layout: Layout) -> list[str]:
    """The drawn elements as lines of text: values, or addresses where none were read."""
    digits = max((len(layout.text(cell)) for cell in layout.drawn), default=1)
    lines = []
    for panel in layout.panels:
        lines += [f"  {list(panel.outer)}"] if panel.outer else []
        lines += [
            "  …" if r is None else row_text(row, digits, layout.text)
            for r, row in zip(panel.rows, panel.cells, strict=True)
        ]
    lines += (
        ["  " + say("… and {n:,} more", n=layout.panels_left_out)] if layout.panels_left_out else []
    )
    return lines or ["  " + say("no elements")]


def row_text(cells: Iterable[int | None], digits: int, text: Callable[[int], str] = str) -> str:
    return "  " + " ".join(("…" if cell is None else text(cell)).rjust(digits) for cell in cells)


def _side(size: int, longest: int, ends: int) -> Side:
    """All indices of a short side; of a long one the first few and the last."""
    return tuple(range(size)) if size <= longest else (*range(ends), None, size - 1)


@lru_cache(maxsize=4096)
def _ways(shape: tuple[int, ...], stride: tuple[int, ...], rest: int) -> int:
    """In how many ways indices times strides add up to `rest`."""
    if not shape:
        return int(rest == 0)
    (n, *shape_left), (s, *stride_left) = shape, stride
    if s == 0:
        return n * _ways(tuple(shape_left), tuple(stride_left), rest)
    reach = sum((m - 1) * t for m, t in zip(shape_left, stride_left, strict=True))
    first, last = max(0, -((reach - rest) // s)), min(n - 1, rest // s)
    lefts = (rest - i * s for i in range(first, last + 1))
    return sum(_ways(tuple(shape_left), tuple(stride_left), left) for left in lefts)
