"""The head and its loss, with one number saved for each word."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import onelayer
from autograder.checks.explaining import explaining_nan, saying
from autograder.judge import Draw, Student, expect_tensors

from . import lab
from .answers import LEARNING, Answers, Needs, expect_answers, expect_named, parts
from .faulty_loss import (
    across,
    alone_forgotten,
    also_saving,
    answering,
    bare,
    bias_left_out,
    bias_missing,
    every_hit,
    every_target,
    first_half,
    from_saved,
    keeping_aside,
    left_behind,
    logits_behind,
    lse_over_all,
    one_maximum,
    overflowing,
    recomputing,
    repeats_once,
    repeats_once_in_dw,
    safe_logarithm,
    saving_gradients,
    saving_one,
    saving_sums,
    softmax,
    subtracting_late,
    subtracting_rows,
    sum_aside,
    sum_behind,
    unpacking,
    unrecorded,
    with_bias_gradient,
    with_logits,
    with_saved,
)
from .fused_loss import (
    CLASSES_COUNTED,
    EVERY_TARGET_PUSHED,
    Batch,
    Loss,
    backward_of,
    right_backward,
    right_forward,
    room,
    torchs_loss_gradients,
    two_batches,
)
from .two_halves import expect_few_bytes, handed_on, new_bytes

NOTHING_ARRIVES = (
    "dloss is 0.0 here, so each gradient that somebody needs is 0, and None stays None. 0.0 is "
    "false in Python, and a gradient like any other."
)

_LOSS = (
    "The loss is the mean over the rows of the log-sum-exp less the target's logit, and b is in "
    "the logits."
)
_INFINITE = (
    "The loss is infinite. exp of a logit over 88.72 is inf in float32, and of one over 709.78 in "
    "float64; exp of one far below 0 is 0, and log(0) is -inf. torch.logsumexp takes each row's "
    "maximum away first."
)
_NEEDED = "`needs` says who needs a gradient, and one of those got None."
_SHAPES = "A gradient has the shape of its tensor: dx (N, D), dw (V, D), db (V,)."
_GRADIENTS = (
    "All three come from one dz: softmax(z) less one-hot, times dloss / N. z is that of forward, b "
    "and all. dx sums over the words, dw and db over the rows."
)
OUT_OF_RANGE = (
    "There is nan in it. In float32 exp of a logit over 88.72 is inf, that of one far below 0 is "
    "0, and both inf / inf and 0 / 0 are nan. exp(z - lse) is at most 1, and sums to 1: keep the "
    "logarithm of the sum."
)
_BIAS = (
    "The logits of backward are not those of forward: b is missing in the second computation, and "
    "the saved log-sum-exp is that of the logits with b, so exp(z - lse) does not sum to 1."
)


@lab.question(
    "head_loss",
    points=5,
    minutes=20,
    difficulty=4,
    hints=(
        "softmax(z) = exp(z - logsumexp(z)). Which of the two on the right is large, and which of "
        "them can you compute again from what lies in memory anyway?",
        "Save x, w, b, target and lse = z.logsumexp(dim=1). Backward computes z again and takes "
        "exp(z - lse): that is softmax. From there it is lab 3.3, then 3.2; multiply by dloss.",
        "dz = (F.linear(x, w, b) - lse[:, None]).exp()",
    ),
)
def head_loss(student: Student, draw: Draw) -> None:
    """The head and its mean cross-entropy as the two halves of a Function that saves no logits.

    head_loss_forward: x (N, D), w (V, D), b (V,), target (N,) -> (loss, list of tensors to save).
    head_loss_backward: that list, dloss (a tensor of shape ()), needs (three bools) -> (dx, dw,
    db), with None for each that nobody needs.
    """
    always: list[tuple[list[Batch], Needs, float]] = [
        (two_batches(draw, 1.0), (True, True, True), 1.0),
        (two_batches(draw, 1.0), (False, True, True), 0.5),
        (_one_row_low(two_batches(draw, 150.0)), (True, True, False), 1.0),
        (two_batches(draw, 1.0), (True, False, False), -2.0),
        (two_batches(draw, 1.0), (False, False, True), 2.0),
        (two_batches(draw, 1.0, n=1), (True, True, True), 0.5),
        (two_batches(draw, 1.0, dtype=torch.float64), (True, True, True), 0.5),
        (two_batches(draw, 1.0), (False, True, False), 1.0),
        (two_batches(draw, 1.0), (True, False, True), 0.0),  # 0 is a gradient too
        ([(x, w, b - 300.0, y) for x, w, b, y in two_batches(draw, 1.0)], (True, True, True), 1.0),
        (_one_word_high(two_batches(draw, 1.0)), (True, True, True), 1.0),
    ]
    drawn = [
        (two_batches(draw, 2.0), draw.choice(LEARNING), draw.choice((0.25, 3.0)))
        for _ in draw.cases(2)
    ]
    with student.afresh() as later:  # which has seen no forward
        for batches, needs, dloss in always + drawn:
            # Both forwards come before the first backward, as in a net that uses the loss twice.
            kept = [_ask_loss(student, batch) for batch in batches]
            for batch, saved in zip(batches, kept, strict=True):
                seed = torch.tensor(dloss, dtype=batch[0].dtype)
                got = later.call("head_loss_backward", saved, seed, needs)
                want = torchs_loss_gradients(batch, seed, needs)
                rule = _rule(got, want, batch, seed) if dloss else NOTHING_ARRIVES
                with saying(rule), explaining_nan(got, _of_nan(batch)):
                    expect_answers(got, want, "dx dw db", tolerance=room(batch))


def _rule(got: Any, want: Answers, batch: Batch, dloss: Tensor) -> str:
    """The rule that the wrong ones of the gradients break."""
    if not isinstance(got, (list, tuple)) or len(got) != len(want):
        return ""
    needs: Needs = (want[0] is not None, want[1] is not None, want[2] is not None)
    pairs = [(mine, right) for mine, right in zip(got, want, strict=True) if right is not None]
    if any(mine is None for mine, _ in pairs):
        return _NEEDED
    if not all(isinstance(mine, Tensor) and mine.shape == right.shape for mine, right in pairs):
        return _SHAPES
    if any(_kind(mine) != _kind(right) for mine, right in pairs):
        return ""
    without_b = [g for g in bias_missing(right_forward(*batch)[1], dloss, needs) if g is not None]
    is_without_b = all(
        mine.allclose(theirs, rtol=1e-4, atol=1e-6)
        for (mine, _), theirs in zip(pairs, without_b, strict=True)
    )
    return _BIAS if is_without_b else _GRADIENTS


def _of_nan(batch: Batch) -> str:
    """What nan comes from where exp of the logits leaves float32."""
    x, w, b, _ = batch
    return OUT_OF_RANGE if F.linear(x, w, b).abs().max() > 88 else ""


def _kind(t: Tensor) -> tuple[object, ...]:
    return t.dtype, t.device, t.layout


def _one_row_low(batches: list[Batch]) -> list[Batch]:
    """The logits of the first row are hundreds below the largest of all."""
    return [(torch.cat((x[:1] / 100, x[1:])), w, b, target) for x, w, b, target in batches]


def _not_finite(loss: Any, batch: Batch) -> str:
    if not isinstance(loss, Tensor) or bool(loss.isfinite().all()):
        return ""
    return _INFINITE if bool(loss.isinf().any()) else _of_nan(batch) or _LOSS


def _one_word_high(batches: list[Batch]) -> list[Batch]:
    """exp of its logits is inf in float64 too."""
    return [(x, w, b + 800.0 * F.one_hot(y[-1], len(b)), y) for x, w, b, y in batches]


def _ask_loss(student: Student, batch: Batch) -> list[Tensor]:
    """Asks the first half -> what it saved."""
    x, w, b, target = batch
    loss, kept = parts(student.call("head_loss_forward", *batch), "loss, saved")
    loss = torch.tensor(loss, dtype=x.dtype) if isinstance(loss, float) else loss
    want = F.cross_entropy(F.linear(x, w, b), target)
    with saying(_LOSS):
        expect_named("the loss", loss, want, tolerance=room(batch), why=_not_finite(loss, batch))
    saved = expect_tensors(kept, "a list of tensors to save")
    why = "Too much was saved: beside the arguments one number for each row is enough."
    expect_few_bytes(saved, batch, 8 * len(x), why)
    return handed_on(saved, batch)


head_loss.otherwise(head_loss_forward=right_forward, head_loss_backward=right_backward)
head_loss.wrong(
    "logits_saved",
    "The logits were saved: N * V numbers, which backward can compute again from x and w. One "
    "number for each row is enough.",
    head_loss_forward=also_saving(lambda z: z),
)
head_loss.wrong(
    "log_softmax_saved",
    "The log-probabilities were saved, as torch's own node does: N * V numbers. They are z - lse, "
    "and z can be computed again.",
    head_loss_forward=also_saving(lambda z: z.log_softmax(1)),
)
head_loss.wrong(
    "softmax_saved",
    "The probabilities were saved: as many numbers as the logits. They are exp(z - lse), and z can "
    "be computed again.",
    head_loss_forward=also_saving(lambda z: z.softmax(1)),
)
head_loss.wrong(
    "gradients_in_forward",
    "The gradients were computed in forward and saved. Some libraries do, and spare themselves the "
    "second computation of the logits; but dw is as large as w, and here the bytes are counted.",
    head_loss_forward=saving_gradients,
    head_loss_backward=lambda saved, dloss, needs: tuple(
        g * dloss if needed else None for g, needed in zip(saved, needs, strict=True)
    ),
)
head_loss.wrong(
    "overflow",
    "exp of a logit over 88.72 is inf in float32, and so is the loss. torch.logsumexp takes the "
    "row's maximum away first.",
    head_loss_forward=overflowing,
)
head_loss.wrong(
    "one_maximum_for_all",
    "The exponentials of a whole row became 0, and log(0) is -inf. Subtract each row's own "
    "maximum, as torch.logsumexp(z, dim=1) does.",
    head_loss_forward=one_maximum,
)
head_loss.wrong(
    "sum_saved",
    "The sum of exponentials was saved, without the logarithm. One logit over 88 makes it inf in "
    "float32; its logarithm, from torch.logsumexp, is as small as a logit.",
    head_loss_forward=saving_sums,
)
head_loss.wrong(
    "every_target",
    "z[:, target] takes every row's target in every row, N times N logits. Row n wants its own: "
    "z[torch.arange(N), target].",
    head_loss_forward=every_target,
)
head_loss.wrong(
    "lse_alone",
    "Your list holds the log-sum-exp alone, and it is all that the second half gets. Put x, w, b "
    "and target in it too: they live anyway and count nothing.",
    head_loss_forward=saving_one,
    head_loss_backward=unpacking,
)
head_loss.wrong(
    "lse_across",
    "A tensor (N,), as lse is one, meets z (N, V), and torch lines up the last dimensions, N with "
    "V. Make it a column: lse[:, None].",
    head_loss_backward=across,
)

for _name, _first in (("unrecorded", right_forward), ("unrecorded_and_bare", bare)):
    head_loss.wrong(
        _name,
        "The loss that you differentiate has no graph. The second computation has to run on leaves "
        "that require a gradient, and where torch records: inside a Function it does not, so "
        "`with torch.enable_grad():` belongs around it.",
        head_loss_forward=_first,
        head_loss_backward=unrecorded,
    )


def _summed_loss(x: Tensor, w: Tensor, b: Tensor, target: Tensor) -> Loss:
    loss, saved = right_forward(x, w, b, target)
    return loss * len(x), saved


head_loss.wrong(
    "summed",
    "The loss is N times too large: F.cross_entropy takes the mean over the rows.",
    head_loss_forward=_summed_loss,
)
head_loss.wrong(
    "dloss_ignored",
    "dloss was not used. Whoever reads the loss may scale it: each backward multiplies by the "
    "gradient that arrives.",
    head_loss_backward=lambda saved, dloss, needs: backward_of(saved, 1 / len(saved[0]), needs),
)
head_loss.wrong(
    "not_averaged",
    "The gradients are N times too large: the loss is a mean, so each row's part is divided by N.",
    head_loss_backward=backward_of,
)
head_loss.wrong(
    "target_forgotten",
    "The 1 at the target is missing: dz is softmax minus one-hot. This pushes every word down, the "
    "right one too.",
    head_loss_backward=lambda saved, dloss, needs: backward_of(
        saved, dloss / len(saved[0]), needs, hit=0.0
    ),
)
head_loss.wrong(
    "everybody_gets_one",
    "A gradient was computed that nobody asked for. `needs` says who needs one; the others get "
    "None.",
    head_loss_backward=lambda saved, dloss, needs: right_backward(saved, dloss, (True,) * 3),
)
head_loss.wrong(
    "kept_on_the_side",
    "Backward used what the last forward left behind, not what was saved. Two forwards may come "
    "before the first backward: all that a call needs travels in its own list.",
    head_loss_forward=keeping_aside,
    head_loss_backward=lambda saved, dloss, needs: right_backward(left_behind, dloss, needs),
)


head_loss.wrong(
    "logits_on_the_side",
    "Backward used the logits that the last forward left behind, not what was saved. Two forwards "
    "may come before the first backward, and the logits are what should not be kept.",
    head_loss_forward=keeping_aside,
    head_loss_backward=logits_behind,
)
head_loss.wrong(
    "sum_on_the_side",
    "Backward used the log-sum-exp that the last forward left behind. Two forwards may come before "
    "the first backward: it belongs in the list, and its few bytes are allowed.",
    head_loss_forward=sum_aside,
    head_loss_backward=sum_behind,
)
for _name, _second in (
    ("repeated_word", repeats_once),
    ("repeated_word_in_dw", repeats_once_in_dw),
):
    head_loss.wrong(
        _name,
        "A word that is the target of two rows was counted once: `dw[target] -= ...` writes such a "
        "row once. Take the 1 away in dz, where each row has its own, or use index_add_.",
        head_loss_backward=_second,
    )
head_loss.wrong(
    "classes_counted",
    CLASSES_COUNTED,
    head_loss_backward=with_logits(
        lambda p, target, dloss: (p - F.one_hot(target)) * (dloss / len(p))
    ),
)
head_loss.wrong(
    "every_target_pushed",
    EVERY_TARGET_PUSHED,
    head_loss_backward=every_hit,
)
head_loss.wrong(
    "word_0_left_out",
    "The rows whose target is 0 were left out. Here 0 is a word like the others: no target stands "
    "for padding.",
    head_loss_forward=lambda x, w, b, target: (
        F.cross_entropy(F.linear(x, w, b), target, ignore_index=0).nan_to_num(),
        right_forward(x, w, b, target)[1],
    ),
)
head_loss.wrong(
    "bias_forgotten_again",
    "The logits of backward are not those of forward: b is missing in the second computation.",
    head_loss_backward=recomputing(softmax, with_bias=False),
)
head_loss.wrong(
    "bias_forgotten_beside_its_sum",
    _BIAS,
    head_loss_backward=bias_missing,
)
head_loss.wrong(
    "bias_forgotten",
    "The loss is that of x @ w.T. The head adds b to it.",
    head_loss_forward=bias_left_out,
)
head_loss.wrong(
    "maximum_saved",
    "The row's maximum was saved, or used, in place of the log-sum-exp. exp(z - max) does not sum "
    "to 1: the sum of the exponentials belongs to it, too.",
    head_loss_backward=recomputing(lambda z: (z - z.amax(1, keepdim=True)).exp()),
)
head_loss.wrong(
    "softmax_over_rows",
    "The probabilities sum to 1 over the rows, dim=0. Each row has its own distribution over the "
    "words: dim=1.",
    head_loss_backward=recomputing(lambda z: z.softmax(0)),
)
head_loss.wrong(
    "softmax_over_all",
    "The probabilities sum to 1 over all rows together. Each row has its own sum: dim=1.",
    head_loss_backward=recomputing(lambda z: z.flatten().softmax(0).view_as(z)),
)
head_loss.wrong(
    "lse_over_all",
    "One log-sum-exp was taken over all the rows. Each row has its own: dim=1.",
    head_loss_forward=lse_over_all,
)
head_loss.wrong(
    "small_number_in_the_logarithm",
    "The loss has a ceiling: a small number stands in the logarithm, against log(0). A very wrong "
    "row then costs about 18, where it costs hundreds. torch.logsumexp needs no such number.",
    head_loss_forward=safe_logarithm,
)
head_loss.wrong(
    "bias_alone",
    "b alone needed a gradient, and got none. Each of the three is asked for itself: db is the sum "
    "of dz, whoever else learns.",
    head_loss_backward=alone_forgotten,
)
head_loss.wrong(
    "in_float32",
    "Right for float32. What is made of float64 tensors is float64 to the last digit: float32 on "
    "the way, as from `.float()`, leaves seven of them.",
    head_loss_backward=lambda saved, dloss, needs: [
        g if g is None else g.float().to(g.dtype) for g in right_backward(saved, dloss, needs)
    ],
)
head_loss.wrong(
    "half_precision",
    "The log-sum-exp went through half precision: two or three digits, and exp turns their error "
    "into a factor of every probability. Four bytes a row are there for it.",
    head_loss_backward=recomputing(
        lambda z: (z - z.logsumexp(1, keepdim=True).half().to(z.dtype)).exp()
    ),
)


for _name, _kept in (
    ("logits_beside_the_sum", lambda z, lse: (z, lse)),
    ("logits_behind_the_sum", lambda z, lse: (lse, z)),
):
    head_loss.wrong(
        _name,
        "The logits were saved beside their log-sum-exp: N * V numbers, which backward can compute "
        "again from x and w.",
        head_loss_forward=with_saved(_kept),
    )
head_loss.wrong(
    "maximum_in_its_place",
    "The row's maximum was saved, or used, in place of the log-sum-exp. exp(z - max) does not sum "
    "to 1: the sum of the exponentials belongs to it, too.",
    head_loss_forward=with_saved(lambda z, lse: (z.amax(1),)),
    head_loss_backward=from_saved(lambda z, kept: (z - kept).exp()),
)


def _lse_in(dtype: torch.dtype, z: Tensor, lse: Tensor) -> tuple[Tensor]:
    return (lse.to(dtype),)


for _name, _dtype in (("saved_in_float16", torch.float16), ("saved_in_bfloat16", torch.bfloat16)):
    head_loss.wrong(
        _name,
        "The log-sum-exp went through half precision: two or three digits, and exp turns their "
        "error into a factor of every probability. Four bytes a row are there for it.",
        head_loss_forward=with_saved(partial(_lse_in, _dtype)),
        head_loss_backward=from_saved(lambda z, kept: (z - kept).exp()),
    )
head_loss.wrong(
    "saved_in_float32",
    "The log-sum-exp was saved in float32. With float64 inputs its seven digits are all that the "
    "gradients have: save it as it is.",
    head_loss_forward=with_saved(lambda z, lse: (lse.float(),)),
    head_loss_backward=from_saved(lambda z, kept: (z - kept).exp()),
)
head_loss.wrong(
    "lse_over_the_rows",
    "The log-sum-exp was taken over the rows, dim=0: one for each word. Each row has its own: "
    "dim=1.",
    head_loss_forward=first_half(
        lambda z, _, target: (z.logsumexp(0) - z[torch.arange(len(z)), target]).mean()
    ),
)
head_loss.wrong(
    "target_as_a_row",
    "z[target] takes rows, and a target is a word: row n wants z[n, target[n]], so "
    "z[torch.arange(N), target].",
    head_loss_forward=first_half(lambda z, lse, target: (lse - z[target]).mean()),
)
head_loss.wrong(
    "loss_of_each_row",
    "The loss has a number for each row. Asked for is their mean, one number.",
    head_loss_forward=first_half(lambda z, _, target: F.cross_entropy(z, target, reduction="none")),
)
head_loss.wrong(
    "loss_negated",
    "The loss has the wrong sign. It is lse - z[target], which is never below 0.",
    head_loss_forward=first_half(lambda z, _, target: -F.cross_entropy(z, target)),
)


head_loss.wrong(
    "not_in_a_list",
    "The tensors to save came one by one behind the loss. Asked for are two things: (loss, list).",
    head_loss_forward=lambda *batch: (right_forward(*batch)[0], *right_forward(*batch)[1]),
)
head_loss.wrong(
    "no_exp",
    "z - lse are log-probabilities. Softmax is exp of them.",
    head_loss_backward=recomputing(lambda z: z.log_softmax(1)),
)
head_loss.wrong(
    "divided_by_the_logarithm",
    "exp(z) was divided by the log-sum-exp. The sum itself is exp(lse), so softmax is exp(z - "
    "lse).",
    head_loss_backward=recomputing(lambda z: z.exp() / z.logsumexp(1, keepdim=True)),
)
head_loss.wrong(
    "overflow_in_backward",
    "exp of a logit over 88.72 is inf in float32, and inf / inf is nan. Subtract first: exp(z - "
    "lse).",
    head_loss_backward=recomputing(lambda z: z.exp() / z.exp().sum(1, keepdim=True)),
)
head_loss.wrong(
    "row_of_the_target",
    "dz[target] -= 1 writes into rows, and a target is a word. Row n has its 1 at its own word: "
    "dz[torch.arange(N), target].",
    head_loss_backward=with_logits(subtracting_rows),
)
head_loss.wrong(
    "one_not_scaled",
    "A whole 1 was taken away at the target, where the probabilities are divided by N already. It "
    "is a part of dz: take it away first, and scale all of dz then.",
    head_loss_backward=with_logits(subtracting_late),
)
head_loss.wrong(
    "one_without_dloss",
    "dloss does not reach the 1 at the target. The 1 is a part of dz, so the gradient that arrives "
    "multiplies it too: (p - onehot) * dloss / N.",
    head_loss_backward=with_logits(
        lambda p, target, dloss: (p * dloss - F.one_hot(target, p.shape[1])) / len(p)
    ),
)
head_loss.wrong(
    "pushed_away",
    "The gradient has the wrong sign. dz is softmax minus one-hot, not one-hot minus softmax.",
    head_loss_backward=lambda saved, dloss, needs: right_backward(saved, -dloss, needs),
)
for _name, _parts in (
    ("divided_by_the_words", lambda x, w: len(w)),
    ("divided_by_all", lambda x, w: len(x) * len(w)),
):
    head_loss.wrong(
        _name,
        "The loss is a mean over the N rows. Divide by N: the number of words, V, does not come "
        "into it.",
        head_loss_backward=lambda saved, dloss, needs, _parts=_parts: backward_of(
            saved, dloss / _parts(saved[0], saved[1]), needs
        ),
    )
head_loss.wrong(
    "bias_summed_over_outputs",
    "db was summed over the outputs: it has a number for each token. The bias has one for each "
    "output, so the sum goes over the rows, dim=0.",
    head_loss_backward=with_bias_gradient(lambda dz: dz.sum(1)),
)
head_loss.wrong(
    "bias_averaged",
    "db is a mean over the rows. All rows read the one bias, and paths add up: take the sum.",
    head_loss_backward=with_bias_gradient(lambda dz: dz.mean(0)),
)
head_loss.wrong(
    "bias_summed_to_a_number",
    "db was summed to one number. The bias has an entry for each output, and so has its gradient: "
    "sum over the rows alone, dim=0.",
    head_loss_backward=with_bias_gradient(lambda dz: dz.sum()),
)
head_loss.wrong(
    "weight_transposed",
    "This is dW transposed: a gradient has the shape of its tensor, (V, D).",
    head_loss_backward=answering(
        lambda grads, saved, needs: (
            grads[0],
            None if grads[1] is None else grads[1].T.contiguous(),
            grads[2],
        )
    ),
)
head_loss.wrong(
    "weight_first",
    "dw came first, and dx second. torch hands the first answer to the first input of forward, "
    "which is x.",
    head_loss_backward=answering(lambda grads, saved, needs: (grads[1], grads[0], grads[2])),
)
head_loss.wrong(
    "target_answered",
    "Four answers came. The second half is asked for three: those of x, w and b.",
    head_loss_backward=answering(lambda grads, saved, needs: (*grads, None)),
)
head_loss.wrong(
    "zeros_for_frozen",
    "Whoever needs no gradient got a tensor of zeros. None says the same, and costs nothing.",
    head_loss_backward=answering(
        lambda grads, saved, needs: [
            torch.zeros_like(t) if g is None else g for g, t in zip(grads, saved[:3], strict=True)
        ]
    ),
)
head_loss.wrong(
    "dloss_twice",
    "The gradients have dloss in them twice. What arrives multiplies dz once, and dx, dw and db "
    "get it from there.",
    head_loss_backward=lambda saved, dloss, needs: right_backward(saved, dloss * dloss, needs),
)
head_loss.wrong(
    "bias_always_answered",
    "db was computed where b needs no gradient. `needs` has a bool for each of the three.",
    head_loss_backward=lambda saved, dloss, needs: right_backward(
        saved, dloss, (needs[0], needs[1], True)
    ),
)


@head_loss.cost
def _(student: Student, draw: Draw) -> str:
    layer, n = onelayer.head(), 32
    x, target = draw.tensor(n, 64), draw.integers(n, low=0, high=599)
    w, b = layer.weight, layer.bias
    with onelayer.count_saved(ignore=[w, b, x, target]) as saved:
        F.cross_entropy(F.linear(x, w, b), target)
    batch = x, w.detach(), b.detach(), target
    mine = new_bytes(student.call("head_loss_forward", *batch)[1], batch)
    return (
        f"the head at batch {n}: {mine:,} bytes saved beside its inputs, where torch's nodes save "
        f"{saved.bytes:,}; the price is the logits once more, {2 * n * w.numel():,} FLOP"
    )
