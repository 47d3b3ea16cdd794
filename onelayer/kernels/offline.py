"""The Triton kernels as PTX and machine code, for a GPU that need not be there.

Triton brings its own assembler: no driver and no CUDA toolkit are needed. TRITON_INTERPRET=0 has to
be set before this module is imported, where there is no GPU.
"""

from collections.abc import Mapping
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from onelayer.kernels import triton_kernels
from onelayer.kernels.head_arguments import IGNORED
from onelayer.kernels.recomputed import ROWS, WORDS

WARP = 32
_TYPES = {"t_ptr": "*i64", "lse_ptr": "*fp32", "scale_ptr": "*fp32", "loss_ptr": "*fp32"}
_PARTS = {"dw_ptr": "*fp32", "db_ptr": "*fp32"}


def compiled_kernels(
    capability: int, *, dtype: str = "fp16", d: int = 64
) -> dict[str, Mapping[str, Any]]:
    """Kernel name -> its stages: ttir, ttgir, llir, ptx as text, cubin as bytes.

    capability: 75 (T4), 80 (A100), 90 (H100). dtype: of x, w and b, in Triton's spelling.
    """
    constants = {"D": d, "ROWS": ROWS, "WORDS": WORDS, "IGNORED": IGNORED, "PRECISION": "ieee"}
    target = GPUTarget("cuda", capability, WARP)
    found = {}
    for kernel in triton_kernels.KERNELS:
        source = ASTSource(kernel, _signature(kernel.arg_names, dtype, constants), constants)
        found[kernel.__name__] = triton.compile(source, target=target).asm
    return found


def _signature(names: list[str], dtype: str, constants: Mapping[str, Any]) -> dict[str, str]:
    def of(name: str) -> str:
        if name in constants:
            return "constexpr"
        if name.endswith("_ptr"):
            return {**_TYPES, **_PARTS}.get(name, f"*{dtype}")
        return "i32"

    return {name: of(name) for name in names}
