"""The detective case of a second derivative that is wrong in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from autograder.checks.explaining import explaining_nan, saying
from autograder.judge import Draw, Student

from . import lab
from .answers import ANOTHER_CALLS, Triple, expect_named, parts
from .fused_loss import CLASSES_COUNTED, EVERY_TARGET_PUSHED, hard_targets

Answer = tuple[Tensor, None]
Backward = Callable[..., Any]  # of z, target, dloss

EDITED = (
    "p was edited in place after it was made. Its own backward reads p, and with create_graph=True "
    "that backward will run. Subtract out of place: p - F.one_hot(target, V)."
)

ANOTHER_LOSS = (
    "This dz is made of -z, as in the other loss that runs before this backward. Keep what "
    "backward reads on ctx: each call has its own, and the class is shared."
)

OUT_OF_RANGE = (
    "There is nan in it. In float32 exp of a logit over 88.72 is inf, exp of one far below 0 is 0, "
    "and both inf / inf and 0 / 0 are nan. Each row has a maximum of its own to take away first, "
    "as torch.softmax does."
)
_RULES = {
    "the loss": "The loss is the mean over the rows of logsumexp(z) less the target's logit.",
    "dz": "The loss is right, dz is not. Here dz is that of loss ** 2: softmax(z) less one-hot, "
    "times what arrives, over N.",
    "the gradient of the gradient": "Loss and dz are right, the gradient of dz is not. z comes "
    "into dz by exp(z), by the sum of its row and by dloss. torch differentiates what your "
    "backward recorded, and there one of these ways is missing, or is not as it was.",
}


@lab.question(
    "loss_curvature",
    points=4,
    minutes=12,
    difficulty=4,
    hints=(
        "Ask torch.autograd.gradgradcheck. Then follow dz = p - hot backwards by hand: on which "
        "ways do z and dloss come into it, and does the graph know each of them as it was?",
        "forward records nothing, so the lse that was computed in it has no history: for the "
        "second backward it is a constant. Save z alone, and compute what depends on it in "
        "backward, where create_graph=True records.",
        "p = z.softmax(dim=1)",
    ),
)
def loss_curvature(student: Student, draw: Draw) -> None:
    """Detective case: a Function for the mean cross-entropy whose first gradient is right and whose
    second is wrong. Make both right.

    z (N, V), target (N,), v (N, V) -> (loss, dz of loss ** 2, the gradient of (dz * v).sum() for
    z). The square gives what arrives at the loss a history of its own.
    """
    for n, shift in [(3, 0.0), (1, 0.0), (2, 120.0), (2, -120.0), (draw.integer(2, 12), 0.0)]:
        z = draw.tensor(n, draw.integer(4, 9)) + shift  # exp of 120 is inf in float32
        target = draw.integers(n, low=0, high=z.shape[1] - 1)
        _ask(student, z, target, draw.tensor(*z.shape), tolerance=1e-5 if not shift else 1e-4)
    z, target = draw.tensor(3, 5), torch.tensor([2, 0, 2])  # each row on a level of its own
    z[0, 4] += 120.0
    z[1] -= 120.0
    _ask(student, z, target, draw.tensor(3, 5), tolerance=1e-4)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        z, v = draw.tensor(4, 6, dtype=dtype), draw.tensor(4, 6, dtype=dtype)
        target = hard_targets(draw, 4, 6)
        _ask(student, z, target, v, tolerance=tolerance)
        # In shape and dtype as before: what was made for a call belongs to that call.
        for other_z, other in ((z, (target + 1) % 6), (z.flip(1), target)):
            with saying(ANOTHER_CALLS):
                _ask(student, other_z, other, v, tolerance=tolerance, is_first=False)


def _ask(
    student: Student,
    z: Tensor,
    target: Tensor,
    v: Tensor,
    *,
    tolerance: float,
    is_first: bool = True,
) -> None:
    got = parts(student.call("loss_curvature", z, target, v), "loss, dz, gradient")
    want = _curvature(F.cross_entropy, z, target, v)
    far_out = OUT_OF_RANGE if float(z.abs().max()) > 88 else ""
    for (name, rule), mine, torchs in zip(_RULES.items(), got, want, strict=True):
        is_anothers = name == "dz" and _is_of_another_loss(mine, z, target)
        said = ANOTHER_LOSS if is_anothers else rule if is_first else ""
        with saying(said), explaining_nan(got, far_out):
            expect_named(name, mine, torchs, tolerance=tolerance)


def _is_of_another_loss(dz: Any, z: Tensor, target: Tensor) -> bool:
    """Whether dz is what -z gives in the place of z."""
    if not isinstance(dz, Tensor) or (dz.shape, dz.dtype) != (z.shape, z.dtype):
        return False
    loss = F.cross_entropy(z, target)
    other, _ = _right(-z, target, 2 * loss)
    return bool((dz.detach() - other).abs().max() <= 1e-4 * other.abs().max())


def _curvature(loss_of: Callable[..., Tensor], z: Tensor, target: Tensor, v: Tensor) -> Triple:
    z = z.detach().clone().requires_grad_()
    loss = loss_of(z, target)
    (dz,) = torch.autograd.grad(loss.square(), z, create_graph=True)
    return loss.detach(), dz.detach(), torch.autograd.grad(dz, z, v)[0]


def _own(
    backward: Backward,
    z: Tensor,
    target: Tensor,
    v: Tensor,
    forward: Callable[..., Tensor] = F.cross_entropy,
) -> Triple:
    """What a LossFn comes to that saves z and target and has this backward."""

    class LossFn(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, z: Tensor, target: Tensor) -> Tensor:
            ctx.save_for_backward(z, target)
            return forward(z, target)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Any:
            return backward(*ctx.saved_tensors, grads[0])

    return _curvature(LossFn.apply, z, target, v)


def _right(z: Tensor, target: Tensor, dloss: Tensor) -> Answer:
    return _from(z.softmax(1), target, dloss)


def _from(p: Tensor, target: Tensor, dloss: Tensor) -> Answer:
    return (p - F.one_hot(target, p.shape[1])) * (dloss / len(p)), None


def _edited(p: Tensor, target: Tensor, dloss: Tensor) -> Answer:
    p[torch.arange(len(p)), target] -= 1
    return p * (dloss / len(p)), None


@loss_curvature.wrong(
    "as_found",
    "This is what the code as found computes. The normaliser, lse or the sum of exp, was made "
    "where nothing is recorded, as forward is, or was detached, so the second backward takes it "
    "for a constant: the way from z through it is lost.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    def backward(z: Tensor, target: Tensor, dloss: Tensor) -> Answer:
        return _from((z - z.detach().logsumexp(1, keepdim=True)).exp(), target, dloss)

    return _own(backward, z, target, v)


@loss_curvature.wrong(
    "p_constant",
    "For the second backward p is a constant here: p, or what it is made of, comes from where "
    "torch records nothing, as from forward, no_grad or a torch.autograd.grad without "
    "create_graph=True, or was detached. Make it from z itself, in backward, where torch records.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    return _own(lambda z, *others: _right(z.detach(), *others), z, target, v)


@loss_curvature.wrong(
    "averaged_over_all_logits",
    "dz is V times too small, as where it is divided by the N * V logits. The loss is a mean over "
    "the N rows: divide by len(z).",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    return _own(lambda z, t, dloss: _right(z, t, dloss / z.shape[1]), z, target, v)


@loss_curvature.wrong(
    "once",
    "once_differentiable forbids the second derivative. It is for a backward that torch cannot "
    "look into; into this one it can, and the second derivative is what was asked for.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    once = once_differentiable(lambda ctx, *saved: _right(*saved))
    return _own(lambda *saved: once(None, *saved), z, target, v)


@loss_curvature.wrong(
    "overflow",
    "exp of a logit over 88.72 is inf in float32, and inf / inf is nan. Take each row's maximum "
    "away first, as torch.softmax and torch.logsumexp do.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    def backward(z: Tensor, target: Tensor, dloss: Tensor) -> Answer:
        return _from(z.exp() / z.exp().sum(1, keepdim=True), target, dloss)

    return _own(backward, z, target, v)


loss_curvature.wrong(
    "no_history",
    "dz has no history: torch recorded nothing of this backward, as under no_grad or after detach. "
    "Here it refuses; a penalty added to the loss would be dropped without a word.",
    loss_curvature=lambda z, target, v: _own(torch.no_grad()(_right), z, target, v),
)


@loss_curvature.wrong("softmax_edited", EDITED)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    return _own(lambda z, *others: _edited(z.softmax(1), *others), z, target, v)


@loss_curvature.wrong("exp_edited", EDITED)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    def backward(z: Tensor, target: Tensor, dloss: Tensor) -> Answer:
        return _edited((z - z.logsumexp(1, keepdim=True)).exp(), target, dloss)

    return _own(backward, z, target, v)


loss_curvature.wrong(
    "one_answer",
    "torch counted one answer. forward has two inputs, z and target, so backward returns a tuple "
    "of two: None for the target. A list counts as one.",
    loss_curvature=lambda z, target, v: _own(lambda *saved: _right(*saved)[0], z, target, v),
)


@loss_curvature.wrong(
    "sigmoid", "p is the sigmoid of each logit. Softmax divides by the sum of the row."
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    return _own(lambda z, *others: _from(z.sigmoid(), *others), z, target, v)


@loss_curvature.wrong(
    "log_of_the_softmax",
    "p is the logarithm of the softmax. dz needs the softmax itself.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    return _own(lambda z, *others: _from(z.log_softmax(1), *others), z, target, v)


@loss_curvature.wrong("classes_counted", CLASSES_COUNTED)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    def backward(z: Tensor, target: Tensor, dloss: Tensor) -> Answer:
        return (z.softmax(1) - F.one_hot(target)) * (dloss / len(z)), None

    return _own(backward, z, target, v)


@loss_curvature.wrong("every_target_pushed", EVERY_TARGET_PUSHED)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    def backward(z: Tensor, target: Tensor, dloss: Tensor) -> Answer:
        hit = F.one_hot(target, z.shape[1]).amax(0)
        return (z.softmax(1) - hit) * (dloss / len(z)), None

    return _own(backward, z, target, v)


@loss_curvature.wrong(
    "dloss_ignored",
    "dloss was not used. Here the loss is squared, so what arrives is no plain 1: each backward "
    "multiplies by the gradient that arrives.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    return _own(lambda z, target, _: _right(z, target, torch.ones(())), z, target, v)


@loss_curvature.wrong(
    "dloss_constant",
    "dz is right, but the factor in the place of dloss has no history, as after float, item or "
    "detach. dloss has one: here the loss is squared, and what arrives depends on z.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    return _own(lambda z, target, dloss: _right(z, target, dloss.detach()), z, target, v)


@loss_curvature.wrong(
    "not_averaged",
    "The first gradient is N times too large: the loss is a mean, so each row's part is divided "
    "by N.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    return _own(lambda z, target, dloss: _right(z, target, dloss * len(z)), z, target, v)


@loss_curvature.wrong(
    "summed",
    "The loss is N times too large: it is the mean over the rows, as in the code as found.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    def summed(z: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(z, target, reduction="sum")

    return _own(_right, z, target, v, forward=summed)


@loss_curvature.wrong(
    "summed_throughout",
    "Loss and gradient belong together, but they are those of the sum over the rows. The code as "
    "found takes the mean.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    def summed(z: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(z, target, reduction="sum")

    return _own(
        lambda z, target, dloss: _right(z, target, dloss * len(z)), z, target, v, forward=summed
    )


@loss_curvature.wrong(
    "word_0_left_out",
    "The rows whose target is 0 were left out. Here 0 is a word like the others: no target stands "
    "for padding.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    def without(z: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(z, target, ignore_index=0).nan_to_num()

    return _own(_right, z, target, v, forward=without)


@loss_curvature.wrong(
    "target_forgotten",
    "The 1 at the target is missing: dz is softmax minus one-hot. This pushes every word down, the "
    "right one too.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    return _own(lambda z, target, dloss: (z.softmax(1) * (dloss / len(z)), None), z, target, v)


@loss_curvature.wrong(
    "softmax_over_rows",
    "The probabilities sum to 1 over the rows, dim=0. Each row has its own distribution over the "
    "words: dim=1.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    return _own(lambda z, *others: _from(z.softmax(0), *others), z, target, v)


@loss_curvature.wrong("logits_of_another_loss", ANOTHER_LOSS)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    return _own(lambda z, *others: _right(-z, *others), z, target, v)


@loss_curvature.wrong(
    "in_float32",
    "Right for float32. What is made of float64 tensors is float64 to the last digit: float32 on "
    "the way, as from `.float()`, leaves seven of them.",
)
def _(z: Tensor, target: Tensor, v: Tensor) -> Triple:
    loss, dz, second = _curvature(F.cross_entropy, z, target, v)
    return loss.float().to(z.dtype), dz, second


@loss_curvature.cost
def _(student: Student, draw: Draw) -> str:
    z, target = draw.tensor(32, 600), draw.integers(32, low=0, high=599)
    student.call("loss_curvature", z, target, draw.tensor(32, 600))
    return (
        f"an lse made again from z costs {2 * z.numel():,} FLOP for {len(z)} rows of {z.shape[1]} "
        f"and spares {4 * len(z)} bytes; one kept as a constant costs the second derivative"
    )
