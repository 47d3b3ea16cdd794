"""The keys that a tensor carries."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import Any

import torch

import onelayer
from autograder.judge import Draw, Student, expect_equal

from . import lab
from .keys import C, Names

Kind = tuple[str, str, torch.dtype, bool, bool, bool]


@lab.question(
    "tensor_keys",
    points=3,
    minutes=10,
    difficulty=2,
    hints=(
        "Ask of each of the six arguments: does the dispatcher need it to find a kernel? Two of "
        "them it leaves to the kernels.",
        "Start with the backend key, layout prefix and device, and put the others before it. "
        "Neither dtype nor requires_grad chooses a key.",
        'keys = autocast (cpu only) + [f"Autograd{backend}", "ADInplaceOrView"] (unless made in '
        "inference mode) + Negative (if lazy) + [prefix + backend]",
    ),
)
def tensor_keys(student: Student, draw: Draw) -> None:
    """The dispatch keys that a tensor carries, the highest priority first.

    device, layout, dtype, requires_grad, negative, made_in_inference -> list of names.
    """
    always: list[Kind] = [
        ("cpu", "strided", torch.float32, True, False, False),
        ("cpu", "strided", torch.float32, False, False, False),
        ("cpu", "strided", torch.float32, False, False, True),
        ("cpu", "sparse_coo", torch.float32, False, False, False),
        ("meta", "strided", torch.float32, False, False, False),
        ("cpu", "strided", torch.int64, False, False, False),
        ("cpu", "strided", torch.float64, False, True, False),
        ("meta", "sparse_csr", torch.float32, False, False, True),
    ]
    for kind in always + [_kind(draw) for _ in draw.cases(6)]:
        expect_equal(student.call("tensor_keys", *kind), list(onelayer.key_set(_tensor(*kind))))


def _kind(draw: Draw) -> Kind:
    device, layout = draw.choice(("cpu", "meta")), draw.choice(("strided", "sparse_coo"))
    dtype = draw.choice((torch.float32, torch.float64, torch.bfloat16, torch.int64))
    needs, negative = draw.integer(0, 1) == 1, draw.integer(0, 1) == 1
    floating = dtype.is_floating_point
    lazy = negative and layout == "strided" and floating
    return device, layout, dtype, needs and floating, lazy, draw.integer(0, 1) == 1


def _tensor(
    device: str, layout: str, dtype: torch.dtype, needs: bool, negative: bool, made: bool
) -> torch.Tensor:
    """A tensor of this kind. Sparse ones are empty: nothing is stored, the keys are the same."""
    options: Any = {"dtype": dtype, "device": device, "layout": getattr(torch, layout)}
    with warnings.catch_warnings(), torch.inference_mode() if made else nullcontext():
        warnings.simplefilter("ignore")  # sparse CSR calls itself beta, once per process
        t = torch.empty(2, 3, **options)
        t = torch._neg_view(t) if negative else t
    return t if made else t.requires_grad_(needs)


def _tensor_keys(kind: Kind, *, backend: str = "", autograd: bool = True) -> Names:
    """The true rule; `backend` and `autograd` bend it."""
    device, layout, _, _, negative, made = kind
    where = {"cpu": "CPU", "meta": "Meta"}[device]
    prefix = {"strided": "", "sparse_coo": "Sparse", "sparse_csr": "SparseCsr"}[layout]
    keys = ["AutocastCPU"] if device == "cpu" else []
    keys += [f"Autograd{where}"] if autograd and not made else []
    keys += [] if made else ["ADInplaceOrView"]
    keys += ["Negative"] if negative else []
    return [*keys, backend or prefix + where]


@tensor_keys.wrong(
    "autograd_if_needed",
    "A tensor without `requires_grad` carries autograd's key too: the kernel behind it looks "
    "whether a gradient is needed.",
)
def _(
    device: str,
    layout: str,
    dtype: torch.dtype,
    requires_grad: bool,
    negative: bool,
    made_in_inference: bool,
) -> Names:
    kind = (device, layout, dtype, requires_grad, negative, made_in_inference)
    return _tensor_keys(kind, autograd=requires_grad)


@tensor_keys.wrong(
    "layout_ignored",
    "The layout is missing from the backend key: a sparse tensor finds other kernels than a "
    "strided one.",
)
def _(
    device: str,
    layout: str,
    dtype: torch.dtype,
    requires_grad: bool,
    negative: bool,
    made_in_inference: bool,
) -> Names:
    kind = (device, layout, dtype, requires_grad, negative, made_in_inference)
    return _tensor_keys(kind, backend={"cpu": "CPU", "meta": "Meta"}[device])


@tensor_keys.wrong(
    "inference_ignored",
    "This tensor was made in inference mode, without a version counter and without autograd's "
    "bookkeeping: it carries neither autograd's key nor ADInplaceOrView.",
)
def _(
    device: str,
    layout: str,
    dtype: torch.dtype,
    requires_grad: bool,
    negative: bool,
    made_in_inference: bool,
) -> Names:
    return _tensor_keys((device, layout, dtype, requires_grad, negative, False))


@tensor_keys.wrong(
    "integers_have_no_gradient",
    "An integer tensor carries autograd's key as any other does: the dtype chooses no key. It is "
    "looked at later, inside the kernel.",
)
def _(
    device: str,
    layout: str,
    dtype: torch.dtype,
    requires_grad: bool,
    negative: bool,
    made_in_inference: bool,
) -> Names:
    kind = (device, layout, dtype, requires_grad, negative, made_in_inference)
    return _tensor_keys(kind, autograd=dtype.is_floating_point)


@tensor_keys.wrong("lowest_first", "The right keys, the lowest priority first: turn them round.")
def _(
    device: str,
    layout: str,
    dtype: torch.dtype,
    requires_grad: bool,
    negative: bool,
    made_in_inference: bool,
) -> Names:
    kind = (device, layout, dtype, requires_grad, negative, made_in_inference)
    return _tensor_keys(kind)[::-1]


@tensor_keys.cost
def _(student: Student, draw: Draw) -> str:
    keys = student.call("tensor_keys", "cpu", "strided", torch.float32, True, False, False)
    raw = int(C._dispatch_keys(torch.ones(1)).raw_repr())
    return f"{len(keys)} keys in one 64-bit integer of the tensor ({raw:#x}); no float was read"
