"""Values of CUDA graphs: the operators of a capture are kept, and computed at each replay on the
same bytes. Their tensors are not kept, only where they lay: a graph's memory stays its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from onelayer.mock_cuda.aliases import on_cpu, place, say_computed

_captured: list[Callable[[], None]] = []  # of the capture that is under way


def note(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outs: list[Tensor]) -> None:
    """Keeps an operator of the capture under way."""
    mine_args, mine_kwargs = tree_map(on_cpu, args), tree_map(on_cpu, kwargs)
    places = [(on_cpu(out), place(out)) for out in outs]

    def compute() -> None:
        made = func(*mine_args, **mine_kwargs)
        values = [leaf for leaf in tree_leaves(made) if isinstance(leaf, Tensor)]
        for (alias, where), value in zip(places, values, strict=True):
            if alias.data_ptr() != value.data_ptr():
                alias.copy_(value)
            say_computed(*where)

    _captured.append(compute)


def compute_replays() -> None:
    """From here on, in this process, a graph's replay computes what was captured."""
    graph: Any = torch.cuda.CUDAGraph
    begin, end, replay = graph.capture_begin, graph.capture_end, graph.replay

    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        _captured.clear()  # of a capture that failed
        begin(self, *args, **kwargs)

    def ended(self: Any) -> None:
        end(self)
        self.computes = _captured[:]

    def replayed(self: Any) -> None:
        replay(self)
        with _disable_current_modes():
            for compute in self.computes:
                compute()

    graph.capture_begin, graph.capture_end, graph.replay = begun, ended, replayed
