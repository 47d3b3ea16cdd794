"""A mocked GPU, as a jail is lent it: torch's CUDA build over a mocked driver, and the CPU computes
the numbers. It tries all that a real one needs, and its verdicts carry the word.

Each process has a device of its own: nothing is shared, and nobody outside sees what it uses.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from onelayer.mock_cuda.builds import library
from onelayer.mock_cuda.devices import device_model
from onelayer.mock_cuda.environment import loading

from .gpu import CONTEXT_S, CUDA, Gpu

MOCKED = "mocked"
MODEL = device_model("L4")


@dataclass(frozen=True)
class MockedGpu(Gpu):
    """An L4 that is none. `driver`: the mocked one, which has to be readable in the jail. No .cu
    file becomes a kernel for it: it would be launched, and nobody would compute it."""

    driver: Path = Path()

    @property
    def device(self) -> str:
        """Inside it is CUDA's own, to all that asks torch."""
        return CUDA

    @property
    def start_s(self) -> float:
        return CONTEXT_S

    def environment(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        return loading(self.driver, MODEL, devices=1, values=True)

    def folders(self, environ: Mapping[str, str] = os.environ) -> list[str]:
        return [str(self.driver.parent), str(self.driver.resolve())]


def mocked_gpu() -> MockedGpu:
    """Raises NoMock where this torch or this machine can have none."""
    title = f"mocked {MODEL.name}"
    return MockedGpu(MOCKED, title, MODEL.memory_bytes, kind=MOCKED, driver=library())
