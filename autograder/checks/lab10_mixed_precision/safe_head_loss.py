"""The head's loss and its gradients, right in 16 bits: float32 inside, one rounding at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import saying
from autograder.judge import Draw, Student, Wrong, describe, expect_close, expect_tuple, within

from . import lab

Inputs = tuple[Tensor, Tensor, Tensor, Tensor, float]
Answer = tuple[Tensor, Tensor, Tensor, Tensor]
NAMES = ("the loss", "dx", "dw", "db")


@lab.question(
    "safe_head_loss",
    points=5,
    minutes=12,
    difficulty=4,
    hints=(
        "Where does float16 lose: in the logits, in the exponentials, in the sums, in the division "
        "by N, in the scale? And what is the last moment at which 16 bits are enough?",
        "Convert x, w and b to float32 first, do all of it there, multiply the gradients by the "
        "scale while they are float32, and convert each gradient once at the end. float64 stays.",
        "wide = torch.promote_types(x.dtype, torch.float32)",
    ),
)
def safe_head_loss(student: Student, draw: Draw) -> None:
    """The mean cross-entropy of the head, and the gradients of `scale` times that loss, no further
    from the truth than one rounding of the result.

    x (N, D), w (V, D), b (V,) of one dtype, t (N,) int64, scale (float)
    -> (loss (), float32 or float64, dx (N, D), dw (V, D), db (V,), of the dtype of x).
    """
    for where, inputs in _cases(draw):
        got = student.call("safe_head_loss", *inputs)
        each = expect_tuple(got, 4, "(loss, dx, dw, db)")
        for name, mine, want in zip(NAMES, each, _truth(*inputs), strict=True):
            sums = where == _IN_ORDER and name in ("dw", "db")
            why = _why(mine, want, inputs[0].dtype, sums=sums)
            with within(f"{name}, {where},"), saying(why):
                _expect_near(mine, want)


def _expect_near(got: Any, want: Tensor) -> None:
    """As near as one rounding. In 16 bits that is more than another order of summation in float32
    costs; float32 and float64 are given the judge's room for one."""
    if isinstance(got, Tensor) and got.shape == want.shape and got.is_floating_point():
        if got.dtype == want.dtype:
            got, want = _without_infinities(got.detach(), want)
        bad = int((~got.detach().isfinite()).sum())
        if bad and got.dtype == want.dtype:
            raise Wrong(
                expected="numbers", got=f"{bad} of {got.numel()} not finite: {describe(got)}"
            )
    expect_close(got, want, tolerance=_room(want))


def _without_infinities(got: Tensor, want: Tensor) -> tuple[Tensor, Tensor]:
    """Both with 0 where the truth is infinite. Raises Wrong where `got` is anything else there."""
    over = want.isinf()
    for mine, right in zip(got[over].tolist(), want[over].tolist(), strict=True):
        if mine != right:
            raise Wrong(expected=f"{right}", got=f"{mine}", why=_INFINITE)
    return got.masked_fill(over, 0.0), want.masked_fill(over, 0.0)


def _why(got: Any, want: Tensor, dtype: torch.dtype, *, sums: bool = False) -> str:
    """What is true of numbers of the right shape and dtype. sums: over rows in order."""
    if not isinstance(got, Tensor) or (got.shape, got.dtype) != (want.shape, want.dtype):
        return ""
    over = want.isinf()
    mine, right = (one.double().masked_fill(over, 0.0) for one in (got.detach(), want))
    if not mine.isfinite().all():
        return _OVER_GRADIENT if want.dim() and dtype == torch.float16 else _OVER
    if sums:
        return _PARTS
    off, largest = float((mine - right).abs().max()), float(right.abs().max())
    if dtype in (torch.float16, torch.bfloat16) and off <= largest / 16:
        return _NEAR if want.dim() else _LOSS_NEAR
    return "" if want.dim() else _LOSS


_INFINITE = (
    "This gradient is over 65504, where float16 ends, and rounded it is infinite, with its sign. A "
    "scaler looks for that: a number in its place would let the step be taken."
)
_OVER = (
    "In truth these numbers are finite. float16 ends at 65504, and logits or the scale can be "
    "larger. float32 holds no exp of 89 or more, and the log of a probability that has become 0 is "
    "infinite: `log_softmax` needs neither."
)
_OVER_GRADIENT = (
    "In truth these numbers are finite. float16 ends at 65504: the scale and the logits can be "
    "larger, and so can a sum over the rows that is divided by N later. Do all of it in float32, "
    "and round last."
)
_IN_ORDER = "bfloat16, rows sorted by their targets"
_PARTS = (
    "float32 adds these rows exactly, in whatever order. Over a part of them the sum is much "
    "larger than over all: kept in 16 bits on the way, it is rounded."
)
_NEAR = (
    "These are near, and roundings to 16 bits on the way can take them so far off. Convert the "
    "inputs first, and each gradient once, at the end."
)
_LOSS = (
    "The loss is the mean over the rows of this: the log of the sum of the row's exponentials, "
    "minus the logit of its target. It is as large as that comes out, also some hundreds."
)
_LOSS_NEAR = (
    "This is near, and roundings to 16 bits on the way can take it so far off, be it of the logits "
    "or of what comes of them. Convert the inputs first."
)


def _room(want: Tensor) -> float:
    """Relative to the largest element. A loss below 1 is a difference of logits that are larger, so
    it has the room of 1."""
    eps = torch.finfo(want.dtype).eps
    if want.dtype in (torch.float16, torch.bfloat16):
        return eps
    return 64 * eps / min(1.0, float(want.abs())) if want.dim() == 0 else 64 * eps


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _truth(x: Tensor, w: Tensor, b: Tensor, t: Tensor, scale: float) -> Answer:
    """In float64, rounded once."""
    loss, *grads = _computed(x, w, b, t, scale, wide=torch.float64)
    dx, dw, db = (grad.to(x.dtype) for grad in grads)
    return loss.to(_wide(x.dtype)), dx, dw, db


def _cases(draw: Draw) -> list[tuple[str, Inputs]]:
    """Each fault is caught by one of them for certain, whatever is drawn. The layouts come last: up
    to there two answers that make the same mistake agree in their strides too."""
    f16, bf16 = torch.float16, torch.bfloat16
    cases = [
        ("float16", _sized(draw, 7, 5, 11, f16), 4.0),
        ("bfloat16, logits of some hundreds", _sized(draw, 263, 8, 10, bf16, x=12.0, w=9.0), 0.5),
        ("float16, logits over 65504", _whole_numbers(draw), 1.0),
        (_IN_ORDER, _in_order(), 8.0),
        ("float16, many rows, nearly all right", _confident(draw), 2.0**16),
        ("float16, rows whose gradients cancel", _cancelling(draw), 8.0),
        ("float16, a scale too large", _alike(), 2.0**17),
        ("float64", _sized(draw, 6, 9, 4, torch.float64), 3.3),
        ("float32", _sized(draw, 1, draw.integer(2, 5), draw.integer(6, 9), torch.float32), 1.0),
        ("float32, D = 1", _sized(draw, 3, 1, 5, torch.float32), 2.5),
    ]
    layouts = [*draw.layouts(), *(draw.layout() for _ in draw.cases(1))]
    for layout in layouts:
        sizes = (draw.integer(20, 40), draw.integer(3, 9), draw.integer(10, 19))
        dtype = draw.choice((f16, bf16, torch.float32))
        name = str(dtype).removeprefix("torch.")
        cases.append((f"{name}, {layout}", _sized(draw, *sizes, dtype, layout=layout), 8.0))
    return [(where, (*tensors, scale)) for where, tensors, scale in cases]


def _sized(
    draw: Draw,
    n: int,
    d: int,
    v: int,
    dtype: torch.dtype,
    *,
    x: float = 1.0,
    w: float = 1.0,
    layout: str = "contiguous",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs of this size, `x` and `w` times as large as normal."""
    inputs = draw.tensor(n, d, dtype=dtype, layout=layout)
    kept = layout if layout != "expanded" else "contiguous"  # no two words are alike
    weight = draw.tensor(v, d, dtype=dtype, layout=kept)
    bias = draw.tensor(v, dtype=dtype, layout=kept)
    inputs, weight = (inputs * x if x != 1.0 else inputs), (weight * w if w != 1.0 else weight)
    return inputs, weight.requires_grad_(bool(draw.integer(0, 1))), bias, _targets(draw, n, v)


def _targets(draw: Draw, n: int, v: int) -> Tensor:
    return draw.integers(n, low=0, high=v - 1)


def _confident(draw: Draw) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Many rows, of which the model is nearly sure, and right: small gradients, over N, which the
    scale alone lifts into float16."""
    x, w, b, t = _sized(draw, 2051, 6, 9, torch.float16, w=2**-9)
    right = draw.integer(0, 8)
    b = b.clone()
    b[right] = 7.5
    return x, w, b, torch.full_like(t, right)


def _in_order() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four words that are all alike, and each one's rows together: dw and db are a few units, their
    sums over a part of the rows hundreds. float32 holds all of these sums, bfloat16 does not."""
    counts = torch.tensor([513, 510, 515, 510])  # 2048 rows, so that dividing by them is exact too
    t = torch.arange(4).repeat_interleave(counts)
    x = torch.tensor([1.0, 3.0], dtype=torch.bfloat16).repeat(len(t), 1)
    return x, torch.zeros(4, 2, dtype=x.dtype), torch.zeros(4, dtype=x.dtype), t


def _alike() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four words that are all alike, and the target of all rows the first: with a scale of 2**17
    the first of db and two of dw are far over 65504, and none of the others is near it."""
    x = torch.tensor([1.0, -1.5, 0.25], dtype=torch.float16).repeat(4, 1)
    w, b = torch.zeros(4, 3, dtype=x.dtype), torch.zeros(4, dtype=x.dtype)
    return x, w, b, torch.zeros(4, dtype=torch.int64)


def _cancelling(draw: Draw) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows with the probabilities that their targets have among themselves, nearly: db is a small
    sum of numbers that are not small."""
    n, d = 501, 3
    share = [draw.integer(61, 90), draw.integer(91, 130), draw.integer(131, 170)]
    counts = [*share, n - sum(share)]
    b = torch.tensor(counts, dtype=torch.float64).log().half()
    counts = [counts[0] - 1, *counts[1:-1], counts[-1] + 1]
    t = torch.tensor(draw.shuffled([k for k, many in enumerate(counts) for _ in range(many)]))
    x, w = draw.tensor(n, d, dtype=torch.float16), torch.zeros(len(counts), d, dtype=torch.float16)
    return x, w, b, t


def _whole_numbers(draw: Draw) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Whole numbers, so that float32 has the logits exactly; the largest is 80,000 or more. Each
    row has a clear winner, and the target is another one."""
    n, d, v = 5, 4, 7
    x = draw.integers(n, d, low=150, high=180)
    w = draw.integers(v, d, low=-90, high=60)
    winner = draw.integer(0, v - 1)
    w[winner] = 140
    t = (winner + draw.integers(n, low=1, high=v - 1)) % v
    b = draw.integers(v, low=-9, high=9)
    return x.half(), w.half(), b.half(), t


def _computed(
    x: Tensor,
    w: Tensor,
    b: Tensor,
    t: Tensor,
    scale: float,
    *,
    wide: torch.dtype | None = None,
    logits: Callable[[Tensor], Tensor] = lambda z: z,
    shifted: bool = True,
    share: Callable[[Tensor, int], Tensor] = lambda dz, n: dz / n,
    last: Callable[[Tensor, float], Tensor] = lambda grad, scale: grad * scale,
    by_softmax: bool = False,
    target: bool = True,
) -> list[Tensor]:
    """By hand, in `wide`, and the ways to lose digits. logits, share, last: what happens to them,
    to their gradient, and to each gradient at the end. by_softmax: the loss is the logarithm of
    the probability. target: it has its part in the gradient."""
    dtype = wide or _wide(x.dtype)
    a, m, c = (one.detach().to(dtype) for one in (x, w, b))
    z = logits(a @ m.T + c)  # (N, V)
    z = z - z.amax(1, keepdim=True) if shifted else z
    grown = z.exp()
    total = grown.sum(1, keepdim=True)
    rows = torch.arange(len(t))
    loss = (total.log().squeeze(1) - z[rows, t]).mean()
    dz = grown / total
    if by_softmax:
        loss = -dz[rows, t].log().mean()
    dz[rows, t] -= float(target)
    dz = share(dz, len(t))
    return [loss, *(last(grad, scale) for grad in (dz @ m, dz.T @ a, dz.sum(0)))]


def _rounded(
    inputs: Inputs, *, loss: Callable[[Tensor], Any] = lambda loss: loss, **how: Any
) -> Any:
    """Rounded at the end. loss: what becomes of it then."""
    whole, *grads = _computed(*inputs, **how)
    dtype = inputs[0].dtype
    dx, dw, db = (grad.to(dtype) for grad in grads)
    return loss(whole.to(_wide(dtype))), dx, dw, db


def _rounded_logit_gradient(inputs: Inputs) -> Any:
    dtype, scale = inputs[0].dtype, inputs[4]
    return _rounded(
        inputs,
        share=lambda dz, n: (dz * (scale / n)).to(dtype).to(dz.dtype),
        last=lambda grad, scale: grad,
    )


def _in_parts(inputs: Inputs) -> Any:
    """64 rows at a time, each time in float32, and their gradients added up in the dtype of x."""
    x, w, b, t, scale = inputs
    loss = torch.zeros((), dtype=_wide(x.dtype))
    dxs, dw, db = [], torch.zeros_like(w.detach()), torch.zeros_like(b.detach())
    for start in range(0, len(t), 64):
        rows = slice(start, start + 64)
        share = len(t[rows]) / len(t)
        of_part, *grads = _computed(x[rows], w, b, t[rows], scale * share)
        loss += of_part * share
        dx, of_w, of_b = (grad.to(x.dtype) for grad in grads)
        dxs.append(dx)
        dw, db = dw + of_w, db + of_b
    return loss, torch.cat(dxs), dw, db


def _wrong(name: str, sentence: str, answer: Callable[[Inputs], Any]) -> None:
    safe_head_loss.wrong(
        name, sentence, safe_head_loss=lambda x, w, b, t, scale: answer((x, w, b, t, scale))
    )


def _eager(inputs: Inputs) -> Answer:
    """As a loop without autocast does it: everything in the dtype of x."""
    x, w, b = (one.detach().clone().requires_grad_() for one in inputs[:3])
    loss = F.cross_entropy(F.linear(x, w, b), inputs[3])
    dx, dw, db = torch.autograd.grad(loss * inputs[4], (x, w, b))
    return loss.detach(), dx, dw, db


def _in_16_bits(inputs: Inputs) -> Answer:
    loss, dx, dw, db = _eager(inputs)
    return loss.to(_wide(loss.dtype)), dx, dw, db


def _by_autograd(
    inputs: Inputs,
    *,
    wide: torch.dtype | None = None,
    logits: Callable[[Tensor], Tensor] = lambda z: z,
    scaled: Callable[[Tensor], Tensor] = lambda loss: loss,
    loss: Callable[[Tensor], Tensor] = lambda loss: loss,
    rounds: bool = True,
) -> Any:
    """As _rounded, with torch's own backward, which rounds otherwise. scaled: the loss that is
    multiplied by the scale."""
    dtype = inputs[0].dtype
    leaves = [one.detach().to(wide or _wide(dtype)).requires_grad_() for one in inputs[:3]]
    mean = F.cross_entropy(logits(F.linear(*leaves)), inputs[3])
    grads = torch.autograd.grad(scaled(mean) * inputs[4], leaves)
    return loss(mean.detach()), *(grad.to(dtype) if rounds else grad for grad in grads)


def _cut(answer: Any) -> Any:
    """The answer, its infinities the largest number of their dtype."""
    return tuple(one.nan_to_num(nan=torch.nan) for one in answer)


_wrong(
    "all_in_16_bits",
    "Everything was computed in the dtype of x, the loss too. Its exponentials and sums need "
    "float32.",
    _eager,
)
_wrong(
    "loss_converted",
    "Everything was computed in the dtype of x, and the loss converted at the end. What was lost "
    "before does not come back.",
    _in_16_bits,
)
_wrong(
    "logits_in_16_bits",
    "The logits were rounded to 16 bits before the exponentials. bfloat16 has steps of 2 at 300, "
    "and float16 ends at 65504.",
    lambda inputs: _rounded(
        inputs, logits=lambda z: z.to(inputs[0].dtype).to(_wide(inputs[0].dtype))
    ),
)
_wrong(
    "no_maximum",
    "exp of a large logit is infinite in float32 too, from 89 on. First subtract the maximum.",
    lambda inputs: _rounded(inputs, shifted=False),
)
_wrong(
    "scaled_after_rounding",
    "The gradients were rounded to 16 bits, and only then multiplied by the scale. What was too "
    "small for float16 is gone by then: multiply in float32.",
    lambda inputs: _rounded(
        inputs,
        last=lambda grad, scale: grad.to(inputs[0].dtype).to(grad.dtype) * scale,
    ),
)
_wrong(
    "divided_in_16_bits",
    "The gradient of the logits was divided by N and rounded to 16 bits. Over 2051 rows most of it "
    "is too small for that.",
    lambda inputs: _rounded(
        inputs, share=lambda dz, n: (dz / n).to(inputs[0].dtype).to(_wide(inputs[0].dtype))
    ),
)
_wrong(
    "scale_in_16_bits",
    "The scale was converted to the dtype of x. 65536 is infinite in float16.",
    lambda inputs: _rounded(
        inputs,
        last=lambda grad, scale: grad * torch.tensor(scale, dtype=inputs[0].dtype).to(grad.dtype),
    ),
)
_wrong(
    "no_scale",
    "These are the gradients of the loss. Those of `scale` times the loss were asked.",
    lambda inputs: _rounded(inputs, last=lambda grad, scale: grad),
)
_wrong(
    "gradients_cut",
    "Gradients over float16's largest number were cut to it. Rounded they are infinite: that is "
    "what a scaler looks for.",
    lambda inputs: _rounded(
        inputs,
        last=lambda grad, scale: (grad * scale).clamp(
            torch.finfo(inputs[0].dtype).min, torch.finfo(inputs[0].dtype).max
        ),
    ),
)
_wrong(
    "gradients_cut_by_autograd",
    "Gradients over float16's largest number were cut to it. Rounded they are infinite: that is "
    "what a scaler looks for.",
    lambda inputs: _cut(_by_autograd(inputs)),
)
_wrong(
    "scaled_loss",
    "The loss was scaled as well. It is asked as it is.",
    lambda inputs: (_rounded(inputs)[0] * inputs[4], *_rounded(inputs)[1:]),
)
_wrong(
    "sum_not_mean",
    "The gradients are those of the sum over the rows. The loss is their mean.",
    lambda inputs: _rounded(inputs, share=lambda dz, n: dz),
)
_wrong(
    "float64_narrowed",
    "float64 went through float32, and half of its digits are gone.",
    lambda inputs: _rounded(inputs, wide=torch.float32),
)
_wrong(
    "gradients_in_float32",
    "The gradients are right, and came in float32. A gradient has the dtype of its tensor.",
    lambda inputs: tuple(_computed(*inputs)),
)


_wrong(
    "log_of_the_softmax",
    "The probability of a word that is far behind the largest is 0 in float32, and its logarithm "
    "-inf. Take the logarithm of the sum, as log_softmax does.",
    lambda inputs: _rounded(inputs, by_softmax=True),
)
_wrong(
    "softmax_without_maximum",
    "exp of a large logit is infinite in float32 too, from 89 on. First subtract the maximum.",
    lambda inputs: _rounded(inputs, by_softmax=True, shifted=False),
)
_wrong(
    "without_the_target",
    "The gradient of the logits is the softmax, less one at the target. The one is missing.",
    lambda inputs: _rounded(inputs, target=False),
)
_wrong(
    "logit_gradient_in_16_bits",
    "The gradient of the logits was rounded to 16 bits, and multiplied and summed after that. "
    "Where rows cancel, those roundings are what is left.",
    lambda inputs: _rounded_logit_gradient(inputs),
)
_wrong(
    "added_up_in_16_bits",
    "The gradients of parts of the rows were added up in 16 bits, which rounds once for each part. "
    "Add in float32, and round each gradient once, at the end.",
    _in_parts,
)
_wrong(
    "logits_cut",
    "The logits were cut at float16's largest number. In float32 they can be larger.",
    lambda inputs: _rounded(inputs, logits=lambda z: z.clamp(-65504.0, 65504.0)),
)
_wrong(
    "loss_and_gradients_of_the_sum",
    "The loss was summed over the rows. It is their mean, and the gradients are the mean's.",
    lambda inputs: _rounded(
        inputs, share=lambda dz, n: dz, loss=lambda loss: loss * len(inputs[3])
    ),
)
_wrong(
    "divided_by_the_scale",
    "The gradients were divided by the scale. Those of `scale` times the loss were asked: "
    "multiply.",
    lambda inputs: _rounded(inputs, last=lambda grad, scale: grad / scale),
)
_wrong(
    "loss_in_16_bits",
    "The loss came in the dtype of x. It is asked in float32.",
    lambda inputs: _rounded(inputs, loss=lambda loss: loss.to(inputs[0].dtype)),
)
_wrong(
    "loss_through_16_bits",
    "The loss was rounded to 16 bits on its way. It is a float32 from the logits to the end.",
    lambda inputs: _rounded(inputs, loss=lambda loss: loss.to(inputs[0].dtype).to(loss.dtype)),
)
_wrong(
    "loss_in_float64",
    "The loss came in float64, for inputs of 16 bits too. It is asked in float32 there.",
    lambda inputs: _rounded(inputs, loss=lambda loss: loss.double()),
)
_wrong(
    "loss_in_float32_always",
    "The loss came in float32, for float64 too. There all of it is asked in float64.",
    lambda inputs: _rounded(inputs, loss=lambda loss: loss.float()),
)
_wrong(
    "all_in_float32_always",
    "float64 went through float32, and half of its digits are gone.",
    lambda inputs: _rounded(inputs, wide=torch.float32, loss=lambda loss: loss.float()),
)
_wrong(
    "float64_narrowed_by_autograd",
    "float64 went through float32, and half of its digits are gone.",
    lambda inputs: _by_autograd(inputs, wide=torch.float32),
)
_wrong(
    "float64_narrowed_and_widened",
    "float64 went through float32, and half of its digits are gone.",
    lambda inputs: _by_autograd(
        inputs, wide=torch.float32, loss=lambda loss: loss.to(_wide(inputs[0].dtype))
    ),
)
_wrong(
    "gradients_in_float32_by_autograd",
    "The gradients are right, and came in float32. A gradient has the dtype of its tensor.",
    lambda inputs: _by_autograd(inputs, rounds=False),
)
_wrong(
    "loss_in_float64_by_autograd",
    "The loss came in float64, for inputs of 16 bits too. It is asked in float32 there.",
    lambda inputs: _by_autograd(inputs, loss=lambda loss: loss.double()),
)
_wrong(
    "all_in_float64",
    "The loss came in float64, for inputs of 16 bits too. It is asked in float32 there.",
    lambda inputs: _by_autograd(inputs, wide=torch.float64),
)
_wrong(
    "logits_cut_by_autograd",
    "The logits were cut at float16's largest number. In float32 they can be larger.",
    lambda inputs: _by_autograd(inputs, logits=lambda z: z.clamp(-65504.0, 65504.0)),
)
_wrong(
    "scaled_in_16_bits",
    "The scale is in the dtype of x on the way back, as where the loss is converted to it and "
    "then scaled: 65536 is infinite in float16.",
    lambda inputs: _by_autograd(inputs, scaled=lambda loss: loss.to(inputs[0].dtype)),
)
_wrong(
    "loss_as_a_number",
    "The loss came as a number of Python. A 0-d tensor is asked.",
    lambda inputs: _rounded(inputs, loss=lambda loss: loss.item()),
)
_wrong(
    "dw_first",
    "The gradients came in another order. After the loss comes dx, then dw, then db.",
    lambda inputs: tuple(_rounded(inputs)[k] for k in (0, 2, 1, 3)),
)
_wrong(
    "db_missing",
    "Three came. db is asked as well.",
    lambda inputs: _rounded(inputs)[:3],
)
_wrong(
    "without_the_loss",
    "Only the gradients came. The loss is asked in front of them.",
    lambda inputs: _rounded(inputs)[1:],
)
_wrong(
    "gradients_asked_of_the_caller",
    "x, w or b of the caller was changed, as by `requires_grad_()` or in place. Make detached "
    "copies first.",
    lambda inputs: [one.requires_grad_() for one in inputs[:3]],
)


@safe_head_loss.wrong(
    "dw_of_the_inputs",
    "dw is transposed: a Linear keeps its weight as (out, in), and the gradient has its shape.",
)
def _(x: Tensor, w: Tensor, b: Tensor, t: Tensor, scale: float) -> Answer:
    loss, dx, dw, db = _rounded((x, w, b, t, scale))
    return loss, dx, dw.T, db


@safe_head_loss.cost
def _(student: Student, draw: Draw) -> str:
    inputs = (*_confident(draw), 2.0**16)
    want = _computed(*inputs, wide=torch.float64)[2]
    errors = []
    for dw in (student.call("safe_head_loss", *inputs)[2], _rounded(inputs, last=_late)[2]):
        errors.append(float((dw.double() - want).norm() / want.norm()))
    return f"dw of 2051 rows in float16 is off by {errors[0]:.0e}, {errors[1]:.0e} if scaled late"


def _late(grad: Tensor, scale: float) -> Tensor:
    return grad.half() * scale
