"""The operators that a layer dispatches."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal, some, within

from . import lab
from .keys import Names
from .operators import CAME_BACK, Record, no_mode_left

_RAISED = {
    "RuntimeError: Expected a proper Tensor but got None": "What `func` returns, "
    "`__torch_dispatch__` must return: the operators after this one need its result.",
    "RecursionError": CAME_BACK,
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
    shapes.append((4, 64))
    cases = []
    for place, shape in enumerate(shapes):
        only_x = place == len(shapes) - 1
        x = draw.tensor(*shape, requires_grad=only_x or place % 2 == 1)
        w = draw.tensor(20, 64, requires_grad=not only_x)
        b = None if place == 2 else draw.tensor(20, requires_grad=not only_x)
        cases.append((x, w, b))
    for x, w, b in cases + some(_further(draw), 30):
        with explaining(_RAISED), no_mode_left():
            got = student.call("trace_linear", x, w, b)
        names = got if isinstance(got, (list, tuple)) else [got]
        want = [n for n in _dispatched(x, w, b) if n not in _DIFFER]
        mine = [n for n in names if n not in _DIFFER]
        learning = [name for name, t in zip("xwb", (x, w, b), strict=True) if _learns(t)]
        with within(f"requires_grad of ({', '.join(learning)}),"):
            why = _less_backward(mine, want, learning)
            why = why or _other_line(mine, want, without_bias=b is None)
            expect_equal(mine, want, why=why)


def _learns(t: torch.Tensor | None) -> bool:
    return t is not None and t.requires_grad


def _further(draw: Draw) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]:
    """Each x with each choice of those that require a gradient; the bias may be none of them."""
    xs = [draw.tensor(*shape) for shape in ((64,), (3, 64), (2, 3, 64), (2, 1, 3, 64))]
    xs += [draw.tensor(2, 3, 64).transpose(0, 1), draw.tensor(64, 4).t()]
    cases: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]] = []
    for x, (of_x, of_w, of_b) in itertools.product(xs, itertools.product((False, True), repeat=3)):
        if of_x and not x.is_contiguous():  # AccumulateGrad would copy: not all backwards run it
            continue
        mine, w = x.detach().requires_grad_(of_x), draw.tensor(20, 64, requires_grad=of_w)
        if of_x or of_w or of_b:
            cases.append((mine, w, draw.tensor(20, requires_grad=of_b)))
        if (of_x or of_w) and not of_b:
            cases.append((mine, w, None))
    return cases


def _less_backward(names: list[Any], want: Names, learning: list[str]) -> str:
    """Of a backward that has begun, and lacks some of its operators; "" of any other record."""
    begun = want.index("aten.sum.default") + 1
    if names[:begun] != want[:begun] or not all(isinstance(n, str) for n in names[begun:]):
        return ""
    missing = list((Counter(want) - Counter(names)).elements())
    if len(names) == begun or not missing or len(names) + len(missing) != len(want):
        return ""
    return (
        f"The forward is right, and these are missing behind it: {', '.join(missing)}. The "
        "backward computes a gradient for each tensor that requires one, and these do here: "
        f"{', '.join(learning)}."
    )


def _other_line(names: list[Any], want: Names, *, without_bias: bool) -> str:
    """Of names that are more, and at once less, than what was to be recorded: which."""
    if strange := [n for n in names if not (isinstance(n, str) and n.startswith("aten."))]:
        if any(isinstance(n, str) and n in str(strange[0]) for n in want) or len(names) < 2:
            return ""
        return (
            "A name here is none that str(func) gives in a TorchDispatchMode. Those begin with "
            "`aten.` and end in the overload."
        )
    if [_packet(n) for n in names] == [_packet(n) for n in want] and names != want:
        mine, right = next(pair for pair in zip(names, want, strict=True) if pair[0] != pair[1])
        return (
            f"F.linear(x, w, b), its sum and its backward dispatch {right} where {mine} stands: "
            "the overload is part of the name, and str(func) has that of the call."
        )
    more, less = Counter(names) - Counter(want), Counter(want) - Counter(names)
    if not (more and less):
        return ""
    if without_bias and "aten.addmm.default" in more:
        return "b is None here, and F.linear(x, w, None) adds nothing: it dispatches no addmm."
    return (
        f"F.linear(x, w, b), its sum and its backward dispatch {next(iter(more))} less often with "
        f"these three, and {next(iter(less))} more often: something else was recorded."
    )


def _packet(name: str) -> list[str]:
    """Namespace and operator, without the overload."""
    return name.split(".")[:2]


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


_linear: Any = F.linear  # backward is untyped


def _recorded(
    run: Callable[..., Any],
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor | None,
    *,
    record: Record | None = None,
) -> Names:
    """Of another line with the same three; whatever it leaves in .grad is not theirs."""
    given = [None if t is None else t.detach().requires_grad_(t.requires_grad) for t in (x, w, b)]
    with record or Record() as record:
        run(*given)
    names: Names = record.names
    return names


trace_linear.wrong(
    "forward_only",
    "The backward is missing. It runs operators of its own, and a mode sees those too, as long as "
    "it is active.",
    trace_linear=lambda x, w, b: _dispatched(x, w, b, of="forward"),
)
trace_linear.wrong(
    "backward_only",
    "Only the backward was recorded, as where the forward runs before the mode is active. It "
    "belongs inside `with record:` too.",
    trace_linear=lambda x, w, b: _dispatched(x, w, b, of="backward"),
)


@trace_linear.wrong(
    "keywords_dropped",
    "The keywords got lost on the way to `func`. F.linear copies this x row by row, as the keyword "
    "memory_format says: without it the view behind the copy does not fit. Hand on **kwargs.",
)
def _(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Names:
    class Deaf(Record):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.names.append(str(func))
            return func(*args)

    return _recorded(lambda *given: _linear(*given).sum().backward(), x, w, b, record=Deaf())


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
    "Nothing was recorded. The mode that is entered must be `record`, whose names are returned, "
    "and its method notes each call.",
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
trace_linear.wrong(
    "names_of_the_schema",
    "These are schema names. The names asked for are those of str(func): dots, and the overload at "
    "the end.",
    trace_linear=lambda x, w, b: [
        name.replace(".", "::", 1).removesuffix(".default") for name in _dispatched(x, w, b)
    ],
)


trace_linear.wrong(
    "linear_alone",
    "Only F.linear was recorded. Its sum and the backward belong inside `with record:` too.",
    trace_linear=lambda x, w, b: _recorded(_linear, x, w, b),
)
trace_linear.wrong(
    "mean_taken",
    "The mean was taken. It is another operator, with another backward: take the sum.",
    trace_linear=lambda x, w, b: _recorded(
        lambda *given: _linear(*given).mean().backward(), x, w, b
    ),
)


@trace_linear.wrong(
    "without_sum",
    "The backward began at the result itself, with ones given to it. It begins at the result's "
    "sum.",
)
def _(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Names:
    def run(*given: Any) -> None:
        z = _linear(*given)
        z.backward(torch.ones_like(z))

    return _recorded(run, x, w, b)


AS_A_PRODUCT = (
    "A product and an addition were dispatched, as by `x @ w.T + b` or `F.linear(x, w) + b`. "
    "F.linear with a bias makes one addmm of them where it can."
)


@trace_linear.wrong("as_a_product_with_t", AS_A_PRODUCT)
def _(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Names:
    def run(x: Any, w: Any, b: Any) -> None:
        z = x @ w.t()
        (z if b is None else z + b).sum().backward()

    return _recorded(run, x, w, b)


@trace_linear.wrong("as_a_product", AS_A_PRODUCT)
def _(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Names:
    def run(x: Any, w: Any, b: Any) -> None:
        z = x @ w.T
        (z if b is None else z + b).sum().backward()

    return _recorded(run, x, w, b)


trace_linear.wrong(
    "bias_left_out",
    "The bias got lost on the way into F.linear: with it the product is an addmm.",
    trace_linear=lambda x, w, b: _recorded(lambda x, w, b: _linear(x, w).sum().backward(), x, w, b),
)
trace_linear.wrong(
    "weight_alone",
    "Only the gradient of w was asked for. backward() computes those of all leaves that require "
    "one.",
    trace_linear=lambda x, w, b: _recorded(
        lambda x, w, b: torch.autograd.grad(_linear(x, w, b).sum(), w), x, w, b
    ),
)
trace_linear.wrong(
    "gradient_of_x",
    "x does not require a gradient, and the record holds one: take the tensors as they come.",
    trace_linear=lambda x, w, b: _dispatched(x.detach().requires_grad_(), w, b),
)
trace_linear.wrong(
    "flattened_first",
    "x was made two-dimensional first, which is an operator of its own. F.linear takes it as it "
    "is.",
    trace_linear=lambda x, w, b: _recorded(
        lambda x, w, b: _linear(x.reshape(-1, 64), w, b).sum().backward(), x, w, b
    ),
)
trace_linear.wrong(
    "flattened_to_two",
    "x came to F.linear with two dimensions. Where it has more, F.linear gives them to the result "
    "too: by a view in the forward, and one in the backward.",
    trace_linear=lambda x, w, b: _recorded(
        lambda x, w, b: _linear(x if x.dim() == 2 else x.reshape(-1, 64), w, b).sum().backward(),
        x,
        w,
        b,
    ),
)
trace_linear.wrong(
    "noted_twice",
    "Each call stands here twice: note it once, before or after you do it.",
    trace_linear=lambda x, w, b: [name for name in _dispatched(x, w, b) for _ in range(2)],
)
trace_linear.wrong(
    "two_lists",
    "Forward and backward came as two lists. One was asked for, in order.",
    trace_linear=lambda x, w, b: [
        _dispatched(x, w, b, of=half) for half in ("forward", "backward")
    ],
)


@trace_linear.wrong(
    "no_grad",
    "There is no graph to go back through, as under torch.no_grad(), which switches autograd off, "
    "or behind detach(). A mode needs neither.",
)
def _(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Names:
    with torch.no_grad():
        return _recorded(lambda *given: _linear(*given).sum().backward(), x, w, b)


trace_linear.wrong(
    "alphabetical",
    "The names are in the order of the alphabet. Asked for is the order of the calls.",
    trace_linear=lambda x, w, b: sorted(_dispatched(x, w, b)),
)


@trace_linear.wrong(
    "backward_twice",
    "The backward ran twice. Once was asked for.",
)
def _(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Names:
    def run(*given: Any) -> None:
        loss = _linear(*given).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    return _recorded(run, x, w, b)


trace_linear.wrong(
    "one_text",
    "The names are joined into one text. A list of them was asked for.",
    trace_linear=lambda x, w, b: ", ".join(_dispatched(x, w, b)),
)
trace_linear.wrong(
    "counted",
    "This is how many calls there were. Their names were asked for.",
    trace_linear=lambda x, w, b: len(_dispatched(x, w, b)),
)


@trace_linear.wrong(
    "nodes_named",
    "These are the nodes that autograd will walk. The mode sees the operators that their "
    "formulas call.",
)
def _(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Names:
    names, left = [], [_linear(x, w, b).sum().grad_fn]
    while left:
        if node := left.pop():
            names.append(node.name())
            left += [nearer for nearer, _ in node.next_functions]
    return names


trace_linear.wrong(
    "default_dropped",
    "`.default` is missing. It is an overload like any other, and str(func) names it.",
    trace_linear=lambda x, w, b: [n.removesuffix(".default") for n in _dispatched(x, w, b)],
)
trace_linear.wrong(
    "as_repr_shows_them",
    "These are the operators as repr shows them. Asked for is str(func): `aten.t.default`.",
    trace_linear=lambda x, w, b: [
        "<OpOverload(op='{}', overload='{}')>".format(*name.rsplit(".", 1))
        for name in _dispatched(x, w, b)
    ],
)
trace_linear.wrong(
    "operators_themselves",
    "These are the operators themselves. Their names were asked for, str(func).",
    trace_linear=lambda x, w, b: [torch.ops.aten.t.default],
)
trace_linear.wrong(
    "whole_record",
    "The record itself came back. What it noted was asked for, `record.names`.",
    trace_linear=lambda x, w, b: Record(),
)
trace_linear.wrong(
    "bias_added_behind",
    "The bias was added to the result. Given to F.linear, it goes into one addmm with the product.",
    trace_linear=lambda x, w, b: _recorded(
        lambda x, w, b: (_linear(x, w) + (0 if b is None else b)).sum().backward(), x, w, b
    ),
)
trace_linear.wrong(
    "zeros_for_no_bias",
    "A bias of zeros was made where b is None. F.linear takes None, and then runs no addmm.",
    trace_linear=lambda x, w, b: _recorded(
        lambda x, w, b: _linear(x, w, torch.zeros(len(w)) if b is None else b).sum().backward(),
        x,
        w,
        b,
    ),
)


@trace_linear.wrong(
    "no_grad_in_the_forward",
    "The backward has no product: autograd kept nothing of the forward, as under torch.no_grad().",
)
def _(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Names:
    def run(*given: Any) -> None:
        with torch.no_grad():
            z = _linear(*given)
        z.requires_grad_().sum().backward()

    return _recorded(run, x, w, b)


@trace_linear.cost
def _(student: Student, draw: Draw) -> str:
    w, b = draw.tensor(600, 64, requires_grad=True), draw.tensor(600, requires_grad=True)
    names = student.call("trace_linear", draw.tensor(32, 64), w, b)
    products = sum(name.startswith(("aten.addmm", "aten.mm")) for name in names)
    return f"{len(names)} operators for one line and its backward, {products} of them products"
