"""The loss of the head with its options, in float64, and drawn options.

What each option means is what onelayer.kernels.chunked_head_loss says; the lab's test compares the
two. Each field of `Meaning` that is not as it stands here is one way to get an option wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.judge import LAYOUTS, Draw

from .pairs_covered import Run, all_runs, greedy, pairs_of

Options = dict[str, Any]
Given = tuple[Tensor, Tensor, Tensor | None, Tensor]
REDUCTIONS = ("mean", "sum", "none")
FREE = 2  # a word that weighs nothing; a row with it counts all the same


@dataclass(frozen=True)
class Meaning:
    """How the options are understood; as it stands, right."""

    ignored: bool = True
    always_100: bool = False
    counts_ignored: bool = False
    weights: bool = True
    divides_by_weights: bool = True
    smooths: bool = True
    smooths_others: bool = False
    smooth_weighted: bool = True
    z: bool = True
    z_of_capped: bool = True
    z_ignores: bool = True
    z_weighted: bool = False
    squared: bool = True
    capped: bool = True
    cap_factor: bool = True
    shifted: bool = True
    shifted_back: bool = False
    flat_shift: bool = False
    reduces: bool = True
    bias: bool = True
    bias_capped: bool = True
    cap_clamps: bool = False
    cap_of_the_raw: bool = False
    shifts_both: bool = False
    shifts_the_batch: bool = False
    shifts_in_a_ring: bool = False
    z_over_all: bool = False
    z_over_weights: bool = False
    z_divided: bool = True
    z_always_divided: bool = False
    z_always_100: bool = False
    z_factor_squared: bool = False
    z_of_logits: bool = False
    weights_over_all: bool = False
    smoothing_added: bool = False
    z_of_the_mean: bool = False


MISREAD: dict[str, tuple[str, dict[str, bool]]] = {
    "no_bias": (
        "The bias was left out: b is added to the logits, unless it is None.",
        {"bias": False},
    ),
    "bias_behind_the_cap": (
        "The bias was added behind the cap. It is part of the logits that are capped.",
        {"bias_capped": False},
    ),
    "cap_of_the_raw": (
        "z was not divided by softcap inside tanh: softcap * tanh(z / softcap) is z itself where "
        "z is small.",
        {"cap_of_the_raw": True},
    ),
    "z_over_all": (
        "The z-loss was divided by the number of all rows. Its mean is over those that count.",
        {"z_over_all": True},
    ),
    "z_over_weights": (
        "The z-loss was divided by the sum of the weights. Its mean is over the rows that count, "
        "whatever they weigh.",
        {"z_over_weights": True},
    ),
    "z_summed": (
        "The z-loss is a sum, also for the mean: divide it by the number of rows that count.",
        {"z_divided": False},
    ),
    "z_averaged_in_a_sum": (
        "The z-loss is a mean, also for the sum. `reduction` is for all of the loss.",
        {"z_always_divided": True},
    ),
    "z_always_minus_100": (
        "The z-loss counts rows that are ignored. Those are the rows whose target is ignore_index: "
        "neither -100 nor a sign tells them.",
        {"z_always_100": True},
    ),
    "z_factor_squared": (
        "z_loss was squared too. Only lse is: z_loss * lse^2.",
        {"z_factor_squared": True},
    ),
    "z_of_logits": (
        "This is a z-loss of the logits' squares. It is the square of one number a row: its "
        "log-sum-exp.",
        {"z_of_logits": True},
    ),
    "weights_over_all": (
        "Divided by the number of all rows. The mean is over those that count, with weights over "
        "the sum of theirs.",
        {"weights_over_all": True},
    ),
    "smoothing_added": (
        "The smoothing was added on top. The target keeps 1 - label_smoothing of its share.",
        {"smoothing_added": True},
    ),
    "z_of_the_mean": (
        "The mean of the rows' log-sum-exps was squared. The z-loss is the mean of their squares.",
        {"z_of_the_mean": True},
    ),
}
"""What the options do not mean, of the loss and of its gradients: name -> (sentence, `Meaning`)."""


_NEW = {
    "ignore_index": "Right so far, with ignore_index -100. Here it is another number: rows with "
    "that target do not count, and -100 is then no such number.",
    "label_smoothing": "Right so far, without label_smoothing. With it each word v counts "
    "label_smoothing / V, times weight[v] where there is a `weight`, and the target 1 - "
    "label_smoothing more, times its own. The mean divides as it does without.",
    "weight": "Right so far, without `weight`. With it a row counts weight[target] times, and the "
    "mean divides by the sum of those weights, over the rows that count.",
    "softcap": "Right so far, without softcap. With it the softmax and the z-loss see softcap * "
    "tanh(z / softcap), bias and all; on the way back dz is multiplied by 1 - tanh^2.",
    "shift": "Right so far, without shift. With it position k of a sentence is asked for t[..., k "
    "+ 1], and the last position for none.",
    "z_loss": "Right so far, without z_loss. With it every row that counts adds z_loss * lse^2 of "
    "its capped logits, without `weight`, and for the mean the mean of these over those rows.",
    "sum": 'Right so far, for other reductions. "sum" adds up the rows that count, and divides by '
    "nothing.",
    "none": 'Right so far, for other reductions. "none" gives a loss for each target that is asked '
    "for, 0 where it is ignored, and divides none of them.",
}
_PLAIN = (
    "No option came: it is the mean of the cross-entropy over the rows whose target is not -100. "
    "Nothing of the others is in it, nor in what it is divided by."
)
_TOGETHER = "Each of these options was right in another call. Here they come together."
_AGAIN = "This option was right in another call, with other numbers."


def news(options: Options, before: Iterable[Options]) -> str:
    """What is true of a call that is wrong after calls with the options `before` were right: the
    meaning of an option that none of those had."""
    seen = set().union(*map(_set_in, before))
    fresh = [name for name in _NEW if name in _set_in(options) - seen]
    if fresh:
        return _NEW[fresh[0]]
    return (_PLAIN, _AGAIN, _TOGETHER)[min(2, len(_set_in(options)))]


def _set_in(options: Options) -> set[str]:
    """The options that are not as they are without being named."""
    usual = {"reduction": "mean", "ignore_index": -100}
    named = {
        name
        for name, value in options.items()
        if isinstance(value, Tensor) or (value and value != usual.get(name))
    }
    return named - {"reduction"} | ({options["reduction"]} if "reduction" in named else set())


def loss_of(
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    t: Tensor,
    mean: Meaning,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
    shift: bool = False,
) -> Tensor:
    """The loss, in the dtype of x: float64 for the truth."""
    if shift and mean.shifted:
        x, t = _next_words(x, t, mean)
    early = b if mean.bias and (mean.bias_capped or softcap is None) else None
    raw = F.linear(x, w, early).flatten(0, -2)
    z = raw if softcap is None or not mean.capped else _capped(raw, softcap, mean)
    if mean.bias and early is None and b is not None:
        z = z + b
    ignore = -100 if mean.always_100 else ignore_index
    counts = (t != ignore).flatten() if mean.ignored else torch.ones_like(t).flatten() > 0
    target = torch.where((t.flatten() >= 0) & (t.flatten() < len(w)), t.flatten(), 0)
    weight = None if weight is None or not mean.weights else weight.to(z.dtype)
    loss = _of_rows(z, target, weight, label_smoothing if mean.smooths else 0.0, mean)
    loss = torch.where(counts, loss, 0.0)
    squares = _z_loss(z if mean.z_of_capped else raw, z_loss if mean.z else 0.0, mean)
    z_counts = (t != -100).flatten() if mean.z_always_100 else counts
    squares = torch.where(z_counts, squares, 0.0) if mean.z_ignores else squares
    if mean.z_weighted and weight is not None:
        squares = squares * weight[target]
    if not mean.reduces:
        reduction = "mean"
    if reduction == "none":
        return (loss + squares).reshape(t.shape)
    if reduction == "sum":
        most = counts.sum() if mean.z_always_divided else 1.0
        return loss.sum() + squares.sum() / most
    number = float(len(counts)) if mean.counts_ignored else counts.sum().to(z.dtype)
    by_weight = weight is not None and mean.divides_by_weights
    total = (weight[target] * counts).sum() if by_weight and weight is not None else number
    if mean.weights_over_all:
        total = float(len(counts))
    if mean.z_over_all:
        number = float(len(counts))
    if mean.z_over_weights:
        number = total
    if mean.z_of_the_mean:
        squares = z_loss * ((z.logsumexp(1) * counts).sum() / number).square() * counts
    return loss.sum() / total + squares.sum() / (number if mean.z_divided else 1.0)


def _next_words(x: Tensor, t: Tensor, mean: Meaning) -> tuple[Tensor, Tensor]:
    if mean.flat_shift:
        return x.flatten(0, -2)[:-1], t.flatten()[1:]
    if mean.shifts_both:
        return x[..., 1:, :], t[..., 1:]
    if mean.shifts_the_batch:
        return x[:-1], t[1:]
    if mean.shifts_in_a_ring:
        return x, t.roll(-1, -1)
    if mean.shifted_back:
        return x[..., 1:, :], t[..., :-1]
    return x[..., :-1, :], t[..., 1:]


def _capped(z: Tensor, softcap: float, mean: Meaning) -> Tensor:
    """(N, V) -> (N, V) between -softcap and softcap."""
    if mean.cap_clamps:
        return z.clamp(-softcap, softcap)
    bent = torch.tanh(z if mean.cap_of_the_raw else z / softcap)
    return softcap * bent if mean.cap_factor else bent


def _of_rows(
    z: Tensor, target: Tensor, weight: Tensor | None, smoothing: float, mean: Meaning
) -> Tensor:
    """(N, V) -> (N,): every row's cross-entropy, whether or not it counts."""
    log_p = z.log_softmax(1)
    v = z.shape[1]
    at_target = 1.0 if weight is None else weight[target]
    every = z.new_ones(v) if weight is None else weight
    if not mean.smooth_weighted:
        every = z.new_ones(v)
    at = -log_p.gather(1, target[:, None])[:, 0] * at_target
    if mean.smooths_others and v > 1:
        others = -(log_p * every).sum(1) - at
        return (1 - smoothing) * at + smoothing / (v - 1) * others
    kept = 1.0 if mean.smoothing_added else 1 - smoothing
    return kept * at - smoothing / v * (log_p * every).sum(1)


def _z_loss(z: Tensor, factor: float, mean: Meaning) -> Tensor:
    if mean.z_of_logits:
        return factor * z.square().sum(1)
    lse = z.logsumexp(1)
    factor = factor**2 if mean.z_factor_squared else factor
    return factor * (lse.square() if mean.squared else lse)


def gradients(given: Given, dloss: Tensor, mean: Meaning, options: Options) -> list[Tensor | None]:
    """dx, dw and db (None without a bias), by autograd, in float64."""
    x, w, b, t = given
    leaves = [one.detach().double().requires_grad_() for one in (x, w, b) if one is not None]
    bias = leaves[2] if b is not None else None
    with torch.enable_grad():
        loss = loss_of(leaves[0], leaves[1], bias, t, mean, **options)
    found = torch.autograd.grad(
        loss, leaves, dloss.double().expand_as(loss), materialize_grads=True
    )
    return [*found, *([None] if b is None else [])]


def drawn_cases(draw: Draw) -> Iterator[tuple[Given, Options]]:
    """Each option where it shows; then several together. Sizes differ by pairs, and no option is
    one of torch's defaults."""
    v = draw.integer(11, 19)
    weight = draw.tensor(v, dtype=torch.float64).abs() + 0.2
    weight[FREE] = 0.0
    fixed: list[tuple[Options, str]] = [
        ({}, "plain"),
        ({"reduction": "none"}, "sentences"),
        ({"reduction": "sum", "ignore_index": draw.integer(1, v - 1)}, "plain"),
        ({"reduction": "mean", "ignore_index": -draw.integer(1, 9)}, "no_bias"),
        ({"reduction": "mean", "weight": weight}, "plain"),
        ({"reduction": "mean", "weight": weight, "label_smoothing": 0.3}, "plain"),
        ({"reduction": "sum", "label_smoothing": 0.2, "z_loss": 0.25}, "offset"),
        ({"reduction": "mean", "z_loss": 0.3, "weight": weight}, "plain varied"),
        ({"reduction": "mean", "z_loss": 0.4, "softcap": 1.5}, "large"),
        ({"reduction": "sum", "z_loss": 0.3, "ignore_index": draw.integer(1, v - 1)}, "plain"),
        ({"reduction": "mean", "shift": True}, "sentences"),
        ({"reduction": "none", "shift": True, "weight": weight, "z_loss": 0.2}, "sentences"),
        ({"reduction": "sum", "z_loss": 0.3, "ignore_index": 0}, "varied"),
        ({"reduction": "sum"}, "all_ignored"),
        ({"reduction": "none"}, "empty"),
        ({"reduction": "mean", "softcap": 3.0}, "float64"),
        ({"reduction": "sum", "shift": True}, "sentences of_one"),
        ({"reduction": "none", "shift": True, "z_loss": 0.2}, "sentences of_one"),
        ({"reduction": "mean", "z_loss": 0.2, "ignore_index": 255, "softcap": 50.0}, "plain"),
        ({"reduction": "mean", "weight": weight, "label_smoothing": 1.0}, "plain"),
        ({"reduction": "mean", "z_loss": 1e-4}, "loud float64"),
        ({"reduction": "mean", "z_loss": 0.2}, "one_row zero_bias"),
    ]
    for options, kind in [*fixed, *_each_with_each(v, weight)]:
        yield _given(draw, v, kind, options), options
    for _ in draw.cases(2):
        options = _together(draw, v, weight)
        kind = "sentences" if options["shift"] else draw.choice(("plain", "no_bias", "float64"))
        yield _given(draw, v, kind, options), options


def _each_with_each(v: int, weight: Tensor) -> Iterator[tuple[Options, str]]:
    """Every two values of different options in a call; each reduction with weights and without."""
    for run in _pairwise():
        reduction, _, weighted = run["reduction"].partition(" ")
        options = {
            "reduction": reduction,
            "weight": weight if weighted else None,
            "ignore_index": {"-100": -100, "0": 0, "last": v - 1}[run["ignored"]],
            "label_smoothing": 0.3 if run["smoothing"] else 0.0,
            "z_loss": 0.4 if run["z_loss"] else 0.0,
            "softcap": 2.0 if run["softcap"] else None,
            "shift": bool(run["shift"]),
        }
        yield options, f"{run['kind']} {run['bias']} varied"


@functools.cache
def _pairwise() -> list[Run]:
    axes = {
        "reduction": [f"{one}{more}" for one in REDUCTIONS for more in ("", " weighted")],
        "ignored": ["-100", "0", "last"],
        "kind": ["plain", "sentences", "deep"],
        "bias": ["", "no_bias"],
        **{name: ["", name] for name in ("smoothing", "z_loss", "softcap", "shift")},
    }
    runs = all_runs(axes)
    return greedy(runs, pairs_of(runs))


def _together(draw: Draw, v: int, weight: Tensor) -> Options:
    return {
        "reduction": draw.choice(REDUCTIONS),
        "weight": draw.choice((None, weight)),
        "ignore_index": draw.choice((-100, -1, v - 1)),
        "label_smoothing": draw.integer(0, 5) / 10,
        "z_loss": draw.integer(0, 5) / 10,
        "softcap": draw.choice((None, 2.0, 7.5)),
        "shift": bool(draw.integer(0, 1)),
    }


def _given(draw: Draw, v: int, kind: str, options: Options) -> Given:
    """x, w, b and t of this kind; a third of the targets are ignored, and never all of a batch that
    has a mean."""
    kinds = kind.split()
    d = draw.integer(4, 8)
    shapes = {"sentences": (3, draw.integer(9, 10)), "empty": (0,), "one_row": (1,)}
    shapes |= {"deep": (2, 3, draw.integer(6, 8)), "plain": (draw.integer(20, 25),)}
    shape = shapes.get(kinds[0], shapes["plain"])
    shape = (*shape[:-1], 1) if "of_one" in kinds else shape
    dtype = torch.float64 if "float64" in kinds else torch.float32
    layout = "offset" if kind == "offset" else draw.choice(LAYOUTS)
    if "varied" in kinds:  # with rows that are all one, a mean is the same over any of them
        layout = draw.choice([one for one in LAYOUTS if one != "expanded"])
    elif "sentences" in kinds and draw.integer(0, 1):
        layout = "expanded"
    x = draw.tensor(*shape, d, dtype=dtype, layout=layout)
    louder = 3.0 if kind == "large" else 500.0 if "loud" in kinds else 1.0
    w = louder * draw.tensor(v, d, dtype=dtype)
    b = None if "no_bias" in kinds else draw.tensor(v, dtype=dtype)
    if b is not None and "zero_bias" in kinds:
        b.zero_()
    ignore = options.get("ignore_index", -100)
    t = draw.integers(*shape, low=0, high=v - 1)
    t.view(-1)[2:3] = FREE
    t[(t == ignore) & (torch.arange(t.numel()).view(shape) % 3 == 0)] = 0
    t.view(-1)[1::3] = ignore
    if kind == "all_ignored":
        t[...] = ignore
    return x, w, b, t


def with_weight(options: Options, x: Tensor) -> Options:
    """The weight in the dtype of x, as F.cross_entropy wants it."""
    weight = options.get("weight")
    return options if weight is None else options | {"weight": weight.to(x.dtype)}
