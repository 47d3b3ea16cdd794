"""The mean surprise over the right words, written with exp, log and sums."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import onelayer
from autograder.checks.explaining import saying
from autograder.judge import Draw, Student, Wrong, expect_close

from . import lab
from .sentences import SENTENCES


@lab.question(
    "loss_by_hand",
    points=4,
    minutes=12,
    difficulty=2,
    hints=(
        "What probability does a row give to the right word? How surprised is one who believed "
        "that?",
        "A row's loss is log(sum of exp(z)) - z[right word]. exp overflows above 88 in float32: "
        "take the row's maximum out of it first and add it back behind the log.",
        "m = z.max(); loss = m + (z - m).exp().sum().log() - z[right]",
    ),
)
def loss_by_hand(student: Student, draw: Draw) -> None:
    """The mean surprise over the right words: -log of the probability that each row gives to its
    own, averaged over the rows.

    logits (N, V), targets (N,) int64 -> tensor of shape ().
    """
    far_apart = torch.tensor([[1000.0], [-1000.0], [0.0]])  # one maximum will not do for all rows
    large = [draw.tensor(3, 9) + shift for shift in (1000.0, -1000.0, far_apart)]
    certain = draw.tensor(4, 9)
    certain[:, 0] += 300.0  # the right word, never this one, has a probability of 0 in float32
    drawn = [draw.tensor(draw.integer(2, 30), 600) for _ in draw.cases(2)]
    tables = (draw.tensor(3, 5), draw.tensor(1, 7), *large, certain, *drawn)
    asked = [(z, draw.integers(len(z), low=1, high=z.shape[1] - 1)) for z in tables]
    asked.insert(5, (certain, torch.zeros(4, dtype=torch.int64)))  # and here it is 1
    asked += _further(draw)
    for logits, targets in asked:
        want = F.cross_entropy(logits.double(), targets).float()
        got = student.call("loss_by_hand", logits, targets)
        if logits.abs().max() > _HARMLESS:
            _expect_finite(got, want)
        if isinstance(got, torch.Tensor) and got.dtype is torch.float64:
            got = got.float()  # more digits than were asked for
        with saying(_because(got, want, logits, targets)):
            expect_close(got, want, tolerance=1e-4)


def _further(draw: Draw) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """As many rows as words, a word that is right in each row, the first and the last ones, other
    layouts, logits further apart than before, and right words far below several that are equal."""
    square, other, wide = draw.tensor(6, 6), draw.tensor(7, 11), 1e4 * draw.tensor(4, 9)
    spread = torch.tensor([[0.0, 3e4, -3e4], [2e4, 0.0, -5e4], [1.0, 2.0, 1e5]])
    return [
        (square, torch.tensor(draw.shuffled(range(6)))),
        (square, torch.full((6,), 3)),
        (other, torch.tensor([10, 0, 10, 0, 10, 10, 0])),
        *((draw.tensor(5, 8, layout=of), draw.integers(5, low=0, high=7)) for of in _LAYOUTS),
        (spread, torch.tensor([2, 0, 1])),
        (wide, wide.argmin(dim=1)),
        (draw.tensor(40, 3), draw.integers(40, low=0, high=2)),
        (torch.tensor([[150.0] * 8 + [0.0]] * 2), torch.tensor([8, 8])),
    ]


_LAYOUTS = ("transposed", "strided", "offset")

_HARMLESS = 40.0  # of logits no larger, neither an exp nor a probability is infinite or 0

NOT_FINITE = (
    "The loss is not finite here. exp of a large logit is infinite, from 89 on in float32 and "
    "from 710 on in float64, and exp of a very negative one is 0, which has no finite log: "
    "subtract each row's maximum first, and take the log of the sum alone."
)
_CERTAIN = (
    "Each right word has the probability 1 here: all surprises are 0, and so is their mean. nan is "
    "what 0 / 0 gives, or inf / inf, or the mean of no row."
)
_BELOW_THE_MAXIMUM = (
    "This is how far z[right] lies below the row's maximum. log(sum of exp(z)) is larger than the "
    "maximum where other words are near it: all of them are in the sum."
)


def _expect_finite(got: object, want: torch.Tensor) -> None:
    if isinstance(got, torch.Tensor) and got.numel() == 1 and not bool(got.isfinite().all()):
        why = _CERTAIN if bool(got.isnan().all()) and want.item() == 0 else NOT_FINITE
        raise Wrong(expected=f"{want.item():.6g}", got=f"{got.item():.6g}", why=why)


def _because(got: Any, want: torch.Tensor, logits: torch.Tensor, targets: torch.Tensor) -> str:
    """What a loss below the true one says where float32 holds the probabilities as 0, or how the
    first row's surprise comes about; "" for what is no loss."""
    if not isinstance(got, torch.Tensor) or (got.shape, got.dtype) != (want.shape, want.dtype):
        return ""
    told, probabilities = float(got), _surprises(logits, targets).neg().exp()
    if math.isclose(told, _below_the_maximum(logits, targets), rel_tol=1e-5):
        return _BELOW_THE_MAXIMUM
    if 0 < told < min(float(want), _LARGEST_LIMIT) and not probabilities.any():
        return (
            "Each right word's probability is 0 in float32 here. Your answer is "
            f"-log({math.exp(-told):.3g}): whatever stands in for a 0, or cuts off what is far "
            "below, puts a limit to the surprise. log(sum of exp(z)) - z[right] needs neither."
        )
    row, right = logits[0].double(), int(targets[0])
    return (
        f"Row 0: log(sum of exp(z)) is {float(row.logsumexp(0)):.6g}, and z[{right}] is "
        f"{float(row[right]):.6g}. The difference is its surprise, and the loss is "
        "the mean over all rows."
    )


_LARGEST_LIMIT = 700.0  # exp(-700) is still above 0 in a Python float


def _surprises(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -logits.log_softmax(1)[torch.arange(len(targets)), targets]


def _below_the_maximum(logits: torch.Tensor, targets: torch.Tensor) -> float:
    right = logits[torch.arange(len(targets)), targets]
    return float((logits.amax(1) - right).double().mean())


@loss_by_hand.wrong("overflows", NOT_FINITE)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    e = logits.exp()
    return -(e[torch.arange(len(targets)), targets] / e.sum(1)).log().mean()


loss_by_hand.wrong(
    "summed",
    "The surprises are right and added up. The mean does not grow with the batch.",
    loss_by_hand=lambda logits, targets: _surprises(logits, targets).sum(),
)
loss_by_hand.wrong(
    "sign",
    "The sign is turned: a log of a probability is negative, a loss is its negative.",
    loss_by_hand=lambda logits, targets: -_surprises(logits, targets).mean(),
)
_LOG_OF_THE_MEAN = (
    "This is the surprise at the mean probability. Take each row's log first, then the mean."
)
loss_by_hand.wrong(
    "log_of_the_mean",
    _LOG_OF_THE_MEAN,
    loss_by_hand=lambda logits, targets: -_surprises(logits, targets).neg().exp().mean().log(),
)


@loss_by_hand.wrong("log_of_the_mean_kept_finite", _LOG_OF_THE_MEAN)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return math.log(len(targets)) - _surprises(logits, targets).neg().logsumexp(0)


loss_by_hand.wrong(
    "one_minus_p",
    "This is one minus the probability. A loss grows without limit as the probability goes to 0: "
    "take -log(p).",
    loss_by_hand=lambda logits, targets: (1 - _surprises(logits, targets).neg().exp()).mean(),
)


@loss_by_hand.wrong("in_bits", "This is in bits. torch uses the natural logarithm.")
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return _surprises(logits, targets).mean() / torch.tensor(2.0).log()


@loss_by_hand.wrong(
    "softmax_over_tokens",
    "The probabilities sum to 1 over the tokens here. Each row is one guess: sum over dim 1, the "
    "words.",
)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -logits.log_softmax(0)[torch.arange(len(targets)), targets].mean()


_ONE_MAXIMUM = (
    "One maximum was subtracted from all rows. In a row far below it every exp is 0, and so is "
    "their sum: each row needs its own maximum."
)


@loss_by_hand.wrong("maximum_of_all_rows", _ONE_MAXIMUM)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    m = logits.max()
    right = logits[torch.arange(len(targets)), targets]
    return (m + (logits - m).exp().sum(1).log() - right).mean()


@loss_by_hand.wrong("logits_below_one_maximum", _ONE_MAXIMUM)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    z = logits - logits.max()
    return (z.exp().sum(1).log() - z[torch.arange(len(targets)), targets]).mean()


@loss_by_hand.wrong(
    "log_of_softmax",
    "The right word's probability is 0 in float32 here, and so is its exp(z - m): neither a log "
    "nor an inverse of these is finite. log(sum of exp(z)) - z[right] needs none of them.",
)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -logits.softmax(1)[torch.arange(len(targets)), targets].log().mean()


@loss_by_hand.wrong(
    "maximum_not_added_back",
    "The maximum was taken out of exp and is missing afterwards: log(sum of exp(z)) is m plus "
    "log(sum of exp(z - m)).",
)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    m = logits.amax(1, keepdim=True)
    right = logits[torch.arange(len(targets)), targets]
    return ((logits - m).exp().sum(1).log() - right).mean()


loss_by_hand.wrong(
    "probability",
    "This is the mean probability of the right words. The loss is its -log, row by row.",
    loss_by_hand=lambda logits, targets: _surprises(logits, targets).neg().exp().mean(),
)
loss_by_hand.wrong(
    "logit_alone",
    "This is the right word's logit with its sign turned. A logit is a score: only after softmax "
    "over the row is it a probability.",
    loss_by_hand=lambda logits, targets: -logits[torch.arange(len(targets)), targets].mean(),
)
loss_by_hand.wrong(
    "one_for_each_row",
    "The surprises are right, one for each row. The loss is their mean.",
    loss_by_hand=lambda logits, targets: _surprises(logits, targets),
)
loss_by_hand.wrong(
    "python_float",
    "The value is right. A tensor was asked for: a float has left the graph, and backward with it.",
    loss_by_hand=lambda logits, targets: float(_surprises(logits, targets).mean()),
)


@loss_by_hand.wrong(
    "softmax_over_all",
    "The probabilities sum to 1 over the whole table. Each row is a guess of its own: they sum "
    "to 1 over dim 1.",
)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (logits.flatten().logsumexp(0) - logits[torch.arange(len(targets)), targets]).mean()


loss_by_hand.wrong(
    "every_word_of_every_row",
    "Each row is asked for the words of all rows here, as by `[:, targets]`. Row k needs only "
    "targets[k].",
    loss_by_hand=lambda logits, targets: -logits.log_softmax(1)[:, targets].mean(),
)
loss_by_hand.wrong(
    "likeliest_word",
    "This is the surprise at each row's likeliest word. The loss asks for the word that really "
    "came: targets.",
    loss_by_hand=lambda logits, targets: -logits.log_softmax(1).amax(1).mean(),
)
loss_by_hand.wrong(
    "divided_by_all_numbers",
    "The sum was divided by N * V. Each row has one surprise: the mean is over N.",
    loss_by_hand=lambda logits, targets: _surprises(logits, targets).sum() / logits.numel(),
)
loss_by_hand.wrong(
    "divided_by_the_words",
    "The sum was divided by V, the number of words. The mean is over the N rows.",
    loss_by_hand=lambda logits, targets: _surprises(logits, targets).sum() / logits.shape[1],
)
loss_by_hand.wrong(
    "one_row_too_few",
    "The sum was divided by N - 1. This is the plain mean of N surprises.",
    loss_by_hand=lambda logits, targets: _surprises(logits, targets).sum() / (len(targets) - 1),
)
loss_by_hand.wrong(
    "first_row_only",
    "This is the surprise of the first row. The loss is the mean over all of them.",
    loss_by_hand=lambda logits, targets: _surprises(logits, targets)[0],
)
loss_by_hand.wrong(
    "last_row_only",
    "This is the surprise of the last row. The loss is the mean over all of them.",
    loss_by_hand=lambda logits, targets: _surprises(logits, targets)[-1],
)
loss_by_hand.wrong(
    "returned_in_the_loop",
    "Only the first row is in the sum, and it is divided by N, as where a loop returns in its "
    "first round. Add up all rows.",
    loss_by_hand=lambda logits, targets: _surprises(logits, targets)[0] / len(targets),
)
loss_by_hand.wrong(
    "shape_of_one",
    "The value is right, in a tensor of shape (1,). The loss is a number, of shape ().",
    loss_by_hand=lambda logits, targets: _surprises(logits, targets).mean().reshape(1),
)
loss_by_hand.wrong(
    "softmax_twice",
    "The softmax was taken twice: F.cross_entropy and log_softmax want logits, not probabilities.",
    loss_by_hand=lambda logits, targets: _surprises(logits.softmax(1), targets).mean(),
)


@loss_by_hand.wrong(
    "other_shift",
    "exp overflows here: something was subtracted from the row, but not its maximum. Only below "
    "that is exp at most 1.",
)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    z = logits - logits.mean(1, keepdim=True)
    right = z[torch.arange(len(targets)), targets]
    return (z.exp().sum(1).log() - right).mean()


@loss_by_hand.wrong(
    "maximum_without_its_dim",
    "One number for each row, such as its maximum or its sum, has shape (N,), which stands for a "
    "row of N here. keepdim=True keeps them as a column.",
)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    z = logits - logits.amax(1)
    right = z[torch.arange(len(targets)), targets]
    return (z.exp().sum(1).log() - right).mean()


@loss_by_hand.wrong(
    "logits_overwritten",
    "The logits were overwritten: `-=`, or a method that ends in `_`, writes into the caller's "
    "tensor. `logits - m` makes a new one.",
)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    logits -= logits.amax(1, keepdim=True)
    return _surprises(logits, targets).mean()


@loss_by_hand.wrong(
    "left_the_graph",
    "The value is right, and it is a Python number. Return the tensor: `.item()` and float() "
    "leave the graph.",
)
def _(logits: torch.Tensor, targets: torch.Tensor) -> float:
    right = logits[torch.arange(len(targets)), targets]
    return float((logits.logsumexp(1) - right).mean())


@loss_by_hand.cost
def _(student: Student, draw: Draw) -> str:
    words = onelayer.grammar.encode(SENTENCES[0] + " comido")
    logits = onelayer.head()(onelayer.hidden(SENTENCES[0])).detach()  # (7, 600)
    loss = float(student.call("loss_by_hand", logits, torch.tensor(words[1:])))
    clueless = float(student.call("loss_by_hand", torch.zeros(1, 600), torch.tensor([0])))
    return (
        f"{loss:.2f} per word for the trained head on {SENTENCES[0] + ' comido'!r}; one that "
        f"knows nothing has {clueless:.2f}"
    )
