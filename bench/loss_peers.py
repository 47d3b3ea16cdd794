"""Who computes the loss of the head: each as a function of x, w, b, t, or why it is not here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor

from onelayer.cuda_cpu import NoCompiler, nvcc
from onelayer.kernels.chunked import chunked_head_loss
from onelayer.kernels.eager import eager_head_loss

HeadLoss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
OURS = ("chunked", "triton", "cuda")
NAMES = ("eager", "compiled", "torch's own", *OURS, "liger", "cut-cross-entropy")
ON_A_GPU = ("triton", "cuda", "liger", "cut-cross-entropy")
PACKAGES = ("triton", "liger-kernel", "cut-cross-entropy")


class Absent(Exception):
    """Why a peer does not take part."""


def peer(name: str, device: str) -> HeadLoss:
    """The loss of one of NAMES. Raises Absent."""
    if name in ON_A_GPU and device != "cuda":
        raise Absent("needs a GPU")
    try:
        return _MAKERS[name]()
    except ModuleNotFoundError as missing:
        package = str(missing.name).split(".")[0]
        raise Absent(f"not installed ({package})") from missing
    except (ImportError, NoCompiler) as why:
        raise Absent(str(why).splitlines()[0]) from why


def versions() -> dict[str, str]:
    """Of the packages that peers come from, those that are here."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _compiled() -> HeadLoss:
    return torch.compile(eager_head_loss, dynamic=False)  # or its second N is also its slowest


def _torchs_own() -> HeadLoss:
    if not hasattr(torch.nn, "LinearCrossEntropyOptions"):
        raise Absent(f"torch {torch.__version__} has none, 2.13 has")
    options = torch.nn.LinearCrossEntropyOptions()  # without them it is the eager pair

    def loss(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
        own = torch.nn.functional.linear_cross_entropy
        return own(x, w, t, linear_bias=b, options=options)

    return loss


def _triton() -> HeadLoss:
    return import_module("onelayer.kernels.fused_triton").triton_head_loss


def _cuda() -> HeadLoss:
    nvcc.nvcc()
    return import_module("onelayer.kernels.fused_cuda").cuda_head_loss


def _liger() -> HeadLoss:
    functional = import_module("liger_kernel.transformers.functional")

    def loss(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
        return functional.liger_fused_linear_cross_entropy(x, w, t, bias=b)

    return loss


def _cut_cross_entropy() -> HeadLoss:
    """25.1.1, the release, takes no bias: there b rides along as one more column, D = 65."""
    cce = import_module("cut_cross_entropy").linear_cross_entropy
    if "bias" in inspect.signature(cce).parameters:
        return lambda x, w, b, t: cce(x, w, t, bias=b)

    def loss(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
        ones = x.new_ones(len(x), 1)
        return cce(torch.cat([x, ones], 1), torch.cat([w, b[:, None]], 1), t)

    return loss


_MAKERS: dict[str, Callable[[], HeadLoss]] = {
    "eager": lambda: eager_head_loss,
    "compiled": _compiled,
    "torch's own": _torchs_own,
    "chunked": lambda: chunked_head_loss,
    "triton": _triton,
    "cuda": _cuda,
    "liger": _liger,
    "cut-cross-entropy": _cut_cross_entropy,
}
