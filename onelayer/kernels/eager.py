"""The loss as everybody writes it, and the truth against which all versions are judged."""

from torch import Tensor, float64
from torch.nn import functional as F

from onelayer.kernels.head_arguments import IGNORED


def eager_head_loss(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
    """Mean cross-entropy of the head, with its (N, V) logits in memory.

    x (N, D), w (V, D), b (V,), t (N,) int64 -> () of x's dtype.
    """
    return F.cross_entropy(F.linear(x, w, b), t, ignore_index=IGNORED)


def true_head_loss(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
    """The same in float64, whatever comes in; gradients flow back in the dtypes that came."""
    return eager_head_loss(x.to(float64), w.to(float64), b.to(float64), t)
