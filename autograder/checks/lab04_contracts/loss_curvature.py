"""Question 4.5: the detective case of a second derivative that is wrong in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.judge import Draw, Student

from . import lab
from .answers import Triple, expect_named, parts

Backward = Callable[..., Any]  # of z, target, dloss

EDITED = (
    "p was edited in place after it was made. Its own backward reads p, and with create_graph=True "
    "that backward will run. Subtract out of place: p - F.one_hot(target, V)."
)


@lab.question(
    "loss_curvature",
    points=4,
    minutes=12,
    difficulty=4,
    hints=(
        "Ask torch.autograd.gradgradcheck. Then follow dz = p - hot backwards by hand: on which "
        "ways does z come into p, and does the graph know both?",
        "forward records nothing, so the lse that was computed in it has no history: for the "
        "second backward it is a constant. Save z alone, and compute what depends on it in "
        "backward, where create_graph=True records.",
        "p = z.softmax(dim=1)",
    ),
)
def loss_curvature(student: Student, draw: Draw) -> None:
    """Detective case: a Function for the mean cross-entropy whose first gradient is right and whose
    second is wrong. Make both right.

    z (N, V), target (N,), dloss (), v (N, V) -> (loss, dz, the gradient of (dz * v).sum() for z).
    """
    for n in draw.sizes(3, 1, high=12):
        dloss = torch.tensor(draw.choice((0.5, -2.0, 3.0)))
        z = draw.tensor(n, draw.integer(4, 9))
        v, target = draw.tensor(*z.shape), draw.integers(n, low=0, high=z.shape[1] - 1)
        got = parts(student.call("loss_curvature", z, target, dloss, v), "loss, dz, gradient")
        for name, mine, torchs in zip(
            ("the loss", "dz", "the gradient of the gradient"),
            got,
            _torchs_curvature(z, target, dloss, v),
            strict=True,
        ):
            expect_named(name, mine, torchs)


def _torchs_curvature(z: Tensor, target: Tensor, dloss: Tensor, v: Tensor) -> Triple:
    z = z.detach().clone().requires_grad_()
    loss = F.cross_entropy(z, target)
    (dz,) = torch.autograd.grad(loss, z, dloss, create_graph=True)
    return loss.detach(), dz.detach(), torch.autograd.grad(dz, z, v)[0]


def _with_second(
    z: Tensor, target: Tensor, dloss: Tensor, v: Tensor, second: Callable[[Tensor], Tensor]
) -> Triple:
    """The right loss and gradient, and a second derivative from the probabilities."""
    loss, dz, _ = _torchs_curvature(z, target, dloss, v)
    return loss, dz, second(z.softmax(1)) * dloss


@loss_curvature.wrong(
    "as_found",
    "This is what the code as found computes. The saved lse was computed in forward, where nothing "
    "is recorded, so the second backward takes it for a constant: the way from z through lse is "
    "lost.",
)
def _(z: Tensor, target: Tensor, dloss: Tensor, v: Tensor) -> Triple:
    return _with_second(z, target, dloss, v, lambda p: p * v / len(z))


@loss_curvature.wrong(
    "diagonal_only",
    "Each logit was differentiated by itself: p * (1 - p). But the probabilities of a row share "
    "their sum, so each depends on every logit of its row.",
)
def _(z: Tensor, target: Tensor, dloss: Tensor, v: Tensor) -> Triple:
    return _with_second(z, target, dloss, v, lambda p: p * (1 - p) * v / len(z))


@loss_curvature.wrong(
    "mean_forgotten",
    "The second derivative is N times too large: it goes through the mean like the first.",
)
def _(z: Tensor, target: Tensor, dloss: Tensor, v: Tensor) -> Triple:
    return _with_second(z, target, dloss, v, lambda p: p * (v - (p * v).sum(1, keepdim=True)))


def _own(backward: Backward, z: Tensor, target: Tensor, dloss: Tensor, v: Tensor) -> Triple:
    """What a LossFn comes to that saves z and target and has this backward."""

    class LossFn(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, z: Tensor, target: Tensor) -> Tensor:
            ctx.save_for_backward(z, target)
            return F.cross_entropy(z, target)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Any:
            return backward(*ctx.saved_tensors, grads[0])

    z = z.detach().requires_grad_()
    loss = LossFn.apply(z, target)  # type: ignore[no-untyped-call]
    (dz,) = torch.autograd.grad(loss, z, dloss, create_graph=True)
    return loss, dz, torch.autograd.grad(dz, z, v)[0]


def _right(z: Tensor, target: Tensor, dloss: Tensor) -> tuple[Tensor, None]:
    return (z.softmax(1) - F.one_hot(target, z.shape[1])) * (dloss / len(z)), None


@loss_curvature.wrong(
    "no_history",
    "dz has no history. Either p was saved in forward, where nothing is recorded, or "
    "once_differentiable, no_grad or detach kept torch from recording this backward. Here it "
    "refuses; a penalty added to the loss would be dropped without a word.",
)
def _(z: Tensor, target: Tensor, dloss: Tensor, v: Tensor) -> Triple:
    return _own(lambda z, *others: _right(z.detach(), *others), z, target, dloss, v)


def _edited(p: Tensor, target: Tensor, dloss: Tensor) -> tuple[Tensor, None]:
    p[torch.arange(len(p)), target] -= 1
    return p * (dloss / len(p)), None


@loss_curvature.wrong("softmax_edited", EDITED)
def _(z: Tensor, target: Tensor, dloss: Tensor, v: Tensor) -> Triple:
    return _own(lambda z, *others: _edited(z.softmax(1), *others), z, target, dloss, v)


@loss_curvature.wrong("exp_edited", EDITED)
def _(z: Tensor, target: Tensor, dloss: Tensor, v: Tensor) -> Triple:
    def backward(z: Tensor, target: Tensor, dloss: Tensor) -> tuple[Tensor, None]:
        return _edited((z - z.logsumexp(1, keepdim=True)).exp(), target, dloss)

    return _own(backward, z, target, dloss, v)


@loss_curvature.wrong(
    "one_answer",
    "backward gave one answer. forward has two inputs, z and target, so there are two answers: "
    "None for the target.",
)
def _(z: Tensor, target: Tensor, dloss: Tensor, v: Tensor) -> Triple:
    return _own(lambda *saved: _right(*saved)[0], z, target, dloss, v)


@loss_curvature.wrong(
    "dloss_ignored",
    "dloss was not used. Whoever reads the loss may scale it: each backward multiplies by the "
    "gradient that arrives.",
)
def _(z: Tensor, target: Tensor, dloss: Tensor, v: Tensor) -> Triple:
    return _torchs_curvature(z, target, torch.ones(()), v)


@loss_curvature.wrong(
    "not_averaged",
    "The first gradient is N times too large: the loss is a mean, so each row's part is divided "
    "by N.",
)
def _(z: Tensor, target: Tensor, dloss: Tensor, v: Tensor) -> Triple:
    loss, dz, second = _torchs_curvature(z, target, dloss * len(z), v)
    return loss, dz, second


@loss_curvature.wrong(
    "summed",
    "The loss is N times too large: it is the mean over the rows, as in the code as found.",
)
def _(z: Tensor, target: Tensor, dloss: Tensor, v: Tensor) -> Triple:
    loss, dz, second = _torchs_curvature(z, target, dloss, v)
    return loss * len(z), dz, second


@loss_curvature.cost
def _(student: Student, draw: Draw) -> str:
    z, target = draw.tensor(32, 600), draw.integers(32, low=0, high=599)
    student.call("loss_curvature", z, target, torch.ones(()), draw.tensor(32, 600))
    return (
        f"an lse made again from z costs {2 * z.numel():,} FLOP for {len(z)} rows of {z.shape[1]} "
        f"and spares {4 * len(z)} bytes; one kept as a constant costs the second derivative"
    )
