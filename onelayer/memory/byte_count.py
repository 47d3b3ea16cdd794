"""How many bytes a piece of code allocated or copied, seen from the dispatcher."""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from onelayer.drawing.words import say

_COPIES_IN_PLACE = frozenset({"aten::copy_", "aten::_foreach_copy_"})
_LINES = 16  # of a printed count


class Op(NamedTuple):
    """One operator that allocated or copied, under its dispatcher name, as in `aten::clone`."""

    name: str
    bytes: int


class _Counting:
    """What a `ByteCount` does at each operator.

    In the body of a mode torch wraps it, so that Dynamo does not compile it, and imports Dynamo for
    that: 1.6 s at the first count. Inherited, it is taken as it is.
    """

    def __torch_dispatch__(
        self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        # Under inference_mode `linear` or `reshape` arrives whole. Its parts, counted one by one,
        # are what arrives in ordinary mode, so both modes give the same table.
        with self:
            parts = func.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
        name, given = func._schema.name, (args, kwargs)
        before = _storage_bytes(given)
        result = func(*args, **kwargs)
        nbytes = _new_bytes(before, _storage_bytes((given, result)))
        if name == "aten::lift_fresh":  # torch.tensor([...]) filled its storage before it came here
            nbytes = _owned_bytes(result)
        elif name in _COPIES_IN_PLACE:
            nbytes += sum(t.numel() * t.element_size() for t in tensors(args[0]))
        if nbytes:
            self.ops.append(Op(name, nbytes))
        return result


class ByteCount(_Counting, TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The running count of `count_bytes`: `bytes` in all, and `ops`, who took them, in order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: list[Op] = []

    @property
    def bytes(self) -> int:
        return sum(op.bytes for op in self.ops)

    def __repr__(self) -> str:
        if not self.ops:
            return say("0 bytes: nothing was allocated or copied")
        told = say("{n:,} bytes allocated or copied", n=self.bytes)
        return f"{told}\n{table([(n, op) for op, n in self.ops])}"


class _BesideDynamo(ByteCount):  # type: ignore[no-untyped-call]
    """The same where somebody may compile what is counted."""

    __torch_dispatch__ = _Counting.__torch_dispatch__


def count_bytes() -> ByteCount:
    """A context manager that counts the bytes allocated for new storages or copied into old ones.

        with count_bytes() as moved:
            wt = w.T
        moved.bytes                   # 0: a view takes no bytes
        moved.ops                     # [Op(name='aten::clone', bytes=153600), ...]

    It counts by mechanism, not by the clock or the allocator. After each operator it asks whether
    a storage came back that did not go in, and counts its size; a view costs 0. `copy_` into a
    storage that was there before counts the bytes it wrote; other operators that write in place
    (`add_`, `out=`) count nothing unless they made the storage grow. A meta tensor counts as if it
    were real.

    It sees what the dispatcher sees: forward and backward, autocast's casts, also under
    `inference_mode`, where it takes composite operators apart. It does not see what a kernel
    allocates for itself (workspace, or a copy of an argument that `addmm` or a BLAS makes inside),
    what other threads do, what NumPy or Python hold, or the inside of a graph that `torch.compile`
    has compiled.
    """
    return _BesideDynamo() if "torch._dynamo" in sys.modules else ByteCount()


def table(rows: Sequence[tuple[int, str]]) -> str:
    """The first rows, bytes and what took them; the others in one."""
    lines = [f"{n:>14,}  {what}" for n, what in rows[:_LINES]]
    if more := rows[_LINES:]:
        lines.append(f"{sum(n for n, _ in more):>14,}  {say('in {n} more', n=len(more))}")
    return "\n".join(lines)


def tensors(tree: Any) -> list[torch.Tensor]:
    """Those in a tree of arguments or results."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if type(tree) in (tuple, list):  # most trees hold nothing else, and pytree takes long for them
        return [tensor for part in tree for tensor in tensors(part)]
    if tree is None or type(tree) in (int, float, bool, str):
        return []
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The dense tensors a tensor is made of: itself, or a sparse one's indices and values."""
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    # mkldnn's blocks have no storage to ask
    return [tensor] if tensor.layout == torch.strided else []


def storages(tree: Any) -> list[torch.UntypedStorage]:
    """The storages under the tensors in a tree of arguments, one for each part of each tensor."""
    return [part.untyped_storage() for t in tensors(tree) for part in _parts(t)]


def _storage_bytes(tree: Any) -> dict[int, int]:
    """Each storage in a tree of arguments, by its identity -> its size in bytes."""
    return {s._cdata: s.nbytes() for s in storages(tree)}


def _new_bytes(before: dict[int, int], after: dict[int, int]) -> int:
    """Bytes of the storages that are new or have grown.

    Growing counts in full: `resize_` allocates anew and keeps the old identity.
    """
    return sum(n for key, n in after.items() if n > before.get(key, 0))


def _owned_bytes(tensor: torch.Tensor) -> int:
    """Bytes of a storage that PyTorch allocated; 0 for one that `from_numpy` borrowed."""
    storage = tensor.untyped_storage()
    return storage.nbytes() if storage.resizable() else 0  # borrowed memory cannot be resized
