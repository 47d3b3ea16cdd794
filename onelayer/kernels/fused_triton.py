"""The fused loss as three Triton kernels: logits live in registers and are computed twice more."""

import torch
from torch import Tensor

from onelayer.kernels import triton_kernels
from onelayer.kernels.head_arguments import IGNORED, as_linear_casts, check_arguments
from onelayer.kernels.recomputed import ROWS, WORDS, Given, blocks, recomputed_head_loss
from onelayer.kernels.triton_jit import interpreted


def triton_head_loss(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
    """Mean cross-entropy of the head without its logits in memory, forward or backward.

    x (N, D), w (V, D), b (V,), t (N,) int64 -> () of x's dtype; D is a power of two from 16 to 256.
    Under autocast x, w, b are cast as for a Linear, and the loss is float32, as F.cross_entropy's.
    Products are exact in float32 (no tf32) and accumulate in float32 always. A target outside the
    vocabulary gives NaN: a kernel cannot raise. Raises ValueError for arguments that do not fit.
    """
    x, w, b, returned = as_linear_casts(x, w, b)
    check_arguments(x, w, b, t)
    _check_taken(x)
    given = (x, w.contiguous(), b.contiguous(), t.contiguous())
    return recomputed_head_loss(_ByTriton(), given).to(returned)


def _check_taken(x: Tensor) -> None:
    d = x.shape[1]
    taken = [torch.float32, torch.float16]
    if not interpreted():  # whose tl.dot multiplies the bits of bfloat16 as if they were integers
        taken.append(torch.bfloat16)
    if not 16 <= d <= 256 or d & (d - 1) or x.dtype not in taken:
        names = ", ".join(str(dtype) for dtype in taken)
        raise ValueError(
            f"The Triton version takes D a power of two from 16 to 256, and here {names}; "
            f"got D = {d}, {x.dtype}. chunked_head_loss takes any."
        )


class _ByTriton:
    def forward(self, given: Given, lse: Tensor, row_loss: Tensor) -> None:
        x, w, _, _ = given
        triton_kernels.forward[(blocks(len(x), ROWS),)](
            *given, lse, row_loss, len(x), len(w), *x.stride(), **_constants(x)
        )

    def backward_x(self, given: Given, lse: Tensor, scale: Tensor, dx: Tensor) -> None:
        x, w, _, _ = given
        triton_kernels.backward_x[(blocks(len(x), ROWS),)](
            *given, lse, scale, dx, len(x), len(w), *x.stride(), **_constants(x)
        )

    def backward_w(
        self, given: Given, lse: Tensor, scale: Tensor, dw: Tensor, db: Tensor, *, slice_rows: int
    ) -> None:
        x, w, _, _ = given
        sizes = (len(x), len(w), slice_rows, *x.stride())
        triton_kernels.backward_w[(blocks(len(w), WORDS), len(dw))](
            *given, lse, scale, dw, db, *sizes, **_constants(x)
        )


def _constants(x: Tensor) -> dict[str, int | str]:
    precision = "ieee" if x.dtype == torch.float32 else "tf32"  # says nothing for short dtypes
    return {
        "D": x.shape[1],
        "ROWS": ROWS,
        "WORDS": WORDS,
        "IGNORED": IGNORED,
        "PRECISION": precision,
    }
