"""`show_storage`: which floats does each tensor own, and which do they share?"""

import sys
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from onelayer.drawing.display import Shown, argument_names

from .layout import Layout, grid_text, row_text, runs

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

    def title(self) -> str:
        kinds = " and ".join(dict.fromkeys(layout.dtype for layout in self.layouts))
        kind = kinds if " and " not in kinds else f"{self.cell_bytes}-byte cells, read as {kinds}"
        where = "" if self.device == "cpu" else f", on {self.device}"
        return f"storage {self.letter}: {self.cells:,} {kind}, {self.nbytes:,} bytes{where}"

    def facts(self, layout: Layout) -> list[str]:
        """What to say about one of its tensors, shortest first things first."""
        others = ", ".join(other.name for other in self.layouts if other is not layout)
        facts = [
            f"shape {layout.shape}",
            f"strides {layout.stride}",
            f"offset {layout.offset:,}",
            f"{layout.nbytes:,} bytes",
            layout.order,
        ]
        if layout.width > 1:
            facts.append(f"{layout.width} cells per element")
        if layout.distinct is not None and layout.distinct < layout.numel:
            facts.append(f"{layout.numel:,} elements over {layout.distinct:,} cells")
        elif any(layout.readers(cell) > 1 for cell in layout.drawn):
            facts.append("several elements per cell")
        return [
            *facts,
            f"shares storage {self.letter} with {others}" if others else "shares nothing",
        ]


@dataclass(frozen=True, repr=False)
class StoragePicture(Shown):
    """What `show_storage` saw. It holds sizes and strides, not the tensors."""

    storages: tuple[Storage, ...]

    @property
    def alt(self) -> str:
        """The picture in words."""
        pairs = [(s, layout) for s in self.storages for layout in s.layouts]
        tensors = [f"{layout.name}: {', '.join(s.facts(layout))}." for s, layout in pairs]
        return " ".join([f"{s.title()}." for s in self.storages] + tensors)

    def __repr__(self) -> str:
        return "\n".join(line for storage in self.storages for line in _lines(storage))

    def _repr_png_(self) -> bytes:
        return self._images[0]

    def _repr_html_(self) -> str:
        from onelayer.drawing.sketch import themed_html

        return themed_html(*self._images, alt=self.alt)

    def bundle(self) -> dict[str, Any]:
        png = b64encode(self._repr_png_()).decode()
        return {"text/plain": repr(self), "text/html": self._repr_html_(), "image/png": png}

    @cached_property
    def _images(self) -> tuple[bytes, bytes]:
        from .storage_picture import draw

        return draw(self.storages, dark=False), draw(self.storages, dark=True)


def show_storage(*tensors: torch.Tensor, names: Sequence[str] | None = None) -> StoragePicture:
    """A picture of the storages behind `tensors`: a row of cells with their addresses, and each
    tensor as a grid whose entries are addresses into that row.

        show_storage(w, w.T)

    Tensors of any shape, stride, dtype and device; values are never read. Of long sides only the
    ends are drawn, sizes are the true ones. `names` defaults to what the caller wrote. In a
    notebook the picture appears at once. The object returned draws itself again where it is
    displayed, says the same in plain text where it is printed, and has `alt`, the picture in words.

    Raises TypeError for what is not a strided tensor, ValueError without tensors or where names
    and tensors differ in number.
    """
    if not tensors:
        raise ValueError("show_storage needs at least one tensor: show_storage(w, w.T)")
    for tensor in tensors:
        _require_strided(tensor)
    if names is None:
        written = argument_names(sys._getframe(1), len(tensors))
        names = written or [f"tensor {i}" for i in range(len(tensors))]
    if len(names) != len(tensors):
        raise ValueError(f"{len(tensors)} tensors, but {len(names)} names: {list(names)}")
    picture = StoragePicture(_storages(tensors, names))
    picture.show()
    return picture


def _require_strided(tensor: object) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"show_storage takes tensors, got {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise TypeError(f"a {tensor.layout} tensor has no strides over one storage to show")


def _storages(tensors: Sequence[torch.Tensor], names: Sequence[str]) -> tuple[Storage, ...]:
    groups: dict[tuple[str, int], list[tuple[torch.Tensor, str]]] = {}
    for tensor, name in zip(tensors, names, strict=True):
        groups.setdefault(_identity(tensor), []).append((tensor, _short(name)))
    return tuple(_storage(i, group) for i, group in enumerate(groups.values()))


def _storage(place: int, group: list[tuple[torch.Tensor, str]]) -> Storage:
    first = group[0][0]
    cell_bytes = min(tensor.element_size() for tensor, _ in group)
    nbytes = max(tensor.untyped_storage().nbytes() for tensor, _ in group)
    layouts = tuple(_layout(tensor, name, cell_bytes) for tensor, name in group)
    letter = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[place % 26]
    return Storage(letter, nbytes, cell_bytes, str(first.device), layouts)


def _layout(tensor: torch.Tensor, name: str, cell_bytes: int) -> Layout:
    return Layout(
        name=name,
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=tuple(tensor.shape),
        stride=tuple(tensor.stride()),
        offset=int(tensor.storage_offset()),
        nbytes=tensor.numel() * tensor.element_size(),
        order=_order(tensor),
        width=tensor.element_size() // cell_bytes,
    )


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


def _lines(storage: Storage) -> list[str]:
    """The text twin: the row of the storage, then each tensor's facts and its grid."""
    digits = len(str(max(storage.cells - 1, 0)))
    lines = [storage.title(), row_text(storage.drawn, digits)]
    for layout in storage.layouts:
        lines += [f"{layout.name}: {', '.join(storage.facts(layout))}", *grid_text(layout)]
    return lines
