"""Whether a mode below autograd sees an operator or its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.judge import Draw, Student, expect_equal

from . import lab
from .keys import EXPLICIT, IMPLICIT, C
from .operators import Record, overload_of


def _samples() -> dict[str, Callable[[], Any]]:
    """An ordinary call of each operator that is asked about."""
    x, rows, image = torch.ones(4, 6), torch.tensor([1, 2]), torch.ones(2, 3, 4)
    aten: Any = torch.ops.aten
    return {
        "aten::softmax.int": lambda: aten.softmax(x, -1),
        "aten::linear": lambda: aten.linear(x, x),
        "aten::native_layer_norm": lambda: aten.native_layer_norm(x, [6], None, None, 1e-5),
        "aten::addmm": lambda: aten.addmm(torch.ones(4), x, x.mT),
        "aten::ones_like": lambda: aten.ones_like(x),
        "aten::layer_norm": lambda: aten.layer_norm(x, [6]),
        "aten::matmul": lambda: aten.matmul(image, torch.ones(4, 2)),
        "aten::relu": lambda: aten.relu(x),
        "aten::reshape": lambda: aten.reshape(x, [-1]),
        "aten::view": lambda: aten.view(x, [-1]),
        "aten::embedding": lambda: aten.embedding(x, rows),
        "aten::cross_entropy_loss": lambda: aten.cross_entropy_loss(x[:2], rows),
        "aten::t": lambda: aten.t(x),
        "aten::dropout": lambda: aten.dropout(x, 0.5, True),
        "aten::_softmax": lambda: aten._softmax(x, -1, False),
        "aten::bmm": lambda: aten.bmm(image, image.mT),
        "aten::square": lambda: aten.square(x),
    }


@lab.question(
    "decomposes",
    points=2,
    minutes=6,
    difficulty=2,
    hints=(
        "Which of the aliases of 2.3 serves AutogradCPU with a kernel that only calls others?",
        "CompositeImplicitAutograd: autograd differentiates through the parts, so it never makes a "
        "node for the whole. Ask the operator whether it has that registration.",
        "return func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)",
    ),
)
def decomposes(student: Student, draw: Draw) -> None:
    """Whether a mode below autograd sees an operator's parts instead of the operator itself.

    op, such as "aten::softmax.int" -> bool.
    """
    samples = _samples()
    first = list(samples)[:5]
    cases = [(op,) for op in [*first, *draw.shuffled(list(samples)[5:])]]
    for (op,), got in zip(cases, student.each("decomposes", cases), strict=True):
        expect_equal(got, not _is_seen(op, samples[op]))


def _is_seen(op: str, call: Callable[[], Any]) -> bool:
    with Record() as record:
        call()
    return str(overload_of(op)) in record.names


def _registered(op: str, key: str) -> bool:
    return bool(C._dispatch_has_kernel_for_dispatch_key(op, key))


@decomposes.wrong(
    "in_the_decomposition_table",
    "`aten::softmax.int` goes in parts: it is registered as CompositeImplicitAutograd. No "
    "other registration decides that, and neither does `torch._decomp`, the list of what compilers "
    "may take apart.",
)
def _(op: str) -> bool:
    from torch._decomp import decomposition_table

    return overload_of(op) in decomposition_table


decomposes.wrong(
    "no_formula",
    "`aten::linear` goes in parts, although it has a registration for Autograd: where the "
    "composite serves AutogradCPU, it comes first.",
    decomposes=lambda op: not _registered(op, "Autograd"),
)
decomposes.wrong(
    "any_composite",
    "CompositeExplicitAutograd has a formula of its own in autograd, so the operator arrives whole "
    "below it. Only the implicit kind goes in parts.",
    decomposes=lambda op: _registered(op, IMPLICIT) or _registered(op, EXPLICIT),
)
decomposes.wrong(
    "no_cpu_kernel",
    "This operator has no kernel for CPU alone, but one for all backends, and autograd knows it "
    "as a whole.",
    decomposes=lambda op: not _registered(op, "CPU"),
)


@decomposes.cost
def _(student: Student, draw: Draw) -> str:
    apart = [op for op in _samples() if student.call("decomposes", op)]
    return f"{len(apart)} of {len(_samples())} operators asked about need no derivative formula"
