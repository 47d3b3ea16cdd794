"""`play_fusion`: join the operators of a loss one by one, and see which bytes are moved no more."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F

from onelayer.drawing.explorable import Explorable, Line, Part, Scene, explorable
from onelayer.drawing.words import counted, say

from .traffic import TrafficOp, count_traffic

_MEANS = {"blue": "read", "orange": "written"}
_ON, _OFF = "joined", "apart"


class Step(NamedTuple):
    """An operator of the chain, and how many bytes it reads of the result before it."""

    name: str
    op: TrafficOp
    handed_on: int


def head_loss_steps(n: int) -> list[Step]:
    """The forward of the head's loss with clamped logits for n tokens, counted without a float."""
    with torch.device("meta"):
        x, weight, bias = torch.empty(n, 64), torch.empty(600, 64), torch.empty(600)
        target = torch.empty(n, dtype=torch.int64)
    with torch.no_grad(), count_traffic() as traffic:
        F.cross_entropy(F.linear(x, weight, bias).clamp(-30, 30), target)
    product, clamp, softmax, loss = traffic.ops
    return [
        Step("linear", product, 0),
        Step("clamp", clamp, clamp.bytes_read),
        Step("log_softmax", softmax, softmax.bytes_read),
        Step("loss", loss, loss.bytes_read - target.nbytes),
    ]


def joined(steps: Sequence[Step]) -> tuple[int, int]:
    """Bytes that one kernel reads and writes which does all these steps: what one of them hands on
    to the next is neither written nor read."""
    inside = sum(step.handed_on for step in steps[1:])
    return sum(step.op.bytes_read for step in steps) - inside, steps[-1].op.bytes_written


def play_fusion(*, n: int = 3584) -> Explorable:
    """The forward of the head's loss for n tokens, as four kernels that the reader joins.

        play_fusion()

    Bytes are counted as `count_traffic` counts them, without a backward that would want to keep a
    result. Nothing is timed. Raises ValueError for n below 1.
    """
    if n < 1:
        raise ValueError(say("a loss is of at least one token, got {n}", n=n))
    steps = head_loss_steps(n)
    ways = (say(_OFF), say(_ON))
    choices = {one.name + say(" and ") + two.name: ways for one, two in pairwise(steps)}

    def scene(*choice: str) -> Scene:
        return _scene(list(_kernels(steps, choice)), steps)

    about = say("the loss of the head for {n:,} tokens, as kernels", n=n)
    means = {look: say(words) for look, words in _MEANS.items()}
    return explorable(about, choices, scene, means=means)


def _kernels(steps: Sequence[Step], choice: Sequence[str]) -> Iterator[list[Step]]:
    """The steps of each kernel."""
    kernel = [steps[0]]
    for step, way in zip(steps[1:], choice, strict=True):
        if way == say(_OFF):
            yield kernel
            kernel = []
        kernel.append(step)
    yield kernel


def _scene(kernels: Sequence[Sequence[Step]], steps: Sequence[Step]) -> Scene:
    moved = [joined(kernel) for kernel in kernels]
    names = [" + ".join(step.name for step in kernel) for kernel in kernels]
    lines = [_line(name, *both) for name, both in zip(names, moved, strict=True)]
    now, apart = sum(map(sum, moved)), sum(sum(joined([step])) for step in steps)
    gone = [_result(step) for kernel in kernels for step in kernel[:-1]]
    told = say("Each result is a tensor.")
    if gone:
        told = say("No tensor any more: {results}.", results=", ".join(gone))
    bill = say(
        "{kernels}, {now:,} bytes: {share:.0%} of what four kernels move. ",
        kernels=counted(len(kernels), "{n} kernel", "{n} kernels"),
        now=now,
        share=now / apart,
    )
    return Scene(lines, bill + told)


def _result(step: Step) -> str:
    names = {"linear": "the logits", "clamp": "the clamped logits"}
    return say(names.get(step.name, "their log-softmax"))


def _line(name: str, read: int, written: int) -> Line:
    parts = [Part(read, "blue", _size(read)), Part(written, "orange", _size(written))]
    return Line(name, parts, _size(read + written))


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e6:.1f} MB" if nbytes >= 1e5 else say("{n:,} bytes", n=nbytes)
