"""The fused loss as three kernels in CUDA C++: on a GPU, or simulated and watched on a CPU."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from onelayer import cuda_cpu
from onelayer.cuda_cpu.on_gpu import OnGpu
from onelayer.cuda_cpu.text import Text
from onelayer.kernels.head_arguments import as_linear_casts, check_arguments
from onelayer.kernels.recomputed import Given, recomputed_head_loss

SOURCE = Path(__file__).with_name("head_loss.cu")
TYPES = (torch.float32, torch.float16, torch.bfloat16)
"""In the order in which head_loss.cu numbers them."""
MAX_STRIDE = 2**31 - 1
Launch = Callable[..., None]


def cuda_head_loss(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
    """Mean cross-entropy of the head without its logits in memory, forward or backward.

    x (N, D), w (V, D), b (V,), t (N,) int64 -> () of x's dtype, on a GPU, built by nvcc, or on
    the CPU through `onelayer.cuda_cpu`: slowly, and each load and store is watched.
    Under autocast x, w, b are cast as for a Linear, and the loss is float32, as F.cross_entropy's.
    Products and sums are float32. A target outside the vocabulary gives NaN: a kernel cannot raise.
    Raises ValueError for arguments that do not fit, NoCompiler without nvcc (or g++), RuntimeError
    for a launch that CUDA refuses, and KernelFault for what the simulator finds.
    """
    x, w, b, returned = as_linear_casts(x, w, b)
    check_arguments(x, w, b, t)
    _check_taken(x, w)
    given = (x, w, b.contiguous(), t.contiguous())
    return recomputed_head_loss(Kernels(_launch_on(x.device)), given).to(returned)


def _check_taken(x: Tensor, w: Tensor) -> None:
    if x.dtype not in TYPES or x.device.type not in ("cpu", "cuda") or 0 in w.shape:
        raise ValueError(
            "The CUDA version takes at least one word and one column, in float32, float16 or "
            f"bfloat16, on a GPU or a CPU; got w {tuple(w.shape)}, {x.dtype}, {x.device.type}. "
            "chunked_head_loss takes any."
        )
    if max(*x.stride(), *w.stride()) > MAX_STRIDE:
        raise ValueError(f"Strides are below 2^31; got x {x.stride()}, w {w.stride()}.")


class Kernels:
    """The three kernels of head_loss.cu, started by `launch(host function, *arguments)`."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch

    def forward(self, given: Given, lse: Tensor, row_loss: Tensor) -> None:
        self._launch("head_loss_forward", *_typed(given), lse, row_loss, *_shape(given))

    def backward_x(self, given: Given, lse: Tensor, scale: Tensor, dx: Tensor) -> None:
        self._launch("head_loss_backward_x", *_typed(given), lse, scale, dx, *_shape(given))

    def backward_w(
        self, given: Given, lse: Tensor, scale: Tensor, dw: Tensor, db: Tensor, *, slice_rows: int
    ) -> None:
        outputs = (dw, db, len(dw), slice_rows)
        self._launch("head_loss_backward_w", *_typed(given), lse, scale, *outputs, *_shape(given))


def _typed(given: Given) -> tuple[int | Tensor, ...]:
    return (TYPES.index(given[0].dtype), *given)


def _shape(given: Given) -> tuple[int, ...]:
    """N, D, V and the strides of x and w, as the end of each host function's parameters."""
    x, w, _, _ = given
    return (*x.shape, len(w), *x.stride(), *w.stride())


def _launch_on(device: torch.device) -> Launch:
    return _simulated if device.type == "cpu" else _on_gpu


def _simulated(function: str, *arguments: Tensor | int) -> None:
    simulator().call(function, *arguments, None).expect_clean()


@cache
def simulator() -> cuda_cpu.Kernels:
    """The kernels on the CPU, every load and store watched."""
    return cuda_cpu.build(SOURCE)


def _on_gpu(function: str, *arguments: Tensor | int) -> None:
    """On the stream of whoever calls, and without waiting for it."""
    x = next(one for one in arguments if isinstance(one, Tensor))
    with torch.cuda.device(x.device):
        stream = torch.cuda.current_stream().cuda_stream
        code = _by_nvcc(torch.cuda.get_device_capability()).enqueue(function, *arguments, stream)
    if code:
        raise RuntimeError(f"{function}: CUDA refuses the launch with error {code}.")


@cache
def _by_nvcc(capability: tuple[int, int]) -> OnGpu:
    """For the current GPU, which has that capability: of several, each has its own build."""
    return OnGpu(Text.of(SOURCE))
