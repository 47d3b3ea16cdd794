"""Numbers on the mocked device: each operator of torch is computed by its CPU kernel, on the bytes
of the device, after the real launch. What the CPU cannot compute is marked and never read.

The numbers are the CPU's. A GPU adds in another order, and draws other random numbers.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from onelayer.mock_cuda import aliases
from onelayer.mock_cuda.aliases import computed, library, mark, missing, on_cpu, require

aten = torch.ops.aten
NOTHING_TO_COMPUTE = ("empty", "detach", "alias", "set_", "record_stream", "resize_", "_resize_")
COUNTS_FIRST = {
    aten.nonzero.default,
    aten.masked_select.default,
    aten._unique2.default,
    aten.unique_consecutive.default,
    aten.bincount.default,
    aten.repeat_interleave.Tensor,
}
"""Their size is a number of the device: it is computed before memory for the result is asked for."""
_OUT_OF_RANGE = ("out of range", "out of bounds", "is out of")


class Computing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it lasts, operators on the mocked device have values."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        tensors = _tensors((args, kwargs))
        if _is_free(func):
            return func(*args, **kwargs)
        if func in COUNTS_FIRST and any(t.is_cuda for t in tensors):
            return _count_first(func, args, kwargs)
        args = _without_masks(func, args)
        _read_on_host(func, args, tensors)
        result = func(*args, **kwargs)
        if not any(t.is_cuda for t in [*tensors, *_tensors(result)]):
            return result
        return _computed(func, args, kwargs, result)


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _is_free(func: Any) -> bool:
    """Whether the operator makes no number: a view, or memory that nobody has written."""
    name = func._schema.name.partition("::")[2]
    return func.is_view or name.startswith(NOTHING_TO_COMPUTE)


def _read_on_host(func: Any, args: tuple[Any, ...], tensors: list[Tensor]) -> None:
    """Raises NeverComputed where the operator brings a number to the host that is not there."""
    if func in (aten._local_scalar_dense.default, aten.equal.default, aten.is_nonzero.default):
        for t in tensors:
            require(t)
    if func is aten.copy_.default and not args[0].is_cuda:
        require(args[1])


def _computed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    """The result of a launch, with its numbers put in place, or marked as not there."""
    if torch.cuda.is_current_stream_capturing():
        return result  # nothing runs during a capture, here as there
    outs = _tensors(result)
    unknown = [k for k in map(missing, _read(func, args, kwargs)) if k is not None]
    if unknown:
        return _mark_all(outs, unknown[0], result)
    try:
        with _disable_current_modes():
            mine = func(*tree_map(on_cpu, args), **tree_map(on_cpu, kwargs))
            _put(outs, _tensors(mine))
    except (NotImplementedError, RuntimeError, IndexError, ValueError) as error:
        if _is_assert(error):
            return _assert(result)
        return _mark_all(outs, aliases.last_kernel(), result)
    return result if outs else mine


def _read(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors that the operator reads: not those that it only writes."""
    named = zip(func._schema.arguments, args, strict=False)
    given = [(a, value) for a, value in named] + [
        (a, kwargs[a.name]) for a in func._schema.arguments if a.name in kwargs
    ]
    only_written = func._schema.name in ("aten::copy_", "aten::fill_", "aten::zero_")
    return [
        t
        for argument, value in given
        if not (argument.is_out or (only_written and argument.name == "self"))
        for t in _tensors(value)
    ]


def _put(outs: list[Tensor], mine: list[Tensor]) -> None:
    """Writes the CPU's results over the bytes of the device's, where they are not the same bytes."""
    for out, value in zip(outs, mine, strict=True):
        place = on_cpu(out)
        if place.data_ptr() != value.data_ptr():
            place.copy_(value)
        computed(out)


def _mark_all(outs: list[Tensor], kernel: str, result: Any) -> Any:
    for out in outs:
        mark(out, kernel)
    return result


def _is_assert(error: Exception) -> bool:
    """Whether a kernel of a GPU would have stopped at an assert: an index that leads nowhere."""
    return isinstance(error, IndexError) or any(part in str(error) for part in _OUT_OF_RANGE)


def _assert(result: Any) -> Any:
    library().onelayer_mock_assert()
    if os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":
        torch.cuda.synchronize()  # the launch itself then says so
    return result


def _count_first(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The CPU's result brought to the device: its size is known only when it is computed."""
    device = next(t.device for t in _tensors((args, kwargs)) if t.is_cuda)
    for t in _tensors((args, kwargs)):
        require(t)
    with _disable_current_modes():
        mine = func(*tree_map(on_cpu, args), **tree_map(on_cpu, kwargs))
    torch.cuda.current_stream().synchronize()

    def brought(value: Any) -> Any:
        return value.to(device) if isinstance(value, Tensor) else value

    return tree_map(brought, mine)


def _without_masks(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of an indexing operator with its masks as positions, as the operator itself
    would make them, from numbers that are there."""
    if func not in (aten.index.Tensor, aten.index_put_.default, aten.index_put.default):
        return args
    indices: list[Tensor | None] = []
    for index in args[1]:
        is_mask = index is not None and index.dtype in (torch.bool, torch.uint8)
        if is_mask and index.is_cuda:
            indices += _count_first(aten.nonzero.default, (index,), {}).unbind(1)
        else:
            indices.append(index)
    return (args[0], indices, *args[2:])
