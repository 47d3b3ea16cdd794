"""What each step of a forward path copies."""

from __future__ import annotations

import itertools
from typing import Any

import torch

import onelayer
from autograder.judge import Draw, Student, expect_equal

from . import lab

Step = tuple[str, tuple[Any, ...]]


@lab.question(
    "copied_bytes",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "A step copied when its result lives in another storage than its input. Whose pointer "
        "tells?",
        "Compare `t.untyped_storage().data_ptr()` before and after each step, not `t.data_ptr()`: "
        "a slice has another first element in the same storage. The bill is the new storage's "
        "nbytes().",
        "0 if y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() else "
        "y.untyped_storage().nbytes()",
    ),
)
def copied_bytes(student: Student, draw: Draw) -> None:
    """How many bytes each step of a forward path copies into new memory; 0 where it only made a
    view.

    x, steps such as ("transpose", (1, 2)) to be called as x.transpose(1, 2), each on the result of
    the last -> one number per step.
    """
    cases = [case for _ in draw.cases(2) for case in _walks(draw)]
    for case, got in zip(cases, student.each("copied_bytes", cases), strict=True):
        expect_equal(got, _bill(*case))


def _walks(draw: Draw) -> list[tuple[torch.Tensor, list[Step]]]:
    """Activations, and each way that they travel, in numbers of 4, 8 and 2 bytes."""
    batch, tokens = draw.integer(2, 4), draw.integer(3, 6)
    kinds = itertools.cycle((torch.float32, torch.float64, torch.bfloat16))
    return [
        (draw.tensor(batch, tokens, 64, dtype=dtype), steps)
        for steps, dtype in zip(_paths(batch, tokens), kinds, strict=False)
    ]


def _paths(batch: int, tokens: int) -> list[list[Step]]:
    """Ways in which the activations (B, T, 64) really travel: heads split, merged, cut and
    flattened.
    """
    split: list[Step] = [("view", (batch, tokens, 4, 16)), ("transpose", (1, 2))]
    return [
        [*split, ("transpose", (1, 2)), ("reshape", (batch, tokens, 64))],
        [*split, ("reshape", (batch, 4, tokens * 16)), ("contiguous", ()), ("flatten", ())],
        [("narrow", (1, 1, tokens - 1)), ("contiguous", ()), ("view", (-1, 64)), ("t", ())],
        [("narrow", (2, 8, 16)), ("flatten", (0, 1)), ("contiguous", ())],
        [
            ("select", (1, -1)),
            ("unsqueeze", (1,)),
            ("expand", (batch, tokens, 64)),
            ("flatten", (0, 1)),
        ],
    ]


def _bill(x: torch.Tensor, steps: list[Step]) -> list[int]:
    """By mechanism: what the operators of each step put into new storages, as dispatched."""
    bill = []
    for name, arguments in steps:
        with onelayer.count_bytes() as moved:
            x = getattr(x, name)(*arguments)
        bill.append(moved.bytes)
    return bill


@copied_bytes.wrong(
    "first_element_pointer",
    "`t.data_ptr()` is the address of the first element. A slice moves it without copying: "
    "compare the storages' pointers.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        y = getattr(x, name)(*arguments)
        bill.append(0 if y.data_ptr() == x.data_ptr() else y.untyped_storage().nbytes())
        x = y
    return bill


@copied_bytes.wrong(
    "against_the_start",
    "Each step is compared with the very first tensor. After one copy, every later view looks "
    "like a copy too: compare "
    "with the step before.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill, start = [], x.untyped_storage().data_ptr()
    for name, arguments in steps:
        x = getattr(x, name)(*arguments)
        fresh = x.untyped_storage()
        bill.append(0 if fresh.data_ptr() == start else fresh.nbytes())
    return bill


@copied_bytes.wrong(
    "contiguity_mistaken",
    "You charge for every result that is not contiguous. Those are the views; it is the step that "
    "makes them contiguous that copies.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        x = getattr(x, name)(*arguments)
        bill.append(0 if x.is_contiguous() else x.nbytes)
    return bill


@copied_bytes.wrong(
    "every_step_charged",
    "You charge every step for its result. Most steps here only make a new header over the same "
    "floats.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        x = getattr(x, name)(*arguments)
        bill.append(x.nbytes)
    return bill


@copied_bytes.wrong(
    "by_the_name",
    "You charge by the name of the step. `reshape` and `flatten` copy only where no view exists, "
    "contiguous or not: look at the storages.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        suspect = name in ("reshape", "contiguous", "flatten") and not x.is_contiguous()
        x = getattr(x, name)(*arguments)
        bill.append(x.nbytes if suspect else 0)
    return bill


@copied_bytes.wrong("in_elements", "These are elements. The bill is in bytes: storage.nbytes().")
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        y = getattr(x, name)(*arguments)
        before, after = x.untyped_storage(), y.untyped_storage()
        bill.append(0 if after.data_ptr() == before.data_ptr() else y.numel())
        x = y
    return bill


@copied_bytes.wrong(
    "size_of_the_old_storage",
    "The right steps, charged for the storage that they read. What was copied fills the new one.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        y = getattr(x, name)(*arguments)
        before, after = x.untyped_storage(), y.untyped_storage()
        bill.append(0 if after.data_ptr() == before.data_ptr() else before.nbytes())
        x = y
    return bill


@copied_bytes.wrong(
    "no_view_charged",
    "You charge for every result that is no view. `contiguous` and `reshape` may hand back the "
    "tensor of the step before, which is no view and was not copied now: compare storages.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        x = getattr(x, name)(*arguments)
        bill.append(0 if x._is_view() else x.nbytes)
    return bill


@copied_bytes.wrong(
    "one_sum", "This is the bill of the whole path. Give each step its own number, in a list."
)
def _(x: torch.Tensor, steps: list[Step]) -> int:
    total = 0
    for name, arguments in steps:
        y = getattr(x, name)(*arguments)
        before, after = x.untyped_storage(), y.untyped_storage()
        total += 0 if after.data_ptr() == before.data_ptr() else after.nbytes()
        x = y
    return total


@copied_bytes.wrong(
    "four_bytes_each",
    "Each element was counted as 4 bytes. That is float32: `nbytes` knows the dtype.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        y = getattr(x, name)(*arguments)
        old, new = (t.untyped_storage().data_ptr() for t in (x, y))
        bill.append(0 if old == new else 4 * y.numel())
        x = y
    return bill


@copied_bytes.cost
def _(student: Student, draw: Draw) -> str:
    merge = _paths(32, 16)[1]
    bill = student.call("copied_bytes", draw.tensor(32, 16, 64), merge)
    names = [name for (name, _), paid in zip(merge, bill, strict=True) if paid]
    return (
        f"{sum(bill):,} bytes copied by {', '.join(names)} in {len(merge)} steps at batch 32; no "
        "line says copy"
    )
