"""The memory of a launch: a buffer for each tensor, and who has touched which element of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

Block = Any
"""A numpy array: mypy would ask for the dtype and shape of each."""
NOBODY, ATOMIC = -1, -2


class Fault(Exception):
    """What a GPU would not survive, or not do twice alike. kind: its name; line: in the kernel."""

    def __init__(self, kind: str, says: str) -> None:
        super().__init__(says)
        self.kind, self.line = kind, 0


@dataclass(eq=False)
class Buffer:
    """The storage of a tensor. mine: which of its elements belong to the tensor; written, read: the
    last program that wrote or read an element."""

    name: str
    values: Block
    mine: Block
    first: int
    writable: bool
    written: Block = field(init=False)
    read: Block = field(init=False)
    loaded_bytes: int = 0
    stored_bytes: int = 0

    def __post_init__(self) -> None:
        self.written = np.full(len(self.values), NOBODY)
        self.read = np.full(len(self.values), NOBODY)

    def load(self, at: Block, program: int) -> Block:
        """The elements at these places, all of the tensor. Raises Fault."""
        at = self._inside(at, f"loads from {self.name}")
        if self.writable:
            others = self.written[at]
            if ((others != NOBODY) & (others != program)).any():
                raise Fault("race", f"a program reads what another one writes to {self.name}")
            self.read[at] = program
        self.loaded_bytes += len(np.unique(at)) * self.values.itemsize
        return self.values[at]

    def store(self, at: Block, values: Block, program: int) -> None:
        """Raises Fault."""
        at = self._writable(at)
        self._expect_alone(at, program, self.written[at])
        self.values[at] = values
        self.written[at] = program
        self.stored_bytes += len(np.unique(at)) * self.values.itemsize

    def add(self, at: Block, values: Block, program: int) -> None:
        """Adds atomically: programs may meet here. Raises Fault."""
        at = self._writable(at)
        others = self.written[at]
        self._expect_alone(at, program, np.where(others == ATOMIC, NOBODY, others))
        np.add.at(self.values, at, values.astype(self.values.dtype))
        self.written[at] = ATOMIC
        self.stored_bytes += at.size * self.values.itemsize

    def _writable(self, at: Block) -> Block:
        if not self.writable:
            raise Fault("wrote_input", f"a store to {self.name}, which is only to be read")
        return self._inside(at, f"stores to {self.name}")

    def _expect_alone(self, at: Block, program: int, writers: Block) -> None:
        for others in (writers, self.read[at]):
            if ((others != NOBODY) & (others != program)).any():
                raise Fault("race", f"two programs meet in the same element of {self.name}")

    def _inside(self, at: Block, does: str) -> Block:
        at = at + self.first
        inside = (at >= 0) & (at < len(self.values))
        if not inside.all() or not self.mine[at].all():
            raise Fault(_outside(self.mine, at), f"{does}, outside of the tensor")
        return at


@dataclass(frozen=True)
class Pointer:
    """A block of pointers into one buffer: places, counted from the tensor's first element."""

    buffer: Buffer
    at: Block


@dataclass(frozen=True)
class BlockPointer:
    """What tl.make_block_ptr makes: a block of a tensor of this shape and these strides, from
    `offsets` on. All but `block` are numbers of the launch."""

    base: Pointer
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offsets: tuple[Any, ...]
    block: tuple[int, ...]

    def lanes(self, checked: Any) -> tuple[Pointer, Block]:
        """A pointer for each lane, and whether it is inside in the dimensions `checked`."""
        at, inside = self.base.at, np.ones(self.block, dtype=bool)
        for axis, wide in enumerate(self.block):
            along = [1] * len(self.block)
            along[axis] = wide
            index = (np.asarray(self.offsets[axis]) + np.arange(wide)).reshape(along)
            at = at + index * self.strides[axis]
            if axis in checked:
                inside = inside & (index >= 0) & (index < self.shape[axis])
        return Pointer(self.base.buffer, np.broadcast_to(at, self.block)), inside

    def advanced(self, by: tuple[Any, ...]) -> BlockPointer:
        moved = tuple(a + b for a, b in zip(self.offsets, by, strict=True))
        return replace(self, offsets=moved)


def _outside(mine: Block, at: Block) -> str:
    """The fault of whoever touches these places, of which not all are `mine`: "between" where those
    that are not lie between some that are."""
    inside = (at >= 0) & (at < len(mine))
    astray = at[inside][~mine[at[inside]]]
    places = np.flatnonzero(mine)
    between = inside.all() and places.size and places[0] < astray.min() <= astray.max() < places[-1]
    return "between" if between else "out_of_bounds"


def buffer_of(name: str, t: Tensor, *, writable: bool) -> Buffer:
    """The memory of t. What lies in its storage beside it is NaN, or 77."""
    flat = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
    values = flat.detach().numpy().copy()
    places = torch.arange(len(flat)).as_strided(t.shape, t.stride(), int(t.storage_offset()))
    mine = np.zeros(len(values), dtype=bool)
    mine[places.flatten().numpy()] = True
    values[~mine] = np.nan if values.dtype.kind == "f" else 77
    return Buffer(name, values, mine, int(t.storage_offset()), writable)


def tensor_in(buffer: Buffer, like: Tensor) -> Tensor:
    """What the tensor `like`, from which the buffer was made, holds now."""
    memory = torch.from_numpy(buffer.values.copy())
    return memory.as_strided(like.shape, like.stride(), buffer.first)
