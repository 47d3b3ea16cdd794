"""Kernels of every origin that the course has: nvcc, NVRTC, Triton, what Inductor writes, NCCL.

The text of this file is a cell that runs in the jail, so it imports nothing of ours but `onelayer`.
Each function computes on the GPU and returns by how much it is wrong, or what is not here.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import HashStore  # type: ignore[attr-defined]

from onelayer import cuda_cpu
from onelayer.kernels.eager import eager_head_loss

MISSING = "not here: "
N = 1000
TRIPLE = """
extern "C" __global__ void triple(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 3 * x[i];
}
"""
LAUNCH = """
extern "C" void launch(const float* x, float* y, int n) {
    triple<<<(n + 255) / 256, 256>>>(x, y, n);
}
"""


def by_nvcc() -> float | str:
    x, y = _numbers()
    try:
        cuda_cpu.build(TRIPLE + LAUNCH, device="cuda").call("launch", x, y, N)
    except cuda_cpu.NoCompiler:
        return f"{MISSING}nvcc"
    return _error(y, 3 * x)


def by_nvrtc() -> float | str:
    if not hasattr(torch.cuda, "_compile_kernel"):
        return f"{MISSING}torch.cuda._compile_kernel in torch {torch.__version__}"
    x, y = _numbers()
    triple = torch.cuda._compile_kernel(TRIPLE, "triple")
    triple(grid=(4, 1, 1), block=(256, 1, 1), args=[x, y, N])
    return _error(y, 3 * x)


def by_triton() -> float | str:
    """The fused loss of the head, compiled for this GPU."""
    if not find_spec("triton"):
        return f"{MISSING}triton"
    from onelayer.kernels.fused_triton import triton_head_loss

    return _loss_error(triton_head_loss)


def by_inductor() -> float | str:
    """The plain loss, compiled: Inductor must have written Triton for it."""
    from torch._inductor.utils import run_and_get_code

    codes: list[str] = []

    def compiled(*given: Any) -> Any:
        value, written = run_and_get_code(torch.compile(eager_head_loss), *given)
        codes.extend(written)
        return value

    error = _loss_error(compiled)
    return error if any("triton" in code for code in codes) else "Inductor wrote no Triton"


def by_nccl() -> float | str:
    """One rank: what can be tried on one GPU."""
    if not (dist.is_available() and dist.is_nccl_available()):
        return f"{MISSING}NCCL in torch {torch.__version__}"
    x, _ = _numbers()
    want = x.clone()
    dist.init_process_group("nccl", store=HashStore(), rank=0, world_size=1)
    dist.all_reduce(x)
    error = _error(x, want)
    dist.destroy_process_group()
    return error


def _numbers() -> tuple[Tensor, Tensor]:
    x = torch.arange(float(N), device="cuda")
    return x, torch.zeros_like(x)


def _error(got: Tensor, want: Tensor) -> float:
    torch.cuda.synchronize()
    return float((got.double() - want.double()).abs().max() / want.double().abs().max())


def _loss_error(loss: Callable[..., Tensor]) -> float:
    """Against float64, by eager PyTorch."""
    shapes = ((300, 64), (600, 64), (600,))
    x, w, b = (torch.randn(shape, dtype=torch.float64, device="cuda") for shape in shapes)
    t = torch.randint(600, (300,), device="cuda")
    return _error(loss(x.float(), w.float(), b.float(), t), eager_head_loss(x, w, b, t))
