"""The GPU that a jail is lent: what of it must be seen inside, how much of it one question gets.

Nothing here asks CUDA: the process that forks submissions must never have done that, and neither
must its own parent. What the driver says is asked of `nvidia-smi` (see `classroom`).
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .limits import Limits

CUDA, SIMULATED = "cuda", "simulated"
HOST_BYTES = 6 * 2**30
"""Of the CPU's memory, what CUDA itself needs in a process: its libraries' own data and code."""
RESERVED_BYTES = 2**36
"""Of address space, what CUDA asks for so that both memories share one: it is hardly used."""
CONTEXT_S = 20.0
"""For CUDA to start in a process, beside others that start: no time of a question's."""
CONTEXT_BYTES = 2**30
"""Of the GPU's, what a process uses before it allocated anything, and kernels as they are loaded.
It is no submission's fault, so the watch from outside leaves room for it."""
DEFAULT_SHARE = 0.125
DRIVER = "libcuda.so.1"


def untold(pids: Sequence[int]) -> int | None:
    """Nobody knows what these processes use. No lambda: a Gpu is pickled on its way to a worker."""
    return None


@dataclass(frozen=True)
class Gpu:
    """One GPU. name: as CUDA_VISIBLE_DEVICES has it. title: as verdicts call it. memory_bytes: all
    of it. kind: "cuda", "simulated" where the CPU plays it, or "mocked". used_bytes: what the
    processes with these ids use of it, asked from outside; None where nobody knows.
    """

    name: str
    title: str
    memory_bytes: int
    kind: str = CUDA
    used_bytes: Callable[[Sequence[int]], int | None] = untold

    @property
    def device(self) -> str:
        """As a call names it: a key of `judge.DEVICES`."""
        return self.kind

    def cap_bytes(self, share: float) -> int:
        """What a question may allocate that declares `share` of a device; 0: it declares none."""
        return int(self.memory_bytes * (share or DEFAULT_SHARE))

    def limits(self, limits: Limits) -> Limits:
        """`limits` with room for what CUDA itself needs on the CPU's side."""
        memory_bytes = limits.memory_bytes + HOST_BYTES
        return replace(limits, memory_bytes=memory_bytes, reserved_bytes=RESERVED_BYTES)

    @property
    def start_s(self) -> float:
        """Beyond a question's own time, for the first of its calls."""
        return CONTEXT_S if self.kind == CUDA else 0.0

    def environment(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """What a process needs to be told to find this GPU and no other."""
        if self.kind != CUDA:
            return {}
        told = {"CUDA_VISIBLE_DEVICES": self.name}
        # The zygote may be asked whether there is a GPU: NVML's answer leaves CUDA untouched.
        told["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        if libraries := environ.get("LD_LIBRARY_PATH"):
            told["LD_LIBRARY_PATH"] = libraries
        if compiler := nvcc():
            python = os.path.dirname(sys.executable)
            told["PATH"] = f"{python}:{os.path.dirname(compiler)}:/usr/local/bin:/usr/bin:/bin"
        return told

    @property
    def builds(self) -> bool:
        """Whether a .cu file becomes a kernel for it here; without nvcc the CPU plays the GPU."""
        return self.kind == CUDA and bool(nvcc())

    def nodes(self, dev: Path = Path("/dev")) -> list[str]:
        """The files by which a process talks to the driver."""
        return device_nodes(dev) if self.kind == CUDA else []

    def folders(self, environ: Mapping[str, str] = os.environ) -> list[str]:
        """What has to be readable besides: the driver's library, where it lies in no usual place,
        and what the kernel says of the device."""
        if self.kind != CUDA:
            return []
        return [folder for folder in (driver_folder(environ), "/sys") if folder]


def nvcc() -> str:
    """The compiler's path; "" where there is none."""
    return shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc") or ""


def device_nodes(dev: Path = Path("/dev")) -> list[str]:
    """All GPUs' nodes: which one is used is said by name. Those for displays are left out."""
    found = (str(node) for node in dev.glob("nvidia*"))
    return sorted(node for node in found if not node.endswith("nvidia-modeset"))


def driver_folder(environ: Mapping[str, str] = os.environ) -> str:
    """Where the driver's library lies that this process would load by LD_LIBRARY_PATH; "" where it
    is found without."""
    folders = environ.get("LD_LIBRARY_PATH", "").split(":")
    return next((d for d in folders if d and os.path.exists(os.path.join(d, DRIVER))), "")


def touched(descriptors: Path = Path("/proc/self/fd")) -> bool:
    """Whether this process has talked to CUDA, through torch or behind its back: the driver then
    holds the node of unified memory open, which NVML does not."""
    for entry in descriptors.iterdir():
        try:
            target = os.readlink(entry)
        except OSError:  # the one by which we list
            continue
        if os.path.basename(target).startswith("nvidia-uvm"):
            return True
    return False
