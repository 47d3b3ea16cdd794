"""The head y = x w^T + b: the truth, and what a kernel computes that finds its way wrongly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from autograder.judge import LAYOUTS, Draw, Question, expect_close, is_close, within


class Given(NamedTuple):
    """x (N, D), w (V, D), b (V,)."""

    x: Tensor
    w: Tensor
    b: Tensor


FIRST = (  # N, layouts of x, w and b: what fails first names a misconception
    (19, "contiguous", "contiguous", "contiguous"),
    (5, "transposed", "contiguous", "contiguous"),
    (4, "contiguous", "transposed", "contiguous"),
    (1, "contiguous", "contiguous", "strided"),
    (0, "contiguous", "contiguous", "contiguous"),
    (3, "strided", "offset", "offset"),
    (3, "contiguous", "contiguous", "expanded"),  # tokens that differ: the bias alone is new
    (17, "expanded", "strided", "expanded"),
    (3, "contiguous", "expanded", "contiguous"),  # words that differ by the bias alone
)


def cases(draw: Draw, *, roomy: bool = False) -> Iterator[Given]:
    """Heads of every layout, with V and D that are no multiple of 8. roomy: the first x, w and b
    lie in memory that is so large that whoever exchanges strides or walks on in b stays inside."""
    for k, (n, *layouts) in enumerate(FIRST):
        # D is 2 or 3 more than a multiple of 8 at first: one feature too few is not what a loop
        # by fours or eights leaves over; and words fill as many blocks of 16 as tokens do, so that
        # a grid that rounds down is not one that has the two exchanged
        given = (
            _drawn(draw, n, *layouts)
            if k
            else _drawn(draw, n, *layouts, beyond=(2, 3), eights=(2, 3))
        )
        yield _with_room(draw, given) if roomy and not k else given
    yield _rows_apart(draw)
    yield _few_words(draw)
    for _ in draw.cases(2):
        yield _drawn(draw, draw.integer(2, 40), *(draw.choice(LAYOUTS) for _ in range(3)))


def _drawn(
    draw: Draw,
    n: int,
    in_x: str,
    in_w: str,
    in_b: str,
    *,
    beyond: tuple[int, int] = (1, 7),
    eights: tuple[int, int] = (2, 5),
) -> Given:
    v, d = 8 * draw.integer(*eights) + draw.integer(1, 7), 8 * draw.integer(2, 4)
    d += draw.integer(*beyond)
    x, w = draw.tensor(n, d, layout=in_x), draw.tensor(v, d, layout=in_w)
    if in_b == "expanded":  # the first of many: who takes another stride than 0 stays inside
        return Given(x, w, draw.tensor(2 * v)[:1].expand(v))
    return Given(x, w, draw.tensor(v, layout=in_b))


def _rows_apart(draw: Draw) -> Given:
    """The features lie side by side, and the rows do not lie end to end: parts of wider ones. One
    token is all zeros: its logits are the bias."""
    x, w, b = _drawn(draw, 6, "contiguous", "contiguous", "contiguous")
    x[2] = 0.0
    d = x.shape[1] - 5
    return Given(x[:, :d], w[:, :d], b)


def _few_words(draw: Draw) -> Given:
    """Fewer words than a tile is wide. The features of a token, and of a word, are one number, in
    memory that is so large that whoever takes another stride stays inside."""
    n, v, d = 20, draw.integer(3, 7), draw.integer(33, 40)
    x, w = (draw.tensor(size * d, 1)[:size].expand(size, d) for size in (n, v))
    return Given(x, w, draw.tensor(v))


def _with_room(draw: Draw, given: Given) -> Given:
    x, w = (draw.tensor(len(t) + t.shape[1], t.shape[1])[: len(t)] for t in (given.x, given.w))
    v = len(given.b)
    return Given(x, w, draw.tensor((len(x) + 1) * v)[:v])


def head(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """(N, V) in float32, computed in float64."""
    return (x.double() @ w.double().T + b.double()).float()


def read(t: Tensor, shape: tuple[int, int], strides: tuple[int, int]) -> Tensor:
    """`shape` elements from where t begins in memory, with these strides; NaN beyond its end."""
    memory = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
    if not memory.numel():
        return t.new_zeros(shape)
    rows, columns = torch.arange(shape[0])[:, None], torch.arange(shape[1])
    at = int(t.storage_offset()) + rows * strides[0] + columns * strides[1]
    inside = at < len(memory)
    return torch.where(inside, memory[at.clamp(max=len(memory) - 1)], math.nan)


def as_if_contiguous(t: Tensor) -> Tensor:
    """t (rows, columns) or (columns,) as somebody reads it who ignores its strides."""
    rows, columns = t.shape if t.dim() == 2 else (1, len(t))
    return read(t, (rows, columns), (columns, 1)).view(t.shape)


def as_if_transposed(w: Tensor) -> Tensor:
    """w (V, D) as somebody reads it who takes it for a contiguous (D, V)."""
    v, d = w.shape
    return read(w, (v, d), (1, v))


def columns_written(y: Tensor) -> Tensor:
    """y (N, V) as it is when y[n, v] was written to place v * N + n."""
    return y.T.contiguous().view(y.shape)


def without_the_rest(y: Tensor, rows: int, columns: int) -> Tensor:
    """y of which only the first rows and columns were written: the rest is NaN, as it was."""
    written = torch.full_like(y, math.nan)
    written[:rows, :columns] = y[:rows, :columns]
    return written


STILL_NAN = (
    "Part of y is NaN, as all of it was before: nobody has written there, or something was "
    "added to what stood there. y[n, v] lies at n * V + v. Or NaN was computed, as from a place "
    "that is no element of x, w or b."
)


OF_THIS_CALL = (
    "y[n, v] is b[v] and a product for each of the D features, x[n, d] * w[v, d]: each element is "
    "found by the strides of this call, and each sum is of its own."
)


MOVED = (
    "The right numbers stand in the wrong places: at n * V + v belongs the logit of token n and "
    "word v, whatever the strides of x, w and b are."
)
END_TO_END = (
    "These are the logits of rows that lie end to end, D apart, in x, in w or in both. How far "
    "apart they lie in this call is said by x_n and w_v."
)
FIRST_ROW_ALONE = (
    "Row 0 of y is right and all others are NaN, as all of y was before: each of the N rows has to "
    "be written, also where x_n is 0."
)
FIRST_ROW_RIGHT = (
    "Row 0 of y is right and no other is: row n has the products of x[n, d], at n * x_n + d * x_d, "
    "and for each row the biases begin anew, with b[0]."
)
NOT_THE_BIAS = (
    "What is wrong in a column of y is the same in every row, as where another number than b[v] is "
    "added: b[v] lies at v * b_v, and b_v may be 0."
)


def expect_logits(y: Any, x: Tensor, w: Tensor, b: Tensor) -> None:
    """Raises Wrong for a y that is not the head's."""
    want = head(x, w, b)
    with within("", why=lambda: _seen(y, want, x, w, b)):
        expect_close(y, want)


def _seen(y: Any, want: Tensor, x: Tensor, w: Tensor, b: Tensor) -> str:
    """The rule that a wrong y breaks, by what its values show."""
    if not isinstance(y, Tensor) or (y.shape, y.dtype) != (want.shape, want.dtype):
        return OF_THIS_CALL
    if is_close(y.flatten().sort().values, want.flatten().sort().values):
        return MOVED
    in_x, in_w = as_if_contiguous(x), as_if_contiguous(w)
    if any(_are_logits(y, *pair, b) for pair in ((in_x, in_w), (in_x, w), (x, in_w))):
        return END_TO_END
    right = [is_close(mine, true) for mine, true in zip(y, want, strict=True)]
    if len(y) > 1 and right[0] and not any(right[1:]):
        return FIRST_ROW_ALONE if bool(y[1:].isnan().all()) else FIRST_ROW_RIGHT
    if bool(y.isnan().any()):
        return STILL_NAN
    off = y.double() - want.double()
    if len(x) > 1 and x.stride(0) and is_close(off, off[:1].expand_as(off), tolerance=1e-3):
        return NOT_THE_BIAS
    return OF_THIS_CALL


def _are_logits(y: Tensor, x: Tensor, w: Tensor, b: Tensor) -> bool:
    of_these = head(x, w, b)
    return bool(of_these.isfinite().all()) and is_close(y, of_these)


def _with_strides(t: Tensor, *strides: int) -> Tensor:
    return read(t, (t.shape[0], t.shape[1]), (strides[0], strides[1]))


def _row_by_row(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """A bias for each token: b[n]."""
    of_tokens = read(b, (len(x), 1), (b.stride(0), 1))
    return head(x, w, torch.zeros_like(b)) + of_tokens


def _in_fours(t: Tensor) -> Tensor:
    """t without the features that a loop by fours leaves over."""
    return t[:, : t.shape[1] // 4 * 4]


def _in_integers(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Each sum is an int: what is behind the point is cut off at each step."""
    sums = b.trunc().expand(len(x), -1)
    for d in range(x.shape[1]):
        sums = (sums + x[:, d : d + 1] * w[:, d]).trunc()
    return sums


Readings = dict[str, tuple[str, Callable[[Tensor, Tensor, Tensor], Tensor]]]
READINGS: Readings = {
    "features_of_x_side_by_side": (
        "The rows of x are found and the features in them are not: they lie x_d apart, and were "
        "taken from places side by side.",
        lambda x, w, b: head(_with_strides(x, x.stride(0), 1), w, b),
    ),
    "features_of_w_side_by_side": (
        "The rows of w are found and the features in them are not: they lie w_d apart, and were "
        "taken from places side by side.",
        lambda x, w, b: head(x, _with_strides(w, w.stride(0), 1), b),
    ),
    "strides_of_w_ignored": (
        "w was read as if its rows lay one after the other. w_v and w_d say where an element is.",
        lambda x, w, b: head(x, as_if_contiguous(w), b),
    ),
    "w_by_the_strides_of_x": (
        "w was read with the strides of x. It has its own: w_v and w_d.",
        lambda x, w, b: head(x, _with_strides(w, *x.stride()), b),
    ),
    "stride_of_the_bias_ignored": (
        "Right, until the bias has a stride: b[v] is the v-th float in memory, and the v-th "
        "element lies at v * b_v.",
        lambda x, w, b: head(x, w, as_if_contiguous(b)),
    ),
    "bias_forgotten": (
        "The products are right and the bias is missing.",
        lambda x, w, b: head(x, w, torch.zeros_like(b)),
    ),
    "bias_subtracted": (
        "The bias was taken off. It is added.",
        lambda x, w, b: head(x, w, -b),
    ),
    "one_bias_for_all": (
        "Every logit got the first bias. Each word has its own: b[v * b_v].",
        lambda x, w, b: head(x, w, b[:1].expand(len(b))),
    ),
    "bias_of_the_token": (
        "The bias was taken by the number of the token. It belongs to the word: b[v * b_v].",
        _row_by_row,
    ),
    "first_feature_missing": (
        "The first feature is missing from every sum: d begins at 0.",
        lambda x, w, b: head(x[:, 1:], w[:, 1:], b),
    ),
    "last_feature_missing": (
        "The last feature is missing from every sum: d = D - 1 counts too, also where a loop takes "
        "several features at a time.",
        lambda x, w, b: head(x[:, :-1], w[:, :-1], b),
    ),
    "sums_in_integers": (
        "At each step of the sum what stands behind the point is lost, as in an int. The sum is "
        "a float.",
        _in_integers,
    ),
    "negative_logits_cut": (
        "Logits below 0 became 0. A head has no such rule: any number may come out.",
        lambda x, w, b: head(x, w, b).clamp(min=0),
    ),
}
"""Misreadings that a kernel of any kind may make: the sentence, and the y of it."""
OF_LOOPS: Readings = {
    "strides_of_x_exchanged": (
        "x was read as if its two strides were exchanged. A step to the next token is x_n, one "
        "to the next feature x_d.",
        lambda x, w, b: head(_with_strides(x, *reversed(x.stride())), w, b),
    ),
    "strides_of_w_exchanged": (
        "w was read as if its two strides were exchanged. A step to the next word is w_v, one "
        "to the next feature w_d.",
        lambda x, w, b: head(x, _with_strides(w, *reversed(w.stride())), b),
    ),
    "last_features_missing": (
        "The last features are missing from every sum, as where a loop takes several at a time "
        "and D is no multiple of that. What is left over counts too.",
        lambda x, w, b: head(_in_fours(x), _in_fours(w), b),
    ),
    "last_token_missing": (
        "The last row of y was not written: n runs while n < N.",
        lambda x, w, b: without_the_rest(head(x, w, b), len(x) - 1, len(w)),
    ),
    "last_word_missing": (
        "The last column of y was not written: v runs while v < V.",
        lambda x, w, b: without_the_rest(head(x, w, b), len(x), len(w) - 1),
    ),
    "sums_go_on_in_a_row": (
        "Each sum goes on where that of the word before had ended. It begins anew for each logit.",
        lambda x, w, b: (head(x, w, torch.zeros_like(b)).double().cumsum(1) + b.double()).float(),
    ),
    "sums_not_begun_anew": (
        "Each sum went on where the one before had ended. It begins anew for each logit.",
        lambda x, w, b: head(x, w, b).double().flatten().cumsum(0).view(len(x), -1).float(),
    ),
}
"""Those of loops on a CPU. On a GPU other mistakes do the same, or the launch fails."""


def list_readings(question: Question, function: str, readings: Readings = READINGS) -> None:
    """Lists each as a wrong answer to `question`, by `function`, the model of a kernel."""
    for key, (sentence, y) in readings.items():
        question.wrong(key, sentence, **{function: _model(y)})


def _model(y: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda name, x, w, b, *_: y(x, w, b)
