"""The head's loss with the options that people ask a fused loss for."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import explaining, saying
from autograder.checks.same_call import known_by_this_call
from autograder.judge import Draw, Race, Student, Turn, Wrong, describe, expect_close, within

from . import lab
from .options import MISREAD, Given, Meaning, Options, drawn_cases, loss_of, news, with_weight

_IGNORED = (
    "An ignored target need not be a word: -100 is no column. Leave those rows out, or look up "
    "column 0 for them and do not count it."
)
_RAISED = {
    "IndexError: index": _IGNORED,
    "IndexError: Target": _IGNORED,
    "TypeError": "b, `weight` and `softcap` may each be None: then there is none of it.",
}
_NO_ROWS = "IndexError: index", "x and t have no row here. Nothing of a first one can be asked."
MEAN_OF_NONE = (
    "No row counts here. F.cross_entropy's mean of no row is nan, 0 / 0: no number stands for it."
)
TOLERANCE = 2e-5  # of float32 sums of exponentials and of squares


@lab.question(
    "loss_options",
    points=5,
    minutes=10,
    difficulty=3,
    hints=(
        "In which order do bias, cap and shift come, and which of them does the z-loss see?",
        "F.cross_entropy knows weight, ignore_index, reduction and label_smoothing. Before it: "
        "shift, logits, cap. After it: z_loss * lse^2 of the rows that count; its mean is over "
        "those rows, whatever they weigh.",
        "squares = z_loss * z.logsumexp(1).square() * (t != ignore_index)",
    ),
)
def loss_options(student: Student, draw: Draw) -> None:
    """The loss of the head with options, as a fused loss has to give it.

    x (..., N, D), w (V, D), b (V,) or None, t (..., N), and options by name -> () or, for
    reduction="none", the shape of the targets.
    """
    right: list[Options] = []
    for (x, w, b, t), options in drawn_cases(draw):
        options = with_weight(options, x)
        with explaining(_RAISED if t.numel() else _RAISED | dict([_NO_ROWS])):
            got = student.call("loss_options", x, w, b, t, **options)
        wide = (x.double(), w.double(), None if b is None else b.double(), t)
        want = loss_of(*wide, Meaning(), **options)
        known = known_by_this_call(loss_options, student, got, x, w, b, t, **options)
        with saying(news(options, right)), known, within(f"with {_named(options)}"):
            expect_close(got, want.to(x.dtype), tolerance=TOLERANCE)
        right.append(options)
        if t.numel() and not bool((t != -100).any()):
            _expect_mean_of_none(student, (x, w, b, t))


def _expect_mean_of_none(student: Student, given: Given) -> None:
    """Without a row that counts the mean is torch's 0 / 0: a divisor of at least 1 shows here."""
    with explaining(_RAISED):
        got = student.call("loss_options", *given)
    if not isinstance(got, Tensor) or not bool(got.isnan().all()):
        raise Wrong(expected="nan", got=describe(got), why=MEAN_OF_NONE)


def _named(options: dict[str, Any]) -> str:
    """What was asked for, in words; a tensor by its name alone."""
    parts = (
        name if isinstance(value, Tensor) else f"{name}={value!r}"
        for name, value in options.items()
    )
    return ", ".join(parts) or "no option"


def _wrong(name: str, sentence: str, **how: bool) -> None:
    meaning = Meaning(**how)

    def answer(x: Tensor, w: Tensor, b: Tensor | None, t: Tensor, **options: Any) -> Tensor:
        return loss_of(x, w, b, t, meaning, **options)

    loss_options.wrong(name, sentence, loss_options=answer)


_wrong(
    "ignored_counted",
    "Rows whose target is ignored are in the sum: what is no word is no error.",
    ignored=False,
)
_wrong(
    "always_minus_100",
    "-100 is only the usual value of ignore_index. It may be any number, also a word's.",
    always_100=True,
)
_wrong(
    "mean_of_all",
    "Divided by the number of all rows. The mean is over those that count, with weights over the "
    "sum of theirs.",
    counts_ignored=True,
)
_wrong("unweighted", "`weight` was left out: a row counts weight[target] times.", weights=False)
_wrong(
    "weighted_sum_over_count",
    "With weights, the mean is a weighted mean: divide by the sum of the targets' weights, not by "
    "their number.",
    divides_by_weights=False,
)
_wrong("not_smoothed", "label_smoothing was left out.", smooths=False)
_wrong(
    "smoothed_over_others",
    "label_smoothing was spread over the other words. torch spreads it over all V, the target "
    "among them: label_smoothing / V each.",
    smooths_others=True,
)
_wrong(
    "smoothed_unweighted",
    "The smoothed part lacks the weights: word v counts label_smoothing / V times weight[v].",
    smooth_weighted=False,
)
_wrong("no_z_loss", "z_loss was left out.", z=False)
_wrong(
    "z_loss_of_the_raw",
    "The z-loss is of the logits that the softmax sees: behind the cap.",
    z_of_capped=False,
)
_wrong(
    "z_loss_of_ignored",
    "The z-loss counts rows whose target is ignored.",
    z_ignores=False,
)
_wrong(
    "z_loss_weighted",
    "The z-loss was weighted. It is no error at a word, so no word's weight is in it.",
    z_weighted=True,
)
_wrong(
    "not_squared",
    "lse is squared in the z-loss, which pulls it to 0 from both sides.",
    squared=False,
)
_wrong("not_capped", "softcap was left out.", capped=False)
_wrong(
    "cap_not_scaled",
    "tanh alone lies between -1 and 1. Times softcap it is z itself where z is small.",
    cap_factor=False,
)
_wrong("not_shifted", "shift was left out: position k is asked for word k + 1.", shifted=False)
_wrong(
    "shifted_back",
    "Shifted the wrong way: position k is asked for the word before it, which it has seen.",
    shifted_back=True,
)
_wrong(
    "shifted_when_flat",
    "The batch was shifted as one long row: the last position of a sentence is asked for the "
    "first word of the next one.",
    flat_shift=True,
)
_wrong(
    "always_mean",
    "The mean came back where another reduction was asked for: there are sum and none too.",
    reduces=False,
)

for name, (sentence, meaning) in MISREAD.items():
    _wrong(name, sentence, **meaning)

_wrong(
    "cap_clamps",
    "The logits were cut at softcap. The cap bends them: softcap * tanh(z / softcap).",
    cap_clamps=True,
)
_wrong(
    "shifts_both",
    "x and t lost the same position, so nothing is shifted. x loses its last, t its first.",
    shifts_both=True,
)
_wrong(
    "shifts_the_batch",
    "The first axis was shifted, from one sentence to the next. Positions are the last axis of t.",
    shifts_the_batch=True,
)
_wrong(
    "shifts_in_a_ring",
    "The last position is asked for the first word, as after a `roll`, which goes in a ring. "
    "It is to be asked for none.",
    shifts_in_a_ring=True,
)
loss_options.wrong(
    "last_position_kept",
    "The result has one column too many: the last position is asked for no word, and is in none.",
    loss_options=lambda x, w, b, t, **options: _padded(x, w, b, t, options),
)
loss_options.wrong(
    "zero_of_none",
    MEAN_OF_NONE,
    loss_options=lambda x, w, b, t, **options: _no_nan(x, w, b, t, options),
)


def _padded(x: Tensor, w: Tensor, b: Tensor | None, t: Tensor, options: Any) -> Tensor:
    """A 0 in the place of the last position."""
    loss = loss_of(x, w, b, t, Meaning(), **options)
    return F.pad(loss, (0, 1)) if options.get("shift") and loss.dim() else loss


def _no_nan(x: Tensor, w: Tensor, b: Tensor | None, t: Tensor, options: Any) -> Tensor:
    return loss_of(x, w, b, t, Meaning(), **options).nan_to_num()


@loss_options.cost
def _(student: Student, draw: Draw) -> str:
    x, w, b = draw.tensor(4, 33, 64), draw.tensor(600, 64), draw.tensor(600)
    t = draw.integers(4, 33, low=0, high=599)
    plain = student.call("loss_options", x, w, b, t, shift=True)
    more = student.call("loss_options", x, w, b, t, shift=True, z_loss=1e-4, softcap=30.0)
    return f"loss {float(plain):.3f}; {float(more):.3f} with a cap of 30 and a z-loss of 0.0001"


def _turn(draw: Draw) -> Turn:
    """A sentence's worth of the head, many times: 8,192 rows of 600 words."""
    n, v, d = 8_192, 600, 64
    t = draw.integers(n, low=0, high=v - 1)
    return Turn((draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v), t), tolerance=1e-4)


loss_options.race = Race("loss_options", "onelayer.kernels.chunked:chunked_head_loss", _turn)
