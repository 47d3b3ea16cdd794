"""The mean surprise over the right words, written with exp, log and sums."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import onelayer
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
    for logits in (draw.tensor(3, 5), draw.tensor(1, 7), *large, certain, *drawn):
        n, v = logits.shape
        targets = draw.integers(n, low=1, high=v - 1)
        want = F.cross_entropy(logits.double(), targets).float()
        got = student.call("loss_by_hand", logits, targets)
        _expect_finite(got, want)
        expect_close(got, want, tolerance=1e-4)


NOT_FINITE = (
    "The loss is not finite here. exp of a large logit is infinite in float32, exp of a very "
    "negative one is 0: subtract each row's maximum first."
)


def _expect_finite(got: object, want: torch.Tensor) -> None:
    if isinstance(got, torch.Tensor) and got.numel() == 1 and not bool(got.isfinite().all()):
        raise Wrong(expected=f"{want.item():.6g}", got=f"{got.item():.6g}", why=NOT_FINITE)


def _surprises(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -logits.log_softmax(1)[torch.arange(len(targets)), targets]


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
loss_by_hand.wrong(
    "log_of_the_mean",
    "This is the surprise at the mean probability. Take each row's log first, then the mean.",
    loss_by_hand=lambda logits, targets: -_surprises(logits, targets).neg().exp().mean().log(),
)
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


@loss_by_hand.wrong(
    "maximum_of_all_rows",
    "One maximum was subtracted from all rows. In a row far below it every exp is 0, and so is "
    "their sum: each row needs its own maximum.",
)
def _(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    m = logits.max()
    right = logits[torch.arange(len(targets)), targets]
    return (m + (logits - m).exp().sum(1).log() - right).mean()


@loss_by_hand.wrong(
    "log_of_softmax",
    "The right word's probability is 0 in float32 here, and log(0) is minus infinity. Take no log "
    "of a probability: log(sum of exp(z)) - z[right] never makes one.",
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
