"""An answer may be anything: a check calls it wrong, and does not fail itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from autograder import checks, selftest
from autograder.judge import (
    Draw,
    LocalStudent,
    NoAnswer,
    Question,
    State,
    TooFast,
    Wrong,
    WroteInput,
    ask,
)

STRANGE = {
    "None": None,
    "a text": "text",
    "nan": math.nan,
    "lists in a list": [[], []],
    "a pair of nothing": (None, None),
    "a dict": {"a": 1},
    "complex numbers": torch.ones(2, dtype=torch.complex64),
    "a complex matrix": torch.ones(2, 3, dtype=torch.complex64),
    "no numbers": torch.empty(0),
    "small integers": torch.ones(2, dtype=torch.uint8),
}
NUMBERS = {"NaN": math.nan, "infinity": math.inf, "a negative number": -(2**31), "0": 0}
QUESTIONS = {question.name: question for lab in checks.labs() for question in lab}


def strangely(answer: Callable[..., Any], place: int | None, strange: Any) -> Callable[..., Any]:
    """`answer`, with something strange in place of what it returns, or of one part of it. Sets
    `has_parts` where it could be a part."""

    def given(*arguments: Any, **keywords: Any) -> Any:
        got = answer(*arguments, **keywords)
        given.has_parts = isinstance(got, (list, tuple))  # type: ignore[attr-defined]
        if place is None or not given.has_parts:  # type: ignore[attr-defined]
            return strange
        return [*got[:place], strange, *got[place + 1 :]]

    given.has_parts = False  # type: ignore[attr-defined]
    return given


def numbered(value: Any, number: float) -> Any:
    """`value`, of its own kind to the last part, with `number` for the first of each tensor and for
    all other numbers, as far as it can stand there."""
    if isinstance(value, torch.Tensor) and value.numel():
        if not (value.is_floating_point() or math.isfinite(number)):
            return value
        value = value.detach().clone(memory_format=torch.contiguous_format)
        value.view(-1)[0] = number if value.is_floating_point() else int(number) % 128
        return value
    if isinstance(value, (list, tuple)):
        return [numbered(part, number) for part in value]
    if isinstance(value, dict):
        return {key: numbered(part, number) for key, part in value.items()}
    if type(value) is float:
        return float(number)
    return int(number) if type(value) is int and math.isfinite(number) else value


def checked(question: Question, functions: dict[str, Callable[..., Any]]) -> None:
    """Runs the check alone; what it says of an answer is no fault of its own."""
    student = LocalStudent(functions)
    student.begin(may_write=question.may_write)
    with suppress(Wrong, NoAnswer, WroteInput, TooFast):
        question.check(student, Draw(1))


def marked(question: Question) -> Any:
    """Its name. One with a time budget of its own compiles, or starts processes."""
    marks = [pytest.mark.compiler] if question.budget_s else []
    return pytest.param(question.name, marks=marks)


@pytest.mark.parametrize("name", [marked(question) for question in QUESTIONS.values()])
def test_a_strange_answer_is_no_fault_of_the_check(name: str) -> None:
    question, failed = QUESTIONS[name], []
    known = question.wrong_answers[-1]  # it goes furthest, as a rule
    for function, answer in known.functions.items():
        places: list[int | None] = [None, 0, 1]
        for place in places:
            for kind, strange in STRANGE.items():
                bent = strangely(answer, place, strange)
                try:
                    checked(question, {**known.functions, function: bent})
                except Exception as error:
                    failed.append(f"{function}, part {place}, {kind}: {error!r}")
            if place is None and not bent.has_parts:  # type: ignore[attr-defined]
                break  # a part of it is the whole of it
        for kind, number in NUMBERS.items():
            filled = lambda *a, f=answer, n=number, **k: numbered(f(*a, **k), n)  # noqa: E731
            try:
                checked(question, {**known.functions, function: filled})
            except Exception as error:
                failed.append(f"{function}, {kind} in it: {error!r}")
    assert not failed, "\n".join(failed)


SOLUTIONS = Path(__file__).parents[2] / "solutions"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["device_of_sum", "tensor_keys", "decomposes", "stage_order"])
def test_a_published_table_of_answers_does_not_pass(name: str) -> None:
    """All that ten runs asked, looked up: the eleventh asks something else."""
    question = QUESTIONS[name]
    lab = next(lab.name for lab in checks.labs() if name in lab.questions)
    right = LocalStudent(selftest.execute(SOLUTIONS / lab / f"{lab}.ipynb"))
    table: dict[str, Any] = {}
    for seed in range(10):
        assert ask(question, right, seed=seed).state is State.PASS
        table |= {f"{call.function}{call.args}": call.outcome for call in right.calls}
    functions = {f: (lambda *a, f=f: table[f"{f}{a}"]) for f in {c.function for c in right.calls}}
    for seed in range(10, 14):
        assert ask(question, LocalStudent(functions), seed=seed).state is State.FAIL
