"""The memory of a call, with the names that the student gave to it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onelayer.cuda_cpu.arena import extent
from onelayer.cuda_cpu.call_arguments import POINTEES
from onelayer.cuda_cpu.cuda_source import Placed
from onelayer.cuda_cpu.runtime_library import Region
from onelayer.cuda_cpu.signature import Signature
from onelayer.drawing.words import say

ARGUMENT, ALLOCATED, DEVICE, CONSTANT, SHARED, DYNAMIC_SHARED, FREED = range(7)
_SIZES = {name: dtypes[0].itemsize for name, dtypes in POINTEES.items()}
_SIZES |= {"short": 2, "float2": 8, "float4": 16}  # no dtype of torch's


@dataclass(frozen=True)
class Place:
    """A stretch of memory with a name: a parameter, a cudaMalloc, an array of the device; or
    dynamic shared memory, which has none of its own."""

    name: str
    low: int
    high: int
    itemsize: int = 1
    shared: bool = False
    dynamic: bool = False

    def element(self, address: int) -> str:
        """Return the name with an index, in elements where their size is known."""
        offset = address - self.low
        if self.itemsize == self.high - self.low:
            return self.name
        if self.itemsize > 1:
            return f"{self.name}[{offset // self.itemsize}]"
        return say("byte {n} of {name}", n=offset, name=self.name)


def argument_places(
    signature: Signature, values: Sequence[object], addresses: Sequence[int | None]
) -> list[Place]:
    """Return where each tensor of the call lies, under its parameter's name."""
    places = []
    for parameter, value, address in zip(signature.parameters, values, addresses, strict=True):
        if isinstance(value, torch.Tensor) and address:
            e = extent(value)
            places.append(Place(parameter.name, address, address + e.size, e.itemsize))
    return places


def place_of_region(region: Region, placed: Sequence[Placed]) -> Place | None:
    """Return the place of a region that is no argument."""
    if region.space == ARGUMENT:
        return None
    if region.space in (ALLOCATED, FREED):
        name = say("cudaMalloc number {n}", n=region.id + 1)
        line = say(" (line {line})", line=region.line) if region.line else ""
        return Place(name + line, region.low, region.high)
    if region.space == DYNAMIC_SHARED:
        name = say("dynamic shared memory")
        return Place(name, region.low, region.high, shared=True, dynamic=True)
    name, itemsize = _declared(placed[region.id - 1].declaration)
    return Place(name, region.low, region.high, itemsize, shared=region.space == SHARED)


def _declared(text: str) -> tuple[str, int]:
    """The name that a declaration gives, and the bytes of an element where the index is one number:
    `float tile[16][17]` has two, and `tile[20]` would be no help."""
    head = text.split("=")[0].split("[")[0].split()
    dimensions = text.split("=")[0].count("[")
    name = head[-1].lstrip("*") if head else text
    return name, _SIZES.get(head[-2], 1) if dimensions <= 1 and len(head) > 1 else 1


def place_of(places: Sequence[Place], address: int) -> Place | None:
    """Return the place that holds the address."""
    return next((p for p in places if p.low <= address < p.high), None)


def nearest(places: Sequence[Place], address: int) -> Place | None:
    """Return the place that is not shared memory and lies nearest to the address."""

    def distance(p: Place) -> int:
        return p.low - address if address < p.low else address - p.high

    return min((p for p in places if not p.shared), key=distance, default=None)
