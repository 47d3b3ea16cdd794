"""The floating-point operations of the head's matrix product."""

from __future__ import annotations

from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal

from . import lab
from .meta_layer import SMALL, WITHOUT_HEAD, apart, drawn_sizes, product_flops


@lab.question(
    "head_flops",
    points=2,
    minutes=5,
    difficulty=1,
    hints=(
        "How many multiplications does one logit take? And how many logits are there?",
        "One logit is a dot product of d numbers: d multiplications and d additions. There are "
        "n * v logits.",
        "return 2 * n * d * v",
    ),
)
def head_flops(student: Student, draw: Draw) -> None:
    """The floating-point operations of the head's matrix product, counted as torch counts them.

    n tokens, d, v -> int. A multiplication is one, an addition is one; the bias is not counted.
    """
    drawn = [(draw.integer(2, 99), *size) for size in drawn_sizes(draw)]
    sizes = [(32, 64, 600), (1, 64, 600), (5, 3, 7), *drawn, (5, 11, 3), (0, 4, 6), *SMALL]
    sizes.append((65537, 65, 601))  # more than float32 can count
    with explaining(WITHOUT_HEAD):
        for size, got in zip(sizes, student.each("head_flops", sizes), strict=True):
            want = product_flops(*size)
            expect_equal(got, want, why=_because(got, want, *size))


def _because(got: Any, want: int, n: int, d: int, v: int) -> str:
    """By how much a number is wrong, or what a logit takes; "" for what is no number."""
    if type(got) is not int:
        return ""
    once = {"n": n, "d": d, "v": v, "n * d": n * d, "v * d": v * d, "n * v": n * v}
    twice = {f"2 * {name}": 2 * count for name, count in once.items()}
    return apart(got, want, {**once, **twice}) or (
        "A logit takes d multiplications and d additions, and there are n * v logits: here d is "
        f"{d}, and n * v is {n * v:,}."
    )


head_flops.wrong(
    "multiply_add_as_one",
    "This is half of it. n * d * v multiplications come with as many additions: torch counts "
    "both, and so do the numbers on a GPU's data sheet.",
    head_flops=lambda n, d, v: n * d * v,
)
head_flops.wrong(
    "bias_counted",
    "This is one operation per logit too many, as many as the bias adds. That is real work, but "
    "torch's count leaves it out: only the matrix product counts here.",
    head_flops=lambda n, d, v: 2 * n * d * v + n * v,
)
head_flops.wrong(
    "first_addition_not_counted",
    "A sum of d products needs d - 1 additions, true. The custom is to count d: each product is "
    "added to something.",
    head_flops=lambda n, d, v: n * v * (2 * d - 1),
)
head_flops.wrong(
    "one_token",
    "This is the work for one token. Each of the n tokens has its own v logits.",
    head_flops=lambda n, d, v: 2 * d * v,
)
head_flops.wrong(
    "backward_included",
    "This is three times the forward, as much as forward and backward together: backward does two "
    "more products of the same size. Here only forward is asked.",
    head_flops=lambda n, d, v: 6 * n * d * v,
)


head_flops.wrong(
    "one_product_per_logit",
    "This is two operations per logit. Each logit is a sum of d products.",
    head_flops=lambda n, d, v: 2 * n * v,
)
head_flops.wrong(
    "one_word",
    "This is the work for one word. Each token has v logits, and each is a sum of d products.",
    head_flops=lambda n, d, v: 2 * n * d,
)
head_flops.wrong(
    "numbers_counted",
    "This is two for each number of x and of W. Each number of x meets v numbers of the weight: n "
    "* d * v products.",
    head_flops=lambda n, d, v: 2 * (n * d + v * d),
)
head_flops.wrong(
    "one_addition_per_logit",
    "This is d + 1 operations per logit. Each of its d products is a multiplication and is added: "
    "d and d.",
    head_flops=lambda n, d, v: n * v * (d + 1),
)
head_flops.wrong(
    "three_per_product",
    "This is three operations for each product. A multiplication and an addition are two.",
    head_flops=lambda n, d, v: 3 * n * d * v,
)
head_flops.wrong(
    "backward_alone",
    "This is twice the forward, as much as a backward takes alone. Only the forward is asked.",
    head_flops=lambda n, d, v: 4 * n * d * v,
)
head_flops.wrong(
    "halved",
    "This is a quarter of it. A multiplication and its addition are two operations, and not half "
    "of one.",
    head_flops=lambda n, d, v: n * d * v / 2,
)
head_flops.wrong(
    "features_squared",
    "d is in it twice. A logit takes d products, and there are n * v logits.",
    head_flops=lambda n, d, v: 2 * n * d * d * v,
)
head_flops.wrong(
    "bias_counted_once",
    "These are v operations too many, as where one bias is added. torch's count leaves the bias "
    "out.",
    head_flops=lambda n, d, v: 2 * n * d * v + v,
)
head_flops.wrong(
    "bias_counted_twice",
    "These are two operations per logit too many, as where a bias is multiplied and added. torch's "
    "count leaves the bias out: only the matrix product counts here.",
    head_flops=lambda n, d, v: 2 * n * (v * d + v),
)
head_flops.wrong(
    "not_added",
    "These are multiplications and additions apart. One number was asked for: their sum.",
    head_flops=lambda n, d, v: (n * d * v, n * d * v),
)
head_flops.wrong(
    "as_in_the_example",
    "This is the example's number. Compute with n, d and v.",
    head_flops=lambda n, d, v: 210,
)


head_flops.wrong(
    "four_bytes_each",
    "This is four times the operations. Their bytes are another count: here only operations are "
    "asked.",
    head_flops=lambda n, d, v: 2 * n * d * v * 4,
)


@head_flops.cost
def _(student: Student, draw: Draw) -> str:
    one, batch = (student.call("head_flops", n, 64, 600) for n in (1, 32))
    return f"{one:,} FLOPs for one token, {batch / 1e6:.2f} MFLOP for a batch of 32"
