"""One step by hand that makes given words likelier."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import onelayer
from autograder.checks.explaining import explaining_nan, saying
from autograder.judge import Draw, Student, Wrong, same_memory

from . import lab
from .head_gradients import Pair, each_gradient, whole_batches
from .several_tensors import expect_each

PROMPTS = (
    "<en> she has eaten <es> ella ha",
    "<en> she has",
    "<es> ella ha comido <en> she has",
)
LOUD = 50
"""Times the head's weight: logits of some hundreds, as 3.3 has them."""
ONLY_TARGETS = (
    "Only the rows of the right words moved. The normaliser reads every logit, so every other "
    "word's row moves too, by its probability."
)
STEPS = (
    "The step is w - lr * dz.T @ x and b - lr * dz.sum(dim=0), with dz = (softmax(z) less one-hot) "
    "/ N: z are the logits as they are, and each row has its own target."
)
_ALONE = {
    "w": "The new bias is right, the new weight is not: it is w - lr * dz.T @ x, with the dz that "
    "moved the bias.",
    "b": "The new weight is right, the new bias is not: it is b - lr * db, and db adds up over the "
    "rows the dz that moved the weight.",
}


@lab.question(
    "raise_the_words",
    points=3,
    minutes=7,
    difficulty=2,
    hints=(
        "You have both halves already: the loss's gradient for z, and what the head does with it.",
        "z = x @ w.T + b; dz is (softmax(z) - one-hot) / N; dw = dz.T @ x, db sums over the rows; "
        "then new tensors w - lr * dw and b - lr * db.",
        "return w - lr * dz.T @ x, b - lr * dz.sum(dim=0)",
    ),
)
def raise_the_words(student: Student, draw: Draw) -> None:
    """One step of SGD on the real head that makes given words likelier after given activations.

    w (600, 64), b (600,), x (N, 64), target (N,), lr -> (w, b) after the step, as new tensors.
    """
    head = onelayer.head()
    weight, bias = head.weight.detach(), head.bias.detach()
    drawn = [(draw.choice(PROMPTS), draw.choice((0.002, 0.005, 0.02))) for _ in draw.cases(2)]
    asked = [(1, PROMPTS[0], 0.01), (1, PROMPTS[1], 1.0), *((1, *each) for each in drawn)]
    asked += [(LOUD, PROMPTS[2], 0.01), (1, PROMPTS[0], 0.0)]
    cases = [(scale * weight, bias, onelayer.hidden(text), lr) for scale, text, lr in asked]
    cases.insert(-2, _far_apart(weight, bias))
    cases.append((weight, bias, onelayer.hidden(PROMPTS[1])[-1:], 1.0))  # a word alone
    high = bias + 800.0 * F.one_hot(torch.tensor(7), len(bias))  # exp of it is inf in float64 too
    cases.append((weight, high, onelayer.hidden(PROMPTS[1]), 0.01))
    for w, b, x, lr in cases:
        target = draw.integers(len(x), low=0, high=599)
        target[-1] = target[0]  # a word that is asked for twice
        got = student.call("raise_the_words", w, b, x, target, lr)
        want = whole_batches(w, b, [[(x, target)]], lr)
        of_nan = OVERFLOW if float(b.max()) > 709 else ""
        with saying(_what_moved(got, want, (w, b), target) or STEPS), explaining_nan(got, of_nan):
            expect_each(got, want, "w b", alone=_ALONE)
        if any(same_memory(mine, given) for mine in got for given in (w, b)):
            raise Wrong(expected="new tensors", got="those that came in")


def _far_apart(w: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor, float]:
    """Two rows of logits of which no exp overflows, and the second lies so far below the first
    that one maximum is not good for both: the first column of w shifts them."""
    w, x = w.clone(), onelayer.hidden(PROMPTS[1])[-2:].clone()
    w[:, 0], x[:, 0] = 1.0, torch.tensor([60.0, -60.0])
    return w, b, x, 0.001


def _what_moved(got: Any, want: Pair, before: Pair, target: Tensor) -> str:
    """What the two new tensors have to do with the right ones, as far as their steps show it."""
    if not isinstance(got, (list, tuple)) or len(got) != len(want):
        return ""
    if not all(
        isinstance(t, Tensor) and (t.shape, t.dtype) == (right.shape, right.dtype)
        for t, right in zip(got, want, strict=True)
    ):
        return ""
    steps = [
        (t.detach() - old, right - old) for t, right, old in zip(got, want, before, strict=True)
    ]
    others = torch.ones(len(before[1]), dtype=torch.bool)
    others[target] = False
    moved = [(bool(mine.any()), bool(mine[others].any())) for mine, _ in steps]
    if all(some and not other for some, other in moved):
        return ONLY_TARGETS
    factors = [float((mine * right).sum() / right.square().sum()) for mine, right in steps]
    alike = all(
        bool(((mine - factors[0] * right).abs() <= 1e-3 * (factors[0] * right).abs().max()).all())
        for mine, right in steps
    )
    shown = f"{factors[0]:.4g}"
    return f"Both steps are {shown} times the right ones." if alike and shown != "1" else ""


def _head_gradients(w: Tensor, b: Tensor, x: Tensor, target: Tensor) -> Pair:
    ((dw, db),) = each_gradient(w, b, [(x, target)])
    return dw, db


@raise_the_words.wrong(
    "uphill",
    "This step makes the words less likely. The gradient points to where the loss grows; walk the "
    "other way.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    return w + lr * dw, b + lr * db


@raise_the_words.wrong(
    "bias_stands_still",
    "The weight made its step, the bias is where it was. It is a parameter as well, and its "
    "gradient is dz.sum(dim=0); the sum over all of dz is 0.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, _ = _head_gradients(w, b, x, target)
    return w - lr * dw, b


@raise_the_words.wrong(
    "summed_over_words",
    "The step is N times too long: the loss is the mean over the N words.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    return w - lr * len(x) * dw, b - lr * len(x) * db


@raise_the_words.wrong(
    "learning_rate_forgotten",
    "The whole gradient was taken away. How far to walk along it is what lr says.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    return w - dw, b - db


@raise_the_words.wrong(
    "in_place",
    "The head that was passed in has changed: the step was written into it, or its requires_grad "
    "switched on. Return new tensors, w - lr * dw, not w -= lr * dw; for autograd take a copy.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    w -= lr * dw
    b -= lr * db
    return w, b


@raise_the_words.wrong(
    "own_tensors_back",
    "With lr = 0 the caller's own tensors came back. Whoever writes into the result then writes "
    "into the head: return new tensors here too.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    return whole_batches(w, b, [[(x, target)]], lr) if lr else (w, b)


@raise_the_words.wrong(
    "logits_without_bias",
    "The softmax was taken of x @ w.T. The logits are F.linear(x, w, b): the bias belongs to them.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, torch.zeros_like(b), x, target)
    return w - lr * dw, b - lr * db


@raise_the_words.wrong(
    "bias_averaged_twice",
    "The bias moved N times too little: dz carries the mean of the loss already. db is the sum of "
    "its rows.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    return w - lr * dw, b - lr * db / len(x)


@raise_the_words.wrong(
    "bias_for_each_row",
    "The new bias has a row for each of the N words. All rows read the one bias: db is the sum of "
    "dz over the rows.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, _ = _head_gradients(w, b, x, target)
    dz = (F.linear(x, w, b).softmax(1) - F.one_hot(target, len(b))) / len(x)
    return w - lr * dw, b - lr * dz


@raise_the_words.wrong(
    "only_the_right_words_moved",
    "Only the right words moved, as if their probability were 0 and all others had none to lose. "
    "dz is softmax minus one-hot: every word's row moves by what it has too much.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    hot = F.one_hot(target, len(b)).to(x.dtype) / len(x)
    return w + lr * hot.T @ x, b + lr * hot.sum(0)


NOT_DEFINED = (
    "Your answer calls one of 3.2 and 3.3 that is not there. Answer it, run its cell, and then "
    "this one: grading runs all your answers from top to bottom."
)


@raise_the_words.wrong("loss_not_defined", NOT_DEFINED)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    raise NameError("name 'cross_entropy_backward' is not defined")


@raise_the_words.wrong("head_not_defined", NOT_DEFINED)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    raise NameError("name 'linear_backward' is not defined")


OVERFLOW = (
    "There is nan in it, with logits of some hundreds. exp of such a logit is inf, and inf / inf "
    "is nan: let torch.softmax do it. And a p can be 0 there, where 1 / p is inf: dz needs softmax "
    "alone, no log."
)


@raise_the_words.wrong("overflow", OVERFLOW)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    p = F.linear(x, w, b).exp()
    dz = (p / p.sum(dim=1, keepdim=True) - F.one_hot(target, len(b))) / len(x)
    return w - lr * dz.T @ x, b - lr * dz.sum(dim=0)


@raise_the_words.wrong("overflow_through_autograd", OVERFLOW)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    z = F.linear(x, w, b).requires_grad_()
    e = z.exp()
    loss = -(e / e.sum(dim=1, keepdim=True))[range(len(x)), target].log().mean()
    (dz,) = torch.autograd.grad(loss, z)
    return w - lr * dz.T @ x, b - lr * dz.sum(dim=0)


@raise_the_words.wrong(
    "gradients_returned",
    "These are the gradients. The step was asked for: w - lr * dw and b - lr * db.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    return _head_gradients(w, b, x, target)


@raise_the_words.wrong(
    "step_returned",
    "This is how far the parameters move. Return where they are then: w - lr * dw and b - lr * db.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    return -lr * dw, -lr * db


@raise_the_words.wrong(
    "softmax_down_the_columns",
    "The softmax runs down the columns. Each row is one distribution over the V words: dim=1.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dz = (F.linear(x, w, b).softmax(0) - F.one_hot(target, len(b))) / len(x)
    return w - lr * dz.T @ x, b - lr * dz.sum(dim=0)


@raise_the_words.wrong(
    "bias_first",
    "The bias comes first here, and the weight second: (w, b) was asked for.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    return b - lr * db, w - lr * dw


@raise_the_words.wrong(
    "every_target_in_every_row",
    "In every row a 1 was taken away for all the targets, as by `dz[:, target]`. It belongs to one "
    "place in each row: index with the row's number and its target together.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dz = F.linear(x, w, b).softmax(1)
    dz[:, target] -= 1
    return w - lr * dz.T @ x / len(x), b - lr * dz.sum(dim=0) / len(x)


@raise_the_words.wrong(
    "two_steps",
    "The parameters made two steps, the second from where the first one led. One was asked for.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    return whole_batches(w, b, [[(x, target)], [(x, target)]], lr)


@raise_the_words.wrong(
    "a_step_for_each_word",
    "Each word made a step of its own, and the next one saw parameters that had moved. The loss is "
    "one mean over the words, and its step is one.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    words = [[(x[k : k + 1], target[k : k + 1])] for k in range(len(x))]
    return whole_batches(w, b, words, lr / len(x))


@raise_the_words.wrong(
    "bias_after_the_weight",
    "The bias's gradient was computed with the weight that had moved already. Both gradients "
    "belong to the parameters before the step.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    moved = w - lr * _head_gradients(w, b, x, target)[0]
    return moved, b - lr * _head_gradients(moved, b, x, target)[1]


@raise_the_words.wrong(
    "weight_after_the_bias",
    "The weight's gradient was computed with the bias that had moved already. Both gradients "
    "belong to the parameters before the step.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    moved = b - lr * _head_gradients(w, b, x, target)[1]
    return w - lr * _head_gradients(w, moved, x, target)[0], moved


@raise_the_words.wrong(
    "weight_stands_still",
    "The bias made its step, the weight did not: w - lr * dz.T @ x.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    _, db = _head_gradients(w, b, x, target)
    return w, b - lr * db


@raise_the_words.wrong(
    "bias_not_returned",
    "Only the weight was returned. (w, b) was asked for.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Tensor:
    dw, _ = _head_gradients(w, b, x, target)
    return w - lr * dw


@raise_the_words.wrong(
    "softmax_only",
    "The 1 at the target is missing: this pushes every word down, the right ones too. dz is "
    "softmax minus one-hot.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dz = F.linear(x, w, b).softmax(1) / len(x)
    return w - lr * dz.T @ x, b - lr * dz.sum(dim=0)


OVER_V = "dz was divided by V, or by N * V. The loss is a mean over the N rows: divide by len(x)."


@raise_the_words.wrong(
    "averaged_over_the_words_of_the_table",
    OVER_V,
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    return w - lr * dw * len(x) / len(b), b - lr * db * len(x) / len(b)


@raise_the_words.wrong(
    "averaged_over_everything",
    OVER_V,
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    return w - lr * dw / len(b), b - lr * db / len(b)


@raise_the_words.wrong(
    "averaged_over_the_features",
    "dz was divided by D, the number of features. The loss is a mean over the N rows: divide by "
    "len(x).",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    share = len(x) / x.shape[1]
    return w - lr * dw * share, b - lr * db * share


@raise_the_words.wrong(
    "a_full_step_for_each_word",
    "Each word made a whole step of its own, and the next one saw parameters that had moved. The "
    "loss is one mean over the N words, and its step is one.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    words = [[(x[k : k + 1], target[k : k + 1])] for k in range(len(x))]
    return whole_batches(w, b, words, lr)


@raise_the_words.wrong(
    "ten_steps",
    "The parameters made ten steps. One was asked for.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    return whole_batches(w, b, [[(x, target)]] * 10, lr)


@raise_the_words.wrong(
    "adam",
    "This is a step of Adam, which moves nearly every number by lr. SGD moves it by lr times its "
    "gradient.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    return w - lr * dw / (dw.abs() + 1e-8), b - lr * db / (db.abs() + 1e-8)


@raise_the_words.wrong("only_the_targets_rows", ONLY_TARGETS)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    moved = torch.zeros(len(b), dtype=torch.bool)
    moved[target] = True
    return torch.where(moved[:, None], w - lr * dw, w), torch.where(moved, b - lr * db, b)


@raise_the_words.wrong(
    "sigmoid",
    "This is a sigmoid of each logit alone. The words of a row compete: their probabilities are a "
    "softmax, and sum to 1.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dz = (torch.sigmoid(F.linear(x, w, b)) - F.one_hot(target, len(b))) / len(x)
    return w - lr * dz.T @ x, b - lr * dz.sum(dim=0)


@raise_the_words.wrong(
    "log_softmax",
    "This is log_softmax minus the one-hot rows. The derivative of logsumexp is the softmax "
    "itself, without the logarithm.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dz = (F.linear(x, w, b).log_softmax(1) - F.one_hot(target, len(b))) / len(x)
    return w - lr * dz.T @ x, b - lr * dz.sum(dim=0)


@raise_the_words.wrong(
    "logits_returned",
    "These are the logits after the step. The parameters were asked for: (w, b).",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Tensor:
    dw, db = _head_gradients(w, b, x, target)
    return F.linear(x, w - lr * dw, b - lr * db)


@raise_the_words.wrong(
    "turned_weight",
    "dz.T @ x has the shape of w; x.T @ dz is its transpose, and cannot be taken away from w.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, db = _head_gradients(w, b, x, target)
    return w - lr * dw.T, b - lr * db


@raise_the_words.wrong(
    "bias_over_columns",
    "db has an entry for each row of x, as where dz is summed over the words of the table. All "
    "rows read the one bias: dz.sum(dim=0).",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    dw, _ = _head_gradients(w, b, x, target)
    return w - lr * dw, b - lr * torch.zeros(len(x))


@raise_the_words.wrong(
    "logits_clamped",
    "The logits were clamped before the exp, so that all very large ones are equally likely. Take "
    "the row's maximum away in place of it, or let torch.softmax do it.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    e = F.linear(x, w, b).clamp(-80, 80).exp()
    dz = (e / e.sum(dim=1, keepdim=True) - F.one_hot(target, len(b))) / len(x)
    return w - lr * dz.T @ x, b - lr * dz.sum(dim=0)


@raise_the_words.wrong(
    "maximum_of_the_batch",
    "One maximum was taken away from all rows. A row whose logits lie far below it has exp of "
    "nothing but 0 then: each row has a maximum of its own.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    z = F.linear(x, w, b)
    e = (z - z.max()).exp()
    dz = (e / e.sum(dim=1, keepdim=True) - F.one_hot(target, len(b))) / len(x)
    return w - lr * dz.T @ x, b - lr * dz.sum(dim=0)


@raise_the_words.wrong(
    "repeated_word",
    "A word that is the target of two rows was counted once: `dw[target] -= ...` writes such a row "
    "once. Take the 1 away in dz, where each row has its own, or use index_add_.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    p = F.linear(x, w, b).softmax(1) / len(x)
    dw, db = p.T @ x, p.sum(dim=0)
    dw[target] -= x / len(x)
    db[target] -= 1 / len(x)
    return w - lr * dw, b - lr * db


@raise_the_words.wrong(
    "repeated_word_in_w",
    "A word that is the target of two rows was counted once: `dw[target] -= ...` writes such a row "
    "once. Take the 1 away in dz, where each row has its own, or use index_add_.",
)
def _(w: Tensor, b: Tensor, x: Tensor, target: Tensor, lr: float) -> Pair:
    p = F.linear(x, w, b).softmax(1) / len(x)
    dw, db = p.T @ x, (p - F.one_hot(target, len(b)) / len(x)).sum(dim=0)
    dw[target] -= x / len(x)
    return w - lr * dw, b - lr * db


@raise_the_words.cost
def _(student: Student, draw: Draw) -> str:
    head, x = onelayer.head(), onelayer.hidden(PROMPTS[1])
    w, b, target = head.weight.detach(), head.bias.detach(), draw.integers(len(x), low=0, high=599)
    new_w, new_b = student.call("raise_the_words", w, b, x, target, 0.002)
    index = torch.arange(len(x)), target
    before, after = (F.linear(x, *p).softmax(1)[index].mean() for p in ((w, b), (new_w, new_b)))
    return (
        f"{new_w.numel() + new_b.numel():,} parameters moved; {len(x)} words picked at random went "
        f"from a mean probability of {before:.1e} to {after:.1e}"
    )
