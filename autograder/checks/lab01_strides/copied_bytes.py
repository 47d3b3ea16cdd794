"""What each step of a forward path copies."""

from __future__ import annotations

import itertools
from collections.abc import Callable
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
    cases = [case for _ in draw.cases(2) for case in _walks(draw)] + _further(draw)
    for case, got in zip(cases, student.each("copied_bytes", cases), strict=True):
        want = _bill(*case)
        expect_equal(got, want, why=_first_wrong(got, want, case[1]))


def _first_wrong(got: Any, want: list[int], steps: list[Step]) -> str:
    """What the first step did that is charged wrongly; "" where the verdict has a better word."""
    if isinstance(got, dict):
        return "A step may come twice. A list is asked for, with a number for each step."
    if not isinstance(got, (list, tuple)):
        return ""
    if len(got) != len(want):
        return f"A number for each step is asked for, 0 too: {len(want)} in all."
    if not all(isinstance(n, (int, float)) for n in got):
        return ""
    pairs = list(zip(got, want, strict=True))
    wrong = [k for k, (mine, right) in enumerate(pairs) if mine != right]
    if not wrong:
        return "The values are right. Bytes are counted in whole numbers: int."
    if wrong == [k for k, n in enumerate(want) if n] and len(set(got)) > 1:
        named = {mine / right for mine, right in pairs if right and not isinstance(mine, bool)}
        if named == {2.0}:
            return (
                "Twice as much as was copied. Charged is only what a step wrote, in bytes of its "
                "dtype, and not what it read."
            )
    k = wrong[0]
    if want[k]:
        return (
            f"Step {k}, {steps[k][0]}, copied: its result fills a new storage of {want[k]} bytes."
        )
    if steps[k][0] in _MAY_COPY:
        return (
            f"Step {k}, {steps[k][0]}, copied nothing: its result lies in the storage of its "
            "input. This method copies only where it must, so its name does not tell."
        )
    return f"Step {k}, {steps[k][0]}, copied nothing: its result lies in the storage of its input."


_MAY_COPY = ("reshape", "contiguous", "flatten", "float", "double", "half", "long")


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
        [("repeat", (2, 1, 1)), ("float", ()), ("transpose", (0, 1)), ("double", ())],
        [("double", ()), ("half", ())],
    ]


def _further(draw: Draw) -> list[tuple[torch.Tensor, list[Step]]]:
    """What a step does not tell by its name, nor its result by its shape, its dtype or its order:
    a clone is a copy, other numbers may be a view, and x may be one from the start."""
    again: list[Step] = [("float", ()), ("reshape", (2, 3, 8)), ("contiguous", ()), ("detach", ())]
    return [
        (draw.tensor(2, 3, 8), [*again, ("clone", ()), ("clone", ()), ("flatten", ())]),
        (draw.tensor(50, 60), [("clone", ())] * 40),  # an address comes again
        (draw.tensor(), [("double", ()), ("clone", ()), ("reshape", (1,))]),
        (draw.tensor(2, 3, 8), [("view", (torch.int32,)), ("float", ()), ("view", (torch.int16,))]),
        (draw.tensor(2, 3, 8), [("transpose", (0, 2)), ("clone", ()), ("transpose", (0, 2))]),
        (draw.tensor(2, 3, 8), [("narrow", (2, 2, 1)), ("select", (0, -1)), ("clone", ())]),
        (
            draw.tensor(2, 3, 8),
            [("narrow_copy", (1, 1, 2)), ("unfold", (2, 3, 1)), ("squeeze", ())],
        ),
        (draw.tensor(2, 3, 8, layout="offset"), [("contiguous", ()), ("view", (6, 8))]),
        (draw.tensor(2, 3, 8, layout="transposed"), [("contiguous", ()), ("contiguous", ())]),
        (draw.tensor(2, 3, 8, layout="expanded"), [("select", (0, 1)), ("contiguous", ())]),
        (draw.tensor(2, 3, 8, layout="expanded"), [("contiguous", ()), ("select", (0, 1))]),
        (draw.tensor(2, 3, 8, layout="strided"), [("flatten", ()), ("long", ()), ("long", ())]),
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
    "After one copy every later view was charged too, as where each step is compared with the "
    "very first tensor. Compare with the step before.",
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
    "A `flatten` of what is not contiguous was charged here, and it was a view. `reshape` and "
    "`flatten` copy only where no view exists, contiguous or not: look at the storages.",
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
    "A result that is no view was charged, and nothing was copied for it: `contiguous` may hand "
    "back the tensor of the step before. Compare storages.",
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


def _charging(
    name: str, sentence: str, charge: Callable[[torch.Tensor, torch.Tensor], Any]
) -> None:
    """charge: what a step from x to y is charged."""

    def answer(x: torch.Tensor, steps: list[Step]) -> list[Any]:
        bill = []
        for step, arguments in steps:
            y = getattr(x, step)(*arguments)
            bill.append(charge(x, y))
            x = y
        return bill

    copied_bytes.wrong(name, sentence, copied_bytes=answer)


def _copied(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.untyped_storage().data_ptr() != y.untyped_storage().data_ptr()


_charging(
    "every_result_not_made_of_x",
    "A view of a view was charged. Its base is the first tensor and not that of the step before, "
    "so `y._base is x` does not tell: compare storages.",
    lambda x, y: 0 if y._base is x else y.nbytes,
)
_charging(
    "contiguity_of_the_input",
    "You charge whenever a step reads what is not contiguous. `transpose` reads it too, and copies "
    "nothing: compare storages.",
    lambda x, y: 0 if x.is_contiguous() else y.nbytes,
)
_charging(
    "made_contiguous_charged",
    "You charge wherever a result is contiguous and its input was not. A second `transpose` does "
    "that without a copy: compare storages.",
    lambda x, y: y.nbytes if y.is_contiguous() and not x.is_contiguous() else 0,
)
_charging(
    "yes_or_no",
    "This says whether a step copied. How many bytes it copied is asked for.",
    lambda x, y: int(_copied(x, y)),
)
_charging(
    "true_or_false",
    "This says whether a step copied. How many bytes it copied is asked for.",
    _copied,
)
_charging(
    "growth_of_the_storage",
    "You charge for how much larger the storage became. A copy fills all of its new storage, also "
    "one as large as before.",
    lambda x, y: y.untyped_storage().nbytes() - x.untyped_storage().nbytes(),
)
_charging(
    "number_of_elements_compared",
    "You charge where the number of elements changes. A copy may hold as many as before, and a "
    "slice holds fewer without a copy: compare storages.",
    lambda x, y: 0 if x.numel() == y.numel() else y.nbytes,
)
_charging(
    "size_of_the_input",
    "The right steps, charged for the elements that they read. What was copied fills the new "
    "storage.",
    lambda x, y: x.nbytes if _copied(x, y) else 0,
)
_charging(
    "item_size_of_the_input",
    "The new elements were counted with the size of the old ones. A step such as `double` changes "
    "the dtype.",
    lambda x, y: y.numel() * x.element_size() if _copied(x, y) else 0,
)
_charging(
    "copies_free",
    "The wrong way round: a step whose result lies in the same storage is a view, and costs "
    "nothing.",
    lambda x, y: 0 if _copied(x, y) else y.nbytes,
)
_charging(
    "read_and_written",
    "Twice as much as was copied. Charged is only what a step wrote, in bytes of its dtype, and "
    "not what it read.",
    lambda x, y: 2 * y.nbytes if _copied(x, y) else 0,
)
_charging(
    "first_element_pointer_and_elements",
    "`t.data_ptr()` is the address of the first element. A slice moves it without copying: "
    "compare the storages' pointers.",
    lambda x, y: 0 if y.data_ptr() == x.data_ptr() else y.nbytes,
)


@copied_bytes.wrong(
    "each_step_on_x",
    "Each step was called on the x of the beginning. It is called on the result of the step "
    "before: x = y.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    results = [getattr(x, name)(*arguments) for name, arguments in steps]
    return [y.nbytes if _copied(x, y) else 0 for y in results]


@copied_bytes.wrong(
    "always_by_the_name",
    "A `reshape` was charged here, and it was a view. `reshape` and `contiguous` copy only where "
    "they must: look at the storages.",
)
def _(x: torch.Tensor, steps: list[Step]) -> list[int]:
    bill = []
    for name, arguments in steps:
        x = getattr(x, name)(*arguments)
        bill.append(x.nbytes if name in ("reshape", "contiguous", "clone") else 0)
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
