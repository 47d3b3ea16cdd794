"""The gradients of the head's loss with its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import explaining, saying
from autograder.checks.same_call import known_by_this_call
from autograder.judge import Draw, Student, Wrong, describe, expect_close, expect_tuple, within

from . import lab
from .loss_options import _RAISED, _named
from .options import MISREAD, Given, Meaning, Options, drawn_cases, gradients, news, with_weight

TOLERANCE = 5e-5
BIAS_OF_ZEROS = "There is a bias here, and zeros are one too: db is None only where b is."
Gradients = tuple[Tensor, Tensor, Tensor | None]


@lab.question(
    "options_backward",
    points=6,
    minutes=16,
    difficulty=5,
    hints=(
        "With q what a row wants to see (one-hot and smoothing, weighted) and p its softmax, what "
        "is dz without cap and z-loss? What do the entries of q sum to, and where does that sum "
        "stand?",
        "A row's dz = sum(q) p - q + 2 z_loss lse p, where it counts, times what comes from above "
        "and its share (1 / the sum of weights for the first two, 1 / the number for the third). "
        "Through the cap: times 1 - (z / softcap)^2. Then dx = dz w, dw = dz^T x, db = dz summed.",
        "q = (1 - label_smoothing) * weight[t, None] * onehot + label_smoothing / V * weight",
    ),
)
def options_backward(student: Student, draw: Draw) -> None:
    """The gradients of the loss with options, by hand.

    x, w, b or None, t as before; dloss: of the loss, () or for "none" the shape of the targets ->
    (dx, dw, db), db None without a bias.
    """
    right: list[Options] = []
    for given, options in drawn_cases(draw):
        options = with_weight(options, given[0])
        dloss = _from_above(draw, given, options)
        with explaining(_RAISED):
            got = student.call("options_backward", *given, dloss, **options)
        want = gradients(given, dloss, Meaning(), options)
        known = known_by_this_call(options_backward, student, got, *given, dloss, **options)
        with saying(news(options, right)), known:
            _expect(got, want, given[0].dtype, _named(options))
        right.append(options)


def _from_above(draw: Draw, given: Given, options: Options) -> Tensor:
    """One number, of either sign; or one for each target, the last axis not dense in memory."""
    x, _, _, t = given
    if options.get("reduction") != "none":
        number = draw.tensor(dtype=x.dtype) + 3.0
        return -number if options.get("reduction") == "sum" else number
    shape = t[..., 1:].shape if options.get("shift") else t.shape
    return draw.tensor(*shape, dtype=x.dtype, layout="transposed") + 1.5


def _expect(got: Any, want: list[Tensor | None], dtype: torch.dtype, options: str) -> None:
    parts = expect_tuple(got, 3, "(dx, dw, db)")
    for name, mine, true in zip(("dx", "dw", "db"), parts, want, strict=True):
        why = f"{name} has the shape of {name[1:]}." if _is_of_another_size(mine, true) else ""
        why = BIAS_OF_ZEROS if name == "db" and mine is None and true is not None else why
        with within(f"in {name} with {options}", why=why):
            if true is not None:
                expect_close(mine, true.to(dtype), tolerance=TOLERANCE)
            elif mine is not None:
                raise Wrong(expected="None: there is no bias", got=describe(mine))


def _is_of_another_size(got: Any, want: Tensor | None) -> bool:
    return isinstance(got, Tensor) and want is not None and got.numel() != want.numel()


def _as_students(found: list[Tensor | None], x: Tensor) -> Gradients:
    dx, dw, db = (None if one is None else one.to(x.dtype) for one in found)
    assert dx is not None
    assert dw is not None
    return dx, dw, db


def _wrong(name: str, sentence: str, **how: bool) -> None:
    meaning = Meaning(**how)

    def answer(
        x: Tensor, w: Tensor, b: Tensor | None, t: Tensor, dloss: Tensor, **options: Any
    ) -> Gradients:
        return _as_students(gradients((x, w, b, t), dloss, meaning, options), x)

    options_backward.wrong(name, sentence, options_backward=answer)


_wrong(
    "ignored_rows",
    "Rows whose target is ignored have a gradient. Nothing of theirs is in the loss: dz is 0.",
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
_wrong("unweighted", "`weight` is not in dz: a row counts weight[target] times.", weights=False)
_wrong(
    "weights_not_divided",
    "With weights, the mean divides by the sum of the targets' weights, not by their number.",
    divides_by_weights=False,
)
_wrong("not_smoothed", "label_smoothing is not in dz.", smooths=False)
_wrong(
    "smoothed_over_others",
    "label_smoothing was spread over the other words: it is label_smoothing / V for all V, the "
    "target among them.",
    smooths_others=True,
)
_wrong(
    "smoothed_unweighted",
    "The smoothed part lacks the weights: word v counts label_smoothing / V times weight[v].",
    smooth_weighted=False,
)
_wrong("no_z_loss", "z_loss is not in dz: 2 z_loss lse p.", z=False)
_wrong(
    "z_loss_of_ignored",
    "The z-loss of rows whose target is ignored is in dz.",
    z_ignores=False,
)
_wrong(
    "z_loss_weighted",
    "The z-loss was weighted. It is no error at a word, so no word's weight is in it.",
    z_weighted=True,
)
_wrong(
    "not_shifted",
    "shift is not in dz: position k is asked for word k + 1.",
    shifted=False,
)

for name, (sentence, meaning) in MISREAD.items():
    _wrong(name, sentence, **meaning)


def by_hand(
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    t: Tensor,
    dloss: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
    shift: bool = False,
    mistake: str = "",
) -> Gradients:
    """The formulas, with one `mistake` that autograd cannot make."""
    whole = x
    if shift:
        x, t = x[..., :-1, :], t[..., 1:]
    rows, flat = x.flatten(0, -2), t.flatten()
    z = F.linear(rows, w, b)
    z = z if softcap is None else softcap * torch.tanh(z / softcap)
    p, lse = z.softmax(1), z.logsumexp(1, keepdim=True)
    counts = flat != ignore_index
    target = flat.where(counts, 0)
    every = z.new_ones(len(w)) if weight is None else weight
    q = (1 - label_smoothing) * every[target, None] * F.one_hot(target, len(w))
    spread = every[target, None] if mistake == "smoothed_by_target" else every
    q = q + label_smoothing / len(w) * spread
    mass = 1.0 if mistake == "mass" else q.sum(1, keepdim=True)
    total = (every[target] * counts).sum() if reduction == "mean" else 1.0
    number = counts.sum() if reduction == "mean" else 1.0
    squares = z_loss * (1.0 if mistake == "no_p" else p) * (1.0 if mistake == "no_lse" else lse)
    squares = (1 if mistake == "half" else 2) * squares / number
    dz = (mass * p - q) / total + squares
    if mistake == "one_hot_first":
        dz = -dz
    above = 1.0 if mistake == "from_above" else dloss.flatten()[:, None] if dloss.dim() else dloss
    if mistake in ("above_summed", "above_averaged"):
        above = dloss.sum() if mistake == "above_summed" else dloss.mean()
    dz = dz * above if mistake != "above_loss_only" else (dz - squares) * above + squares
    dz = dz * counts[:, None]
    if softcap is not None:
        dz = dz * _through_the_cap(z, softcap, mistake)
    dx = (dz @ w).view(x.shape)
    if shift and mistake != "shape":
        dx = F.pad(dx, (0, 0, 1, 0) if mistake == "padded_first" else (0, 0, 0, 1))
    elif not shift:
        dx = dx.view(whole.shape)
    db = None if b is None else dz.mean(0) if mistake == "bias_mean" else dz.sum(0)
    if b is None and mistake.startswith("bias_"):
        db = dz.sum(0) if mistake == "bias_gradient_without_bias" else torch.zeros_like(dz[0])
    if b is None and mistake == "bias_mean":
        db = None
    dx = dx.flatten(0, -2) if mistake == "dx_flat" else dx
    return dx, rows.T @ dz if mistake == "dw_transposed" else dz.T @ rows, db


def _through_the_cap(z: Tensor, softcap: float, mistake: str) -> Tensor | float:
    """What dz is multiplied by; z (N, V): behind the cap."""
    bent = z / softcap
    factors: dict[str, Tensor | float] = {
        "cap": 1.0,
        "cap_not_squared": 1 - bent,
        "cap_factor": softcap * (1 - bent.square()),
        "cap_divided": (1 - bent.square()) / softcap,
        "cap_of_z": 1 - z.square(),
        "cap_twice": 1 - bent.tanh().square(),
    }
    return factors.get(mistake, 1 - bent.square())


def _mistaken(mistake: str) -> Callable[..., tuple[Tensor | None, ...]]:
    def answer(
        x: Tensor, w: Tensor, b: Tensor | None, t: Tensor, dloss: Tensor, **options: Any
    ) -> tuple[Tensor | None, ...]:
        dx, dw, db = by_hand(x, w, b, t, dloss, **options, mistake=mistake)
        if mistake == "above_not_in_db":
            db = by_hand(x, w, b, t, torch.ones_like(dloss), **options)[2]
        if mistake == "dw_first":
            dx, dw = dw, dx
        return (dx, dw) if mistake == "two_without_bias" and b is None else (dx, dw, db)

    return answer


_MISTAKES = {
    "mass": "A row's softmax was taken once. It stands as often as the row's weights sum to: "
    "sum(q) p - q.",
    "half": "The 2 is missing: lse is squared in the z-loss.",
    "no_lse": "The lse is missing: the gradient of lse^2 is 2 lse p.",
    "one_hot_first": "All signs are turned round: dz is softmax minus one-hot.",
    "from_above": "dloss was left out: what comes from above multiplies all of it.",
    "above_not_in_db": "db was not multiplied by dloss, and dx and dw were.",
    "cap": "The cap is missing in backward: times 1 - (z / softcap)^2.",
    "cap_not_squared": "The gradient of softcap * tanh(z / softcap) is 1 - tanh^2: the square is "
    "missing.",
    "shape": "dx lacks the last position. With shift it is in no loss: its gradient is 0, and dx "
    "has the shape of x.",
    "padded_first": "The row of zeros stands first in dx. It is the last position that is in no "
    "loss.",
    "bias_mean": "db is a sum over the rows, not a mean: dz has the mean in it already.",
    "cap_factor": "The gradient of softcap * tanh(z / softcap) is 1 - tanh^2. softcap and its "
    "inverse cancel.",
    "cap_divided": "The gradient of softcap * tanh(z / softcap) is 1 - tanh^2. softcap and its "
    "inverse cancel.",
    "cap_of_z": "1 - z^2 is the gradient of tanh where z is tanh. Here tanh is z / softcap.",
    "cap_twice": "tanh was taken of what is capped already: its square is (z / softcap)^2.",
    "no_p": "The softmax is missing in the z-loss: the gradient of lse by z[v] is p[v].",
    "above_loss_only": "dloss multiplies all of the loss, its z-loss too.",
    "above_summed": 'dloss was added up. With "none" each row has its own, and no row gets that '
    "of another.",
    "above_averaged": 'dloss was averaged. With "none" each row has its own, and no row gets '
    "that of another.",
    "dw_transposed": "dw is (D, V) here. It has the shape of w: dz^T x.",
    "dw_first": "dw came first. The order is dx, dw, db.",
    "bias_gradient_without_bias": "There is no bias, and db is None then.",
    "bias_zeros": "There is no bias, and db is None then.",
    "smoothed_by_target": "The smoothed part has the target's weight for all words: word v counts "
    "label_smoothing / V times weight[v].",
    "dx_flat": "dx is flat here. It has the shape of x.",
    "two_without_bias": "Without a bias two gradients came back. There are always three, the last "
    "one None.",
}
for _name, _sentence in _MISTAKES.items():
    options_backward.wrong(_name, _sentence, options_backward=_mistaken(_name))


@options_backward.cost
def _(student: Student, draw: Draw) -> str:
    x, w, b = draw.tensor(33, 64), draw.tensor(600, 64), draw.tensor(600)
    t = draw.integers(33, low=0, high=599)
    student.call("options_backward", x, w, b, t, torch.tensor(1.0), z_loss=1e-4)
    return f"three products of 2 N D V = {2 * 33 * 64 * 600:,} FLOPs: the logits, dx and dw"
