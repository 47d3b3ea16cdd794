"""The backward of linear's backward."""

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
from .answers import MIXED, Triple, expect_answers

WIDE = (20, 21, 22)
"""Sizes that nothing else has: they come last, and in float64."""

_ALONE = (
    "d_x and d_w are right, d_dy is not. dy was read three times, for dx, dw and db: three paths "
    "add up, each of them once and whole.",
    "d_dy and d_w are right, d_x is not. Only dw read x: d_x is made of dy and gw, and of nothing "
    "else.",
    "d_dy and d_x are right, d_w is not. Only dx read w: d_w is made of dy and gx, and of nothing "
    "else.",
)
_TOGETHER = (
    "More than one of the three is wrong. dy was read for dx, dw and db, so d_dy adds up three "
    "paths. Only dw read x, and only dx read w: d_x and d_w have one path each."
)
_SHAPES = "d_dy has the shape of dy, (N, V), d_x that of x, (N, D), and d_w that of w, (V, D)."
_EMPTY = (
    "x, dy and gx have no row here. So d_dy (0, V) and d_x (0, D) have none, and d_w, a sum over "
    "the rows, is a tensor (V, D) of zeros."
)
_COLUMN = (
    "gb was added as a column, one entry for each row. Its V entries go along the outputs, so each "
    "row of dy gets gb as it is."
)
NO_ROW = (
    "x, dy and gx have no row here, and torch.stack and torch.cat refuse an empty list, as an "
    "empty tensor has no first row. d_dy and d_x have no row then, and d_w is all 0: products over "
    "all rows at once give them."
)
_RAISED = dict.fromkeys(("IndexError", *NOTHING_TO_JOIN), NO_ROW)


@lab.question(
    "linear_double_backward",
    points=4,
    minutes=12,
    difficulty=4,
    hints=(
        "Write the three lines of 4.1's backward, and under each input of theirs who read it: dy "
        "stands in all three.",
        "dx = dy @ w is a linear layer with dy as its input and w.T as its weight, dw = dy.T @ x "
        "another one. d_dy adds up three paths, d_x comes from dw alone, d_w from dx alone.",
        "d_dy = gx @ w.T + x @ gw.T + gb",
    ),
)
def linear_double_backward(student: Student, draw: Draw) -> None:
    """The backward of linear's backward: the gradients of dy, x and w, given those of dx, dw, db.

    x (N, D), w (V, D), dy (N, V), gx (N, D), gw (V, D), gb (V,) -> (d_dy (N, V), d_x (N, D),
    d_w (V, D)).
    """
    drawn = [(n, draw.integer(2, 19), draw.integer(2, 19)) for n in draw.sizes(1, 0, high=19)]
    single = [(4, 1, 3), (4, 3, 1), (1, 1, 1)]  # one word, one feature, one of each
    for n, v, d in [(3, 4, 5), (4, 4, 4), *drawn, *single, WIDE]:
        dtype = torch.float64 if (n, v, d) == WIDE else torch.float32
        shapes = (n, d), (v, d), (n, v), (n, d), (v, d), (v,)
        given = [draw.tensor(*shape, dtype=dtype) for shape in shapes]
        raised = {} if n else _RAISED
        if dtype is torch.float64:
            raised = dict.fromkeys(MIXED_DTYPES, MIXED)
        with explaining(raised):
            got = student.call("linear_double_backward", *given)
        tolerance = 1e-12 if dtype is torch.float64 else 1e-5
        want = _torchs_double(*given)
        why = _rule(got, want, given[-1]) if n else _EMPTY
        with saying(why), explaining_nan(got, "" if n else _EMPTY):
            expect_answers(got, want, "d_dy d_x d_w", tolerance=tolerance)


def _rule(got: Any, want: Triple, gb: Tensor) -> str:
    """The rule that the wrong ones of the three break."""
    if not isinstance(got, (list, tuple)) or len(got) != len(want):
        return ""
    wrong: list[str] = []
    for why, mine, right in zip(_ALONE, got, want, strict=True):
        if not isinstance(mine, Tensor) or mine.shape != right.shape:
            return _SHAPES
        if (mine.dtype, mine.device, mine.layout) != (right.dtype, right.device, right.layout):
            return ""
        wrong += [] if _close(mine, right) else [why]
    if wrong == [_ALONE[0]] and len(gb) == len(want[0]) > 1:
        return _COLUMN if _close(got[0], want[0] - gb + gb[:, None]) else wrong[0]
    return wrong[0] if len(wrong) == 1 else _TOGETHER if wrong else ""


def _close(mine: Tensor, right: Tensor) -> bool:
    return bool((mine.detach() - right).abs().max() <= 1e-5 * right.abs().max())


def _torchs_double(x: Tensor, w: Tensor, dy: Tensor, *g: Tensor) -> Triple:
    x, w, dy = (t.detach().clone().requires_grad_() for t in (x, w, dy))
    b = w.new_zeros(len(w)).requires_grad_()
    first = torch.autograd.grad(F.linear(x, w, b), (x, w, b), dy, create_graph=True)
    return torch.autograd.grad(first, (dy, x, w), g)  # type: ignore[return-value]


@linear_double_backward.wrong(
    "linear_so_nothing",
    "All zero. y is linear in x, and also in w, but their product is not: dx reads w, and dw reads "
    "x.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return torch.zeros_like(dy), torch.zeros_like(x), torch.zeros_like(w)


linear_double_backward.wrong(
    "through_dx_alone",
    "d_dy has the path through dx alone. dw and db read dy as well: three paths, and paths add up.",
    linear_double_backward=lambda x, w, dy, gx, gw, gb: (gx @ w.T, dy @ gw, dy.T @ gx),
)
linear_double_backward.wrong(
    "bias_path_forgotten",
    "The path through db is missing in d_dy. db = dy.sum(dim=0), so each row of dy gets gb.",
    linear_double_backward=lambda x, w, dy, gx, gw, gb: (gx @ w.T + x @ gw.T, dy @ gw, dy.T @ gx),
)


@linear_double_backward.wrong(
    "first_backward_again",
    "d_x and d_w are dx and dw of the first backward. Now the question is who read x: dw did, so "
    "what arrives is gw.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ w.T + x @ gw.T + gb, dy @ w, dy.T @ x


@linear_double_backward.wrong(
    "weight_transposed",
    "d_w is transposed: compare shapes, w is (V, D).",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ w.T + x @ gw.T + gb, dy @ gw, gx.T @ dy


@linear_double_backward.wrong(
    "reshaped",
    "d_w has the numbers of gx.T @ dy, laid anew into the shape of w, so most of them stand in "
    "another place. A transpose moves them right: dy.T @ gx.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ w.T + x @ gw.T + gb, dy @ gw, (gx.T @ dy).reshape(w.shape)


@linear_double_backward.wrong(
    "arrivals_exchanged",
    "d_x was made of gx, and d_w of gw. x was read by dw, so gw arrives for it. w was read by dx, "
    "so gx does.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ w.T + x @ gw.T + gb, gx * (dy @ w), gw * (dy.T @ x)


@linear_double_backward.wrong(
    "bias_summed_to_a_number",
    "gb was summed to one number. It has an entry for each output, and each row of dy gets all of "
    "it: add gb as it is.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ w.T + x @ gw.T + gb.sum(), dy @ gw, dy.T @ gx


linear_double_backward.wrong(
    "dw_forgotten",
    "The path through dw is missing in d_dy. dw = dy.T @ x reads dy too, and gw is what arrives "
    "for it: x @ gw.T has the shape of dy.",
    linear_double_backward=lambda x, w, dy, gx, gw, gb: (gx @ w.T + gb, dy @ gw, dy.T @ gx),
)


@linear_double_backward.wrong(
    "seeds_added",
    "d_x has gx in it, and d_w has gw. What arrives for dx goes on to those that dx was made of, "
    "dy and w: it is no gradient of x.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ w.T + x @ gw.T + gb, dy @ gw + gx, dy.T @ gx + gw


@linear_double_backward.wrong(
    "inputs_first",
    "All three may be right, but they come in another order: (d_dy, d_x, d_w) was asked for.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return dy @ gw, dy.T @ gx, gx @ w.T + x @ gw.T + gb


@linear_double_backward.wrong(
    "gw_not_transposed",
    "gw has the shape of dw, (V, D). On the way to dy, (N, V), x (N, D) multiplies its transpose: "
    "x @ gw.T.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ w.T + x @ gw + gb, dy @ gw, dy.T @ gx


@linear_double_backward.wrong(
    "in_float32",
    "Right for float32. What is made of float64 tensors is float64 to the last digit: float32 on "
    "the way, as from `.float()`, leaves seven of them.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    a, b, c = _torchs_double(*(t.float() for t in (x, w, dy, gx, gw, gb)))
    return a.to(x.dtype), b.to(x.dtype), c.to(x.dtype)


linear_double_backward.wrong(
    "dx_forgotten",
    "The path through dx is missing in d_dy. dx = dy @ w reads dy, and gx is what arrives for it: "
    "gx @ w.T has the shape of dy.",
    linear_double_backward=lambda x, w, dy, gx, gw, gb: (x @ gw.T + gb, dy @ gw, dy.T @ gx),
)


def _d_dy(x: Tensor, w: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Tensor:
    return gx @ w.T + x @ gw.T + gb


@linear_double_backward.wrong(
    "first_dx_again",
    "d_x is dx of the first backward. Now the question is who read x: dw did, so what arrives is "
    "gw.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return _d_dy(x, w, gx, gw, gb), dy @ w, dy.T @ gx


@linear_double_backward.wrong(
    "first_dw_again",
    "d_w is dw of the first backward. Now the question is who read w: dx did, so what arrives is "
    "gx.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return _d_dy(x, w, gx, gw, gb), dy @ gw, dy.T @ x


@linear_double_backward.wrong(
    "first_dx_on_top",
    "d_x has dx of the first backward on top. One backward is asked for, that of the backward: "
    "x was read by dw alone.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return _d_dy(x, w, gx, gw, gb), dy @ gw + dy @ w, dy.T @ gx


@linear_double_backward.wrong(
    "gx_added",
    "d_x has gx in it. What arrives for dx goes on to those that dx was made of, dy and w: it is "
    "no gradient of x.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return _d_dy(x, w, gx, gw, gb), dy @ gw + gx, dy.T @ gx


@linear_double_backward.wrong(
    "gw_added",
    "d_w has gw in it. What arrives for dw goes on to those that dw was made of, dy and x: it is "
    "no gradient of w.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return _d_dy(x, w, gx, gw, gb), dy @ gw, dy.T @ gx + gw


@linear_double_backward.wrong(
    "weight_before_x",
    "d_w came before d_x. The order is (d_dy, d_x, d_w).",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return _d_dy(x, w, gx, gw, gb), dy.T @ gx, dy @ gw


@linear_double_backward.wrong(
    "bias_shared_out",
    "gb was divided among the rows. db is a sum over the rows, not a mean: each row of dy gets all "
    "of gb.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return _d_dy(x, w, gx, gw, gb / max(len(x), 1)), dy @ gw, dy.T @ gx


@linear_double_backward.wrong(
    "arrivals_multiplied",
    "gx was multiplied by gw. What arrives for dx never meets what arrives for dw: each goes along "
    "its own path, gx with w and gw with x.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ gw.T + x @ w.T + gb, dy @ gw, dy.T @ gx


@linear_double_backward.wrong(
    "gx_by_gw",
    "gx was multiplied by gw. What arrives for dx never meets what arrives for dw: each goes along "
    "its own path, gx with w and gw with x.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ gw.T + x @ gw.T + gb, dy @ gw, dy.T @ gx


@linear_double_backward.wrong(
    "y_in_the_path",
    "x @ w.T stands in d_dy: that is y, and nothing that arrived is in it. On the path through dw "
    "it is gw that arrives: x @ gw.T.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ w.T + x @ w.T + gb, dy @ gw, dy.T @ gx


@linear_double_backward.wrong(
    "gx_by_w_itself",
    "gx is (N, D) and w is (V, D): gx @ w does not fit. dy is (N, V), so it is gx @ w.T.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ w + x @ gw.T + gb, dy @ gw, dy.T @ gx


@linear_double_backward.wrong(
    "dy_transposed_for_x",
    "dy was transposed for d_x. x is (N, D), dy (N, V) and gw (V, D): dy @ gw has its shape.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return _d_dy(x, w, gx, gw, gb), dy.T @ gw, dy.T @ gx


@linear_double_backward.wrong(
    "gb_as_a_column",
    "gb was made a column. Its V entries go along the outputs, so each row of dy gets gb as it is.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ w.T + x @ gw.T + gb[:, None], dy @ gw, dy.T @ gx


@linear_double_backward.wrong(
    "arrivals_alone",
    "d_dy is made of gx and gw alone. gx comes to dy through w, and gw through x: gx @ w.T + "
    "x @ gw.T.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return gx @ gw.T + gb, dy @ gw, dy.T @ gx


@linear_double_backward.wrong(
    "x_has_none",
    "d_x is zero. dw = dy.T @ x reads x, so gw comes back to it: d_x = dy @ gw.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return _d_dy(x, w, gx, gw, gb), torch.zeros_like(x), dy.T @ gx


@linear_double_backward.wrong(
    "w_has_none",
    "d_w is zero. dx = dy @ w reads w, so gx comes back to it: d_w = dy.T @ gx.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return _d_dy(x, w, gx, gw, gb), dy @ gw, torch.zeros_like(w)


@linear_double_backward.wrong(
    "dy_alone",
    "Only d_dy came. The backward of 4.1 reads dy, x and w: each of them gets a gradient.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Tensor:
    return _d_dy(x, w, gx, gw, gb)


@linear_double_backward.wrong(
    "none_for_the_inputs",
    "x and w got None. dw = dy.T @ x reads x, and dx = dy @ w reads w: both have a gradient.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Any:
    return _d_dy(x, w, gx, gw, gb), None, None


@linear_double_backward.wrong(
    "a_fourth_for_b",
    "Four gradients came. The backward of 4.1 does not read b, so there is none for it.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Any:
    d_dy = _d_dy(x, w, gx, gw, gb)
    return d_dy, dy @ gw, dy.T @ gx, d_dy.sum(0)


@linear_double_backward.wrong(
    "paths_averaged",
    "The mean of the three paths was taken. Paths add up.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return _d_dy(x, w, gx, gw, gb) / 3, dy @ gw, dy.T @ gx


@linear_double_backward.wrong(
    "paths_multiplied",
    "The three paths were multiplied with each other. Along a path one multiplies, and paths add "
    "up.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return (gx @ w.T) * (x @ gw.T) * gb, dy @ gw, dy.T @ gx


@linear_double_backward.wrong(
    "dy_added",
    "d_dy has dy in it. It is made of what arrived, gx, gw and gb.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return _d_dy(x, w, gx, gw, gb) + dy, dy @ gw, dy.T @ gx


@linear_double_backward.wrong(
    "arrivals_handed_on",
    "d_x is gx, and d_w is gw. What arrives for dx goes on to those that dx was made of, dy and w, "
    "and what arrives for dw to dy and x.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    return _d_dy(x, w, gx, gw, gb), gx.clone(), gw.clone()


@linear_double_backward.wrong(
    "left_in_float32",
    "The answers are float32 for inputs in float64. A `.float()` on the way, or a tensor made "
    "without the inputs' dtype, has to go.",
)
def _(x: Tensor, w: Tensor, dy: Tensor, gx: Tensor, gw: Tensor, gb: Tensor) -> Triple:
    a, b, c = _torchs_double(x, w, dy, gx, gw, gb)
    return a.float(), b.float(), c.float()


@linear_double_backward.cost
def _(student: Student, draw: Draw) -> str:
    n, v, d = 32, 600, 64
    given = [draw.tensor(*shape) for shape in ((n, d), (v, d), (n, v), (n, d), (v, d), (v,))]
    student.call("linear_double_backward", *given)
    flops = 2 * n * v * d
    return (
        f"{4 * flops:,} FLOP in four products for the head at batch {n}: forward needs one, "
        f"backward two; it reads dy again, {given[2].nbytes:,} bytes that the first may not free"
    )
