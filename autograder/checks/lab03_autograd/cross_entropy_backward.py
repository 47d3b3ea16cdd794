"""The gradient of the loss for the logits, in one formula."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import saying
from autograder.judge import Draw, Student, Wrong, expect_close

from . import lab

# Said by the check itself: nan is equal to nothing, so no list of known answers would find it.
OVERFLOW = (
    "There is nan in it. exp of a large logit is inf, and inf / inf is nan: take the row's maximum "
    "away first, or let torch.softmax do it. And a p can be 0, where 1 / p is inf: dz needs "
    "softmax alone, no log."
)
UNDERFLOW = (
    "Whole rows are nan, and the largest logit is in none of them: every exp in them is 0, and 0 / "
    "0 is nan. Take the row's own maximum away first, or let torch.softmax do it."
)
NOTHING_ARRIVES = (
    "The gradient that arrives is 0.0, so all of dz is 0. 0.0 is false in Python, and a gradient "
    "like any other."
)

LAST_TWO = torch.tensor([2, 1])


@lab.question(
    "cross_entropy_backward",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "Write the loss of one row as logsumexp(z) - z[target]. What is the derivative of each "
        "part?",
        "The first part gives softmax(z), the second takes 1 away at the target. Then the mean: "
        "divide by the rows that count, multiply by dloss, and put 0 into the rows that do not.",
        "dz = torch.softmax(z, dim=1); dz[rows, target[rows]] -= 1; dz[~kept] = 0",
    ),
)
def cross_entropy_backward(student: Student, draw: Draw) -> None:
    """The gradient of `F.cross_entropy(z, target)`, with log-softmax and the loss in one formula.

    z (N, V), target (N,) with -100 in rows that do not count (at least one does), dloss (a float:
    the gradient that arrives at the loss) -> dz (N, V).
    """
    for scale, ignored, dloss in [(1.0, 0, 1.0), (1.0, 0, -0.5), (1.0, 2, 1.0), (200.0, 0, 1.0)]:
        _ask_cross_entropy(student, draw, scale, ignored, dloss)
    for _ in draw.cases(3):
        _ask_cross_entropy(student, draw, 2.0, draw.integer(0, 2), draw.choice((1.0, -0.25, 3.0)))
    # One row, and rows that do not count at either end; 0.0 is false in Python.
    for rows, dloss in [([1], 1.0), ([-100, 0, 2], 1.0), ([3, 1, -100], 1.0), ([-100, 1, 1], 0.0)]:
        _expect_gradient(student, draw.tensor(len(rows), 4), torch.tensor(rows), dloss)
    # exp of 800 is inf in float64 too.
    _expect_gradient(student, torch.tensor([[0.0, 800.0, 3.0], [1.0, 0.0, 2.0]]), LAST_TWO, 1.0)
    _ask_cross_entropy(student, draw, 1.0, 0, 1.0, torch.float64)
    _ask_cross_entropy(student, draw, 1.0, 2, -0.5, torch.float64)


def _ask_cross_entropy(
    student: Student,
    draw: Draw,
    scale: float,
    ignored: int,
    dloss: float,
    dtype: torch.dtype = torch.float32,
) -> None:
    n, v = draw.integer(4, 9), draw.integer(5, 40)
    z, target = scale * draw.tensor(n, v, dtype=dtype), draw.integers(n, low=0, high=v - 1)
    # Three rows always count: the first word and the last are words, and 0 is false in Python.
    places = draw.shuffled(range(n))
    target[places[:2]] = torch.tensor([0, v - 1])
    target[places[2:][:ignored]] = -100
    if scale > 100:  # one maximum is not good for all rows
        z[places[0]] = z[places[0]] / scale - 150.0
    _expect_gradient(student, z, target, dloss)


def _expect_gradient(student: Student, z: Tensor, target: Tensor, dloss: float) -> None:
    got = student.call("cross_entropy_backward", z, target, dloss)
    # exp overflows float32 from about 88 on; below that a nan has another cause.
    if isinstance(got, Tensor) and bool(got.isnan().any()) and float(z.max()) > 88:
        raise Wrong(expected="numbers", got="nan", where="in dz", why=_of_nan(got, z))
    # Room for z - logsumexp(z) in float32, where logits of some hundreds keep five digits.
    want = _torchs_cross_entropy(z, target, dloss)
    rule = _sum_of_a_row(got, want, target, dloss) or _unlikely_target(got, want, z, target)
    with saying(rule if dloss else NOTHING_ARRIVES):
        expect_close(got, want, tolerance=1e-4)


def _of_nan(got: Tensor, z: Tensor) -> str:
    """What overflows is nan at the largest logit; a row of 0 / 0 is nan all along."""
    nan = got.detach().isnan()
    if nan.shape != z.shape:
        return ""
    if bool(nan.flatten()[int(z.argmax())]):
        return OVERFLOW
    rows = nan.all(dim=1)
    is_empty = not (z - z.max())[rows].exp().any()  # below the largest of all no exp is left there
    return UNDERFLOW if is_empty and rows.equal(nan.any(dim=1)) else ""


def _sum_of_a_row(got: Any, want: Tensor, target: Tensor, dloss: float) -> str:
    """A sentence where a row of dz does not sum to 0."""
    if not isinstance(got, Tensor) or (got.shape, got.dtype) != (want.shape, want.dtype):
        return ""
    sums = got.detach().sum(dim=1)
    row = int(sums.abs().argmax())
    if not bool(sums.isfinite().all()):
        return ""
    if sums[row].abs() <= 0.01 * want.abs().max():
        pushed = (target < 0) & (got.detach().abs().amax(dim=1) > 0.01 * want.abs().max())
        return _not_counted(int(pushed.nonzero()[0])) if bool(pushed.any()) else ""
    if target[row] < 0:
        one = -dloss / int((target >= 0).sum())
        if int(got[row].count_nonzero()) == 1 and abs(float(sums[row]) - one) < 1e-3 * abs(one):
            return (
                f"Row {row} has target -100, and its softmax is 0, which is right. But a 1 was "
                "taken away in it, as in a row that counts: all of its gradient is 0."
            )
        return _not_counted(row)
    return (
        f"Row {row} of dz sums to {float(sums[row]):.3g}. Each row sums to 0: what the target "
        "gains the other words lose."
    )


def _not_counted(row: int) -> str:
    return f"Row {row} has target -100: it does not count, and all of its gradient is 0."


UNLIKELY = (
    "A row is 0 whose target has almost no probability. Its gradient is the largest there is, "
    "about -dloss / N at the target: log(p) is steep where p is small, and log(p + a small number) "
    "is flat."
)


def _unlikely_target(got: Any, want: Tensor, z: Tensor, target: Tensor) -> str:
    """A sentence where a row that counts is 0, and an unlikely target is what sets it apart."""
    if not isinstance(got, Tensor) or (got.shape, got.dtype) != (want.shape, want.dtype):
        return ""
    kept = target >= 0
    said = z.log_softmax(dim=1).gather(1, target.clamp(min=0)[:, None])[:, 0]
    lost = kept & (got.detach().abs().amax(dim=1) < 1e-3 * want.abs().amax(dim=1))
    return UNLIKELY if bool(lost.any()) and bool((said[lost] < -16).all()) else ""


def _torchs_cross_entropy(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    leaf = z.detach().clone().requires_grad_()
    (dz,) = torch.autograd.grad(
        F.cross_entropy(leaf, target), leaf, torch.tensor(dloss).to(z.dtype)
    )
    return dz


def _one_hot(z: Tensor, target: Tensor) -> Tensor:
    """1 at each row's target; rows that do not count have none."""
    hot = torch.zeros_like(z)
    kept = target >= 0
    hot[kept, target[kept]] = 1.0
    return hot


def _masked(dz: Tensor, target: Tensor, dloss: float) -> Tensor:
    kept = (target >= 0)[:, None]
    return dloss * torch.where(kept, dz, torch.zeros_like(dz))


@cross_entropy_backward.wrong(
    "not_averaged",
    "The rows are not averaged. F.cross_entropy takes the mean over the rows that count, so each "
    "row's gradient is divided by their number.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return _masked(z.softmax(1) - _one_hot(z, target), target, dloss)


@cross_entropy_backward.wrong(
    "sign_flipped",
    "The sign is wrong: this pushes the loss up. The loss is logsumexp minus the right logit.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    dz = _one_hot(z, target) - z.softmax(1)
    return _masked(dz / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "target_only",
    "Only the target gets a gradient here. The normaliser reads every logit of the row: each wrong "
    "word is pushed down by its own probability.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return _masked(-_one_hot(z, target) / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "softmax_only",
    "The 1 at the target is missing: every logit is pushed down, the right one too.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return _masked(z.softmax(1) / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "mean_over_everything",
    "You divided by N * V. The loss has one number per row, so its mean runs over rows.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    dz = z.softmax(1) - _one_hot(z, target)
    return _masked(dz / ((target >= 0).sum() * z.shape[1]), target, dloss)


cross_entropy_backward.wrong(
    "seed_ignored",
    "dloss was not used. Whoever reads the loss may scale it: each local rule multiplies by the "
    "gradient that arrives.",
    cross_entropy_backward=lambda z, target, dloss: _torchs_cross_entropy(z, target, 1.0),
)


@cross_entropy_backward.wrong(
    "ignored_rows_counted",
    "Rows with target -100 have no gradient, which is right, but they were counted in the mean. "
    "Divide by the rows that count.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return _masked((z.softmax(1) - _one_hot(z, target)) / len(z), target, dloss)


@cross_entropy_backward.wrong(
    "ignored_rows_pushed",
    "Rows with target -100 still get their softmax. They are no part of the loss: their gradient "
    "is 0.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return dloss * (z.softmax(1) - _one_hot(z, target)) / (target >= 0).sum()


@cross_entropy_backward.wrong(
    "overflow",
    OVERFLOW,
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    p = z.exp() / z.exp().sum(dim=1, keepdim=True)
    return _masked((p - _one_hot(z, target)) / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "softmax_down_the_columns",
    "The softmax runs down the columns. Each row is one distribution over the V words: dim=1.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    dz = z.softmax(0) - _one_hot(z, target)
    return _masked(dz / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "log_softmax",
    "This is log_softmax minus the one-hot rows. The derivative of logsumexp is the softmax "
    "itself, without the logarithm.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    dz = z.log_softmax(1) - _one_hot(z, target)
    return _masked(dz / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "every_target_in_every_row",
    "In every row a 1 was taken away for all the targets, as by `dz[:, target]`. It belongs to one "
    "place in each row: index with the row's number and its target together.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    dz = z.softmax(1)
    dz[:, target[target >= 0]] -= 1
    return _masked(dz / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "ignored_rows_dropped",
    "The rows that do not count were dropped. dz has the shape of z: those rows stay, with a "
    "gradient of 0.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return _torchs_cross_entropy(z, target, dloss)[target >= 0]


NO_COLUMN = (
    "A target of -100 is no column of z: it marks a row that does not count. Find those that "
    "count first (target != -100), take the 1 away in them, and leave 0 in the others."
)


@cross_entropy_backward.wrong("ignored_rows_indexed", NO_COLUMN)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    dz = z.softmax(1)
    dz[torch.arange(len(z)), target] -= 1
    return dloss * dz / len(z)


@cross_entropy_backward.wrong("ignored_rows_encoded", NO_COLUMN)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return dloss * (z.softmax(1) - F.one_hot(target, z.shape[1])) / len(z)


@cross_entropy_backward.wrong(
    "first_word_not_counted",
    "Word 0 is a word like the others. Only -100 marks a row that does not count: ask "
    "`target != -100` or `target >= 0`, not `target > 0`.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return _torchs_cross_entropy(z, torch.where(target > 0, target, -100), dloss)


@cross_entropy_backward.wrong(
    "first_word_not_in_the_mean",
    "Rows whose target is word 0 have a gradient, which is right, but they were not counted in the "
    "mean. Word 0 is a word like the others: only -100 marks a row that does not count.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    counts, counted = (target >= 0).sum(), (target > 0).sum().clamp(min=1)
    return _torchs_cross_entropy(z, target, dloss) * counts / counted


@cross_entropy_backward.wrong(
    "maximum_of_the_batch",
    "One maximum was taken away from all rows. A row whose logits lie far below it has exp of "
    "nothing but 0 then: each row has a maximum of its own.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    e = (z - z.max()).exp()
    dz = e / e.sum(dim=1, keepdim=True) - _one_hot(z, target)
    return _masked(dz / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "ignored_rows_clamped",
    "The -100 was taken for word 0, and so the rows that do not count got the gradient of that "
    "word. Their gradient is 0.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    hot = F.one_hot(target.clamp(min=0), z.shape[1])
    return dloss * (z.softmax(1) - hot) / (target >= 0).sum()


@cross_entropy_backward.wrong(
    "ignored_rows_clamped_and_counted",
    "The -100 was taken for word 0, so the rows that do not count got the gradient of that word, "
    "and a part in the mean. Put 0 into them, and divide by the rows that count.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    hot = F.one_hot(target.clamp(min=0), z.shape[1])
    return dloss * (z.softmax(1) - hot) / len(z)


@cross_entropy_backward.wrong(
    "ignored_rows_pushed_and_counted",
    "Rows with target -100 still get their softmax, and have a part in the mean. They are no part "
    "of the loss: put 0 into them, and divide by the rows that count.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return dloss * (z.softmax(1) - _one_hot(z, target)) / len(z)


@cross_entropy_backward.wrong(
    "sigmoid",
    "This is a sigmoid of each logit alone. The words of a row compete: their probabilities are a "
    "softmax, and sum to 1.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    dz = torch.sigmoid(z) - _one_hot(z, target)
    return _masked(dz / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "seed_divides",
    "The gradient was divided by dloss. The chain rule multiplies by what arrives.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return _torchs_cross_entropy(z, target, 1.0) / dloss


@cross_entropy_backward.wrong(
    "seed_added",
    "dloss was added. The chain rule multiplies by what arrives.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    kept = target >= 0
    dz = _masked(z.softmax(1) - _one_hot(z, target), target, 1.0)
    return (dz + dloss) / kept.sum()


@cross_entropy_backward.wrong(
    "wrong_words_left_out",
    "Only the target's column has a gradient: p - 1. Each wrong word has one too, its own p: the "
    "normaliser reads every logit.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    hot = _one_hot(z, target)
    return _masked((z.softmax(1) - hot) * hot / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "one_over_n_at_the_target",
    "At the target 1 / N was taken away, and then the row was divided by N again. Take 1 away, "
    "and divide once.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    rows = (target >= 0).sum()
    return _masked((z.softmax(1) - _one_hot(z, target) / rows) / rows, target, dloss)


@cross_entropy_backward.wrong(
    "flipped_at_the_target",
    "At the target this is 1 - p, and elsewhere p. It is p - 1 at the target: p minus one-hot has "
    "one sign for all.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    hot = _one_hot(z, target)
    p = z.softmax(1)
    return _masked(torch.where(hot > 0, 1 - p, p) / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "likeliest_in_place_of_target",
    "The 1 was taken away at the likeliest word. It belongs to the target, which the model may "
    "find unlikely.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    dz = z.softmax(1) - _one_hot(z, z.argmax(1))
    return _masked(dz / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "the_loss",
    "This is the loss. Its gradient was asked for: a number for each logit, in the shape of z.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return F.cross_entropy(z, target) * dloss


@cross_entropy_backward.wrong(
    "overflow_past_an_epsilon",
    OVERFLOW,
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    p = z.exp() / (z.exp().sum(dim=1, keepdim=True) + 1e-8)
    return _masked((p - _one_hot(z, target)) / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "logits_clamped",
    "The logits were clamped before the exp, so that all very large ones are equally likely. Take "
    "the row's maximum away in place of it, or let torch.softmax do it.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    e = z.clamp(-80, 80).exp()
    dz = e / e.sum(dim=1, keepdim=True) - _one_hot(z, target)
    return _masked(dz / (target >= 0).sum(), target, dloss)


@cross_entropy_backward.wrong(
    "returned_in_float64",
    "The gradient comes in float64. A gradient has the dtype of its tensor: z's.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    kept = target >= 0
    dz = _masked(z.double().softmax(1) - _one_hot(z, target), target, 1.0)
    return dz * (dloss / kept.sum())


@cross_entropy_backward.wrong(
    "always_float32",
    "Right for float32. The gradient has the dtype of z: what `.float()` or a bare torch.zeros "
    "makes is float32.",
)
def _(z: Tensor, target: Tensor, dloss: float) -> Tensor:
    return _torchs_cross_entropy(z.float(), target, dloss)


@cross_entropy_backward.cost
def _(student: Student, draw: Draw) -> str:
    z, target = draw.tensor(32, 600), draw.integers(32, low=0, high=599)
    dz = student.call("cross_entropy_backward", z, target, 1.0)
    return (
        f"{dz.nbytes:,} bytes of gradient from {z.nbytes:,} bytes of logits: as large as the "
        "logits themselves, and each row sums to 0"
    )
