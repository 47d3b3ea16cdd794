"""What a step takes, in milliseconds and in bytes: on a CPU with one thread, and on a GPU."""

from __future__ import annotations

import ctypes
import platform
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from bench.loss_peers import HeadLoss, peer

D, V = 64, 600
M_MMAP_THRESHOLD = -3


class Device(Protocol):
    """place: torch's name of it. side, copied: how large a product, and a copy in bytes, show what
    it can do."""

    place: str
    dtype: torch.dtype
    sizes: tuple[int, ...]
    side: int
    copied: int
    name: str

    def ms(self, work: Callable[[], object]) -> float:
        """Of one call."""

    def peak_bytes(self, peer_name: str, n: int) -> int:
        """The most that one step held beyond its inputs, its gradients included."""


def inputs(n: int, device: Device) -> tuple[Tensor, ...]:
    """x (N, D), w (V, D), b (V,), t (N,)."""
    x, w, b = (torch.randn(*s, device=device.place) for s in ((n, D), (V, D), (V,)))
    t = torch.randint(V, (n,), device=device.place)
    return x.to(device.dtype), (w / D**0.5).to(device.dtype), b.to(device.dtype), t


def step(loss_of: HeadLoss, given: Sequence[Tensor]) -> list[Tensor]:
    """loss, dx, dw, db."""
    *leaves, t = given
    leaves = [leaf.detach().requires_grad_() for leaf in leaves]
    loss = loss_of(*leaves, t)
    return [loss.detach(), *torch.autograd.grad(loss, leaves)]


class Cpu:
    place, dtype, sizes = "cpu", torch.float32, (2**10, 2**12, 2**14, 2**16, 2**17)
    side, copied = 1024, 1 << 26

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.name = platform.machine()

    def ms(self, work: Callable[[], object]) -> float:
        """Processor time of this thread, which others on the machine lengthen least."""
        start = time.thread_time()
        work()
        return 1e3 * (time.thread_time() - start)

    def peak_bytes(self, peer_name: str, n: int) -> int:
        """As the kernel counts resident memory, in a process of its own."""
        with get_context("spawn").Pool(1) as pool:
            return pool.apply(_resident_peak, (peer_name, n))


def _resident_peak(peer_name: str, n: int) -> int:
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 16)  # what is freed goes back at once
    device = Cpu()
    loss_of, given = peer(peer_name, device.place), inputs(n, device)
    step(loss_of, given)  # imports, compilers
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
    before = _status_bytes("VmRSS")
    step(loss_of, given)
    return _status_bytes("VmHWM") - before


def _status_bytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(key))


class Gpu:
    place, sizes = "cuda", (2**14, 2**17, 2**20)
    side, copied = 8192, 1 << 30

    def __init__(self) -> None:
        known = torch.cuda.get_device_properties(0)
        self.name = known.name
        self.dtype = torch.bfloat16 if known.major >= 8 else torch.float16
        self.flush = torch.empty(2 * known.L2_cache_size, dtype=torch.int8, device=self.place)

    def ms(self, work: Callable[[], object]) -> float:
        """Between two events on the stream, launches included, with nothing in the second cache."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.flush.zero_()
        begin.record()
        work()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end))

    def peak_bytes(self, peer_name: str, n: int) -> int:
        """As torch's caching allocator counts; Triton and CUDA kernels here take none beside it."""
        loss_of, given = peer(peer_name, self.place), inputs(n, self)
        step(loss_of, given)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step(loss_of, given)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
