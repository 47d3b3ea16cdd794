"""The operators that a layer dispatches."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal

from . import lab
from .keys import Names
from .operators import Record

_RAISED = {
    "RuntimeError": "What `func` returns, `__torch_dispatch__` must return: the operators after "
    "this one need its result.",
}
_DIFFER = ("aten.detach.default", "aten.alias.default")  # torch versions choose one or the other


@lab.question(
    "trace_linear",
    points=3,
    minutes=10,
    difficulty=2,
    hints=(
        "A mode is active inside `with`. What must happen inside it, and what must its method "
        "return?",
        "Append str(func), then return what func returns for all its arguments. Run forward, sum "
        "and backward inside one `with record:`.",
        "with record: F.linear(x, w, b).sum().backward()",
    ),
)
def trace_linear(student: Student, draw: Draw) -> None:
    """What F.linear and the backward of its sum dispatch below autograd, in order.

    x (..., D), w (V, D), b (V,) or None; some require gradients -> list of names as str(func).
    """
    shapes = [(3, 64), (2, 3, 64), (3, 64), *[(draw.integer(2, 5), 64) for _ in draw.cases(2)]]
    for place, shape in enumerate(shapes):
        x = draw.tensor(*shape, requires_grad=place % 2 == 1)
        w = draw.tensor(20, 64, requires_grad=True)
        b = None if place == 2 else draw.tensor(20, requires_grad=True)
        with explaining(_RAISED):
            got = student.call("trace_linear", x, w, b)
        names = got if isinstance(got, (list, tuple)) else [got]
        want = [n for n in _dispatched(x, w, b) if n not in _DIFFER]
        expect_equal([n for n in names if n not in _DIFFER], want)


def _dispatched(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, *, of: str = "both"
) -> Names:
    """Our own record; `of` is "forward", "backward" or "both"."""
    x, w = (t.detach().requires_grad_(t.requires_grad) for t in (x, w))
    b = None if b is None else b.detach().requires_grad_(b.requires_grad)
    with Record() as forward:
        loss = F.linear(x, w, b).sum()
    with Record() as backward:
        loss.backward()  # type: ignore[no-untyped-call]
    if of == "both":
        return [*forward.names, *backward.names]
    names: Names = forward.names if of == "forward" else backward.names
    return names


trace_linear.wrong(
    "forward_only",
    "The backward is missing. It runs operators of its own, and a mode sees those too, as long as "
    "it is active.",
    trace_linear=lambda x, w, b: _dispatched(x, w, b, of="forward"),
)
trace_linear.wrong(
    "backward_only",
    "Only the backward was recorded: the forward ran before the mode was active.",
    trace_linear=lambda x, w, b: _dispatched(x, w, b, of="backward"),
)
trace_linear.wrong(
    "without_overloads",
    "The overload is missing: `aten.sum.default` and `aten.sum.dim_IntList` are two operators with "
    "two tables. str(func) names both parts.",
    trace_linear=lambda x, w, b: [name.rpartition(".")[0] for name in _dispatched(x, w, b)],
)
trace_linear.wrong(
    "each_once",
    "Each operator stands here once. Calls were asked for, so an operator that is called twice "
    "stands there twice.",
    trace_linear=lambda x, w, b: list(dict.fromkeys(_dispatched(x, w, b))),
)
trace_linear.wrong(
    "without_namespace",
    "The namespace is missing: str(func) begins with `aten.`, the library that defines the "
    "operator. func.__name__ leaves it out.",
    trace_linear=lambda x, w, b: [name.removeprefix("aten.") for name in _dispatched(x, w, b)],
)
trace_linear.wrong(
    "never_active",
    "Nothing was recorded. The mode that is entered must be `record`, whose names are returned.",
    trace_linear=lambda x, w, b: [],
)


@trace_linear.wrong(
    "sum_outside",
    "The sum itself is missing: it is an operator too, so it belongs inside `with record:`.",
)
def _(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Names:
    names = _dispatched(x, w, b)
    names.remove("aten.sum.default")
    return names


trace_linear.wrong(
    "schema_names",
    "These are schema names. The names asked for are those of str(func): dots, and the overload at "
    "the end.",
    trace_linear=lambda x, w, b: ["::".join(name.split(".")[:2]) for name in _dispatched(x, w, b)],
)


@trace_linear.cost
def _(student: Student, draw: Draw) -> str:
    w, b = draw.tensor(600, 64, requires_grad=True), draw.tensor(600, requires_grad=True)
    names = student.call("trace_linear", draw.tensor(32, 64), w, b)
    products = sum(name.startswith(("aten.addmm", "aten.mm")) for name in names)
    return f"{len(names)} operators for one line and its backward, {products} of them products"
