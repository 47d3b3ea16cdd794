"""A Function that saves no more than torch's own node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import onelayer
from autograder.checks.explaining import MIXED_DTYPES, explaining, saying
from autograder.judge import (
    Draw,
    Rules,
    Student,
    Wrong,
    answer_room,
    expect_tensors,
    same_memory,
)

from . import harness, lab
from .answers import (
    LEARNING,
    MIXED,
    Answers,
    Maybe,
    expect_answers,
    expect_named,
    parts,
)

NO_BIAS = "y lacks the bias: this is x @ w.T alone. Add b where it is not None."
_Y = "y is x @ w.T, with b added to each row where there is a b."
_READS = (
    "dx is a product of dy and w, dw one of dy and x, and db is the sum of dy over the rows, each "
    "in the shape of its tensor."
)

_NEEDED = (
    "Who needs a gradient got None. dx reads w, dw reads x: what a needed gradient reads is saved "
    "for it, by one call of save_for_backward, and None is for whoever needs none."
)

_RAISED = {
    "NoFunction": "The node behind y is not that of a Function: y is what `LinearFn.apply` "
    "returns, and torch's own node shows nothing of what yours would save.",
    "RuntimeError: function LinearFnBackward returned an incorrect number": "torch counts the "
    "answers of the tuple that backward returns: one for each input of forward, x, w and b, None "
    "among them. A list counts as one answer.",
    "RuntimeError: Function ": "What backward returns stands in the order of forward's arguments, "
    "one for each, and each has the shape of its argument.",
}


@lab.question(
    "linear_fn",
    points=4,
    minutes=15,
    difficulty=2,
    hints=(
        "Write the three gradients down first. Which of x and w does each of them read?",
        "dx = dy @ w reads w, dw = dy.T @ x reads x, db reads neither. So x is saved for dw, and w "
        "for dx: `ctx.needs_input_grad` says who is needed, and None may be saved too.",
        "ctx.save_for_backward(x if w_needed else None, w if x_needed else None)",
    ),
)
def linear_fn(student: Student, draw: Draw) -> None:
    """A torch.autograd.Function for y = x @ w.T + b that honours needs_input_grad.

    x (N, D), w (V, D), b (V,) or None, dy (N, V) -> (y, the tensors that its node saved, its
    backward's answers (dx, dw, db), with None for each that nobody needs).
    """
    without_b = ((True, True, False), (False, True, False), (True, False, False))
    always = [(needs, True) for needs in LEARNING] + [(needs, False) for needs in without_b]
    drawn = [(draw.choice(LEARNING), draw.choice((True, False))) for _ in draw.cases(3)]
    with answer_room(student, harness, ["linear_fn"], Rules()) as room:
        for needs, with_bias in always + drawn:
            _ask(room, draw, needs, with_bias or not any(needs[:2]))
        _ask(room, draw, (True, True, True), True, n=1)
        _ask(room, draw, (True, True, True), True, v=1)
        _ask(room, draw, (True, True, True), True, dtype=torch.float64)
        _ask(room, draw, (True, True, True), True, layout="transposed")


def _ask(
    room: Student,
    draw: Draw,
    needs: tuple[bool, ...],
    with_bias: bool,
    *,
    n: int = 0,
    v: int = 0,
    dtype: torch.dtype = torch.float32,
    layout: str = "contiguous",
) -> None:
    n, v, d = n or draw.integer(2, 9), v or draw.integer(10, 19), draw.integer(20, 29)
    x = draw.tensor(n, d, dtype=dtype, layout=layout, requires_grad=needs[0])
    w = draw.tensor(v, d, dtype=dtype, layout=layout, requires_grad=needs[1])
    b = draw.tensor(v, dtype=dtype, requires_grad=needs[2]) if with_bias else None
    dy = draw.tensor(n, v, dtype=dtype)
    tolerance = 1e-12 if dtype is torch.float64 else 1e-5
    mixed = dict.fromkeys(MIXED_DTYPES, MIXED) if dtype is torch.float64 else {}
    with explaining(_RAISED | mixed):
        got = room.call("linear_fn", x, w, b, dy)
    y, saved, answers = parts(got, "y, saved, answers")
    is_like_x = isinstance(y, Tensor) and y.dtype == dtype
    with saying(NO_BIAS if is_like_x and b is not None and y.equal(F.linear(x, w)) else _Y):
        expect_named("y", y, F.linear(x, w, b).detach(), tolerance=tolerance)
    want = _torchs_linear(x, w, b, dy)
    with saying(_NEEDED if _is_one_missing(answers, want) else _READS):
        expect_answers(answers, want, "dx dw db", tolerance=tolerance)
    _expect_saved(expect_tensors(saved, "a list of tensors to save"), x, w, b)


def _is_one_missing(answers: Any, want: Answers) -> bool:
    """Whether a gradient that somebody needs is None."""
    if not isinstance(answers, (list, tuple)) or len(answers) != len(want):
        return False
    return any(a is None and g is not None for a, g in zip(answers, want, strict=True))


def _torchs_linear(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> Answers:
    inputs = [x, w, b]
    learning = [t for t in inputs if t is not None and t.requires_grad]
    found = iter(torch.autograd.grad(F.linear(x, w, b), learning, dy))
    dx, dw, db = (next(found) if t is not None and t.requires_grad else None for t in inputs)
    return dx, dw, db


def _expect_saved(saved: list[Tensor], x: Tensor, w: Tensor, b: Maybe) -> None:
    """The node must have saved what torch's own node of this call saved."""
    node = F.linear(x, w, b).grad_fn
    torchs = [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
    want = _names([t for t in torchs if isinstance(t, Tensor)], x, w, b)
    got = _names(saved, x, w, b)
    if got == want:
        return
    why = "Something was saved that no needed gradient reads."
    if got - want == {"x"}:
        why = "x was saved, and nobody reads it here: only dw does, and w needs no gradient."
    elif got - want == {"w"}:
        why = "w was saved, and nobody reads it here: only dx does, and x needs no gradient."
    if "a copy" in got:
        why = "What was saved is a new tensor: save the input itself, and no byte is copied."
    elif "b" in got:
        why = "The bias was saved, and no gradient reads it: db is a sum of dy."
    elif not want <= got:
        why = (
            "The node has not saved what its backward read, so it was kept elsewhere: torch knows "
            "nothing of it, checks no version and frees nothing."
        )
    raise Wrong(expected=_listed(want), got=_listed(got), where="in what the node saved", why=why)


def _names(tensors: Sequence[Tensor], x: Tensor, w: Tensor, b: Maybe) -> set[str]:
    inputs = {"x": x, "w": w} if b is None else {"x": x, "w": w, "b": b}
    return {
        next((name for name, given in inputs.items() if same_memory(t, given)), "a copy")
        for t in tensors
    }


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _linear_saved(x: Tensor, w: Tensor) -> list[Tensor]:
    return [t for t, reader in ((x, w), (w, x)) if reader.requires_grad]


def _plain(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> tuple[Tensor, list[Tensor], Answers]:
    return F.linear(x, w, b).detach(), _linear_saved(x, w), _torchs_linear(x, w, b, dy)


LinearAnswer = tuple[Tensor, list[Tensor], Sequence[Maybe]]


@linear_fn.wrong(
    "everybody_answered",
    "A gradient was computed that nobody asked for: a product thrown away. needs_input_grad says "
    "who needs one; the others get None.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, _, _ = _plain(x, w, b, dy)
    x, w = x.detach(), w.detach()
    return y, [x, w], (dy @ w, dy.T @ x, None if b is None else dy.sum(0))


@linear_fn.wrong(
    "everything_saved",
    "The answers are right, but more was saved than they need here. Only dw reads x again, and "
    "only dx reads w: save each where that gradient is needed. In a deep net x is the memory.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, _, answers = _plain(x, w, b, dy)
    return y, [x, w], answers


@linear_fn.wrong(
    "kept_as_attributes",
    "The node saved nothing, and backward worked all the same: the tensors are kept past torch. "
    "Whatever keeps them, an attribute of ctx or any other, torch then checks no version, and an "
    "edit in place gives a wrong gradient without a word. Use save_for_backward.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, _, answers = _plain(x, w, b, dy)
    return y, [], answers


@linear_fn.wrong(
    "own_need",
    "Your backward found None where it read a tensor. Save x for dw and w for dx, not each for its "
    "own gradient; and ask in backward, too, who needs a gradient before you compute it.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, _, (_, _, db) = _plain(x, w, b, dy)
    own: list[Any] = [t.detach() if t.requires_grad else None for t in (x, w)]
    dx = dy @ own[1] if x.requires_grad else None
    dw = dy.T @ own[0] if w.requires_grad else None
    return y, [t for t in own if t is not None], (dx, dw, db)


@linear_fn.wrong(
    "transposed_copy_saved",
    "The weight was copied before it was saved. Saving costs nothing only if it is the input "
    "itself, or a view of it.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, _, answers = _plain(x, w, b, dy)
    kept = [x] if w.requires_grad else []
    return y, kept + ([w.detach().T.contiguous()] if x.requires_grad else []), answers


@linear_fn.wrong(
    "weight_transposed",
    "This is dW transposed: a gradient has the shape of its tensor, (V, D).",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, (dx, dw, db) = _plain(x, w, b, dy)
    return y, saved, (dx, None if dw is None else x.detach().T @ dy, db)


@linear_fn.wrong(
    "bias_has_no_answer",
    "Without a bias there are only two answers here. forward had three inputs, so backward gives "
    "three answers, in their order: None for b.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, answers = _plain(x, w, b, dy)
    return y, saved, answers if b is not None else answers[:2]


@linear_fn.wrong(
    "bias_not_summed",
    "db has a row for each token. All rows read the one bias, and paths add up.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, (dx, dw, db) = _plain(x, w, b, dy)
    return y, saved, (dx, dw, None if db is None else dy)


@linear_fn.wrong(
    "bias_kept_its_rows",
    "The values are right. But db has a row dimension left over: a gradient has the shape of its "
    "tensor, and the bias is (V,).",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, (dx, dw, db) = _plain(x, w, b, dy)
    return y, saved, (dx, dw, None if db is None else dy.sum(0, keepdim=True))


@linear_fn.wrong(
    "bias_summed_to_a_number",
    "db was summed to one number. The bias has an entry for each output, and so has its gradient: "
    "sum over the rows alone, dim=0.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, (dx, dw, db) = _plain(x, w, b, dy)
    return y, saved, (dx, dw, None if db is None else dy.sum())


@linear_fn.wrong(
    "bias_summed_over_outputs",
    "db was summed over the outputs: it has a number for each token. The bias has one for each "
    "output, so the sum goes over the rows, dim=0.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, (dx, dw, db) = _plain(x, w, b, dy)
    return y, saved, (dx, dw, None if db is None else dy.sum(1))


@linear_fn.wrong(
    "weight_first",
    "dw came first, and dx second. torch hands the first answer to the first input of forward, "
    "which is x.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, (dx, dw, db) = _plain(x, w, b, dy)
    return y, saved, (dw, dx, db)


@linear_fn.wrong(
    "bias_not_added",
    NO_BIAS,
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    _, saved, answers = _plain(x, w, b, dy)
    return F.linear(x, w).detach(), saved, answers


@linear_fn.wrong(
    "rows_squeezed",
    "Right for several rows. With one row y has lost a dimension: squeeze takes away every "
    "dimension of size 1, and y is (N, V) for N = 1, too.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, answers = _plain(x, w, b, dy)
    return y.squeeze(), saved, answers


@linear_fn.wrong(
    "in_float32",
    "Right for float32. What is made of float64 tensors is float64 to the last digit: float32 on "
    "the way, as from `.float()`, leaves seven of them.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, answers = _plain(x, w, b, dy)
    return (
        y.float().to(y.dtype),
        saved,
        [g if g is None else g.float().to(g.dtype) for g in answers],
    )


@linear_fn.wrong("bias_twice", "The bias was added twice.")
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, answers = _plain(x, w, b, dy)
    return y if b is None else y + b.detach(), saved, answers


@linear_fn.wrong(
    "db_of_the_first_row",
    "db is the first row of dy. All rows read the one bias, and paths add up.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, (dx, dw, db) = _plain(x, w, b, dy)
    return y, saved, (dx, dw, None if db is None else dy[0])


@linear_fn.wrong(
    "none_added",
    "b may be None, and None cannot be added. Add b only where there is one: F.linear does.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, answers = _plain(x, w, b, dy)
    return y if b is not None else y + b, saved, answers  # type: ignore[operator]


@linear_fn.wrong(
    "weight_not_transposed",
    "x is (N, D) and w is (V, D): x @ w does not fit. y is x @ w.T.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    _, saved, answers = _plain(x, w, b, dy)
    return x.detach() @ w.detach(), saved, answers


@linear_fn.wrong(
    "dx_by_the_transpose",
    "dy is (N, V) and w is (V, D): dy @ w.T does not fit. dx is dy @ w, and w is not transposed.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, (dx, dw, db) = _plain(x, w, b, dy)
    return y, saved, (None if dx is None else dy @ w.detach().T, dw, db)


@linear_fn.wrong("bias_saved", "The bias was saved, and no gradient reads it: db is a sum of dy.")
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, answers = _plain(x, w, b, dy)
    return y, saved if b is None else [*saved, b], answers


@linear_fn.wrong(
    "output_saved",
    "y was saved besides, and no gradient reads it: dx reads w, dw reads x, db neither.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, answers = _plain(x, w, b, dy)
    return y, [*saved, y], answers


@linear_fn.wrong(
    "input_copied",
    "An input was copied before it was saved. Saving the input itself costs nothing, and a copy of "
    "it costs its bytes once more.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, answers = _plain(x, w, b, dy)
    return y, [t.detach().clone() if t is x else t for t in saved], answers


@linear_fn.wrong(
    "two_answers",
    "backward gave two answers. forward had three inputs, so the third answer is for b.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, answers = _plain(x, w, b, dy)
    return y, saved, answers[:2]


@linear_fn.wrong(
    "bias_averaged",
    "db is a mean over the rows. All rows read the one bias, and paths add up: take the sum.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, (dx, dw, db) = _plain(x, w, b, dy)
    return y, saved, (dx, dw, None if db is None else dy.mean(0))


@linear_fn.wrong(
    "bias_always_answered",
    "db was computed where b needs no gradient. The answer for b hangs on needs_input_grad, too.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, (dx, dw, _) = _plain(x, w, b, dy)
    return y, saved, (dx, dw, None if b is None else dy.sum(0))


@linear_fn.wrong(
    "bias_never_answered",
    "b learns here, and db is None. It is the sum of dy over the rows.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, (dx, dw, _) = _plain(x, w, b, dy)
    return y, saved, (dx, dw, None)


@linear_fn.wrong(
    "bias_with_the_weight",
    "db is None where w is frozen, and b learns here. Each of the three is asked for itself: db is "
    "the sum of dy, whoever else learns.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, (dx, dw, db) = _plain(x, w, b, dy)
    return y, saved, (dx, dw, db if w.requires_grad else None)


@linear_fn.wrong(
    "zeros_for_frozen",
    "Whoever needs no gradient got a tensor of zeros. None says the same, and costs nothing.",
)
def _(x: Tensor, w: Tensor, b: Maybe, dy: Tensor) -> LinearAnswer:
    y, saved, answers = _plain(x, w, b, dy)
    given = zip((x, w, b), answers, strict=True)
    zeros = [torch.zeros_like(t) if g is None and t is not None else g for t, g in given]
    return y, saved, zeros


@linear_fn.cost
def _(student: Student, draw: Draw) -> str:
    layer, n = onelayer.head(), 32
    w, b = layer.weight, layer.bias
    x, dy = draw.tensor(n, w.shape[1]), draw.tensor(n, w.shape[0])
    with answer_room(student, harness, ["linear_fn"], Rules()) as room:
        first = sum(t.nbytes for t in room.call("linear_fn", x, w, b, dy)[1])
        inner = sum(t.nbytes for t in room.call("linear_fn", x.requires_grad_(), w, b, dy)[1])
    flops = 2 * n * w.numel()
    return (
        f"the head at batch {n} saves {first:,} bytes and computes {flops:,} FLOP where x needs no "
        f"gradient, {inner:,} bytes and {2 * flops:,} FLOP where it does; none of them is copied"
    )
