"""Edits between forward and backward, and what torch makes of them."""

from __future__ import annotations

import torch
from torch import Tensor

WAYS = ("itself", "view", "detach", "data")
Edited = int | str


def torchs_outcome(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    """What the edit does, found by running backward with and without it."""
    want = gradients(op, inputs)
    try:
        got = gradients(op, inputs, edited, way)
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return "raises"
    same = all(a.equal(b) for a, b in zip(got, want, strict=True))
    return "harmless" if same else "silent"


def gradients(
    op: str, inputs: list[Tensor], edited: Edited | None = None, way: str = "itself"
) -> list[Tensor]:
    """Of the inputs that require one, after an edit or none. Raises what backward raises."""
    leaves = [t.detach().clone().requires_grad_(t.requires_grad) for t in inputs]
    used = [leaf.clone() for leaf in leaves]
    out = getattr(torch, op)(*used)
    if edited is not None:
        edit(out if edited == "out" else used[int(edited)], way)
    learning = [leaf for leaf in leaves if leaf.requires_grad]
    return list(torch.autograd.grad(out.sum(), learning))


def edit(t: Tensor, way: str) -> None:
    """Adds 1 in place: to the tensor itself, or in one of the other ways to its floats."""
    if way == "view":
        t = t[:1]
    elif way == "detach":
        t = t.detach()
    elif way == "data":
        t = t.data
    t.add_(1)


def saves(op: str, inputs: list[Tensor], edited: Edited) -> bool:
    """Whether the node of `op` saved the tensor at `edited`."""
    used = [t.detach().clone().requires_grad_(t.requires_grad).clone() for t in inputs]
    out = getattr(torch, op)(*used)
    where = (out if edited == "out" else used[int(edited)]).untyped_storage().data_ptr()
    saved = [getattr(out.grad_fn, name) for name in dir(out.grad_fn) if name.startswith("_saved_")]
    return any(isinstance(t, Tensor) and t.untyped_storage().data_ptr() == where for t in saved)
