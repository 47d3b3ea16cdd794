"""Tensors of the mocked device as the CPU sees them: device memory is host memory, so a CPU tensor
over the same bytes is the same numbers. And the marks on numbers that nothing computed."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch
from torch import Tensor

from onelayer.drawing.words import say


class NeverComputed(RuntimeError):
    """A number was asked for that no kernel of the mocked device computed; the message names it."""


@cache
def library() -> ctypes.CDLL:
    """The mocked library in this process, with the types of what values need."""
    found = ctypes.CDLL(None)
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    found.onelayer_mock_mark.argtypes = [pointer, size, text]
    found.onelayer_mock_computed.argtypes = [pointer, size]
    found.onelayer_mock_missing.argtypes = [pointer, size]
    found.onelayer_mock_missing.restype = text
    found.onelayer_mock_last_kernel.restype = text
    found.onelayer_mock_operator.argtypes = [ctypes.c_double]
    return found


def on_cpu(value: Any) -> Any:
    """A tensor of the device as a CPU tensor over the same bytes; a device or a generator of it as
    the CPU's; anything else as it is."""
    if isinstance(value, Tensor):
        return _alias(value) if value.is_cuda else value
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    if isinstance(value, torch.Generator):
        return None if value.device.type == "cuda" else value
    return value


def _alias(t: Tensor) -> Tensor:
    storage = t.untyped_storage()
    alias = torch.empty(0, dtype=t.dtype)
    if storage.nbytes() == 0:
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype)
    bytes_ = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    flat = torch.frombuffer(bytes_, dtype=torch.uint8)
    alias.set_(flat.untyped_storage(), t.storage_offset(), t.shape, t.stride())
    return alias.conj() if t.is_conj() else alias


def place(t: Tensor) -> tuple[int, int]:
    """Where the tensor's elements lie: the address of the first, and the bytes to past the last."""
    if t.numel() == 0:
        return t.data_ptr(), 0
    last = sum((n - 1) * stride for n, stride in zip(t.shape, t.stride(), strict=True))
    return t.data_ptr(), (last + 1) * t.element_size()


def mark(t: Tensor, kernel: str) -> None:
    """Says that `kernel` should have written these numbers, and nobody did."""
    if t.is_cuda:
        library().onelayer_mock_mark(*place(t), kernel.encode())


def computed(t: Tensor) -> None:
    """Says that these numbers are there."""
    if t.is_cuda:
        say_computed(*place(t))


def say_computed(address: int, nbytes: int) -> None:
    """Says that the numbers in this stretch of the device are there."""
    library().onelayer_mock_computed(address, nbytes)


def missing(t: Tensor) -> str | None:
    """The kernel that should have written one of these numbers, "" where nobody should have, or
    None where all are there."""
    if not t.is_cuda:
        return None
    kernel: bytes | None = library().onelayer_mock_missing(*place(t))
    return None if kernel is None else kernel.decode()


def last_kernel() -> str:
    """The kernel that was launched last, as its source names it."""
    from onelayer.mock_cuda.calls import demangled, short_kernel

    return short_kernel(demangled(library().onelayer_mock_last_kernel().decode()))


def require(t: Tensor) -> None:
    """Raises NeverComputed unless all numbers of the tensor are there."""
    kernel = missing(t)
    if kernel is not None:
        raise NeverComputed(say("this number was never computed: {why}", why=why(kernel)))


def why(kernel: str) -> str:
    """What is said of a number that `kernel`, as `missing` names it, should have written."""
    if not kernel:
        return say("nothing wrote this memory")
    return say("{kernel} was launched on a mocked device", kernel=kernel)
