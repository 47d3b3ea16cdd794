"""What every version of the loss asks of its arguments."""

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, int64

Bias = TypeVar("Bias", Tensor, Tensor | None)
IGNORED = -100
"""A target that counts for nothing, as in F.cross_entropy."""


def as_linear_casts(x: Tensor, w: Tensor, b: Bias) -> tuple[Tensor, Tensor, Bias, torch.dtype]:
    """x, w, b as F.linear would take them here, and the dtype of a loss: under autocast its dtype
    and float32, else as they came and x's. float64 is cast by no autocast."""
    kind = x.device.type
    # meta has no autocast. torch.amp.is_autocast_available says so, which 2.11 cannot compile.
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return x, w, b, x.dtype
    if torch.float64 in (x.dtype, w.dtype):
        return x, w, b, x.dtype
    short = torch.get_autocast_dtype(kind)
    return x.to(short), w.to(short), b if b is None else b.to(short), torch.float32


def check_arguments(x: Tensor, w: Tensor, b: Tensor | None, t: Tensor) -> None:
    """Raises ValueError unless x (N, D), w (V, D), b (V,) or None, t (N,) fit together.

    x, w and b have one floating dtype, t is int64, and all four lie on one device.
    """
    if b is None:
        b = w.new_empty(len(w) if w.ndim else 0)
    if x.ndim != 2 or w.ndim != 2 or b.ndim != 1 or t.ndim != 1:
        raise ValueError(f"x (N, D), w (V, D), b (V,), t (N,) are needed; {_shapes(x, w, b, t)}.")
    if x.shape[1] != w.shape[1] or w.shape[0] != b.shape[0] or x.shape[0] != t.shape[0]:
        raise ValueError(f"The sizes N, V, D have to agree; {_shapes(x, w, b, t)}.")
    if not (x.dtype == w.dtype == b.dtype and x.dtype.is_floating_point):
        raise ValueError(f"x, w, b share one floating dtype; got {x.dtype}, {w.dtype}, {b.dtype}.")
    if t.dtype != int64:
        raise ValueError(f"Targets are int64, one word each; got {t.dtype}.")
    if not (x.device == w.device == b.device == t.device):
        places = ", ".join(str(one.device) for one in (x, w, b, t))
        raise ValueError(f"x, w, b, t lie on one device; got {places}.")


NO_SECOND = (
    "A fused head loss has no second backward (create_graph=True): it kept no logits. "
    "F.cross_entropy(F.linear(x, w, b), t) has one."
)


def refuse_second_backward() -> None:
    """Raises RuntimeError in a backward that is itself to be differentiated (create_graph=True).

    torch's own `once_differentiable` does not: where the cotangent needs no gradient, it hands out
    gradients that are cut off, and a penalty on them then counts for nothing, silently.
    """
    if torch.is_grad_enabled():
        raise RuntimeError(NO_SECOND)


def edges_of(*tensors: Tensor | None) -> tuple[Tensor, ...]:
    """For each that needs a gradient a tensor of no elements that autograd traces back to it, and
    that keeps none of its memory."""
    if not torch.is_grad_enabled():
        return ()
    wanted = (one for one in tensors if one is not None and one.requires_grad)
    return tuple(one.flatten()[:0].clone() for one in wanted)


def only_once(
    gradients: Sequence[Tensor | None], sources: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    """`gradients`, which raise when they are differentiated after `sources`.

    Refusing whenever a backward runs with a graph (create_graph=True) is too much: torch.func.grad
    always does.
    """
    if not torch.is_grad_enabled():
        return tuple(gradients)
    made: tuple[Tensor | None, ...] = _OnlyOnce.apply(len(sources), *sources, *gradients)  # type: ignore[no-untyped-call]
    return made


class _OnlyOnce(torch.autograd.Function):
    @staticmethod
    def forward(n: int, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        return tuple(None if one is None else one.clone() for one in tensors[n:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor | None, ...]:
        raise RuntimeError(NO_SECOND)


def _shapes(*tensors: Tensor) -> str:
    return "got " + ", ".join(str(tuple(one.shape)) for one in tensors)
