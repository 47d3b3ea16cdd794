"""How many bytes a piece of code held at once, seen from the dispatcher."""

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from onelayer.drawing.words import say

from .byte_count import storages


class PeakBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The running count of `peak_bytes`: `bytes` at the highest point, `now` at this moment, and
    `path`, what was held after each operator."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = self.now = 0
        self.path: list[int] = []
        self._alive: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = {storage._cdata for storage in storages((args, kwargs))}
        result = func(*args, **kwargs)
        for storage in storages(result):
            if storage._cdata not in given | self._alive:
                self._born(storage)
        self.path.append(self.now)
        return result

    def __repr__(self) -> str:
        return say("{n:,} bytes held at once", n=self.bytes)

    def _born(self, storage: torch.UntypedStorage) -> None:
        number, nbytes = storage._cdata, storage.nbytes()
        self._alive.add(number)
        self.now += nbytes
        self.bytes = max(self.bytes, self.now)
        weakref.finalize(storage, self._died, number, nbytes).atexit = False

    def _died(self, number: int, nbytes: int) -> None:
        self._alive.discard(number)
        self.now -= nbytes


def peak_bytes() -> PeakBytes:
    """A context manager that measures the most bytes that new storages held at one moment.

        with peak_bytes() as peak:
            loss = F.cross_entropy(F.linear(h, W, b), y)
        peak.bytes, peak.path

    It counts by mechanism, the same on every machine: a storage counts from the operator that
    returned it until the last tensor over it is gone. What was there before does not count, nor
    does what a kernel allocates for itself, and a storage that an operator makes larger counts
    as it was.
    """
    return PeakBytes()
