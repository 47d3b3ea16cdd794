"""The three gradients of the linear layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.judge import Draw, Student

from . import lab
from .several_tensors import expect_each

Triple = tuple[Tensor, Tensor, Tensor]


@lab.question(
    "linear_backward",
    points=4,
    minutes=8,
    difficulty=2,
    hints=(
        "Write y[n, o] = sum over i of x[n, i] * w[o, i] + b[o]. Which of the y's did w[o, i] "
        "touch?",
        "Each gradient has the shape of its tensor, so the shapes leave one product each. "
        "b[o] was added to every row: its paths are the N rows, and paths add up.",
        "dx, dw, db = dy @ w, dy.T @ x, dy.sum(dim=0)",
    ),
)
def linear_backward(student: Student, draw: Draw) -> None:
    """The three gradients of `F.linear(x, w, b)`, by hand.

    dy (N, V), x (N, D), w (V, D) -> (dx (N, D), dw (V, D), db (V,)).
    """
    drawn = [(n, draw.integer(2, 24), draw.integer(2, 24)) for n in draw.sizes(1, 0, high=31)]
    for n, v, d in [(3, 4, 4), (5, 4, 4), *drawn]:
        dy, x, w = draw.tensor(n, v), draw.tensor(n, d, layout=draw.layout()), draw.tensor(v, d)
        got = student.call("linear_backward", dy, x, w)
        expect_each(got, _torchs_linear(dy, x, w), "dx dw db")
    wide = [draw.tensor(*shape, dtype=torch.float64) for shape in ((5, 3), (5, 2), (3, 2))]
    got = student.call("linear_backward", *wide)
    expect_each(got, _torchs_linear(*wide), "dx dw db", tolerance=1e-12)


def _torchs_linear(dy: Tensor, x: Tensor, w: Tensor) -> Triple:
    given = [x.detach().clone(), w.detach().clone(), w.new_zeros(len(w))]
    leaves = [t.requires_grad_() for t in given]
    return torch.autograd.grad(F.linear(*leaves), leaves, dy)  # type: ignore[return-value]


linear_backward.wrong(
    "weight_transposed",
    "This is dW transposed: nn.Linear keeps its weight as (out, in).",
    linear_backward=lambda dy, x, w: (dy @ w, x.T @ dy, dy.sum(0)),
)
linear_backward.wrong(
    "weight_transposed_in_dx",
    "dx multiplies by w.T. The forward already did: y = x @ w.T + b. Going back the transpose goes "
    "away.",
    linear_backward=lambda dy, x, w: (dy @ w.T, dy.T @ x, dy.sum(0)),
)
linear_backward.wrong(
    "bias_not_summed",
    "db has a row for each token. The one bias was read by all of them, and paths add up: sum over "
    "the rows.",
    linear_backward=lambda dy, x, w: (dy @ w, dy.T @ x, dy),
)
linear_backward.wrong(
    "bias_averaged",
    "db is a mean here. Paths add up; the mean belongs to the loss, and dy brings it along.",
    linear_backward=lambda dy, x, w: (dy @ w, dy.T @ x, dy.mean(0)),
)
linear_backward.wrong(
    "bias_over_columns",
    "db is summed over the outputs, so it has an entry for each row. Each output has its own bias, "
    "and all rows read it: sum over the rows.",
    linear_backward=lambda dy, x, w: (dy @ w, dy.T @ x, dy.sum(1)),
)
linear_backward.wrong(
    "weight_averaged",
    "dw and db are divided by the number of rows. A local rule knows nothing of the loss's mean: "
    "dy brings it along.",
    linear_backward=lambda dy, x, w: (dy @ w, dy.T @ x / len(x), dy.mean(0)),
)
linear_backward.wrong(
    "bias_summed_to_a_number",
    "db is one number: everything was summed. Each output has its own bias, so sum over the rows "
    "only.",
    linear_backward=lambda dy, x, w: (dy @ w, dy.T @ x, dy.sum()),
)
linear_backward.wrong(
    "bias_kept_its_rows",
    "The values are right. But db has a row dimension left over: a gradient has the shape of its "
    "tensor, and the bias is (V,).",
    linear_backward=lambda dy, x, w: (dy @ w, dy.T @ x, dy.sum(0, keepdim=True)),
)
linear_backward.wrong(
    "weight_first",
    "All three may be right, but they come in another order: (dx, dw, db) was asked for.",
    linear_backward=lambda dy, x, w: (dy.T @ x, dy @ w, dy.sum(0)),
)
linear_backward.wrong(
    "bias_left_out",
    "The gradient of the bias is missing: (dx, dw, db) was asked for. b is not handed in because "
    "its gradient does not depend on it.",
    linear_backward=lambda dy, x, w: (dy @ w, dy.T @ x),
)


linear_backward.wrong(
    "in_float32",
    "Right for float32. The gradients of float64 tensors are float64 to the last digit: what "
    "`.float()` or a bare torch.zeros makes has seven of them.",
    linear_backward=lambda dy, x, w: tuple(
        t.to(dy.dtype) for t in _torchs_linear(dy.float(), x.float(), w.float())
    ),
)
linear_backward.wrong(
    "bias_of_the_first_row",
    "db is the first row of dy. The one bias was read by all rows, and paths add up.",
    linear_backward=lambda dy, x, w: (
        dy @ w,
        dy.T @ x,
        (dy if len(dy) else dy.new_zeros(1, dy.shape[1]))[0],
    ),
)
linear_backward.wrong(
    "bias_gradient_of_ones",
    "db is all ones: that is how y moves with b. How the loss moves with it is dy, summed over the "
    "rows.",
    linear_backward=lambda dy, x, w: (dy @ w, dy.T @ x, dy.new_ones(dy.shape[1])),
)


@linear_backward.cost
def _(student: Student, draw: Draw) -> str:
    n, v, d = 32, 600, 64
    dy, x, w = draw.tensor(n, v), draw.tensor(n, d), draw.tensor(v, d)
    dx, dw, db = student.call("linear_backward", dy, x, w)
    flops = 2 * n * v * d
    return (
        f"{2 * flops:,} FLOP in two products for the head at batch {n}, twice the forward's "
        f"{flops:,}; {dx.nbytes + dw.nbytes + db.nbytes:,} bytes written"
    )
