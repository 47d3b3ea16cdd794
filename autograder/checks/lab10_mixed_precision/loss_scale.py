"""A GradScaler: which steps are taken, the gradients that they see, and the scale after each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

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
    asked = [_whole(draw), _near_the_end(draw), *(_drawn(draw) for _ in draw.cases(2))]
    for arguments, got in zip(asked, student.each("loss_scale", asked), strict=True):
        _expect(got, arguments)


def _expect(got: Any, arguments: tuple[Any, ...]) -> None:
    steps = arguments[0]
    each = expect_tuple(got, len(steps), f"{len(steps)} of (steps, gradients, scale)")
    for k, (said, want) in enumerate(zip(each, _torchs(*arguments), strict=True)):
        where = f"in step {k}"
        took, grads, scale = expect_tuple(said, 3, "(steps, gradients, scale)", where=where)
        if _truth(took, where) != want[0]:
            raise Wrong(expected=f"{want[0]}", got=describe(took), where=f"{where}, the optimizer")
        mine = expect_tuple(grads, len(want[1]), f"{len(want[1])} gradients", where=where)
        for n, (a, b) in enumerate(zip(mine, want[1], strict=True)):
            expect_elements(a, b, steps[k][n], where=f"{where}, gradient {n}: scaled")
        expect_number(scale, want[2], f"{where}, the scale")


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
    """Growth twice in a row, a bad step just before growth, one just after, and two in a row."""
    kinds = ["good"] * 7 + ["inf", "good", "good", "nan", "-inf", *["good"] * 4]
    scale = 2.0 ** draw.integer(8, 14)
    return _steps(draw, kinds, scale), scale, 4.0, 0.5, 3


def _near_the_end(draw: Draw) -> tuple[Steps, float, float, float, int]:
    """The scale can grow once more, and then no further."""
    kinds = ["good"] * 5 + ["nan", "good"]
    return _steps(draw, kinds, 2.0**90), 2.0**126, 2.0, 0.25, 1


def _drawn(draw: Draw) -> tuple[Steps, float, float, float, int]:
    kinds = draw.shuffled(["good"] * 9 + [draw.choice(("inf", "nan")) for _ in range(2)])
    scale = 2.0 ** draw.integer(4, 16)
    growth, backoff = draw.choice((2.0, 4.0)), draw.choice((0.5, 0.25))
    return _steps(draw, kinds, scale), scale, growth, backoff, draw.integer(2, 4)


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
    unscale: Callable[[Tensor, float], Tensor] = lambda g, scale: g.clone() * (1 / scale),
    lowers: bool = True,
) -> Answer:
    """As it goes, and the ways to get it wrong. resets: a bad step begins the count anew. again:
    growth does. late: steps of delay. after: the scale that is reported. with_new: unscaled by."""
    said, count = [], 0
    for grads in steps:
        was, bad = scale, is_bad(grads)
        count = count + 1 if not bad else (0 if resets else count)
        if bad:
            scale = scale * backoff if lowers else scale
        elif count >= interval + late:
            grown = scale * growth
            scale = grown if grown < 2.0**128 or not ends else scale
            count = 0 if again else count
        took = not bad or not skips
        mine = [unscale(g, scale if with_new else was) for g in grads]
        said.append((took, mine, scale if after else was))
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
    "After a bad step the scale stayed. The next one will overflow as well.",
    lowers=False,
)
_wrong(
    "count_goes_on",
    "A bad step has to begin the count anew: the scale grows after `interval` good steps in a row.",
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
    "bad_ones_zeroed",
    "What was not finite was replaced by numbers. The gradients of a step that is not taken stay "
    "as they are: divided, and not finite.",
    unscale=lambda g, scale: torch.where(g.isfinite(), g / scale, 0.0),
)


@loss_scale.cost
def _(student: Student, draw: Draw) -> str:
    arguments = _whole(draw)
    said = student.call("loss_scale", *arguments)
    lost = sum(not took for took, _, _ in said)
    scales = [math.log2(float(scale)) for _, _, scale in said]
    ends = f"between 2**{min(scales):g} and 2**{max(scales):g}"
    return f"{lost} of {len(said)} steps lost; scales {ends}"
