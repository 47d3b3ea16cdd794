"""A training step of a small network, and the bytes that it holds, measured of torch itself."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from onelayer.memory.byte_count import storages

Moments = tuple[int, int, int, int]


class Held(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Bytes of the tensors of more than one number that operators made and that are alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._alive: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {storage._cdata for storage in storages((args, kwargs or {}))}
        result = func(*args, **(kwargs or {}))
        for storage in storages(result):
            if storage._cdata not in given | self._alive and storage.nbytes() > 4:
                self._alive.add(storage._cdata)
                self.now += storage.nbytes()
                weakref.finalize(storage, self._gone, storage._cdata, storage.nbytes())
        self.peak = max(self.peak, self.now)
        return result

    def _gone(self, number: int, nbytes: int) -> None:
        self._alive.discard(number)
        self.now -= nbytes


def held_in_second_step(widths: Sequence[int], n: int) -> Moments:
    """Bytes of float32 in the second step of AdamW: (before it, after its forward, its peak, after
    its backward)."""
    return _measured(tuple(widths), n)


@lru_cache(maxsize=64)  # a truth and ten known wrong answers ask for the same
def _measured(widths: tuple[int, ...], n: int) -> Moments:
    x, target = torch.zeros(n, widths[0]), torch.zeros(n, dtype=torch.int64)
    with Held() as held:
        layers: list[torch.nn.Module] = []
        for width, following in pairwise(widths):
            layers += [torch.nn.Linear(width, following), torch.nn.ReLU()]
        model = torch.nn.Sequential(*layers[:-1])
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        F.cross_entropy(model(x), target).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        before, held.peak = held.now, held.now
        loss = F.cross_entropy(model(x), target)
        forward = held.now
        loss.backward()  # type: ignore[no-untyped-call]
        return before, forward, held.peak, held.now
