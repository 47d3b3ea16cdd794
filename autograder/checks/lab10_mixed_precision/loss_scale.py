"""A GradScaler: which steps are taken, the gradients that they see, and the scale after each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.explaining import saying
from autograder.judge import Draw, Student, Wrong, describe, expect_kind, expect_tuple

from . import lab
from .exactly import expect_elements, expect_number

Steps = list[list[Tensor]]
Answer = list[tuple[bool, list[Tensor], float]]


@lab.question(
    "loss_scale",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "What has to be known before the optimizer may step, and with which scale were these "
        "gradients made?",
        "Divide by the scale as it was, look at every element of every gradient, and only then "
        "change the scale: down at once, up after `interval` good steps in a row. Both begin a new "
        "count.",
        "good = all(g.isfinite().all() for g in grads); count = count + 1 if good else 0",
    ),
)
def loss_scale(student: Student, draw: Draw) -> None:
    """What torch.amp.GradScaler does in a run.

    steps: for each step its scaled gradients (tensors); scale, growth, backoff (floats), interval
    (int) -> for each step (whether the optimizer steps, unscaled gradients, scale after it).
    """
    asked = [_whole(draw), _near_the_end(draw), _near_one(draw), _of_few(draw)]
    asked.append(_near_zero(draw))
    asked += [_drawn(draw) for _ in draw.cases(2)]
    for arguments, got in zip(asked, student.each("loss_scale", asked), strict=True):
        _expect(got, arguments)


def _expect(got: Any, arguments: tuple[Any, ...]) -> None:
    steps = arguments[0]
    each = expect_tuple(got, len(steps), f"{len(steps)} of (steps, gradients, scale)")
    before = arguments[1]
    for k, (said, want) in enumerate(zip(each, _torchs(*arguments), strict=True)):
        where = f"in step {k}"
        took, grads, scale = expect_tuple(said, 3, "(steps, gradients, scale)", where=where)
        if _truth(took, where) != want[0]:
            raise Wrong(
                expected=f"{want[0]}",
                got=describe(took),
                where=f"{where}, the optimizer",
                why=_why_it_steps(steps[k]),
            )
        mine = expect_tuple(grads, len(want[1]), f"{len(want[1])} gradients", where=where)
        for n, (a, b) in enumerate(zip(mine, want[1], strict=True)):
            with saying(_UNSCALED):
                expect_elements(a, b, steps[k][n], where=f"{where}, gradient {n}", element="scaled")
        expect_number(scale, want[2], f"{where}, the scale", why=_why_scaled(before, want))
        before = want[2]


_UNSCALED = (
    "Each gradient of a step comes back divided by the scale as it was before the step, in its own "
    "dtype."
)


def _why_it_steps(grads: Sequence[Tensor]) -> str:
    for n, grad in enumerate(grads):
        if not bool(grad.isfinite().all()):
            return f"Gradient {n} has an element that is not finite: the step is left out."
    return "Every element of this step's gradients is finite, so the optimizer steps."


def _why_scaled(before: float, want: tuple[bool, list[Tensor], float]) -> str:
    took, _, after = want
    if not took:
        return "This step is left out: the scale of before it is multiplied by `backoff`."
    if after != before:
        return (
            "This good step completes `interval` of them in a row, since the last growth and the "
            "last step left out: the scale is multiplied by `growth`."
        )
    return (
        "After this good step the scale stays: it completes no `interval` since the last growth or "
        "step left out, or growth would make the scale infinite in float32."
    )


def _truth(took: Any, where: str) -> bool:
    if isinstance(took, Tensor) and took.numel() == 1 and took.dtype == torch.bool:
        return bool(took.item())
    return expect_kind(took, bool, "True or False", where=where)


def _torchs(steps: Steps, scale: float, growth: float, backoff: float, interval: int) -> Answer:
    """Asked of torch's own."""
    scaler = torch.amp.GradScaler(
        "cpu", scale, growth_factor=growth, backoff_factor=backoff, growth_interval=interval
    )
    said: Answer = []
    for scaled in steps:
        weights = [nn.Parameter(torch.zeros_like(g, memory_format=torch.contiguous_format))
                   for g in scaled]  # fmt: skip
        for w, g in zip(weights, scaled, strict=True):
            w.grad = g.clone(memory_format=torch.contiguous_format)
        optimizer = torch.optim.SGD(weights)
        taken: list[bool] = []
        optimizer.register_step_post_hook(lambda *_, taken=taken: taken.append(True))
        scaler.scale(torch.ones(()))  # its scale is made with the first loss
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        grads = [w.grad for w in weights if w.grad is not None]
        said.append((bool(taken), grads, scaler.get_scale()))
    return said


def _gradients(draw: Draw, scale: float) -> list[Tensor]:
    """Of three parameters, in three layouts and two dtypes; none of them is large."""
    a = draw.tensor(draw.integer(2, 4), 5, layout=draw.layout())
    b = draw.tensor(draw.integer(6, 8), dtype=torch.float64)
    c = draw.tensor(3, layout="expanded") if draw.integer(0, 1) else draw.tensor()
    return [g * scale for g in (a, b, c)]


def _steps(draw: Draw, kinds: Sequence[str], scale: float) -> Steps:
    """A step for each of `kinds`: "good", or what one element of the second or the last gradient
    is."""
    steps = []
    for kind in kinds:
        grads = _gradients(draw, scale)
        if kind != "good":
            place = draw.integer(1, 2)
            flat = grads[place].flatten().clone()
            flat[draw.integer(0, flat.numel() - 1)] = float(kind)
            grads[place] = flat.reshape(grads[place].shape)
        steps.append(grads)
    return steps


def _whole(draw: Draw) -> tuple[Steps, float, float, float, int]:
    """Growth twice in a row, a bad step just before growth, one just after, and two in a row. In
    one of them an element of the first gradient is bad too."""
    kinds = ["good"] * 7 + ["inf", "good", "good", "nan", "-inf", *["good"] * 4]
    scale = 2.0 ** draw.integer(8, 14)
    steps = _steps(draw, kinds, scale)
    steps[10][0] = steps[10][0].clone()
    steps[10][0][0, 0] = math.nan
    return steps, scale, 4.0, 0.5, 3


def _near_the_end(draw: Draw) -> tuple[Steps, float, float, float, int]:
    """The scale can grow once more, and then no further."""
    kinds = ["good"] * 5 + ["nan", "good"]
    return _steps(draw, kinds, 2.0**90), 2.0**126, 2.0, 0.25, 1


def _near_one(draw: Draw) -> tuple[Steps, float, float, float, int]:
    """The scale falls below 1. A bad step breaks off a long count; an element of float64 is too
    large for float32; the elements of a gradient are large, and their sum is infinite; then one is
    so large that it becomes infinite when divided; and only the first gradient is bad, and then all
    of them."""
    kinds = ["good"] * 3 + ["inf"] + ["good"] * 3 + ["nan", "nan", "good"]
    steps = _steps(draw, kinds, 1.0)
    steps[2][1][0] = 2.0**200
    steps[4][0] = torch.full_like(steps[4][0], 2.0**126)
    steps[5][0] = steps[5][0].clone()
    steps[5][0][0, 0] = 2.0**127
    steps[7] = [torch.full_like(steps[7][0], math.nan), *steps[6][1:]]
    steps[8] = [torch.full_like(grad, math.inf) for grad in steps[8]]
    return steps, 2.0, 2.0, 0.25, 4


def _near_zero(draw: Draw) -> tuple[Steps, float, float, float, int]:
    """A scale so small that nobody's least scale is below it."""
    kinds = ["good", "inf", "nan", "good"]
    return _steps(draw, kinds, 2.0**-50), 2.0**-50, 2.0, 0.25, 9


def _of_few(draw: Draw) -> tuple[Steps, float, float, float, int]:
    """A gradient without elements among the others."""
    kinds = ["good", "good", "good", "inf", "good", "good", "nan", "good"]
    steps = [[*grads, draw.tensor(0, 3)] for grads in _steps(draw, kinds, 8.0)]
    return steps, 8.0, 4.0, 0.25, 2


def _drawn(draw: Draw) -> tuple[Steps, float, float, float, int]:
    kinds = draw.shuffled(["good"] * 9 + [draw.choice(("inf", "nan")) for _ in range(2)])
    scale = 2.0 ** draw.integer(4, 16)
    growth, backoff = draw.choice((2.0, 4.0)), draw.choice((0.5, 0.25))
    return _steps(draw, kinds, scale), scale, growth, backoff, draw.integer(2, 4)


def _largest(g: Tensor) -> float:
    return float(g.abs().max()) if g.numel() else 0.0


def _is_bad(grads: Sequence[Tensor]) -> bool:
    return any(not bool(g.isfinite().all()) for g in grads)


def _run(
    steps: Steps,
    scale: float,
    growth: float,
    backoff: float,
    interval: int,
    *,
    is_bad: Callable[[Sequence[Tensor]], bool] = _is_bad,
    skips: bool = True,
    resets: bool = True,
    again: bool = True,
    late: int = 0,
    after: bool = True,
    with_new: bool = False,
    ends: bool = True,
    unscale: Callable[[Tensor, float], Tensor] = lambda g, scale: g / scale,
    lowers: bool = True,
    counts_bad: bool = False,
    exactly: bool = False,
    multiples: bool = False,
    most: float = math.inf,
    least: float = 0.0,
    by: Callable[[float, float], float] = lambda growth, backoff: backoff,
    up: Callable[[float], float] = lambda growth: growth,
    with_first: bool = False,
    divided: bool = False,
    in_float32: bool = False,
    last: Callable[[bool, list[Tensor], float, list[Tensor]], Any] = (
        lambda took, mine, scale, grads: (took, mine, scale)
    ),
) -> Any:
    """As it goes, and the ways to get it wrong. resets: a bad step begins the count anew. again:
    growth does. late: steps of delay. after: the scale that is reported. with_new, with_first:
    unscaled by. divided: looked at when unscaled. in_float32: the scale. exactly: grows at this
    count, and not behind it. multiples: and at each multiple of it. most, least: of the scale. by,
    up: what it is multiplied by. last: what is said of a step."""

    def grows(count: int) -> bool:
        if multiples:
            return count % interval == 0
        return count == interval + late if exactly else count >= interval + late

    said, count, first = [], 0, scale
    for grads in steps:
        was, bad = scale, is_bad([g / scale for g in grads] if divided else grads)
        count = count + 1 if not bad or counts_bad else (0 if resets else count)
        if bad:
            scale = max(scale * by(growth, backoff), least) if lowers else scale
        elif grows(count):
            grown = min(scale * up(growth), most)
            scale = grown if grown < 2.0**128 or not ends else scale
            scale = torch.tensor(scale, dtype=torch.float32).item() if in_float32 else scale
            count = 0 if again else count
        took = not bad or not skips
        mine = [unscale(g, first if with_first else scale if with_new else was) for g in grads]
        said.append(last(took, mine, scale if after else was, grads))
    return said


def _wrong(name: str, sentence: str, **how: Any) -> None:
    loss_scale.wrong(
        name,
        sentence,
        loss_scale=lambda steps, scale, growth, backoff, interval: _run(
            steps, scale, growth, backoff, interval, **how
        ),
    )


_wrong(
    "never_skips",
    "The optimizer stepped with gradients that are not finite. One such step ruins the weights.",
    skips=False,
)
_wrong(
    "nan_is_fine",
    "Only infinities were found. inf - inf, somewhere in backward, is NaN, and means the same.",
    is_bad=lambda grads: any(bool(g.isinf().any()) for g in grads),
)
_wrong(
    "first_gradient_only",
    "Only the first gradient was looked at. One element of any of them is enough.",
    is_bad=lambda grads: not bool(grads[0].isfinite().all()),
)
_wrong(
    "not_unscaled",
    "The gradients are still scaled: the step is larger by that factor.",
    unscale=lambda g, scale: g.clone(),
)
_wrong(
    "scaled_once_more",
    "The gradients were multiplied by the scale. They carry it already: divide.",
    unscale=lambda g, scale: g * scale,
)
_wrong(
    "with_the_new_scale",
    "The scale was changed first, and the gradients divided by the new one. They were made with "
    "the old one.",
    with_new=True,
)
_wrong(
    "scale_before",
    "These are the scales before each step. The one after it is asked for.",
    after=False,
)
_wrong(
    "never_lowered",
    "After a bad step the scale stayed. It was too large: multiply it by `backoff`.",
    lowers=False,
)
_wrong(
    "count_goes_on",
    "The count went on behind a bad step, which begins it anew: the scale grows after `interval` "
    "good steps in a row.",
    resets=False,
)
_wrong(
    "grows_every_step",
    "After it grew, the scale grew again in the next step. Growth begins a new count too.",
    again=False,
)
_wrong(
    "one_step_late",
    "The scale grew one step late: it grows in the step that completes `interval` good ones.",
    late=1,
)
_wrong(
    "infinite_scale",
    "The scale itself became infinite for float32. torch leaves it where it is then.",
    ends=False,
)
_wrong(
    "infinite_scale_of_float32",
    "The scale itself became infinite for float32. torch leaves it where it is then.",
    ends=False,
    in_float32=True,
)
_wrong(
    "looked_at_divided",
    "A step was left out whose gradients are finite until they are divided, by a scale below 1. "
    "Look at the scaled ones.",
    divided=True,
)
_wrong(
    "infinite_scale_inverted",
    "The scale itself became infinite for float32. torch leaves it where it is then.",
    ends=False,
    unscale=lambda g, scale: g * (1 / scale),
)
_wrong(
    "bad_ones_zeroed",
    "What was not finite was replaced by numbers. The gradients of a step that is not taken stay "
    "as they are: divided, and not finite.",
    unscale=lambda g, scale: torch.where(g.isfinite(), g / scale, 0.0),
)
_wrong(
    "infinity_is_fine",
    "Only NaN was found. Infinity is not finite either, and is what an overflow leaves first.",
    is_bad=lambda grads: any(bool(g.isnan().any()) for g in grads),
)
_wrong(
    "minus_infinity_is_fine",
    "-inf was not found. Both infinities are bad, and NaN is.",
    is_bad=lambda grads: any(bool((g.isnan() | (g == math.inf)).any()) for g in grads),
)
_wrong(
    "every_gradient_bad",
    "A step was left out only where every gradient has a bad element. One of them is enough.",
    is_bad=lambda grads: all(not bool(g.isfinite().all()) for g in grads),
)
_wrong(
    "every_element_bad",
    "A gradient was bad only where all of its elements are. One element is enough.",
    is_bad=lambda grads: any(not bool(g.isfinite().any()) for g in grads),
)
_wrong(
    "last_gradient_only",
    "Only the last gradient was looked at. One element of any of them is enough.",
    is_bad=lambda grads: not bool(grads[-1].isfinite().all()),
)
_wrong(
    "sum_is_finite",
    "A step whose elements are large and finite was left out, as where their sum is looked at: it "
    "is infinite while each of them is finite. Look at the elements.",
    is_bad=lambda grads: any(not bool(g.sum().isfinite()) for g in grads),
)
_wrong(
    "norm_is_finite",
    "A step whose elements are large and finite was left out, as where the sum of their squares "
    "is looked at: it is infinite long before an element is.",
    is_bad=lambda grads: any(not bool((g * g).sum().isfinite()) for g in grads),
)
_wrong(
    "bad_ones_count",
    "A bad step was counted like a good one. It begins the count anew.",
    counts_bad=True,
)
_wrong(
    "bad_ones_count_and_pass",
    "A bad step was counted like a good one. It begins the count anew.",
    counts_bad=True,
    exactly=True,
)
_wrong(
    "every_so_many_steps",
    "All steps of the run were counted, and the scale grew at each `interval`-th of them. It grows "
    "after `interval` good steps in a row.",
    counts_bad=True,
    again=False,
    multiples=True,
)
_wrong(
    "largest_by_python",
    "A NaN was passed over, as by Python's `max`: it compares, and every comparison with NaN is "
    "False, so that one which does not come first is lost.",
    is_bad=lambda grads: not math.isfinite(max(_largest(g) for g in grads)),
)
_wrong(
    "one_step_early",
    "The scale grew one step too early: `interval` good steps in a row are needed.",
    late=-1,
)
_wrong(
    "one_step_early_exactly",
    "The scale grew one step too early: `interval` good steps in a row are needed.",
    late=-1,
    exactly=True,
)
_wrong(
    "grows_at_every_step",
    "The scale grew after each good step. It grows after `interval` of them in a row.",
    late=-10_000,
)
_wrong(
    "grows_once",
    "In a row of good steps the scale grew only once. Growth begins a new count, and `interval` "
    "good steps later it grows again.",
    again=False,
    exactly=True,
)
_wrong(
    "held_at_the_largest",
    "Where growth would be infinite, the scale became the largest float32. It stays as it was.",
    most=torch.finfo(torch.float32).max,
)
_wrong(
    "never_below_one",
    "The scale was not let below 1. Nothing keeps it there: each bad step multiplies it by "
    "`backoff`.",
    least=1.0,
)
_wrong(
    "divided_by_backoff",
    "The scale was divided by `backoff`, so that a bad step makes it larger. Multiply.",
    by=lambda growth, backoff: 1 / backoff,
)
_wrong(
    "always_halved",
    "A bad step halved the scale. It is multiplied by `backoff`, which need not be 0.5.",
    by=lambda growth, backoff: 0.5,
)
_wrong(
    "divided_by_growth",
    "A bad step divided the scale by `growth`. It is multiplied by `backoff`.",
    by=lambda growth, backoff: 1 / growth,
)
_wrong(
    "always_doubled",
    "The scale was doubled. It is multiplied by `growth`, which need not be 2.",
    up=lambda growth: 2.0,
)
_wrong(
    "with_the_first_scale",
    "All gradients were divided by the scale of the beginning. Each step has the scale of its own.",
    with_first=True,
)
_wrong(
    "in_float32",
    "The gradients came back in float32. Each keeps its own dtype.",
    unscale=lambda g, scale: g.float() / scale,
)
_wrong(
    "divided_in_place",
    "What is in `steps` was changed, as where gradients are divided in place. Make new ones.",
    unscale=lambda g, scale: g.div_(scale),
)
_wrong(
    "says_the_opposite",
    "True was said of the steps that are left out. It says whether the optimizer steps.",
    last=lambda took, mine, scale, grads: (not took, mine, scale),
)
_wrong(
    "nothing_of_a_bad_step",
    "Of a step that is left out no gradients came. They are asked for too: divided, as they are.",
    last=lambda took, mine, scale, grads: (took, mine if took else None, scale),
)
_wrong(
    "empty_for_a_bad_step",
    "Of a step that is left out no gradients came. They are asked for too: divided, as they are.",
    last=lambda took, mine, scale, grads: (took, mine if took else [], scale),
)
_wrong(
    "zeros_of_a_bad_step",
    "The gradients of a step that is left out became zero. They stay as they are, but divided.",
    last=lambda took, mine, scale, grads: (
        took,
        mine if took else [torch.zeros_like(g) for g in grads],
        scale,
    ),
)
_wrong(
    "bad_step_not_unscaled",
    "The gradients of a step that is left out are still scaled. They are divided as well.",
    last=lambda took, mine, scale, grads: (took, mine if took else grads, scale),
)


@loss_scale.wrong(
    "bad_steps_missing",
    "A step that is left out is missing in the answer. Each step has its entry, this one too.",
)
def _(steps: Steps, scale: float, growth: float, backoff: float, interval: int) -> Answer:
    return [one for one in _run(steps, scale, growth, backoff, interval) if one[0]]


@loss_scale.cost
def _(student: Student, draw: Draw) -> str:
    arguments = _whole(draw)
    said = student.call("loss_scale", *arguments)
    lost = sum(not took for took, _, _ in said)
    scales = [math.log2(float(scale)) for _, _, scale in said]
    ends = f"between 2**{min(scales):g} and 2**{max(scales):g}"
    return f"{lost} of {len(said)} steps lost; scales {ends}"
