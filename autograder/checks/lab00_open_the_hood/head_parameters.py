"""How many numbers the head has learned."""

from __future__ import annotations

from typing import Any

import onelayer
from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal

from . import lab
from .meta_layer import SMALL, WITHOUT_HEAD, apart, drawn_sizes, meta_layer


@lab.question(
    "head_parameters",
    points=1,
    minutes=3,
    difficulty=1,
    hints=(
        "The layer holds two tensors. `head.weight.shape` and `head.bias.shape` show them.",
        "The weight has a row of D numbers for each of the V words. What has the bias?",
        "return v * d + v",
    ),
)
def head_parameters(student: Student, draw: Draw) -> None:
    """How many numbers nn.Linear(d, v) learns.

    d features in, v words out -> int.
    """
    sizes = [(64, 600), (3, 5), (1, 1), *drawn_sizes(draw), (11, 4)]  # v above d, and below
    sizes += [(d, v) for n, d, v in SMALL if n == 1]
    # More than float32 can count; not more than that, for whoever asks a real layer builds it.
    sizes += [(5800, 5802)]
    # By way of 1 / d, in floats: the product is a little less than the number, and int cuts it off.
    sizes += [(11, 5), (47, 2), (49, 1)]
    with explaining(WITHOUT_HEAD):
        for (d, v), got in zip(sizes, student.each("head_parameters", sizes), strict=True):
            want = sum(p.numel() for p in meta_layer(d, v).parameters())
            expect_equal(got, want, why=_because(got, want, d, v))


CUT_OFF = (
    "One too few, as where int cuts off a float that is a little below the number. Whole numbers, "
    "multiplied and added, need no float."
)


def _because(got: Any, want: int, d: int, v: int) -> str:
    """By how much a number is wrong, or what it counts; "" for what is no number."""
    if type(got) is not int:
        return ""
    if got == want - 1 and (1, d, v) not in SMALL:  # there it may be a whole term
        return CUT_OFF
    terms = {"d": d, "v": v, "v * d": v * d, "1": 1}
    return apart(got, want, terms) or (
        f"The weight has v rows of d numbers, and the bias v numbers: here v is {v}, and d is {d}."
    )


head_parameters.wrong(
    "bias_forgotten",
    "This is the weight alone. Each word also has a bias, one number that is added to its logit.",
    head_parameters=lambda d, v: v * d,
)
head_parameters.wrong(
    "bias_of_the_input",
    "The bias is added to the result, so it has one number per word, not one per feature.",
    head_parameters=lambda d, v: v * d + d,
)
head_parameters.wrong(
    "sizes_added",
    "The weight is a table with v rows of d numbers: its sizes multiply.",
    head_parameters=lambda d, v: v + d,
)
head_parameters.wrong(
    "in_bytes",
    "This is four times as many, as the bytes of float32 are. Count the numbers that are learned.",
    head_parameters=lambda d, v: 4 * (v * d + v),
)
head_parameters.wrong(
    "bias_for_both",
    "A bias for each word is right; the features have none: nn.Linear adds one bias, to its "
    "result.",
    head_parameters=lambda d, v: v * d + v + d,
)


head_parameters.wrong(
    "one_bias_for_all",
    "This is one number more than the weight has. Each of the v words has a bias of its own.",
    head_parameters=lambda d, v: v * d + 1,
)
head_parameters.wrong(
    "bias_alone",
    "This is the bias alone. The weight has a row of d numbers for each word.",
    head_parameters=lambda d, v: v,
)
head_parameters.wrong(
    "rows_counted",
    "This is v for the weight and v for the bias. Each of the weight's v rows has d numbers.",
    head_parameters=lambda d, v: v + v,
)
head_parameters.wrong(
    "tensors_counted",
    "The layer has two tensors, true. Count the numbers in them.",
    head_parameters=lambda d, v: 2,
)
head_parameters.wrong(
    "not_added",
    "These are the numbers of each tensor. One number was asked for: their sum.",
    head_parameters=lambda d, v: (v * d, v),
)
head_parameters.wrong(
    "shapes",
    "These are shapes. Multiply the sizes of each and add the two numbers.",
    head_parameters=lambda d, v: [(v, d), (v,)],
)
head_parameters.wrong(
    "counted_twice",
    "Every number is counted twice. A gradient has the parameter's size, but it is computed, not "
    "learned.",
    head_parameters=lambda d, v: 2 * (v * d + v),
)
head_parameters.wrong(
    "as_in_the_example",
    "This is the example's number, for 3 and 5. Compute with d and v.",
    head_parameters=lambda d, v: 20,
)
head_parameters.wrong(
    "the_real_head",
    "This is the real head's number, for 64 and 600. Compute with d and v.",
    head_parameters=lambda d, v: 39_000,
)


@head_parameters.cost
def _(student: Student, draw: Draw) -> str:
    count, model = student.call("head_parameters", 64, 600), onelayer.model.trained()
    every = sum(p.numel() for p in model.parameters())
    return f"{count:,} of the model's {every:,} parameters, {count / every:.0%}, sit in its head"
