"""What a training step holds, byte by byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from autograder.checks.explaining import saying
from autograder.judge import Draw, Student, expect_equal, expect_tuple, within

from . import lab
from .training_steps import Moments, held_in_second_step

MOMENTS = ("before the step", "after the forward", "at the peak", "after the backward")
FLOAT = 4


@lab.question(
    "bytes_held",
    points=4,
    minutes=10,
    difficulty=3,
    hints=(
        "Which tensors live from step to step? Which does the forward leave for the backward? "
        "Which two does the first line of the backward add?",
        "P parameters. AdamW keeps two numbers for each, so 3 P live between steps. The forward "
        "leaves what each ReLU returned, and the log-probabilities. The backward begins with two "
        "more tensors of (n, V), and ends with P gradients.",
        "peak = forward + 2 * 4 * n * V",
    ),
)
def bytes_held(student: Student, draw: Draw) -> None:
    """The bytes that the second step of AdamW holds, at four moments.

    widths: of the layers, from the input's to V; n: rows of the batch -> (before the step, after
    the forward, at the peak of forward and backward, after the backward), in bytes of float32.
    """
    cases = [([7, 11], 40), ([5, 8, 9, 13], 101), ([5, 8, 13], 101), ([64, 600], 700)]
    cases += [([2, 12, 7, 8], 100)]  # V is not the widest
    cases += [([9, 9, 9, 9, 9, 21], 60), ([5, 21, 8, 21], 90), ([6, 2, 9, 30], 70)]  # equal ones
    for _ in draw.cases(3):
        inner = [draw.integer(3, 20) for _ in range(draw.integer(1, 3))]
        cases.append(([draw.integer(3, 20), *inner, draw.integer(30, 50)], draw.integer(60, 120)))
    for widths, n in cases:
        got = expect_tuple(student.call("bytes_held", widths, n), 4, "four numbers of bytes")
        for mine, want, moment in zip(got, held_in_second_step(widths, n), MOMENTS, strict=True):
            with within(moment), saying(_made_of(moment, widths, n)):
                expect_equal(mine, want)


def _made_of(moment: str, widths: Sequence[int], n: int) -> str:
    """What is held at a moment, in numbers of 4 bytes."""
    parameters = held_in_second_step(widths, n)[0] // (3 * FLOAT)
    hidden, logits = n * sum(widths[1:-1]), n * widths[-1]
    return {
        "before the step": f"The weights and biases of all layers are {parameters} numbers, and "
        "AdamW keeps two for each: these three times 4 bytes are held before the step.",
        "after the forward": f"To what was held before the step the forward adds {hidden} numbers "
        f"that the ReLUs returned, n for each hidden unit, and {logits} log-probabilities, n * V.",
        "at the peak": f"To what the forward left come two tensors of (n, V), {logits} numbers "
        "each, when the backward begins; nothing has gone by then, and nothing else has come.",
        "after the backward": f"To what was held before the step have come {parameters} numbers of "
        "gradients, one for each parameter. All else of this step is gone.",
    }[moment]


@dataclass(frozen=True)
class _Parts:
    """In bytes: parameters, what the ReLUs returned, one tensor of (n, V)."""

    parameters: int
    hidden: int
    logits: int

    def moments(
        self,
        *,
        states: int = 2,
        hidden: int = 1,
        forward: int = 1,
        peak: int = 2,
        old: int = 0,
        learned: int = 1,
        early: int = 0,
    ) -> Moments:
        """states: tensors that the optimizer keeps for each parameter; hidden: how often what the
        ReLUs returned counts; forward: tensors of (n, V) after it; peak: how many more then; old:
        gradients of the step before; learned: gradients after the backward; early: at the
        peak."""
        before = (1 + states + old) * self.parameters
        after = before + hidden * self.hidden + forward * self.logits
        last = before + (0 if old else learned * self.parameters)
        return before, after, after + peak * self.logits + early * self.parameters, last


def _parts(widths: Sequence[int], n: int) -> _Parts:
    parameters = sum(a * b + b for a, b in pairwise(widths))
    return _Parts(FLOAT * parameters, FLOAT * n * sum(widths[1:-1]), FLOAT * n * widths[-1])


bytes_held.wrong(
    "no_adam",
    "AdamW's state is missing: two numbers for each parameter, from the end of the first step on.",
    bytes_held=lambda widths, n: _parts(widths, n).moments(states=0),
)
bytes_held.wrong(
    "one_state",
    "AdamW keeps two numbers for each parameter, the mean of its gradients and the mean of their "
    "squares.",
    bytes_held=lambda widths, n: _parts(widths, n).moments(states=1),
)
bytes_held.wrong(
    "gradients_stay",
    "The gradients of the step before were counted. `zero_grad(set_to_none=True)`, the default, "
    "frees them.",
    bytes_held=lambda widths, n: _parts(widths, n).moments(old=1),
)
bytes_held.wrong(
    "both_sides_of_relu",
    "Two tensors are counted for each hidden layer, as where what enters a ReLU counts too. "
    "ReLU's backward reads its result only, and the next layer saves that same tensor: it is one.",
    bytes_held=lambda widths, n: _parts(widths, n).moments(hidden=2),
)
bytes_held.wrong(
    "no_activations",
    "The forward leaves something: each Linear saves its input for the gradient of its weight, "
    "and the loss its log-probabilities.",
    bytes_held=lambda widths, n: _parts(widths, n).moments(hidden=0, forward=0, peak=3),
)
bytes_held.wrong(
    "logits_stay",
    "Two tensors of (n, V) are counted after the forward, as where the logits stay. Only the "
    "log-probabilities do: no backward reads the logits, so they are gone when the forward is "
    "over.",
    bytes_held=lambda widths, n: _parts(widths, n).moments(forward=2, peak=1),
)
bytes_held.wrong(
    "peak_after_forward",
    "The peak comes later: the backward begins with two more tensors of (n, V), the gradient of "
    "the log-probabilities and that of the logits, while the log-probabilities are still needed.",
    bytes_held=lambda widths, n: _parts(widths, n).moments(peak=0),
)
bytes_held.wrong(
    "one_more_at_the_peak",
    "Two tensors of (n, V) come on top when backward begins, not one: the gradient of the "
    "log-probabilities is read while that of the logits is written.",
    bytes_held=lambda widths, n: _parts(widths, n).moments(peak=1),
)


@bytes_held.wrong("no_biases", "The biases are parameters too.")
def _(widths: Sequence[int], n: int) -> Moments:
    parts = _parts(widths, n)
    no_bias = FLOAT * sum(a * b for a, b in pairwise(widths))
    return _Parts(no_bias, parts.hidden, parts.logits).moments()


@bytes_held.wrong(
    "the_batch_too",
    "The batch x was there before the step and is not counted: count what the "
    "model, the optimizer and the step make.",
)
def _(widths: Sequence[int], n: int) -> Moments:
    parts = _parts(widths, n)
    more = FLOAT * n * widths[0]
    return _Parts(parts.parameters, parts.hidden + more, parts.logits).moments()


bytes_held.wrong(
    "no_gradients",
    "When the backward is over every parameter has a gradient of its size.",
    bytes_held=lambda widths, n: _parts(widths, n).moments(learned=0),
)
bytes_held.wrong(
    "gradients_at_the_peak",
    "At the peak one number too many is counted for each parameter, as its gradient. It lies "
    "where the backward begins, and no parameter has its gradient yet.",
    bytes_held=lambda widths, n: _parts(widths, n).moments(early=1),
)
bytes_held.wrong(
    "logits_stay_to_the_peak",
    "Two tensors of (n, V) are counted after the forward, as where the logits stay. Only the "
    "log-probabilities do: no backward reads the logits, so they are gone when the forward is "
    "over.",
    bytes_held=lambda widths, n: _parts(widths, n).moments(forward=2),
)
bytes_held.wrong(
    "nothing_saved",
    "The forward leaves something: each Linear saves its input for the gradient of its weight, and "
    "the loss its log-probabilities.",
    bytes_held=lambda widths, n: _parts(widths, n).moments(hidden=0, forward=0),
)
bytes_held.wrong(
    "no_log_probabilities",
    "The log-probabilities are missing, (n, V) of them: the loss saves them for its backward.",
    bytes_held=lambda widths, n: _parts(widths, n).moments(forward=0),
)
bytes_held.wrong(
    "half_as_wide",
    "These are numbers of 2 bytes. A float32 has 4.",
    bytes_held=lambda widths, n: tuple(m // 2 for m in _parts(widths, n).moments()),
)
bytes_held.wrong(
    "gradients_stay_and_come_again",
    "One number too many is counted for each parameter before the step, as its gradient. It is "
    "None then: AdamW's two tensors are what lives beside each parameter.",
    bytes_held=lambda widths, n: _parts(widths, n).moments(states=3),
)


@bytes_held.wrong(
    "elements",
    "These are numbers of elements. A float32 takes 4 bytes.",
)
def _(widths: Sequence[int], n: int) -> Any:
    parts = _parts(widths, n)
    before, forward, peak, last = parts.moments()
    return before // FLOAT, forward // FLOAT, peak // FLOAT, last // FLOAT


@bytes_held.wrong(
    "eight_bytes",
    "A number was counted as 8 bytes. A float32 takes 4.",
)
def _(widths: Sequence[int], n: int) -> Any:
    parts = _parts(widths, n)
    before, forward, peak, last = parts.moments()
    return 2 * before, 2 * forward, 2 * peak, 2 * last


def _with_kept(widths: Sequence[int], n: int, nbytes: int) -> Moments:
    """With so many bytes more kept from the forward to the backward."""
    before, forward, peak, last = _parts(widths, n).moments()
    return before, forward + nbytes, peak + nbytes, last


@bytes_held.wrong(
    "hidden_left_out",
    "What the ReLUs returned is missing: the next Linear saves it for the gradient of its weight.",
)
def _(widths: Sequence[int], n: int) -> Any:
    return _with_kept(widths, n, -_parts(widths, n).hidden)


@bytes_held.wrong(
    "last_hidden_left_out",
    "What the last ReLU returned is missing: the last Linear saves it for the gradient of its "
    "weight.",
)
def _(widths: Sequence[int], n: int) -> Any:
    return _with_kept(widths, n, -FLOAT * n * widths[-2] if len(widths) > 2 else 0)


@bytes_held.wrong(
    "relu_keeps_a_mask",
    "One byte more was counted for each number that a ReLU returned. Its backward reads the result "
    "itself, and no mask is kept.",
)
def _(widths: Sequence[int], n: int) -> Any:
    return _with_kept(widths, n, _parts(widths, n).hidden // FLOAT)


@bytes_held.wrong(
    "three_more_at_the_peak",
    "Three tensors of (n, V) were added for the peak. Two come on top of the log-probabilities: "
    "the gradient of these, and that of the logits.",
)
def _(widths: Sequence[int], n: int) -> Any:
    parts = _parts(widths, n)
    before, forward, peak, last = parts.moments()
    return before, forward, peak + parts.logits, last


@bytes_held.wrong(
    "activations_stay",
    "The activations were counted after the backward. Each is free when its backward has run; "
    "parameters, AdamW's two and the gradients are left.",
)
def _(widths: Sequence[int], n: int) -> Any:
    parts = _parts(widths, n)
    before, forward, peak, _ = parts.moments()
    return before, forward, peak, forward + parts.parameters


@bytes_held.wrong(
    "peak_is_gradients",
    "At the peak the parameters' gradients were counted in place of two tensors of (n, V). It "
    "lies where the backward begins: the loss's gradients are there, and no parameter's.",
)
def _(widths: Sequence[int], n: int) -> Any:
    parts = _parts(widths, n)
    before, forward, _, last = parts.moments()
    return before, forward, forward + parts.parameters, last


@bytes_held.wrong(
    "peak_last",
    "The peak and the end are swapped: (before, after the forward, peak, after the backward) was "
    "asked for.",
)
def _(widths: Sequence[int], n: int) -> Any:
    parts = _parts(widths, n)
    before, forward, peak, last = parts.moments()
    return before, forward, last, peak


@bytes_held.wrong(
    "peak_left_out",
    "There are four moments, and one is missing: (before, after the forward, peak, after the "
    "backward).",
)
def _(widths: Sequence[int], n: int) -> Any:
    parts = _parts(widths, n)
    before, forward, _, last = parts.moments()
    return before, forward, last


@bytes_held.wrong(
    "what_each_moment_adds",
    "This is what each moment adds. All that is held at that moment was asked for.",
)
def _(widths: Sequence[int], n: int) -> Any:
    parts = _parts(widths, n)
    before, forward, peak, _ = parts.moments()
    return before, forward - before, peak - forward, parts.parameters


@bytes_held.wrong(
    "input_in_place_of_output",
    "The bias was counted with the input's width. nn.Linear(a, b) has one number for each output: "
    "a * b + b.",
)
def _(widths: Sequence[int], n: int) -> Any:
    parts = _parts(widths, n)
    wrong = FLOAT * sum(a * b + a for a, b in pairwise(widths))
    return tuple(_Parts(wrong, parts.hidden, parts.logits).moments())


@bytes_held.wrong(
    "loss_and_steps_counted",
    "A single number was counted: the loss, or AdamW's count of steps. Only tensors of more than "
    "one number count.",
)
def _(widths: Sequence[int], n: int) -> Any:
    parts = _parts(widths, n)
    before, forward, peak, last = parts.moments()
    return before, forward + FLOAT, peak + FLOAT, last


@bytes_held.wrong(
    "weights_copied",
    "After the forward one number too many is counted for each parameter, as where weights are "
    "copied. A transposed weight is a view, and no parameter has its gradient yet.",
)
def _(widths: Sequence[int], n: int) -> Any:
    parts = _parts(widths, n)
    before, forward, peak, last = parts.moments()
    more = parts.parameters
    return before, forward + more, peak + more, last


@bytes_held.cost
def _(student: Student, draw: Draw) -> str:
    n = 4096
    before, forward, peak, _ = student.call("bytes_held", [64, 600], n)
    return (
        f"the head with {n:,} tokens: {before:,} bytes from step to step, {forward:,} after the "
        f"forward, {peak:,} at the peak"
    )
