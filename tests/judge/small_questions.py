"""Two small questions, and what is said of an answer to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from autograder.judge import (
    Draw,
    Lab,
    LocalStudent,
    Question,
    Student,
    Verdict,
    ask,
    expect_close,
    expect_equal,
)

HINTS = ("a nudge", "the idea", "the line")


def transpose_question() -> Question:
    lab = Lab("07_test", "A lab for tests")

    @lab.question("swap", points=3, minutes=1, difficulty=1, hints=HINTS)
    def swap(student: Student, draw: Draw) -> None:
        """x (N, D) -> (D, N)."""
        for _ in draw.cases(3):
            x = draw.tensor(draw.integer(2, 5), draw.integer(6, 9))
            expect_close(student.call("swap", x), x.mT)

    @swap.wrong("reshaped", "reshape does not exchange dimensions.")
    def _(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.mT.shape)

    @swap.wrong("untouched", "Nothing was exchanged.")
    def _(x: torch.Tensor) -> torch.Tensor:
        return x

    return swap


def judged(function: Any, **options: Any) -> Verdict:
    return ask(transpose_question(), LocalStudent({"swap": function}), seed=8841, **options)


def sum_question(cases: Sequence[tuple[Any, ...]], **options: Any) -> Question:
    """The sum of two numbers, asked with these cases."""

    def check(student: Student, draw: Draw) -> None:
        for a, b in cases:
            expect_equal(student.call("add", a, b), a + b)

    told = {"points": 2, "minutes": 1, "difficulty": 1, "hints": HINTS} | options
    return Question("add", "Lab 0.1", check, **told)


def judged_sum(question: Question, answer: Any) -> Verdict:
    return ask(question, LocalStudent({"add": answer}), seed=5)
