"""Which floats does each tensor own, and which do they share? A storage and who looks at it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from onelayer.drawing.words import say

from .layout import Layout, Scalar, grid_text, row_text, runs, written
from .values import drawn_values

_WHOLE = 64  # a storage of at most so many cells is drawn whole
_NAME = 24  # characters of a name that are kept


@dataclass(frozen=True)
class Storage:
    """One storage and the tensors that look at it. A cell is `cell_bytes` bytes long."""

    letter: str
    nbytes: int
    cell_bytes: int
    device: str
    layouts: tuple[Layout, ...]

    @property
    def cells(self) -> int:
        return self.nbytes // self.cell_bytes

    @cached_property
    def drawn(self) -> tuple[int | None, ...]:
        """The cells to draw in order, None for those left out."""
        if self.cells <= _WHOLE:
            return tuple(range(self.cells))
        starts = {(cell, layout.width) for layout in self.layouts for cell in layout.drawn}
        inside = {cell + k for cell, width in starts for k in range(width)}
        return tuple(runs({0, self.cells - 1, *inside}))

    @cached_property
    def values(self) -> dict[int, Scalar]:
        """What was read of it, by cell; of two tensors that read one cell the first one's."""
        return {c: v for layout in reversed(self.layouts) for c, v in layout.values.items()}

    def text(self, cell: int) -> str:
        """The value in a cell, or nothing where none was read."""
        return written(self.values[cell]) if cell in self.values else ""

    def title(self) -> str:
        kinds = list(dict.fromkeys(layout.dtype for layout in self.layouts))
        kind = kinds[0]
        if len(kinds) > 1:
            read_as = say(" and ").join(kinds)
            kind = say("{n}-byte cells, read as {kinds}", n=self.cell_bytes, kinds=read_as)
        where = "" if self.device == "cpu" else say(", on {device}", device=self.device)
        where += say(", no values") if self.cells and not self.values else ""
        return say(
            "storage {letter}: {cells:,} {kind}, {nbytes:,} bytes{where}",
            letter=self.letter,
            cells=self.cells,
            kind=kind,
            nbytes=self.nbytes,
            where=where,
        )

    def facts(self, layout: Layout) -> list[str]:
        """What to say about one of its tensors, shortest first things first."""
        others = ", ".join(other.name for other in self.layouts if other is not layout)
        facts = [
            say("shape {shape}", shape=layout.shape),
            say("strides {stride}", stride=layout.stride),
            say("offset {offset:,}", offset=layout.offset),
            say("{n:,} bytes", n=layout.nbytes),
            say(layout.order),
        ]
        if layout.width > 1:
            facts.append(say("{n} cells per element", n=layout.width))
        if layout.distinct is not None and layout.distinct < layout.numel:
            n, cells = layout.numel, layout.distinct
            facts.append(say("{n:,} elements over {cells:,} cells", n=n, cells=cells))
        elif any(layout.readers(cell) > 1 for cell in layout.drawn):
            facts.append(say("several elements per cell"))
        shared = say("shares nothing")
        if others:
            shared = say("shares storage {letter} with {others}", letter=self.letter, others=others)
        return [*facts, shared]

    def __str__(self) -> str:
        """The row of the storage, then each tensor's facts and its grid."""
        digits = max([len(str(max(self.cells - 1, 0))), *map(len, map(self.text, self.values))])
        names = [say("address"), say("value")]
        wide = max(map(len, names))
        rows = [row_text(self.drawn, digits)]
        rows += [row_text(self.drawn, digits, self.text)] if self.values else []
        lines = [self.title()]
        lines += [f"  {name:<{wide}} {row}" for name, row in zip(names, rows, strict=False)]
        for layout in self.layouts:
            lines += [f"{layout.name}: {', '.join(self.facts(layout))}", *grid_text(layout)]
        return "\n".join(lines)


def storages_of(tensors: Sequence[torch.Tensor], names: Sequence[str]) -> tuple[Storage, ...]:
    """The storages under `tensors`, in the order of their first tensors.

    Raises TypeError for what is not a strided tensor, ValueError without tensors or where names
    and tensors differ in number.
    """
    if not tensors:
        raise ValueError(say("show_storage needs at least one tensor: show_storage(w, w.T)"))
    for tensor in tensors:
        _require_strided(tensor)
    if len(names) != len(tensors):
        raise ValueError(
            say(
                "{n} tensors, but {named} names: {names}",
                n=len(tensors),
                named=len(names),
                names=list(names),
            )
        )
    groups: dict[tuple[str, int], list[tuple[torch.Tensor, str]]] = {}
    for tensor, name in zip(tensors, names, strict=True):
        groups.setdefault(_identity(tensor), []).append((tensor, _short(name)))
    return tuple(_storage(i, group) for i, group in enumerate(groups.values()))


def _require_strided(tensor: object) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(say("show_storage takes tensors, got {kind}", kind=type(tensor).__name__))
    if tensor.layout != torch.strided:
        raise TypeError(
            say("a {layout} tensor has no strides over one storage to show", layout=tensor.layout)
        )


def _storage(place: int, group: list[tuple[torch.Tensor, str]]) -> Storage:
    first = group[0][0]
    cell_bytes = min(tensor.element_size() for tensor, _ in group)
    nbytes = max(tensor.untyped_storage().nbytes() for tensor, _ in group)
    layouts = tuple(_layout(tensor, name, cell_bytes) for tensor, name in group)
    letter = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[place % 26]
    return Storage(letter, nbytes, cell_bytes, str(first.device), layouts)


def _layout(tensor: torch.Tensor, name: str, cell_bytes: int) -> Layout:
    layout = Layout(
        name=name,
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=tuple(tensor.shape),
        stride=tuple(tensor.stride()),
        offset=int(tensor.storage_offset()),
        nbytes=tensor.numel() * tensor.element_size(),
        order=_order(tensor),
        width=tensor.element_size() // cell_bytes,
    )
    return replace(layout, values=drawn_values(tensor, layout))


def _order(tensor: torch.Tensor) -> str:
    if tensor.is_contiguous():
        return "contiguous"
    channels_last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return "not contiguous, but channels_last" if channels_last else "not contiguous"


def _identity(tensor: torch.Tensor) -> tuple[str, int]:
    """Where its memory begins: one NumPy array wrapped twice is two storages but one memory."""
    storage = tensor.untyped_storage()
    on_meta = tensor.device.type == "meta" or storage.nbytes() == 0
    return str(tensor.device), storage._cdata if on_meta else storage.data_ptr()


def _short(name: str) -> str:
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"
