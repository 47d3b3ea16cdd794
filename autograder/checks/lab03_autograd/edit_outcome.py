"""What an edit between forward and backward does."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autograder.checks.explaining import explaining, saying
from autograder.judge import Draw, Student, expect_equal, within

from . import lab
from .edits import WAYS, Edited, edit, gradients, saves, torchs_outcome

OUTCOMES = ("harmless", "raises", "silent")
COUNTED = (
    "The tensor itself, a view of it and its detach() share one version counter. Backward compares "
    "it with the one that it noted, and refuses."
)
UNCOUNTED = (
    ".data comes with a version counter of its own. torch cannot notice this edit: the gradient is "
    "wrong, and no word is said."
)
VIEWED = (
    "It was not backward that refused: view(-1) cannot flatten a transposed tensor. Any view of "
    "the tensor will do, target[...] for one."
)
BINARY = ("mul", "div", "add", "sub", "matmul")
UNARY = ("exp", "sin", "tanh", "sigmoid", "log", "square", "neg")
FURTHER = ("cos", "sqrt", "reciprocal")
Case = tuple[str, tuple[bool, ...], Edited, str]
ONE, BOTH, FIRST, SECOND = (True,), (True, True), (True, False), (False, True)

# The order separates people: whoever fails at a case has been right about all before it.
ALWAYS: list[Case] = [
    ("exp", ONE, "out", "itself"),
    ("add", BOTH, "out", "itself"),  # here "every edit raises" fails
    ("add", FIRST, "out", "detach"),  # here whoever asks for the gradient of a constant
    ("add", BOTH, 0, "itself"),  # here whoever asks for the gradient of the edited tensor
    ("exp", ONE, 0, "detach"),  # here whoever runs backward twice over one graph
    ("mul", BOTH, 1, "itself"),
    ("mul", FIRST, 0, "itself"),
    ("mul", SECOND, 1, "itself"),
    ("sin", ONE, 0, "itself"),
    ("sin", ONE, 0, "view"),
    ("sin", ONE, 0, "detach"),
    ("exp", ONE, 0, "data"),  # here ".data is always silent"
    ("tanh", ONE, "out", "data"),
    ("matmul", FIRST, 1, "data"),
    ("mul", BOTH, "out", "data"),
    ("add", BOTH, 1, "detach"),  # tells who takes two inputs for saved from who asks the edited
    ("mul", BOTH, 1, "data"),  # here whoever looks at the gradient of the edited input alone
    ("mul", BOTH, 0, "data"),  # here whoever looks at the first gradient alone
]


@lab.question(
    "edit_outcome",
    points=4,
    minutes=15,
    difficulty=3,
    hints=(
        "backward reads nothing but what the node saved. How do you see what that is?",
        "Look at the tensors among out.grad_fn's `_saved_...` attributes. An edit matters if one "
        "of them lies in the storage that was edited. A view and detach() share the version "
        "counter with their tensor; .data does not.",
        'return "harmless" if not saved_here else "silent" if way == "data" else "raises"',
    ),
)
def edit_outcome(student: Student, draw: Draw) -> None:
    """What an in-place edit between forward and backward does: "harmless", "raises" (backward
    refuses), or "silent" (a wrong gradient and no word).

    op: a name in torch; inputs: its one or two tensors (3, 3), leaves of which at least one
    requires a gradient; edited: 0, 1 (an input) or "out"; way: add 1 to the tensor "itself", to a
    "view" of it, to its "detach", or to its "data" -> a string.
    """
    edits = ALWAYS + [_drawn_edit(draw) for _ in draw.cases(8)] + _everywhere()
    cases = [(op, _inputs(draw, learns), edited, way) for op, learns, edited, way in edits]
    (same,) = _inputs(draw, ONE)  # what is saved has the numbers of what is edited, and is another
    cases.insert(8, ("mul", [same, same.detach().clone()], 0, "itself"))
    cases.append(("maximum", [_leaf([0.5, 2.0]), _leaf([1.0, 1.0])], 0, "data"))  # a right sum
    # view(-1) of a transposed tensor raises by itself: it is not backward that refuses.
    for edited in ("out", 0):
        cases.append(("add", _inputs(draw, BOTH, "transposed"), edited, "view"))
    # reshape(-1) copies it, so its edit is lost: seen where the node saved what is edited.
    for way in ("itself", "view"):
        for op, edited in (("exp", "out"), ("sin", 0)):
            cases.append((op, _inputs(draw, ONE, "transposed"), edited, way))
    with explaining({"RuntimeError: view size is not compatible": VIEWED}):
        for case, got in zip(cases, student.each("edit_outcome", cases), strict=True):
            want = torchs_outcome(*case)
            refused_itself = (
                case[3] == "view" and not case[1][0].is_contiguous() and got == "raises"
            )
            why = VIEWED if refused_itself else _why(case[0], got, want)
            with saying(why), within(_who_learns(case[1])):
                expect_equal(got, want)


def _leaf(numbers: list[float]) -> Tensor:
    return torch.tensor(numbers, requires_grad=True)


def _who_learns(inputs: list[Tensor]) -> str:
    """Said where it is one of two: what is saved hangs on it, and their shapes do not tell."""
    learning = [k for k, t in enumerate(inputs) if t.requires_grad]
    return "" if len(learning) == len(inputs) else f"only inputs[{learning[0]}] requires a gradient"


def _why(op: str, got: Any, want: str) -> str:
    """What the right outcome says of this edit, against the one that was named."""
    if not isinstance(got, str) or got not in OUTCOMES:
        return ""
    if want == "harmless":
        return (
            f"The backward of {op} does not read what was edited here: no gradient changes, and "
            "none is refused."
        )
    if got == "harmless":
        return f"The backward of {op} reads what was edited here, so the edit is not harmless."
    return COUNTED if want == "raises" else UNCOUNTED


def _inputs(draw: Draw, learns: tuple[bool, ...], layout: str = "contiguous") -> list[Tensor]:
    drawn = [draw.tensor(3, 3, layout=layout).abs() + 0.5 for _ in learns]
    return [t.requires_grad_(needed) for t, needed in zip(drawn, learns, strict=True)]


def _everywhere() -> list[Case]:
    """Each operation, edited in each of its places, whoever requires a gradient; the ways in
    turn."""
    learning: list[tuple[str, tuple[bool, ...]]] = [(op, ONE) for op in UNARY + FURTHER]
    learning += [(op, learns) for op in BINARY for learns in (BOTH, FIRST, SECOND)]
    places: list[Edited] = ["out", 0, 1]
    edits = [(*each, edited) for each in learning for edited in places[: 1 + len(each[1])]]
    # n // 4: each place, at its turn of two or three, meets all four ways
    return [(*each, WAYS[(n + n // 4) % 4]) for n, each in enumerate(edits)]


def _drawn_edit(draw: Draw) -> Case:
    op = draw.choice(BINARY + UNARY)
    learns = draw.choice([BOTH, FIRST, SECOND]) if op in BINARY else ONE
    places: list[Edited] = ["out", *range(len(learns))]
    return op, learns, draw.choice(places), draw.choice(WAYS)


@edit_outcome.wrong(
    "output_is_safe",
    "The output was called harmless. Some operations save their result, because their derivative "
    "is cheapest in terms of it: exp' is exp itself.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if edited == "out" or not saves(op, inputs, edited):
        return "harmless"
    return "silent" if way == "data" else "raises"


edit_outcome.wrong(
    "every_edit_matters",
    "This edit is harmless: add saved no tensor, because its derivative reads neither its inputs "
    "nor its result. Only an edit of what a node saved matters.",
    edit_outcome=lambda op, inputs, edited, way: "silent" if way == "data" else "raises",
)


@edit_outcome.wrong(
    "input_is_safe",
    "The input was called harmless. The forward has read it already, but the backward reads it "
    "again: mul saved it.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if edited != "out" or not saves(op, inputs, edited):
        return "harmless"
    return "silent" if way == "data" else "raises"


@edit_outcome.wrong(
    "saved_by_name",
    "mul does not always save both inputs. The first one is saved for the gradient of the second, "
    "and here nobody needs that one.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    everybody = [t.detach().clone().requires_grad_() for t in inputs]
    if not saves(op, everybody, edited):
        return "harmless"
    return "silent" if way == "data" else "raises"


@edit_outcome.wrong(
    "view_is_safe",
    "A view has the same floats and the same version counter as its tensor: backward notices.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if way == "view" or not saves(op, inputs, edited):
        return "harmless"
    return "silent" if way == "data" else "raises"


@edit_outcome.wrong(
    "copied_for_a_view",
    "The edit of this transposed tensor was lost: reshape(-1) and flatten() have to copy it, and "
    "nothing is changed but the copy. Any view of the tensor will do, target[...] for one.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    copied = way == "view" and not inputs[0].is_contiguous()
    return "harmless" if copied else torchs_outcome(op, inputs, edited, way)


@edit_outcome.wrong(
    "detach_is_unseen",
    "detach() leaves the graph, but it keeps the version counter: backward notices the edit.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if not saves(op, inputs, edited):
        return "harmless"
    return "silent" if way in ("data", "detach") else "raises"


@edit_outcome.wrong("data_is_noticed", UNCOUNTED)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    return "raises" if saves(op, inputs, edited) else "harmless"


@edit_outcome.wrong(
    "no_error_is_harmless",
    "No error was raised, and still harm was done: the gradient is wrong now. An experiment edits "
    "target.data itself, no copy, and compares with a copy of the gradient without the edit, for a "
    "second backward may write into the same .grad. Or ask whether backward reads what was edited.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    outcome = torchs_outcome(op, inputs, edited, way)
    return "harmless" if outcome == "silent" else outcome


@edit_outcome.wrong(
    "data_is_always_silent",
    ".data hides an edit from backward, but an edit of what nobody saved needs no hiding: it is "
    "harmless.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    return "silent" if way == "data" else torchs_outcome(op, inputs, edited, way)


@edit_outcome.wrong(
    "gradient_of_the_edited_tensor",
    "It was not backward that refused. After an in-place edit the tensor is a new result with a "
    "new grad_fn, and `out` was not computed from it. Ask for the gradients of `inputs`, the "
    "leaves.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    rebased = edited != "out" and way in ("itself", "view") and inputs[int(edited)].requires_grad
    return "raises" if rebased else torchs_outcome(op, inputs, edited, way)


CONSTANT = (
    "One of these inputs requires no gradient, and has none, whatever was edited: "
    "torch.autograd.grad raises when it is asked for one, and .grad is None. Ask only for those "
    "with requires_grad."
)


@edit_outcome.wrong("gradient_of_a_constant", CONSTANT)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    constant = not all(t.requires_grad for t in inputs)
    return "raises" if constant else torchs_outcome(op, inputs, edited, way)


@edit_outcome.wrong("gradient_of_a_constant_raised", CONSTANT)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    out = getattr(torch, op)(*inputs)
    torch.autograd.grad(out.sum(), inputs)
    return torchs_outcome(op, inputs, edited, way)


@edit_outcome.wrong(
    "backward_twice",
    "Backward does not refuse this edit: exp reads its result again, not its input. A second "
    "backward over one graph raises whatever was edited, for the first has freed what the nodes "
    "saved: pass retain_graph=True to the first, or run the forward again.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    leaves = [t for t in inputs if t.requires_grad]
    used = [t.clone() for t in inputs]
    out = getattr(torch, op)(*used)
    before = torch.autograd.grad(out.sum(), leaves)
    edit(out if edited == "out" else used[int(edited)], way)
    try:
        after = torch.autograd.grad(out.sum(), leaves)
    except RuntimeError:
        return "raises"
    same = all(a.equal(b) for a, b in zip(before, after, strict=True))
    return "harmless" if same else "silent"


@edit_outcome.wrong(
    "compared_with_the_edited",
    "The gradient to compare with was computed from the edited numbers. The true one belongs to "
    "the numbers that the forward saw: compute it before the edit.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if torchs_outcome(op, inputs, edited, way) == "raises":
        return "raises"
    moved = [t.detach() + (1.0 if k == edited else 0.0) for k, t in enumerate(inputs)]
    fresh = [t.requires_grad_(old.requires_grad) for t, old in zip(moved, inputs, strict=True)]
    after = gradients(op, inputs, edited, way)
    same = all(a.allclose(b) for a, b in zip(after, gradients(op, fresh), strict=True))
    return "harmless" if same else "silent"


edit_outcome.wrong(
    "everything_raises",
    "Not every edit raises: add saved no tensor, so no edit can harm its backward.",
    edit_outcome=lambda op, inputs, edited, way: "raises",
)


@edit_outcome.wrong(
    "nothing_is_harmless",
    "This edit is harmless, and it was called silent: nothing reads the numbers that changed, so "
    'the gradient is right. "silent" means a wrong gradient.',
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if not saves(op, inputs, edited):
        return "silent"
    return "silent" if way == "data" else "raises"


@edit_outcome.wrong(
    "detach_is_a_copy",
    "An edit of detach() was called harmless. It is no copy: it has the same floats as its tensor, "
    "and the same version counter, so backward notices the edit.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if way == "detach":
        return "harmless"
    if not saves(op, inputs, edited):
        return "harmless"
    return "silent" if way == "data" else "raises"


@edit_outcome.wrong(
    "view_is_unseen",
    "A view shares the version counter of its tensor, so an edit of it raises and is not silent.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if not saves(op, inputs, edited):
        return "harmless"
    return "silent" if way in ("data", "view") else "raises"


@edit_outcome.wrong(
    "only_the_tensor_itself",
    "Not only edits of the tensor itself raise. A view and detach() share its version counter; "
    ".data alone does not.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if not saves(op, inputs, edited):
        return "harmless"
    return "silent" if way != "itself" else "raises"


@edit_outcome.wrong(
    "inputs_are_always_read",
    "An edit of an input was not called harmless here, and it is. Not every operation reads its "
    "inputs again in backward: the derivative of add reads neither of them.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if edited == "out" and not saves(op, inputs, edited):
        return "harmless"
    return "silent" if way == "data" else "raises"


@edit_outcome.wrong(
    "constants_are_never_read",
    "An input that requires no gradient was called harmless. Backward may need its numbers for "
    "the gradient of the other one: a product saves it for that.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if edited != "out" and not inputs[int(edited)].requires_grad:
        return "harmless"
    if not saves(op, inputs, edited):
        return "harmless"
    return "silent" if way == "data" else "raises"


@edit_outcome.wrong(
    "first_input_only",
    "Only the first input was looked at. The second one can be saved as well, and so can the "
    "result.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if edited != 0:
        return "harmless"
    if not saves(op, inputs, edited):
        return "harmless"
    return "silent" if way == "data" else "raises"


@edit_outcome.wrong(
    "first_gradient_only",
    "Only the gradient of the first input that learns was looked at. The edit may spoil the other "
    "one: mul's first input is read for the gradient of its second.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    if torchs_outcome(op, inputs, edited, way) == "raises":
        return "raises"
    after, right = gradients(op, inputs, edited, way), gradients(op, inputs)
    return "harmless" if after[0].equal(right[0]) else "silent"


@edit_outcome.wrong(
    "edited_gradient_only",
    "Only the gradient of the edited input was looked at. In a product it is the other one's that "
    "reads it: ask for the gradients of all inputs that learn.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    truth = torchs_outcome(op, inputs, edited, way)
    if truth != "silent" or isinstance(edited, str) or not inputs[edited].requires_grad:
        return truth
    learning = [k for k, leaf in enumerate(inputs) if leaf.requires_grad]
    after, right = gradients(op, inputs, edited, way), gradients(op, inputs)
    place = learning.index(edited)
    return "harmless" if after[place].equal(right[place]) else "silent"


edit_outcome.wrong(
    "outputs_compared",
    "Edits of the output are silent here, and all others harmless, as where outputs are compared. "
    "What an edit can spoil is the gradient: compare what torch.autograd.grad gives with and "
    "without it.",
    edit_outcome=lambda op, inputs, edited, way: "silent" if edited == "out" else "harmless",
)


@edit_outcome.wrong(
    "equal_numbers",
    "Two tensors with equal numbers were taken for one. An edit changes one storage: compare "
    "where the saved tensor lies, its data_ptr(), and not what is in it.",
)
def _(op: str, inputs: list[Tensor], edited: Edited, way: str) -> str:
    used = [t.detach().clone().requires_grad_(t.requires_grad).clone() for t in inputs]
    out = getattr(torch, op)(*used)
    target = out if edited == "out" else used[int(edited)]
    saved = [getattr(out.grad_fn, name) for name in dir(out.grad_fn) if name.startswith("_saved_")]
    if not any(isinstance(t, Tensor) and t.equal(target) for t in saved):
        return "harmless"
    return "silent" if way == "data" else "raises"


@edit_outcome.cost
def _(student: Student, draw: Draw) -> str:
    inputs = [(draw.tensor(3, 3).abs() + 0.5).requires_grad_()]
    saved_by = {
        op: [
            k
            for k in (0, "out")
            if student.call("edit_outcome", op, inputs, k, "view") != "harmless"
        ]
        for op in UNARY
    }
    groups = {
        what: ", ".join(op for op, kept in saved_by.items() if kept == places)
        for what, places in {"its input": [0], "its result": ["out"], "nothing": []}.items()
    }
    told = "; ".join(f"{what}: {ops}" for what, ops in groups.items())
    return f"what an operation keeps for backward. {told}"
