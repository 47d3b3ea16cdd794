"""Whether a mode below autograd sees an operator or its parts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal, within

from . import lab
from .keys import EXPLICIT, IMPLICIT, C
from .operators import Record, overload_of

KNOWN = (
    "aten::softmax.int",
    "aten::linear",
    "aten::sort",  # whole, and in no list of compilers
    "aten::native_layer_norm",
    "aten::addmm",
    "aten::ones_like",
    "aten::square",
    "aten::t",
    "aten::dropout",
    "aten::var.correction",  # and aten::var in parts
    "aten::slice_scatter",  # has none of CPU, CompositeExplicitAutograd and the implicit one
    "aten::square_",
    "aten::adjoint",  # a view, and in parts
    "aten::chunk",  # in parts, and a list
    "aten::linalg_eigh",  # and two
    "aten::flatten.using_ints",
    "aten::divide.Tensor",
    "aten::fft_fft",
    "aten::diagonal",  # whole: a view, one without numbers, and one with two results
    "aten::empty_like",
    "aten::zeros_like",  # in parts for nested tensors alone
    "aten::detach_copy",  # neither a kernel of the CPU nor one of the core operators
)
"""Asked every time, because each tells some of the wrong answers apart. The others are drawn from
all those of this torch that `_called` can call: some six hundred."""
_RAISED = {
    "RuntimeError: operator aten::": "You asked for another operator than the one that `op` names. "
    "Each overload has registrations of its own.",
}
_NOISY = ("sparse", "fbgemm", "quantize", "stft", "qr", "cross", "norm", "meshgrid", "lu_solve")
_GIVEN: dict[str, Any] = {
    "int": 1,
    "number": 2,
    "float": 0.5,
    "bool": False,
    "List[int]": [-1],
    "Optional[Tensor]": None,
}
"""What an argument without a default gets, by its type in the schema."""


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
    cases = [(op,) for op in _asked(draw)]
    with explaining(_RAISED):
        for (op,), got in zip(cases, student.each("decomposes", cases), strict=True):
            with within(op):
                right = not _is_seen(op)
                expect_equal(got, right, why=_why(op, right) if type(got) is bool else _kind(got))


def _why(op: str, in_parts: bool) -> str:
    if in_parts:
        return (
            f"{op} is registered as CompositeImplicitAutograd, so a mode sees its parts: no other "
            "registration and no name decides it."
        )
    return (
        f"{op} is not registered as CompositeImplicitAutograd, so it arrives whole: no other "
        "registration and no name decides it."
    )


def _kind(got: Any) -> str:
    return "" if got is None else "The answer is True or False."


def _asked(draw: Draw) -> Iterator[str]:
    """The known ones, then 6 of each kind, drawn from all."""
    yield from KNOWN
    wanted = {True: len(draw.cases(6)), False: len(draw.cases(6))}
    for op in draw.shuffled(sorted(C._dispatch_get_all_op_names())):
        seen = None if op in KNOWN or not _is_ordinary(op) else _is_seen(op)
        if seen is not None and wanted[seen]:
            wanted[seen] -= 1
            yield op
        if not any(wanted.values()):
            return


def _is_ordinary(op: str) -> bool:
    """Whether it is a public operator of aten that writes into nothing, draws nothing, warns of
    nothing, and has the implicit registration or a kernel, not both."""
    name = op.removeprefix("aten::")
    if name == op or name.startswith("_") or any(word in name for word in _NOISY):
        return False
    try:
        overload = overload_of(op)
    except AttributeError:
        return False
    both = _registered(op, IMPLICIT) and _registered(op, "CPU")
    acts = overload._schema.is_mutable or torch.Tag.nondeterministic_seeded in overload.tags
    return not both and not acts


def _is_seen(op: str) -> bool | None:
    """Whether a mode sees the operator itself; None where it cannot be called this way, or where
    nothing is seen at all."""
    overload = overload_of(op)
    with Record() as record:
        try:
            _called(overload)
        except Exception:  # each operator refuses strange arguments in its own way
            return None
    return str(overload) in record.names if record.names else None


def _called(overload: Any) -> None:
    """Calls it without data: what runs in parts on the CPU does so on the meta device."""
    if overload is torch.ops.aten.native_layer_norm.default:
        torch.native_layer_norm(torch.ones(4, 6), [6], None, None, 1e-5)
        return
    x, given = torch.ones(4, 4, device="meta"), []
    for argument in overload._schema.arguments:
        kind = str(argument.type)
        if argument.has_default_value() or argument.kwarg_only:
            break
        given.append({"Tensor": x, "List[Tensor]": [x, x], **_GIVEN}[kind])
    if not any(part is x for part in given):
        raise TypeError("no tensor goes in")
    overload(*given)


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


@decomposes.wrong(
    "table_too",
    "This operator arrives whole. It stands in `torch._decomp`, the list of what compilers may "
    "take apart, and in ordinary mode nobody reads that list.",
)
def _(op: str) -> bool:
    from torch._decomp import decomposition_table

    return _registered(op, IMPLICIT) or overload_of(op) in decomposition_table


decomposes.wrong(
    "no_formula",
    "`aten::linear` goes in parts, although it has a registration for Autograd: where the "
    "composite serves AutogradCPU, it comes first.",
    decomposes=lambda op: not overload_of(op).has_kernel_for_dispatch_key(C.DispatchKey.Autograd),
)
decomposes.wrong(
    "any_composite",
    "A CompositeExplicitAutograd kernel serves the backends, and autograd does not go through "
    "its parts, so the operator arrives whole below it. Only the implicit kind goes in parts.",
    decomposes=lambda op: _registered(op, IMPLICIT) or _registered(op, EXPLICIT),
)
decomposes.wrong(
    "no_cpu_kernel",
    "This operator has no kernel for CPU alone, but one for all backends, and autograd knows it "
    "as a whole.",
    decomposes=lambda op: not _registered(op, "CPU"),
)


@decomposes.wrong(
    "another_overload",
    "That is another overload's answer: each overload has registrations of its own, and "
    "`aten::var.correction` arrives whole where `aten::var` goes in parts.",
)
def _(op: str) -> bool:
    packet = getattr(torch.ops.aten, op.removeprefix("aten::").partition(".")[0])
    first = getattr(packet, packet.overloads()[0])
    return bool(first.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd))


decomposes.wrong(
    "nested_tensors_too",
    "`aten::zeros_like` is registered as CompositeImplicitAutogradNestedTensor. That is another "
    "key, though its name begins the same: a mode sees the operator whole.",
    decomposes=lambda op: _registered(op, IMPLICIT) or _registered(op, IMPLICIT + "NestedTensor"),
)
decomposes.wrong(
    "turned_round",
    "The answers are turned round: with the implicit registration an operator goes in parts.",
    decomposes=lambda op: not _registered(op, IMPLICIT),
)
decomposes.wrong(
    "explicit_alone",
    "This is the other composite. CompositeExplicitAutograd is one kernel for all backends, and "
    "autograd knows its operator whole.",
    decomposes=lambda op: _registered(op, EXPLICIT),
)
decomposes.wrong(
    "kernel_for_cpu",
    "A kernel for CPU says the contrary: an operator that has one arrives whole.",
    decomposes=lambda op: _registered(op, "CPU"),
)
decomposes.wrong(
    "no_explicit",
    "Without CompositeExplicitAutograd an operator may still have a kernel for CPU, and then it "
    "arrives whole.",
    decomposes=lambda op: not _registered(op, EXPLICIT),
)
decomposes.wrong(
    "every_operator",
    "Not every operator goes in parts: what has a kernel of its own arrives whole.",
    decomposes=lambda op: True,
)
decomposes.wrong(
    "no_operator",
    "Some operators go in parts, as `aten::linear` does.",
    decomposes=lambda op: False,
)
decomposes.wrong(
    "linear_alone",
    "`aten::linear` is not the only one. Ask the operator for its registration.",
    decomposes=lambda op: op == "aten::linear",
)


decomposes.wrong(
    "as_text",
    "This is a text. The answer is True or False itself.",
    decomposes=lambda op: str(_registered(op, IMPLICIT)),
)
decomposes.wrong(
    "as_number",
    "This is the number 1 or 0. The answer is True or False.",
    decomposes=lambda op: int(_registered(op, IMPLICIT)),
)
decomposes.wrong(
    "explicit_too",
    "This operator has neither CPU nor CompositeExplicitAutograd, and arrives whole all the same: "
    "it is registered as CompositeExplicitAutogradNonFunctional.",
    decomposes=lambda op: _registered(op, IMPLICIT) or _registered(op, EXPLICIT + "NonFunctional"),
)


@cache
def _core() -> Any:
    """Made once: it takes a tenth of a second."""
    from torch._decomp import core_aten_decompositions

    return core_aten_decompositions()


@decomposes.wrong(
    "core_table",
    "This is a list of what compilers take apart. The dispatcher asks the registrations.",
)
def _(op: str) -> bool:
    return overload_of(op) in _core()


decomposes.wrong(
    "default_overload",
    "This operator has no overload called default. What stands behind the dot is the overload: "
    "the stub's `func` is it.",
    decomposes=lambda op: overload_of(op.partition(".")[0]).has_kernel_for_dispatch_key(
        C.DispatchKey.CompositeImplicitAutograd
    ),
)


@decomposes.cost
def _(student: Student, draw: Draw) -> str:
    asked = list(_asked(draw))
    apart = [op for op in asked if student.call("decomposes", op)]
    return f"{len(apart)} of {len(asked)} operators asked about need no derivative formula"
