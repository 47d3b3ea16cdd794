"""The three gradients of the linear layer."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import (
    MIXED_DTYPES,
    NOTHING_TO_JOIN,
    explaining,
    explaining_nan,
    saying,
)
from autograder.judge import Draw, Student

from . import lab
from .several_tensors import expect_each

Triple = tuple[Tensor, Tensor, Tensor]
_ALONE = {
    "dx": "dw and db are right, dx is not. x[n, i] went into each output of row n, so dx[n, i] "
    "adds up dy[n, o] * w[o, i] over o, and nothing else.",
    "dw": "dx and db are right, dw is not. w[o, i] was read by each row, so dw[o, i] adds up "
    "dy[n, o] * x[n, i] over n, and nothing else.",
    "db": "dx and dw are right, db is not. b[o] was added in each row, so db[o] adds up dy[n, o] "
    "over n, and nothing else.",
}
TURNED = (
    "dx multiplies by w.T. The forward already did: y = x @ w.T + b. Going back the transpose goes "
    "away."
)
NO_ROW = (
    "x has no row here, and dw and db are there all the same: tensors of their shapes, all 0. "
    "Python's `sum` of no tensors is the number 0."
)

NO_MEAN = (
    "x and dy have no row here. A sum over no rows is 0, and a mean over none is 0 / 0, which is "
    "nan: dw and db are sums."
)
_EACH = (
    "dx[n, i] adds up dy[n, o] * w[o, i] over o, dw[o, i] adds up dy[n, o] * x[n, i] over n, and "
    "db[o] adds up dy[n, o] over n."
)

NO_FIRST_ROW = (
    "x and dy have no row here, and so no first one. dx, dw and db are there all the same: take "
    "their shapes from x, from w and from w's rows; dw and db are all 0."
)
NOTHING_TO_STACK = (
    "x and dy have no row here, and torch.stack and torch.cat refuse an empty list. dx has no row "
    "then, and dw and db are all 0: a product or a sum over all rows at once gives them."
)
_RAISED = {
    "IndexError": NO_FIRST_ROW,  # whoever begins with the first row, dy[0], finds none
    **dict.fromkeys(NOTHING_TO_JOIN, NOTHING_TO_STACK),
    "AttributeError: 'int' object": NO_ROW,
}
MIXED = (
    "x, w and dy are float64 here, and torch refuses to mix them with another dtype. What "
    "torch.ones or torch.zeros makes is float32 unless it is told: dtype=dy.dtype."
)


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
    single = [(4, 1, 3), (4, 3, 1), (1, 1, 1)]  # one word, one feature, one of each
    for n, v, d in [(3, 4, 4), (5, 4, 4), (4, 4, 4), *drawn, *single]:
        dy, x, w = draw.tensor(n, v), draw.tensor(n, d, layout=draw.layout()), draw.tensor(v, d)
        with explaining({} if n else _RAISED):
            got = student.call("linear_backward", dy, x, w)
        turned = _of_dx(got, dy, w)
        of_none = {} if n else {"dw": NO_ROW, "db": NO_ROW}
        rule, of_nan = (turned or _EACH, "") if n else (NO_ROW, NO_MEAN)
        with saying(rule), explaining_nan(got, of_nan):
            alone = _ALONE | ({"dx": turned} if turned else {}) | of_none
            expect_each(got, _torchs_linear(dy, x, w), "dx dw db", alone=alone)
    wide = [draw.tensor(*shape, dtype=torch.float64) for shape in ((5, 3), (5, 2), (3, 2))]
    with explaining(dict.fromkeys(MIXED_DTYPES, MIXED)):
        got = student.call("linear_backward", *wide)
    expect_each(got, _torchs_linear(*wide), "dx dw db", tolerance=1e-12, alone=_ALONE)


def _of_dx(got: Any, dy: Tensor, w: Tensor) -> str:
    """A sentence where dx is the product with the transpose, whatever else is wrong."""
    dx = got[0] if isinstance(got, (list, tuple)) and got else None
    if not isinstance(dx, Tensor) or (dx.dtype, dx.shape) != (dy.dtype, dy.shape):
        return ""
    turned = len(w) == w.shape[1] and dx.allclose(dy @ w.T) and not dx.allclose(dy @ w)
    return TURNED if turned else ""


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
    TURNED,
    linear_backward=lambda dy, x, w: (dy @ w.T, dy.T @ x, dy.sum(0)),
)
linear_backward.wrong(
    "bias_not_summed",
    "db has a row for each token. The one bias was read by all of them, and paths add up: sum over "
    "the rows.",
    linear_backward=lambda dy, x, w: (dy @ w, dy.T @ x, dy),
)
BIAS_MEAN = "db is a mean here. Paths add up; the mean belongs to the loss, and dy brings it along."
linear_backward.wrong(
    "bias_averaged",
    BIAS_MEAN,
    linear_backward=lambda dy, x, w: (dy @ w, dy.T @ x, dy.mean(0)),
)
linear_backward.wrong(
    "bias_averaged_over_rows",  # and not over none: 0 where there is no row
    BIAS_MEAN,
    linear_backward=lambda dy, x, w: (dy @ w, dy.T @ x, dy.sum(0) / max(len(dy), 1)),
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
    linear_backward=lambda dy, x, w: (dy @ w, dy.T @ x, torch.ones(dy.shape[1])),
)


linear_backward.wrong(
    "weight_read_anew",
    "dw has the right shape, and its numbers stand in the wrong places: reshape reads x.T @ dy "
    "row by row, and turns nothing. dy.T @ x is the transpose.",
    linear_backward=lambda dy, x, w: (dy @ w, (x.T @ dy).reshape(w.shape), dy.sum(0)),
)


linear_backward.wrong(
    "rows_counted_for_the_bias",
    "db is the number of rows: that is how far the sum of y moves with b. How the loss moves is "
    "dy, summed over the rows.",
    linear_backward=lambda dy, x, w: (
        dy @ w,
        dy.T @ x,
        torch.full((dy.shape[1],), float(len(dy))),
    ),
)


linear_backward.wrong(
    "weight_alone_averaged",
    "dw is divided by the number of rows. A local rule knows nothing of the loss's mean: dy "
    "brings it along.",
    linear_backward=lambda dy, x, w: (dy @ w, dy.T @ x / len(x), dy.sum(0)),
)


linear_backward.wrong(
    "all_averaged",
    "All three are divided by the number of rows. A local rule knows nothing of the loss's mean: "
    "dy brings it along.",
    linear_backward=lambda dy, x, w: (dy @ w / len(x), dy.T @ x / len(x), dy.mean(0)),
)


linear_backward.wrong(
    "averaged_over_all_outputs",
    "Every gradient is divided by the number of elements of y. A local rule takes no mean: "
    "multiply by dy and add up.",
    linear_backward=lambda dy, x, w: tuple(
        t.contiguous() / dy.numel() for t in _torchs_linear(dy, x, w)
    ),
)


linear_backward.wrong(
    "dy_ignored",
    "This is the gradient of the sum of y: dy was not used. Each path begins with what arrives, "
    "dy[n, o].",
    linear_backward=lambda dy, x, w: tuple(
        t.contiguous() for t in _torchs_linear(torch.ones_like(dy), x, w)
    ),
)


linear_backward.wrong(
    "signs_flipped",
    "All three have the wrong sign. A gradient says where the loss grows; the step takes it away, "
    "the backward does not.",
    linear_backward=lambda dy, x, w: (-(dy @ w), -(dy.T @ x), -dy.sum(0)),
)


linear_backward.wrong(
    "weight_for_each_row",
    "dw has a table for each row. All rows read the one weight, and paths add up: sum over the "
    "rows, or let dy.T @ x do it.",
    linear_backward=lambda dy, x, w: (dy @ w, dy[:, :, None] * x[:, None, :], dy.sum(0)),
)


linear_backward.wrong(
    "product_of_sums",
    "dw is a product of two sums over the rows. Multiply within each row first, and then add up "
    "the rows: dy.T @ x.",
    linear_backward=lambda dy, x, w: (dy @ w, dy.sum(0)[:, None] * x.sum(0), dy.sum(0)),
)


linear_backward.wrong(
    "last_row_only",
    "dw and db come from the last row alone, as where each turn of a loop overwrites what the one "
    "before has found. All rows add up.",
    linear_backward=lambda dy, x, w: (dy @ w, dy[-1:].T @ x[-1:], dy[-1:].sum(0)),
)


linear_backward.wrong(
    "weight_for_dx",
    "dx is w itself. w[o, i] is how y[n, o] moves with x[n, i]; multiply by dy[n, o] and add up "
    "over o: dy @ w.",
    linear_backward=lambda dy, x, w: (w, dy.T @ x, dy.sum(0)),
)


linear_backward.wrong(
    "elementwise",
    "dw is dy * x here, element by element. It is a matrix product over the rows: dy.T @ x.",
    linear_backward=lambda dy, x, w: (dy @ w, dy * x, dy.sum(0)),
)


linear_backward.wrong(
    "returned_in_float32",
    "The gradients come as float32, also those of float64 tensors. Each has the dtype of its "
    "tensor: what `.float()` or a bare torch.zeros makes is float32.",
    linear_backward=lambda dy, x, w: tuple(
        t.contiguous() for t in _torchs_linear(dy.float(), x.float(), w.float())
    ),
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
