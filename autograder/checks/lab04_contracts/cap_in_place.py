"""An edit in place that is declared, and an output without a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.checks.explaining import saying
from autograder.judge import Draw, Student, Wrong

from . import lab
from .answers import ANOTHER_CALLS, Triple, expect_named, parts

Capped = tuple[Tensor, Tensor, Tensor, str]

OLD, NEW = "MulBackward0", "CapFnBackward"  # h's node after the edit: the one it had, or yours


@lab.question(
    "cap_in_place",
    points=3,
    minutes=12,
    difficulty=3,
    hints=(
        "Three things are news to torch: z has other numbers, z has another history, and the "
        "report has none. Which line says each? What must backward know that the edit destroys?",
        "Four lines: remember where z was at most the limit before you edit it; "
        "z.clamp_(max=limit); ctx.mark_dirty(z); ctx.mark_non_differentiable(lost). Backward gets "
        "two gradients, uses the first, and answers z and limit.",
        "return dz * passed, None",
    ),
)
def cap_in_place(student: Student, draw: Draw) -> None:
    """A Function that edits its input in place and returns a report without a gradient.

    z (N, V), limit (a float), dy (N, V) -> (z cut off at limit, what each row lost (N,), the
    gradient of what z was before, given dy for what it is after, the name of z's node). The name
    earns nothing; it tells two faults apart.
    """
    single, double = torch.float32, torch.float64
    cases = [(n, draw.choice((0.25, 0.5)), False, single, 1e-6) for n in draw.sizes(3, 1, high=9)]
    cases += [(3, 0.1, False, double, 1e-6)]  # 0.1 in float32 is another number
    cases += [(2, 0.5, False, single, 2.0**26)]  # less the limit, it is what it was
    # 0.0 is false in Python; and a limit may be below it, as may be what arrives.
    cases += [(n, limit, True, single, 1e-6) for n, limit in ((4, 0.0), (5, -0.75))]
    for n, limit, signed, dtype, over in cases:
        layout = "transposed" if signed else "contiguous"
        z = draw.tensor(n, draw.integer(12, 20), dtype=dtype, layout=layout)
        dy = draw.tensor(*z.shape, dtype=dtype)
        if not signed:
            dy = 2.0 + dy.abs()  # above every limit, below no logit that was cut
            # A row that loses nothing: all of it passes, whether dy is over the limit or not.
            z[1:2], dy[1:2, ::2] = -z[1:2].abs(), limit / 2
        z[0, 0] = limit  # not cut off
        z[0, 1] = limit + over  # cut off
        if not signed:  # a row that loses little
            z[2:3] = -z[2:3].abs()
            z[2:3, :1] = limit + 0.125
        _ask(student, z, limit, dy)
    with saying(ANOTHER_CALLS):  # in shape and dtype as before: a mask belongs to its call
        _ask(student, z.flip(1), limit, dy, rules=dict.fromkeys(_RULES, ""))


def _ask(
    student: Student, z: Tensor, limit: float, dy: Tensor, rules: dict[str, str] | None = None
) -> None:
    got = parts(student.call("cap_in_place", z, limit, dy), "z, lost, gradient, node")
    tolerance = 1e-12 if z.dtype is torch.float64 else 1e-5
    for (name, rule), mine, right in zip(
        (rules or _RULES).items(), got[:3], _cap(z, limit, dy), strict=True
    ):
        with saying(rule):
            expect_named(name, mine, right, tolerance=tolerance)
    if got[1].requires_grad:
        raise Wrong(expected="a report without gradient", got="requires_grad is True")


_RULES = {
    "z": "z is cut off where it is over the limit, and stays as it is everywhere else.",
    "what each row lost": "A row loses the sum of what stood over the limit in it.",
    "the gradient": "The gradient is dy where z was not over the limit, and 0 where it was, by "
    "however little.",
}


def _cap(z: Tensor, limit: float, dy: Tensor) -> Triple:
    """By the page's rule, and not by clamp_'s backward: what passes at the limit itself passes up
    to torch 2.13, and does not in 2.15."""
    return z.clamp(max=limit), (z - limit).clamp(min=0).sum(1), dy * (z <= limit)


@cap_in_place.wrong(
    "dirty_forgotten",
    "The gradient passes where z was cut off: the old node of z answered, as if nothing had been "
    "edited. ctx.mark_dirty(z) gives z a new history, if z is not marked non-differentiable.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, _ = _cap(z, limit, dy)
    return capped, lost, dy.clone(), OLD


@cap_in_place.wrong(
    "all_passes",
    "Your node answered, and let all of dz through, also where z was cut off. Is the mask missing, "
    "or was it made after the edit, when nothing is over the limit any more?",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, _ = _cap(z, limit, dy)
    return capped, lost, dy.clone(), NEW


@cap_in_place.wrong(
    "not_in_place",
    "z holds what it held before, as where a new tensor is capped. `clamp_` with an underscore "
    "writes into z itself.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    _, lost, _ = _cap(z, limit, dy)
    return z.clone(), lost, dy.clone(), OLD


@cap_in_place.wrong(
    "report_differentiable",
    "The report requires a gradient. It is for people to read: mark it, the very tensor that "
    "forward returns, with ctx.mark_non_differentiable(lost).",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, dz = _cap(z, limit, dy)
    return capped, lost.requires_grad_(), dz, NEW


@cap_in_place.wrong(
    "nothing_at_the_limit",
    "A logit that equals the limit is not cut off, so its gradient passes.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, dz = _cap(z, limit, dy)
    return capped, lost, dz * (z < limit), NEW


@cap_in_place.wrong(
    "gradient_capped",
    "The gradient was cut off at the limit, as z was. The local rule is another one: where z was "
    "cut off nothing passes, elsewhere all does.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, _ = _cap(z, limit, dy)
    return capped, lost, dy.clamp(max=limit), NEW


@cap_in_place.wrong(
    "mask_of_what_arrives",
    "The gradient is 0 wherever dz is over the limit. The limit is one for z: where z was not cut "
    "off all of dz passes, however large it is.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, _ = _cap(z, limit, dy)
    return capped, lost, dy * (dy <= limit), NEW


@cap_in_place.wrong(
    "mask_inverted",
    "The gradient passes where z was cut off, and stops elsewhere. It is the other way round.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, _ = _cap(z, limit, dy)
    return capped, lost, dy * (z > limit), NEW


def _capped_with(
    answer: Callable[[Tensor], Any],
    z: Tensor,
    limit: float,
    dy: Tensor,
    returned: Callable[[Tensor], Tensor] = lambda z: z,
) -> Capped:
    """What a CapFn comes to whose forward returns `returned(z)`, and backward `answer(dz)`."""

    class CapFn(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, z: Tensor, limit: float) -> Tensor:
            ctx.mark_dirty(z)
            return returned(z.clamp_(max=limit))

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Any:
            return answer(grads[0])

    capped, lost, _ = _cap(z, limit, dy)
    leaf = z.detach().clone().requires_grad_()
    h = leaf * 1
    CapFn.apply(h, limit)  # type: ignore[no-untyped-call]
    return capped, lost, torch.autograd.grad(h, leaf, dy)[0], NEW


cap_in_place.wrong(
    "one_answer",
    "torch counted one answer. forward has two inputs, z and limit, so backward returns a tuple of "
    "two: None for the limit, which is no tensor. A list counts as one.",
    cap_in_place=lambda z, limit, dy: _capped_with(lambda dz: dz, z, limit, dy),
)
cap_in_place.wrong(
    "limit_answered",
    "backward answers the inputs of forward, not its outputs: dz for z, None for the limit, which "
    "is no tensor. What arrives for the report is of no use.",
    cap_in_place=lambda z, limit, dy: _capped_with(lambda dz: (dz, dz), z, limit, dy),
)


@cap_in_place.wrong(
    "report_not_returned",
    "forward returned z alone. The report is its second output: return z, lost.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, _, dz = _cap(z, limit, dy)
    _, lost = capped
    return capped, lost, dz, NEW


BOTH_ENDS = "z was cut off at both ends. The limit is an upper one: what is far below it stays."


@cap_in_place.wrong("both_ends_cut", BOTH_ENDS)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    _, lost, dz = _cap(z, limit, dy)
    return z.clamp(-limit, limit), lost, dz, NEW


@cap_in_place.wrong("both_ends_masked", BOTH_ENDS)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    _, lost, _ = _cap(z, limit, dy)
    return z.clamp(-limit, limit), lost, dy * (z.abs() <= limit), NEW


@cap_in_place.wrong(
    "other_end_cut",
    "z was raised to the limit where it was below: `clamp(min=...)`. Nothing may lie above it: "
    "`max=`.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    _, lost, dz = _cap(z, limit, dy)
    return z.clamp(min=limit), lost, dz, NEW


@cap_in_place.wrong(
    "mask_of_sizes",
    "The mask looks at abs(z). A logit far below zero is not cut off, and its gradient passes: "
    "compare z itself with the limit.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, _ = _cap(z, limit, dy)
    return capped, lost, dy * (z.abs() <= limit), NEW


@cap_in_place.wrong(
    "mask_of_another_cap",
    "The gradient stops where -z was over the limit, as in the other cap that runs before this "
    "backward. Keep the mask on ctx: each call has its own, and the class is shared.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, _ = _cap(z, limit, dy)
    return capped, lost, dy * (-z <= limit), NEW


@cap_in_place.wrong(
    "whole_rows_masked",
    "The mask is one for each row, so a logit that was cut off stops the whole row. Each logit has "
    "its own.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, _ = _cap(z, limit, dy)
    return capped, lost, dy * (z <= limit).all(1, keepdim=True), NEW


@cap_in_place.wrong(
    "one_where_cut",
    "The gradient is 1 where z was cut off. Nothing that z was shows in the limit there, so "
    "nothing passes: 0.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, _ = _cap(z, limit, dy)
    return capped, lost, torch.where(z <= limit, dy, 1.0), NEW


@cap_in_place.wrong(
    "largest_loss_alone",
    "The report holds the largest loss of each row. What a row lost is the sum over its logits.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, _, dz = _cap(z, limit, dy)
    return capped, (z - limit).clamp(min=0).amax(1), dz, NEW


@cap_in_place.wrong(
    "excess_taken_away",
    "z - (z - limit) is 0 for a logit so large that z - limit is rounded to z. What is over the "
    "limit becomes the limit itself.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    _, lost, dz = _cap(z, limit, dy)
    return z - (z - limit).clamp(min=0), lost, dz, NEW


@cap_in_place.wrong("zero_where_cut", "What was over the limit became 0. It becomes the limit.")
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    _, lost, dz = _cap(z, limit, dy)
    return torch.where(z > limit, 0.0, z), lost, dz, NEW


@cap_in_place.wrong(
    "bent",
    "The logits were bent by tanh. They are cut off: what is at most the limit stays as it was.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    _, lost, dz = _cap(z, limit, dy)
    return limit * (z / limit).tanh(), lost, dz, NEW


@cap_in_place.wrong(
    "mask_turned_round",
    "The gradient passes at the limit and above it, and stops below. It is the other way round.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, _ = _cap(z, limit, dy)
    return capped, lost, dy * (z >= limit), NEW


cap_in_place.wrong(
    "copy_returned",
    "z was marked dirty, and another tensor returned. What is edited in place comes back itself: "
    "return z.",
    cap_in_place=lambda z, limit, dy: _capped_with(
        lambda dz: (dz, None), z, limit, dy, returned=torch.clone
    ),
)


@cap_in_place.wrong(
    "report_after_the_edit",
    "The report is 0. Was it made after the edit, when nothing lies above the limit any more?",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, dz = _cap(z, limit, dy)
    return capped, torch.zeros_like(lost), dz, NEW


@cap_in_place.wrong(
    "arrival_overwritten",
    "backward wrote into the gradient that arrives. It is not yours: whoever passed it in still "
    "reads it. Multiply out of place: dz * passed.",
)
def _(z: Tensor, limit: float, dy: Tensor) -> Capped:
    capped, lost, _ = _cap(z, limit, dy)
    return capped, lost, dy.mul_(z <= limit), NEW


@cap_in_place.cost
def _(student: Student, draw: Draw) -> str:
    z = draw.tensor(32, 600)
    capped = student.call("cap_in_place", z, 1.0, torch.ones_like(z))[0]
    cut = int((capped == 1.0).sum())
    return (
        f"{cut:,} of {z.numel():,} logits cut off in their own {z.nbytes:,} bytes; a mask of bools "
        f"takes {z.numel():,} bytes until backward, a second copy of z would take {z.nbytes:,}"
    )
