"""Values that cross between a check and a student's function: plain data, and tensors as bytes with
their strides.

A check calls a function that may live in this process (a notebook) or in a jail far away (grading).
Both ways use the same two functions, so a lab cannot behave differently in the two places: `pack`
turns a value into a small JSON tree plus the raw bytes of each *storage*, `unpack` rebuilds it.
Storages travel, not tensors: two views of one storage stay two views of one storage, with their
offsets and strides.

Nothing here trusts its input: `unpack` is the door through which a stranger's bytes enter. It
checks every type, dtype, size and extent before it builds a tensor. No pickle, no `torch.load`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice, repeat
from types import GeneratorType
from typing import Any

import torch

from .words import text

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    )
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

MAX_DEPTH = 16
MAX_NODES = 20_000
MAX_DIMS = 16
MAX_INT = 2**63 - 1
MAX_TEXT = 100_000
MAX_BYTES = 256 * 2**20  # of all storages together
# Of all tensors together, each element counted: a stride of 0 makes terabytes out of four bytes,
# and whoever compares them pays.
MAX_ELEMENT_BYTES = MAX_BYTES


class Unsendable(TypeError):
    """A value of a kind that does not cross (a generator, a sparse tensor, an own class); `what`
    says which."""

    def __init__(self, key: str, **facts: Any) -> None:
        self.what = text(f"unsendable.{key}", **facts)
        super().__init__(self.what)


class Malformed(ValueError):
    """Bytes that `pack` would never have written: a fault or a forgery on the other side."""


@dataclass(frozen=True)
class Packed:
    """A value in travelling clothes.

    tree: JSON-able. Tensors in it name a storage by number: 0, 1, ... are `storages`; -1, -2, ...
    are the storages that both sides know already (the arguments of the call that this value
    answers).
    storages: the bytes of each storage. owned: those storages, where they were packed; they do not
    travel.
    """

    tree: Any
    storages: tuple[bytes, ...] = ()
    owned: tuple[torch.UntypedStorage, ...] = field(default=(), compare=False, repr=False)


def storage_bytes(storage: torch.UntypedStorage) -> bytes:
    """The bytes of a storage, copied to the CPU."""
    flat = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    return bytes(flat.cpu().numpy().tobytes())


def storage_of(data: bytes) -> torch.UntypedStorage:
    """A new, writable CPU storage that holds `data`. Raises Malformed over the limit."""
    if len(data) > MAX_BYTES:
        raise Malformed("more tensor bytes than allowed")
    if not data:
        return torch.UntypedStorage(0)  # type: ignore[no-untyped-call]
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).untyped_storage()


def pack(value: Any, known: Sequence[torch.UntypedStorage] = (), device: str = "cpu") -> Packed:
    """`value` as a tree and bytes; storages in `known` are named, not copied. Its tensors lie on
    the CPU or on `device`.

    Raises Unsendable for a kind that does not cross or a size over the limits.
    """
    numbers: dict[int, int] = {}
    for k, storage in enumerate(known):
        if storage.nbytes():  # an empty one has no address: nothing can share it
            numbers[storage.data_ptr()] = -1 - k
    shared = [(storage, numbers.get(storage.data_ptr(), 0)) for storage in known]
    packer = _Packer(("cpu", device), numbers, [one for one in shared if one[1]])
    tree = packer.node(value, 0)
    return Packed(tree, tuple(packer.storages), tuple(packer.owned))


@dataclass
class _Packer:
    """numbers: of the storages so far, by their addresses. known: those of them that do not travel,
    with their numbers. owned: kept alive, so that no address is
    used again meanwhile."""

    devices: tuple[str, ...]
    numbers: dict[int, int]
    known: list[tuple[torch.UntypedStorage, int]]
    storages: list[bytes] = field(default_factory=list)
    owned: list[torch.UntypedStorage] = field(default_factory=list)
    total_bytes: int = 0
    element_bytes: int = 0
    nodes: int = 1

    def node(self, value: Any, depth: int) -> Any:
        if _is_plain(value):
            return value
        if isinstance(value, torch.Tensor):
            return {"x": self.tensor(value)}
        if isinstance(value, list):
            return self.parts(value, depth)
        if isinstance(value, tuple):
            return {"t": self.parts(value, depth)}
        if isinstance(value, dict):
            return {"d": list(map(self.parts, value.items(), repeat(depth)))}
        if isinstance(value, slice):
            return {"slice": self.parts((value.start, value.stop, value.step), depth)}
        if isinstance(value, (range, GeneratorType, map, zip, filter)):
            return self.parts(value, depth)
        if type(value).__module__ == "numpy" and hasattr(value, "item"):
            return self.node(value.tolist(), depth + 1)
        return _leaf(value)

    def parts(self, values: Iterable[Any], depth: int) -> list[Any]:
        found = list(islice(values, MAX_NODES + 1 - self.nodes))  # a generator may be endless
        self.nodes += len(found)
        if self.nodes > MAX_NODES or (found and depth >= MAX_DEPTH):
            raise Unsendable("nested")
        return [part if _is_plain(part) else self.node(part, depth + 1) for part in found]

    def tensor(self, t: torch.Tensor) -> list[Any]:
        _refuse_exotic(t, self.devices)
        self.element_bytes += t.numel() * t.element_size()
        if self.element_bytes > MAX_ELEMENT_BYTES:
            raise Unsendable("elements", mib=MAX_ELEMENT_BYTES // 2**20)
        requires_grad, plain = t.requires_grad, t.detach().resolve_conj().resolve_neg()
        number, before = self.storage(plain.untyped_storage())
        offset = plain.storage_offset() + before // plain.element_size()
        place = [offset, list(plain.shape), list(plain.stride())]
        return [number, _dtype_name(plain.dtype), *place, requires_grad]

    def storage(self, storage: torch.UntypedStorage) -> tuple[int, int]:
        """The number of a storage, and how many bytes into it this one begins: what numpy made of
        an argument is memory of that argument, under another address."""
        address = storage.data_ptr()
        if storage.nbytes() and address in self.numbers:
            return self.numbers[address], 0
        for known, number in self.known:
            before = address - known.data_ptr()
            if before > 0 and before + storage.nbytes() <= known.nbytes():
                return number, before
        self.total_bytes += storage.nbytes()
        if self.total_bytes > MAX_BYTES:
            raise Unsendable("tensors", mib=MAX_BYTES // 2**20)
        number = len(self.storages)
        self.storages.append(storage_bytes(storage))
        self.owned.append(storage)
        if storage.nbytes():
            self.numbers[address] = number
        return number, 0


def _is_plain(value: Any) -> bool:
    """Whether it travels as it is, and is within the limits: most parts of long values do."""
    kind = type(value)
    if kind is str:
        return len(value) <= MAX_TEXT and bool(value.isascii())
    return kind is bool or value is None or (kind is int and -MAX_INT <= value <= MAX_INT)


def _leaf(value: Any) -> Any:
    if isinstance(value, int):
        if abs(value) > MAX_INT:
            raise Unsendable("integer")
        return int(value)
    if isinstance(value, (float, Fraction)):
        return {"f": float(value).hex()}
    if isinstance(value, torch.dtype):
        return {"dtype": _dtype_name(value)}
    if not isinstance(value, str):
        raise Unsendable("kind", kind=type(value).__name__)
    if len(value) > MAX_TEXT:
        raise Unsendable("long", characters=len(value))
    if _has_lone_surrogate(value):
        raise Unsendable("surrogates")
    return str(value)


def _has_lone_surrogate(text: str) -> bool:
    """Such a string cannot be written to any file: it would stop a grader long after it came."""
    if text.isascii():  # nearly all are, and a trace has a hundred thousand
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _dtype_name(dtype: torch.dtype) -> str:
    if dtype not in _NAMES:
        raise Unsendable("dtype", dtype=str(dtype))
    return _NAMES[dtype]


def _refuse_exotic(t: torch.Tensor, devices: Sequence[str]) -> None:
    if type(t) not in (torch.Tensor, torch.nn.Parameter):
        raise Unsendable("subclass", kind=type(t).__name__)
    if t.layout is not torch.strided or t.device.type not in devices:
        raise Unsendable("layout", layout=str(t.layout), device=str(t.device))


def unpack(
    tree: Any,
    storages: Sequence[torch.UntypedStorage],
    known: Sequence[torch.UntypedStorage] = (),
) -> Any:
    """The value that `tree` describes; its tensors are views of `storages` and of `known`.

    Raises Malformed for anything that `pack` could not have written.
    """
    return _Unpacker(storages, known).node(tree, 0)


@dataclass
class _Unpacker:
    storages: Sequence[torch.UntypedStorage]
    known: Sequence[torch.UntypedStorage]
    nodes: int = 1
    element_bytes: int = 0

    def node(self, tree: Any, depth: int) -> Any:
        if _is_plain(tree):
            return tree
        if isinstance(tree, str):
            return _text(tree)
        if isinstance(tree, list):
            return self.children(tree, depth)
        if isinstance(tree, dict) and len(tree) == 1:
            ((tag, body),) = tree.items()
            if tag in _RULES:
                return _RULES[tag](self, body, depth)
        raise Malformed("a part of an unknown kind")

    def children(self, trees: Any, depth: int) -> list[Any]:
        if not isinstance(trees, list):
            raise Malformed("a list was expected")
        self.nodes += len(trees)
        if self.nodes > MAX_NODES or (trees and depth >= MAX_DEPTH):
            raise Malformed("nested too deep or too many parts")
        return [tree if _is_plain(tree) else self.node(tree, depth + 1) for tree in trees]

    def slice(self, body: Any, depth: int) -> slice:
        parts = self.children(body, depth)
        if len(parts) != 3:
            raise Malformed("a slice has three parts")
        return slice(*parts)

    def mapping(self, body: Any, depth: int) -> dict[Any, Any]:
        if not isinstance(body, list):
            raise Malformed("a list was expected")
        found: dict[Any, Any] = {}
        for pair in map(self.children, body, repeat(depth)):
            try:
                key, found[key] = pair  # first the key, then what stands under it
            except (TypeError, ValueError) as error:
                raise Malformed("a mapping with an impossible key") from error
            if not isinstance(key, (str, int, bool, tuple)):
                raise Malformed("a mapping with an impossible key")
        return found

    def tensor(self, body: Any) -> torch.Tensor:
        if not isinstance(body, list) or len(body) != 6:
            raise Malformed("a tensor has six fields")
        number, name, offset, size, stride, requires_grad = body
        storage, dtype = self.storage(number), _dtype(name)
        _check_extent(storage.nbytes() // dtype.itemsize, offset, size, stride)
        self.element_bytes += math.prod(size) * dtype.itemsize
        if self.element_bytes > MAX_ELEMENT_BYTES:
            raise Malformed("more elements than allowed")
        if not isinstance(requires_grad, bool):
            raise Malformed("requires_grad is true or false")
        if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
            raise Malformed("only floats require gradients")
        empty = torch.empty(0, dtype=dtype, device=storage.device)
        t = empty.set_(storage, offset, size, stride)
        return t.requires_grad_(requires_grad)

    def storage(self, number: Any) -> torch.UntypedStorage:
        if type(number) is not int:
            raise Malformed("a storage is named by a number")
        shelf, index = (self.storages, number) if number >= 0 else (self.known, -1 - number)
        if index >= len(shelf):
            raise Malformed("a storage that was not sent")
        return shelf[index]


# Outside the class: rules bound to an unpacker would be a cycle, and keep its storages alive until
# the next collection of garbage.
_RULES: dict[str, Callable[[_Unpacker, Any, int], Any]] = {
    "f": lambda unpacker, body, depth: _float(body),
    "dtype": lambda unpacker, body, depth: _dtype(body),
    "t": lambda unpacker, body, depth: tuple(unpacker.children(body, depth)),
    "d": _Unpacker.mapping,
    "slice": _Unpacker.slice,
    "x": lambda unpacker, body, depth: unpacker.tensor(body),
}


def _text(value: str) -> str:
    if len(value) > MAX_TEXT:
        raise Malformed("a string over the limit")
    if _has_lone_surrogate(value):
        raise Malformed("a string that is not Unicode text")
    return value


def _as_list(body: Any) -> list[Any]:
    if not isinstance(body, list):
        raise Malformed("a list was expected")
    return body


def _float(text: Any) -> float:
    try:
        return float.fromhex(text)
    except (TypeError, ValueError, OverflowError) as error:
        raise Malformed("a float in no known form") from error


def _dtype(name: Any) -> torch.dtype:
    if not isinstance(name, str) or name not in DTYPES:
        raise Malformed("an unknown dtype")
    return DTYPES[name]


def _check_extent(capacity: int, offset: Any, size: Any, stride: Any) -> None:
    """The last element that (offset, size, stride) reaches must lie inside `capacity` elements."""
    numbers = [offset, *_as_list(size), *_as_list(stride)]
    if any(type(n) is not int or not 0 <= n <= MAX_INT for n in numbers):
        raise Malformed("sizes, strides and offset are non-negative integers")
    if len(size) != len(stride) or len(size) > MAX_DIMS:
        raise Malformed("as many strides as sizes, and not too many")
    # torch multiplies the sizes one after the other, so a 0 among them hides no overflow.
    if math.prod(max(n, 1) for n in size) > MAX_INT:
        raise Malformed("more elements than 64 bits can count")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if 0 not in size and last >= capacity:
        raise Malformed("a tensor that reaches past its storage")
