"""What an interpreted kernel reads and writes: each address, by which program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from triton.runtime.interpreter import interpreter_builder

from onelayer.drawing.words import counted, say

# What the interpreter calls -> what it is, and where the mask stands among its arguments.
_WATCHED = {
    "create_masked_load": ("load", 1),
    "create_masked_store": ("store", 2),
    "create_atomic_rmw": ("atomic", 3),
}
_MANY = {
    "load": "loads    {elements:>9,} elements, {n:>11,} bytes; masked off {idle:,}",
    "store": "stores   {elements:>9,} elements, {n:>11,} bytes; masked off {idle:,}",
    "atomic": "atomics  {elements:>9,} elements, {n:>11,} bytes; masked off {idle:,}",
}
Program = tuple[int, int, int]


@dataclass(frozen=True)
class Access:
    """One `tl.load`, `tl.store` or atomic of one program.

    addresses: of the tile's elements, in its shape. mask: which of them were touched, alike.
    itemsize: bytes of an element.
    """

    kind: str
    program: Program
    addresses: NDArray[np.uint64]
    mask: NDArray[np.bool_]
    itemsize: int

    @property
    def touched(self) -> NDArray[np.uint64]:
        """The addresses that the mask let through, in the order of the tile."""
        return self.addresses[self.mask]

    @property
    def nbytes(self) -> int:
        return len(self.touched) * self.itemsize


@dataclass
class Accesses:
    """All of a run's accesses, in order. Bytes are those that programs ask for: what a cache spares
    them is not seen."""

    made: list[Access] = field(default_factory=list)

    @property
    def programs(self) -> int:
        return len({access.program for access in self.made})

    @property
    def bytes_read(self) -> int:
        return sum(access.nbytes for access in self._of("load", "atomic"))

    @property
    def bytes_written(self) -> int:
        return sum(access.nbytes for access in self._of("store", "atomic"))

    @property
    def bytes(self) -> int:
        return self.bytes_read + self.bytes_written

    @property
    def distinct_bytes_read(self) -> int:
        """The same with each element counted once, however many programs read it."""
        seen = {(int(at), one.itemsize) for one in self._of("load", "atomic") for at in one.touched}
        return sum(itemsize for _, itemsize in seen)

    @property
    def raced(self) -> int:
        """Elements that more than one program stored, without an atomic: on a GPU the last one
        wins, and nobody knows which that is."""
        by: dict[int, set[Program]] = {}
        for access in self._of("store"):
            for at in access.touched.tolist():
                by.setdefault(at, set()).add(access.program)
        return sum(len(programs) > 1 for programs in by.values())

    def outside(self, *tensors: Tensor) -> int:
        """How many elements were touched that lie before, behind or between these tensors."""
        inside = sum(
            int(((one.touched >= begin) & (one.touched < end)).sum())
            for one in self.made
            for begin, end in map(_extent, tensors)
        )
        return sum(len(one.touched) for one in self.made) - inside

    def __repr__(self) -> str:
        lines = [counted(self.programs, "{n} program", "{n} programs")]
        for kind, many in _MANY.items():
            found = list(self._of(kind))
            if found:
                elements = sum(len(one.touched) for one in found)
                told = say(
                    many,
                    elements=elements,
                    n=sum(one.nbytes for one in found),
                    idle=sum(one.mask.size for one in found) - elements,
                )
                lines.append(told)
        return "\n".join(lines)

    def _of(self, *kinds: str) -> Iterator[Access]:
        return (access for access in self.made if access.kind in kinds)


@contextmanager
def watch() -> Iterator[Accesses]:
    """A context manager that records each access of the kernels that the interpreter runs in it.

        with watch() as run:
            triton_head_loss(x, w, b, t)
        run.bytes_read

    Tensors on the CPU only: of others the interpreter makes copies. Kernels that a GPU runs are
    not seen.
    """
    run, stood = Accesses(), dict(vars(interpreter_builder))
    try:
        for name, (kind, mask_at) in _WATCHED.items():
            setattr(interpreter_builder, name, _watched(run, name, kind, mask_at))
        yield run
    finally:
        for name in _WATCHED:
            delattr(interpreter_builder, name)  # the class's own is seen again
            if name in stood:  # or that of a watch around this one
                setattr(interpreter_builder, name, stood[name])


def _watched(run: Accesses, name: str, kind: str, mask_at: int) -> Any:
    own = getattr(interpreter_builder, name)

    def call(*args: Any) -> Any:
        pointers = args[1] if kind == "atomic" else args[0]
        run.made.append(_access(kind, pointers, args[mask_at]))
        return own(*args)

    return call


def _access(kind: str, pointers: Any, mask: Any) -> Access:
    at = np.array(pointers.data, dtype=np.uint64)
    let_through = np.broadcast_to(np.array(mask.data, dtype=bool), at.shape).copy()
    itemsize = pointers.get_element_ty().primitive_bitwidth // 8
    program: Program = tuple(int(one) for one in interpreter_builder.grid_idx)  # type: ignore[assignment]
    return Access(kind, program, at, let_through, itemsize)


def _extent(tensor: Tensor) -> tuple[int, int]:
    """From its first byte to the one behind its last."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in steps) if tensor.numel() else -1
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.itemsize
