"""Operators whose result's size is a number of the device: it is computed before memory for the
result is asked for, where a GPU would make the host wait for it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from onelayer.mock_cuda.aliases import on_cpu, require

aten = torch.ops.aten
COUNTS_FIRST = {
    aten.nonzero.default,
    aten.masked_select.default,
    aten._unique2.default,
    aten.unique_consecutive.default,
    aten.bincount.default,
    aten.repeat_interleave.Tensor,
}
INDEXING = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default}


def count_first(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The CPU's result brought to the device. Raises NeverComputed where it needs a number that is
    not there."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    for t in tensors:
        require(t)
    device = next(t.device for t in tensors if t.is_cuda)
    with _disable_current_modes():
        mine = func(*tree_map(on_cpu, args), **tree_map(on_cpu, kwargs))
    torch.cuda.current_stream().synchronize()
    return tree_map(lambda v: v.to(device) if isinstance(v, Tensor) else v, mine)


def without_masks(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of an indexing operator with its masks as positions, as the operator itself
    would make them, from numbers that are there."""
    if func not in INDEXING:
        return args
    indices: list[Tensor | None] = []
    for index in args[1]:
        is_mask = index is not None and index.dtype in (torch.bool, torch.uint8)
        if is_mask and index.is_cuda:
            indices += count_first(aten.nonzero.default, (index,), {}).unbind(1)
        else:
            indices.append(index)
    return (args[0], indices, *args[2:])
