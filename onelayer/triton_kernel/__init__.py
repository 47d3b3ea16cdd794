"""Chapter 07: a Triton kernel to look into, on a machine that need not have a GPU.

What lives here: a kernel that is run by Triton's interpreter and watched at each access, or
compiled for a GPU that need not be there and read; and the pictures of the chapter. What may not:
kernels of the head, which are `kernels`; anything that a lab asks for.

    from onelayer.triton_kernel import kernel

    @kernel
    def double(x, N, BLOCK: tl.constexpr): ...

    run = double[(3,)](x, 20, BLOCK=8)                        # Accesses: what it read and wrote
    code = double.compiled(90, x="*fp32", N="i32", BLOCK=8)   # Compiled: TTIR ... SASS, registers

Triton has packages for Linux only. Elsewhere `from onelayer.triton_kernel import kernel` raises an
ImportError that says so; the pictures need no Triton.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onelayer.triton_kernel.accesses import watch as watch
    from onelayer.triton_kernel.watched_kernel import kernel as kernel

_HOMES = {"kernel": "watched_kernel", "watch": "accesses"}
NOT_HERE = (
    "Triton is not installed. torch's CUDA builds bring it, `pip install 'triton>=3.6'` adds it on "
    "Linux, and for other systems it has no packages. What follows on this page needs it; the "
    "course's site shows the page with all outputs."
)

__all__ = ["kernel", "watch"]


def __getattr__(name: str) -> object:
    from importlib import import_module

    from onelayer.drawing.words import say

    if name not in _HOMES:
        raise AttributeError(f"module 'onelayer.triton_kernel' has no attribute {name!r}")
    if find_spec("triton") is None:
        raise ImportError(say(NOT_HERE))
    return getattr(import_module(f"onelayer.triton_kernel.{_HOMES[name]}"), name)
