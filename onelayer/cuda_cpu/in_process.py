"""Kernels that run in this process, on fibers or on threads."""

import ctypes
import threading
from collections import defaultdict
from pathlib import Path

import torch

from onelayer.cuda_cpu.arena import Arena, Extent, extent
from onelayer.cuda_cpu.call_arguments import invoke
from onelayer.cuda_cpu.cuda_source import rewrite
from onelayer.cuda_cpu.lines import lines_of
from onelayer.cuda_cpu.modes import Mode
from onelayer.cuda_cpu.places import Place, argument_places, place_of_region
from onelayer.cuda_cpu.runtime_library import Runtime
from onelayer.cuda_cpu.sentences import Context, faults
from onelayer.cuda_cpu.signature import Signature
from onelayer.cuda_cpu.text import Text

from .kernel_file import Kernels, Tensors, Values
from .outcome import Run, launches_of

# Who builds the same text twice has one library, with one set of variables.
_BUSY: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)


class InProcess(Kernels):
    """A library that was loaded here. One call at a time; another thread waits."""

    def __init__(self, text: Text, mode: Mode, library: Path) -> None:
        super().__init__(text)
        self.mode, self.path = mode, library
        self._library = ctypes.CDLL(str(library))
        self._runtime = Runtime(self._library)
        self._placed = rewrite(text.code, text.name).places
        self._busy = _BUSY[library]

    def _run(self, signature: Signature, values: Values, unwritten: Tensors) -> Run:
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        arena = Arena(tensors) if self.mode.watched else None
        with self._busy:
            self._runtime.begin()
            for number, (address, size) in enumerate(_memory(arena, tensors)):
                self._runtime.argument(address, size.size, number, size.itemsize)
            if arena:
                arena.copy_in()
                for e in map(extent, unwritten):
                    self._runtime.unwritten(arena.address(e), e.size)
            addresses = [_address(v, arena) for v in values]
            value = invoke(self._library, signature, values, addresses)
            self._runtime.end()
            if arena:
                arena.copy_out()
            places = argument_places(signature, values, addresses)
            return self._report(value, places)

    def _report(self, value: int | float | bool | None, places: list[Place]) -> Run:
        reports, records = self._runtime.reports(), self._runtime.launches()
        if reports:
            regions = (place_of_region(r, self._placed) for r in self._runtime.regions())
            places += [place for place in regions if place]
        lines = lines_of(
            self.path, self.text.name, [c for r in reports for c in (r.pc, r.other_pc)]
        )
        found = faults(reports, Context(self.text, places, records, lines))
        return Run.of(value, found, launches_of(records))


def _memory(arena: Arena | None, tensors: list[torch.Tensor]) -> list[tuple[int, Extent]]:
    if arena:
        return arena.regions()
    return [(e.low, e) for t in tensors if (e := extent(t)).size]


def _address(value: object, arena: Arena | None) -> int | None:
    if not isinstance(value, torch.Tensor):
        return None
    e = extent(value)
    return arena.address(e) if arena else e.low
