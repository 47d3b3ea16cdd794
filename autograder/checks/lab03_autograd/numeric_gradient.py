"""The gradient of the loss by central differences."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.judge import Draw, Student, Wrong, expect_close

from . import lab


@lab.question(
    "numeric_gradient",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "Move one logit up a little, then down a little. What do the two losses tell?",
        "(loss(z + h) - loss(z - h)) / (2 * h) for each element, in float64: a difference of two "
        "almost equal float32 numbers is mostly rounding. Work on a copy.",
        "dz[n, v] = (loss(up) - loss(down)) / (2 * h)",
    ),
    by_effect=True,  # its last digits are rounding
)
def numeric_gradient(student: Student, draw: Draw) -> None:
    """The gradient of the loss by central differences: no derivative, only losses.

    z (N, V) float32, target (N,), h (the step) -> dz (N, V) float64: with a small h torch's
    gradient, and with any h the central difference for this h.
    """
    drawn = [(draw.integer(1, 7), draw.integer(3, 8)) for _ in draw.cases(2)]
    for n, v in [(3, 8), (1, 4), (4, 6), *drawn]:
        layout = "transposed" if (n, v) == (4, 6) else "contiguous"
        z, target = draw.tensor(n, v, layout=layout), draw.integers(n, low=0, high=v - 1)
        wide = _differences(z.to(torch.float64), target, 0.5, 0.5)
        for h, want in ((1e-4, _torchs_cross_entropy64(z, target)), (0.5, wide)):
            got = student.call("numeric_gradient", z, target, h)
            try:
                expect_close(got, want, tolerance=1e-8)
            except Wrong as wrong:
                lost = not z.is_contiguous() and isinstance(got, Tensor) and not got.any()
                sentence = LOST if lost else _coarse(got, want) or _known(got, z, target, h)
                one_side = _of_one_side(got, want, z, target, h)
                wrong.why = sentence or one_side or wrong.why or RULE
                raise


def _coarse(got: Any, want: Tensor) -> str:
    """A sentence for what is right to the digits of float32, and no further."""
    if not isinstance(got, Tensor) or (got.shape, got.dtype) != (want.shape, want.dtype):
        return ""
    room = 1e-6 * float(want.abs().max())
    return COARSE if torch.allclose(got, want, rtol=0.0, atol=room) else ""


def _known(got: Any, z: Tensor, target: Tensor, h: float) -> str:
    """The sentence of the known wrong answer that this is, up to the rounding of a difference. The
    judge leaves room for rounding, but not for one that was divided by 2 * h."""
    for known in numeric_gradient.wrong_answers:
        answer = known.functions["numeric_gradient"](z.clone(), target, h)
        alike = isinstance(got, Tensor) and (got.shape, got.dtype) == (answer.shape, answer.dtype)
        if alike and torch.allclose(got, answer, rtol=1e-6, atol=1e-10):
            return known.sentence
    return ""


ONE_SIDE = (
    "The error is as large as that of a step to one side alone, which grows with h. In loss(z + h) "
    "- loss(z - h) the curvature cancels, and the error grows with h * h."
)


def _of_one_side(got: Any, want: Tensor, z: Tensor, target: Tensor, h: float) -> str:
    """A sentence where a small step errs about as much as one to a side does."""
    if not isinstance(got, Tensor) or (got.shape, got.dtype) != (want.shape, want.dtype):
        return ""
    one_sided = _differences(z.to(torch.float64), target, h, 0.0)
    error, theirs = (float((t.detach() - want).abs().max()) for t in (got, one_sided))
    return ONE_SIDE if h < 0.01 and 0.9 * theirs <= error <= 1.1 * theirs else ""


RULE = (
    "Each slope is (loss(z + h) - loss(z - h)) / (2 * h): one element of z is moved at a time, in "
    "float64, by the h that is given."
)
NO_DIFFERENCE = (
    "Every slope comes to 0, as where `up = z` is no copy, so that up and down are one tensor; "
    "where all logits move together, which softmax does not notice; or where nothing is written "
    "into dz. Move one element at a time, of the tensor that the loss gets."
)
LOST = (
    "Right where z is contiguous, all 0 where it is transposed: there `reshape` and `flatten` "
    "copy, and what is written into the copy reaches neither z nor dz. Index z[n, v] and dz[n, v]."
)
COARSE = (
    "Right to about seven digits, which is what float32 has. Where z, the step and the losses are "
    "all float64, the error is smaller than 1e-8 of the largest slope."
)
TURNED = "This is dz transposed: dz[n, v] belongs to z[n, v]."
STEP_NOT_USED = (
    "With a step as wide as h = 0.5 this is still the derivative, so h was not used, or no "
    "difference was taken. Compute (loss(z + h) - loss(z - h)) / (2 * h) with the h that is given."
)


def _torchs_cross_entropy64(z: Tensor, target: Tensor) -> Tensor:
    leaf = z.detach().to(torch.float64).requires_grad_()
    (dz,) = torch.autograd.grad(F.cross_entropy(leaf, target), leaf)
    return dz


def _differences(z: Tensor, target: Tensor, up: float, down: float) -> Tensor:
    """(loss(z + up) - loss(z - down)) / (up + down), element by element, in z's dtype."""
    moves = torch.eye(z.numel(), dtype=z.dtype, device=z.device).view(-1, *z.shape)  # (N * V, N, V)
    difference = _losses(z + up * moves, target) - _losses(z - down * moves, target)
    return difference.view(z.shape) / (up + down)


def _losses(logits: Tensor, target: Tensor) -> Tensor:
    """The loss of each of `logits` (K, N, V). In float64 at once: a diagnosis asks for hundreds of
    gradients. In float32 one by one, for there the last digits are most of a difference."""
    if logits.dtype == torch.float32:
        return torch.stack([F.cross_entropy(z, target) for z in logits])
    targets = target.expand(len(logits), -1)
    return F.cross_entropy(logits.mT, targets, reduction="none").mean(dim=1)


numeric_gradient.wrong(
    "one_sided",
    "This difference goes one way only, so its error shrinks with h. A step up and a step down "
    "cancel the curvature, and the error shrinks with h * h.",
    numeric_gradient=lambda z, target, h: _differences(z.to(torch.float64), target, h, 0.0),
)
numeric_gradient.wrong(
    "in_float32",
    "The losses were computed in float32: about seven digits, of which the difference loses most. "
    "Convert z to float64 first, not the result.",
    numeric_gradient=lambda z, target, h: _differences(z, target, h, h).to(torch.float64),
)


@numeric_gradient.wrong(
    "step_left_behind",
    "Each logit was moved up by h, down by 2 * h, and left there, so the later ones are measured "
    "somewhere else. Put it back, or move a copy.",
)
def _(z: Tensor, target: Tensor, h: float) -> Tensor:
    z = z.to(torch.float64)
    dz = torch.zeros_like(z)
    for n in range(z.shape[0]):
        for v in range(z.shape[1]):
            z[n, v] += h
            higher = F.cross_entropy(z, target)
            z[n, v] -= 2 * h
            dz[n, v] = (higher - F.cross_entropy(z, target)) / (2 * h)
    return dz


numeric_gradient.wrong(
    "not_halved",
    "Twice the gradient: the two points are 2 * h apart.",
    numeric_gradient=lambda z, target, h: 2 * _differences(z.to(torch.float64), target, h, h),
)
numeric_gradient.wrong(
    "not_divided",
    "These are differences of losses. A slope is a difference divided by the distance, 2 * h.",
    numeric_gradient=lambda z, target, h: 2 * h * _differences(z.to(torch.float64), target, h, h),
)
numeric_gradient.wrong(
    "nothing_moved",
    NO_DIFFERENCE,
    numeric_gradient=lambda z, target, h: torch.zeros_like(z, dtype=torch.float64),
)


@numeric_gradient.wrong("all_moved_together", NO_DIFFERENCE)
def _(z: Tensor, target: Tensor, h: float) -> Tensor:
    z = z.to(torch.float64)
    slope = (F.cross_entropy(z + h, target) - F.cross_entropy(z - h, target)) / (2 * h)
    return slope.expand_as(z).clone()


numeric_gradient.wrong(
    "derivative",
    STEP_NOT_USED,
    numeric_gradient=lambda z, target, h: _torchs_cross_entropy64(z, target),
)
numeric_gradient.wrong(
    "rows_not_averaged",
    "This is the gradient of the summed losses. F.cross_entropy takes the mean over the rows, so "
    "each row counts 1 / N.",
    numeric_gradient=lambda z, target, h: len(z) * _differences(z.to(torch.float64), target, h, h),
)


numeric_gradient.wrong(
    "one_sided_below",
    "This difference goes down only, so its error shrinks with h. A step up and a step down "
    "cancel the curvature, and the error shrinks with h * h.",
    numeric_gradient=lambda z, target, h: _differences(z.to(torch.float64), target, 0.0, h),
)


numeric_gradient.wrong(
    "one_step_over_two",
    "About half the gradient: the two points are one step h apart, and the difference was divided "
    "by 2 * h. Take one point above and one below.",
    numeric_gradient=lambda z, target, h: _differences(z.to(torch.float64), target, h, 0.0) / 2,
)


numeric_gradient.wrong(
    "multiplied_by_h",
    "The difference was divided by 2 and multiplied by h, as `/ 2 * h` does. The distance is one "
    "number: `/ (2 * h)`.",
    numeric_gradient=lambda z, target, h: _differences(z.to(torch.float64), target, h, h) * h * h,
)


numeric_gradient.wrong(
    "divided_by_two",
    "The difference was divided by 2. The two points are 2 * h apart: divide by that.",
    numeric_gradient=lambda z, target, h: _differences(z.to(torch.float64), target, h, h) * h,
)


numeric_gradient.wrong(
    "float32_all_the_way",
    "All of this is float32: about seven digits, of which the difference loses most. Move and "
    "return float64.",
    numeric_gradient=lambda z, target, h: _differences(z, target, h, h),
)


numeric_gradient.wrong(
    "returned_in_float32",
    "The differences were taken in float64, and then rounded to float32. Return float64, as it "
    "was computed.",
    numeric_gradient=lambda z, target, h: _differences(z.to(torch.float64), target, h, h).float(),
)


numeric_gradient.wrong(
    "upside_down",
    "The sign is wrong: take loss(z - h) away from loss(z + h), not the other way round.",
    numeric_gradient=lambda z, target, h: -_differences(z.to(torch.float64), target, h, h),
)


numeric_gradient.wrong(
    "never_negative",
    "Every slope is positive here. A loss can fall where a logit grows: take no absolute value.",
    numeric_gradient=lambda z, target, h: _differences(z.to(torch.float64), target, h, h).abs(),
)


numeric_gradient.wrong(
    "half_a_step",
    "Half the gradient. Divide by the distance between the two points: h where each logit moves by "
    "h / 2, and 2 * h where it moves by h.",
    numeric_gradient=lambda z, target, h: (
        _differences(z.to(torch.float64), target, h / 2, h / 2) / 2
    ),
)


numeric_gradient.wrong(
    "narrower_step",
    "The logits were moved by h / 2. Right for a small h; a step of h goes up by h and down by h.",
    numeric_gradient=lambda z, target, h: _differences(z.to(torch.float64), target, h / 2, h / 2),
)


numeric_gradient.wrong(
    "step_of_its_own",
    STEP_NOT_USED,
    numeric_gradient=lambda z, target, h: _differences(z.to(torch.float64), target, 1e-4, 1e-4),
)


numeric_gradient.wrong(
    "averaged_twice",
    "F.cross_entropy is a mean over the rows already, and here it was divided by N once more.",
    numeric_gradient=lambda z, target, h: _differences(z.to(torch.float64), target, h, h) / len(z),
)


numeric_gradient.wrong(
    "turned",
    TURNED,
    numeric_gradient=lambda z, target, h: _differences(
        z.to(torch.float64), target, h, h
    ).T.contiguous(),
)


numeric_gradient.wrong(
    "turned_view",
    TURNED,
    numeric_gradient=lambda z, target, h: _differences(z.to(torch.float64), target, h, h).T,
)


@numeric_gradient.wrong(
    "first_row_only",
    "Only the first row has slopes here. Every element of z has one.",
)
def _(z: Tensor, target: Tensor, h: float) -> Tensor:
    dz = _differences(z.to(torch.float64), target, h, h)
    dz[1:] = 0.0
    return dz


@numeric_gradient.wrong(
    "last_column_left_out",
    "The last column has no slope here: n runs over all z.shape[0] rows, and v over all z.shape[1] "
    "columns.",
)
def _(z: Tensor, target: Tensor, h: float) -> Tensor:
    dz = _differences(z.to(torch.float64), target, h, h)
    dz[:, -1] = 0.0
    return dz


@numeric_gradient.wrong(
    "targets_only",
    "Only the targets' logits have a slope here. The normaliser reads every logit, so all of them "
    "have one.",
)
def _(z: Tensor, target: Tensor, h: float) -> Tensor:
    dz = torch.zeros_like(z, dtype=torch.float64)
    rows = torch.arange(len(z))
    dz[rows, target] = _differences(z.to(torch.float64), target, h, h)[rows, target]
    return dz


@numeric_gradient.wrong(
    "column_moved",
    "A whole column was moved at once, so the rows' slopes are added up. Move one element of a "
    "copy at a time: z[n, v].",
)
def _(z: Tensor, target: Tensor, h: float) -> Tensor:
    z = z.to(torch.float64)
    steps = h * torch.eye(z.shape[1], dtype=torch.float64)
    slopes = [
        (F.cross_entropy(z + step, target) - F.cross_entropy(z - step, target)) / (2 * h)
        for step in steps
    ]
    return torch.stack(slopes).expand_as(z).clone()


@numeric_gradient.cost
def _(student: Student, draw: Draw) -> str:
    z, target = draw.tensor(2, 4), draw.integers(2, low=0, high=3)
    dz = student.call("numeric_gradient", z, target, 1e-4)
    head = 2 * (600 * 64 + 600)
    return (
        f"two losses for each number: {2 * dz.numel()} here, {head:,} for the head's parameters, "
        "where backward needs one pass"
    )
