"""How many bytes a graph keeps for its backward, seen by the hooks of saved tensors."""

import weakref
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch.autograd.graph import saved_tensors_hooks

from onelayer.drawing.words import say
from onelayer.memory.byte_count import storages, table


class SavedTensor(NamedTuple):
    """The first tensor that was saved of a storage; `bytes` are the whole storage's."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    bytes: int


class SavedBytes(saved_tensors_hooks):
    """The running count of `count_saved`: `bytes` in all, and `tensors`, one for each storage."""

    def __init__(self, ignore: Iterable[torch.Tensor]) -> None:
        super().__init__(self._pack, lambda packed: packed)
        self.tensors: list[SavedTensor] = []
        self._ignored = [storage for t in ignore for storage in storages(t)]
        self._alive = {storage._cdata for storage in self._ignored}

    def __enter__(self) -> "SavedBytes":  # type: ignore[override]
        super().__enter__()
        return self

    @property
    def bytes(self) -> int:
        return sum(tensor.bytes for tensor in self.tensors)

    def __repr__(self) -> str:
        if not self.tensors:
            return say("0 bytes: no storage was saved for backward")
        rows = [(t.bytes, f"{str(t.dtype).removeprefix('torch.')} {t.shape}") for t in self.tensors]
        told = say("{n:,} bytes saved for backward", n=self.bytes)
        return f"{told}\n{table(rows)}"

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        fresh = [s for s in storages(tensor) if s.nbytes() and s._cdata not in self._alive]
        if fresh:
            nbytes = sum(storage.nbytes() for storage in fresh)
            self.tensors.append(SavedTensor(tuple(tensor.shape), tensor.dtype, nbytes))
        for storage in fresh:
            self._alive.add(storage._cdata)
            weakref.finalize(storage, self._alive.discard, storage._cdata).atexit = False
        return tensor.detach()  # a node that held its own result would never be freed


def count_saved(ignore: Iterable[torch.Tensor] = ()) -> SavedBytes:
    """A context manager that counts the bytes that the graph keeps for backward.

        with count_saved(ignore=model.parameters()) as saved:
            loss = F.cross_entropy(model(tokens), target)
        saved.bytes                   # of distinct storages, without those of the parameters
        saved.tensors                 # [SavedTensor(shape=(7, 600), dtype=..., bytes=16800), ...]

    Each tensor that a node saves passes through `torch.autograd.graph.saved_tensors_hooks`. A
    storage counts once, however many nodes save it, and counts whole: a saved slice keeps all of
    it. Not counted are the storages of `ignore`, which live on without the graph.

    It does not see what a Python Function keeps as an attribute of its `ctx`, nor what the inside
    of a checkpoint or of another `saved_tensors_hooks` saves: the innermost hooks alone are called.
    While it counts, backward does not notice that a saved tensor was edited in place.
    """
    return SavedBytes(ignore)
