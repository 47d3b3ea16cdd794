"""Where a student's function meets its tensors: in the memory of the CPU, or in that of a GPU.

The bytes of a call travel as CPU bytes, both ways. On the student's side they are moved to the
device when they arrive, and what comes back is made bytes again; so a check compares on its own
side, whichever device answered. Storages are moved, not tensors: strides, offsets and aliases are
the same there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from .values import storage_of


class Device:
    """The CPU, to which nothing need be moved. name: as a request names it."""

    name = "cpu"

    def begin(self, cap_bytes: int) -> None:
        """From now on this process allocates at most so much of the device's memory."""

    def arrive(self, data: bytes) -> torch.UntypedStorage:
        """A storage on the device that holds `data`."""
        return storage_of(data)

    running: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Inside, a tensor that is made without a word about its device is made on this one: an answer
    that was written on a CPU runs here as it stands. The end waits until the device has done what
    it was told, and raises RuntimeError for what it reports only then, such as an illegal address.
    """

    @property
    def broken(self) -> bool:
        """Whether this process can use the device no more: every call would repeat one fault."""
        return False


def _flat(data: bytes) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage_of(data))


class Cuda(Device):
    """The first GPU that CUDA shows to this process."""

    name = "cuda"

    def __init__(self) -> None:
        self._cap_bytes = 0

    def begin(self, cap_bytes: int) -> None:
        if cap_bytes != self._cap_bytes:
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, cap_bytes / total))
            self._cap_bytes = cap_bytes

    def arrive(self, data: bytes) -> torch.UntypedStorage:
        return _flat(data).cuda().untyped_storage()

    @contextmanager
    def running(self) -> Iterator[None]:
        with torch.device("cuda"):
            yield
        torch.cuda.synchronize()

    @property
    def broken(self) -> bool:
        try:
            if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                torch.cuda.synchronize()
        except RuntimeError:
            return True
        return False


class Simulated(Device):
    """A part of the CPU's memory that is treated like a GPU's: what arrives is moved, and a fault,
    once planted, is reported late and stays. For tests of the rules on machines without a GPU.
    """

    name = "simulated"

    def __init__(self) -> None:
        self.fault = ""
        self.cap_bytes = 0

    def begin(self, cap_bytes: int) -> None:
        self.cap_bytes = cap_bytes

    def arrive(self, data: bytes) -> torch.UntypedStorage:
        return _flat(data).clone().untyped_storage()

    @contextmanager
    def running(self) -> Iterator[None]:
        with torch.device("cpu"):
            yield
        if self.fault:
            raise RuntimeError(f"CUDA error: {self.fault}")

    @property
    def broken(self) -> bool:
        return bool(self.fault)


HOST, SIMULATED = Device(), Simulated()
DEVICES: dict[str, Device] = {device.name: device for device in (HOST, Cuda(), SIMULATED)}
"""By name. None of them touches a GPU before it is first used."""
