"""How many bytes each operator reads and writes when it runs alone, seen from the dispatcher."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from onelayer.drawing.words import counted, say

from .byte_count import tensors


class TrafficOp(NamedTuple):
    """One operator under its dispatcher name, as in `aten::addmm`, and its traffic."""

    name: str
    bytes_read: int
    bytes_written: int


class Traffic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The running count of `count_traffic`: `bytes` in all, and `ops`, in order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: list[TrafficOp] = []

    @property
    def bytes_read(self) -> int:
        return sum(op.bytes_read for op in self.ops)

    @property
    def bytes_written(self) -> int:
        return sum(op.bytes_written for op in self.ops)

    @property
    def bytes(self) -> int:
        return self.bytes_read + self.bytes_written

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with self:  # under inference_mode an operator arrives whole: its parts are what runs
            parts = func.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
        given = tensors((args, kwargs))
        result = func(*args, **kwargs)
        made = tensors(result)
        old = {t.untyped_storage()._cdata for t in given}
        new = [t for t in made if t.untyped_storage()._cdata not in old]
        changed = _written(func, args, kwargs)
        if new or changed:  # a view reads nothing
            out = {id(t) for t in changed} if func._schema.name in _FILLS else set()
            read = _nbytes(t for t in given if id(t) not in out) - _unread(func, args, made)
            self.ops.append(TrafficOp(func._schema.name, read, _nbytes([*new, *changed])))
        return result

    def __repr__(self) -> str:
        lines = [f"{op.bytes_read:>14,} {op.bytes_written:>14,}  {op.name}" for op in self.ops]
        among = counted(len(self.ops), "in {n} operator", "in {n} operators")
        total = f"{self.bytes_read:>14,} {self.bytes_written:>14,}  {among}"
        return "\n".join([f"{say('bytes read'):>14} {say('written'):>14}", *lines, total])


_FILLS = frozenset({"aten::copy_", "aten::fill_", "aten::zero_"})
# Operators that look up elements in a table, and which argument it is.
_LOOKUPS = {
    "aten::gather": 0,
    "aten::embedding": 0,
    "aten::index_select": 0,
    "aten::index": 0,
    "aten::nll_loss_forward": 0,
    "aten::nll_loss_backward": 1,
}


def count_traffic() -> Traffic:
    """A context manager that counts what each operator reads and writes.

        with count_traffic() as traffic:
            loss = F.cross_entropy(F.linear(x, w, b), target)
        traffic.bytes, traffic.ops    # [TrafficOp(name='aten::addmm', bytes_read=..., ...), ...]

    An operator reads each tensor that it is given once and whole, and writes each that it returns
    or changes; a view reads and writes nothing. An expanded tensor counts the bytes that it has.
    Of the table in a lookup, such as `gather` or `nll_loss`, it reads the elements that are looked
    up. It is what the operators ask for: what a cache spares them is not seen.
    """
    return Traffic()


def _unread(func: Any, args: tuple[Any, ...], made: list[torch.Tensor]) -> int:
    """Bytes of a table that a lookup does not touch."""
    name: str = func._schema.name
    if name not in _LOOKUPS:
        return 0
    table: torch.Tensor = args[_LOOKUPS[name]]
    elements: int = made[0].numel()
    if name.startswith("aten::nll_loss"):  # backward reads no logit, only how many there are
        elements = args[1].numel() if name == "aten::nll_loss_forward" else 0
    return max(0, _nbytes([table]) - elements * table.element_size())


def _nbytes(tensors: Iterable[torch.Tensor]) -> int:
    distinct = {(t.untyped_storage()._cdata, t.storage_offset(), t.shape): t for t in tensors}
    return sum(
        min(t.numel() * t.element_size(), t.untyped_storage().nbytes()) for t in distinct.values()
    )


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The arguments that the schema marks as written, `(a!)`."""
    arguments = func._schema.arguments
    pairs = zip(arguments, args, strict=False)
    named = ((a, kwargs[a.name]) for a in arguments if a.name in kwargs)
    marked = [v for a, v in (*pairs, *named) if a.alias_info is not None and a.alias_info.is_write]
    return tensors(marked)
