"""Numbers on the mocked device: each operator of torch is computed by its CPU kernel, on the bytes
of the device, after the real launch. What the CPU cannot compute is marked and never read.

The numbers are the CPU's. A GPU adds in another order, and draws other random numbers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    is_traceable_wrapper_subclass_type,
)
from torch.utils._pytree import tree_leaves, tree_map

from onelayer.mock_cuda import graph
from onelayer.mock_cuda.aliases import (
    computed,
    last_kernel,
    library,
    mark,
    missing,
    on_cpu,
    require,
)
from onelayer.mock_cuda.count import COUNTS_FIRST, count_first, without_masks

aten = torch.ops.aten
NOTHING_TO_COMPUTE = ("empty", "detach", "alias", "set_", "record_stream", "resize_", "_resize_")
READS_A_NUMBER = {aten._local_scalar_dense.default, aten.equal.default, aten.is_nonzero.default}
ONLY_WRITTEN = {
    "aten::copy_": "self",
    "aten::fill_": "self",
    "aten::zero_": "self",
    "fsdp::all_gather_copy_in": "all_gather_output",  # its schema does not say so
}
"""Operators that do not read what they write into."""
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
        if any(map(is_traceable_wrapper_subclass_type, types)):
            return (
                NotImplemented  # a DTensor first: it asks for the same of the shard that it wraps
            )
        if types:
            return func(*args, **kwargs)  # a tensor that has no numbers, as dynamo's fake ones
        tensors = _tensors((args, kwargs))
        on_device = any(t.is_cuda for t in tensors)
        if _is_free(func):
            return func(*args, **kwargs)
        capturing = _capturing()
        if on_device and not capturing:
            if func in COUNTS_FIRST:
                return count_first(func, args, kwargs)
            args = without_masks(func, args)
            _read_on_host(func, args, kwargs)
        with _trusted():
            result = func(*args, **kwargs)
        outs = _tensors(result)
        if not on_device and not any(t.is_cuda for t in outs):
            return result
        if capturing:  # nothing runs during a capture, here as there
            graph.note(func, args, kwargs, outs)
            return result
        return _computed(func, args, kwargs, result)


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _is_free(func: Any) -> bool:
    """Whether there is nothing to compute: for a view, for memory that nobody has written, for a
    collective, whose numbers the mocked NCCL sees to."""
    space, _, name = func._schema.name.partition("::")
    collective = space in ("c10d", "_c10d_functional")
    return func.is_view or collective or name.startswith(NOTHING_TO_COMPUTE)


def _capturing() -> bool:
    begun: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return begun and torch.cuda.is_current_stream_capturing()


@contextlib.contextmanager
def _trusted() -> Iterator[None]:
    """What an operator reads of the device inside is its own affair: its result is computed."""
    library().onelayer_mock_trust(1)
    try:
        yield
    finally:
        library().onelayer_mock_trust(0)


def _read_on_host(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises NeverComputed where the operator brings a number to the host that is not there."""
    to_host = func is aten.copy_.default and not args[0].is_cuda
    if func is aten._to_copy.default and args[0].is_cuda:
        to_host = torch.device(kwargs.get("device") or "cuda").type == "cpu"
    if to_host or func in READS_A_NUMBER:
        for t in _tensors((args, kwargs)):
            require(t)


def _computed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    """The result of a launch, with its numbers put in place, or marked as not there."""
    outs = _tensors(result)
    written = outs or _written(func, args, kwargs)
    unknown = [k for k in map(missing, _read(func, args, kwargs)) if k is not None]
    if unknown:
        return _mark_all(written, unknown[0], result)
    try:
        with _disable_current_modes():
            mine = func(*tree_map(on_cpu, args), **tree_map(on_cpu, kwargs))
            put(outs, _tensors(mine))
        for t in written:
            computed(t)
    except (NotImplementedError, RuntimeError, IndexError, ValueError) as error:
        if _is_assert(error):
            return _assert(result)
        return _mark_all(written, last_kernel(), result)
    return result if outs or written else mine


def _read(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors that the operator reads: not those that it only writes."""
    only_written = ONLY_WRITTEN.get(func._schema.name)
    return [
        t
        for argument, value in _given(func, args, kwargs)
        if not (argument.is_out or argument.name == only_written)
        for t in _tensors(value)
    ]


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors that the operator writes into, as those of FSDP do, which return nothing."""
    given = _given(func, args, kwargs)
    return [t for argument, value in given if argument.is_write for t in _tensors(value)]


def _given(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Each argument of the operator's schema that has a value here."""
    arguments = func._schema.arguments
    yield from zip(arguments, args, strict=False)
    yield from ((a, kwargs[a.name]) for a in arguments if a.name in kwargs)


def put(outs: list[Tensor], mine: list[Tensor]) -> None:
    """Writes the CPU's results over the device's bytes, where they are not the same bytes."""
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
