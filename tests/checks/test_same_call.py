"""The one known wrong answer that gives the same on the call that failed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from autograder.checks.same_call import known_by_this_call
from autograder.judge import (
    Draw,
    KnownAnswer,
    Lab,
    LocalStudent,
    Question,
    Student,
    Wrong,
    expect_close,
)

DOUBLED = "Each value is taken twice."
SHIFTED = "One was added."


def _question() -> Question:
    lab = Lab("00_twice", "Twice")

    @lab.question("half", points=1, minutes=1, difficulty=1, hints=("a", "b", "c"))
    def half(student: Student, draw: Draw) -> None:
        """Half of each value."""
        student.call("half", torch.ones(3))

    half.wrong("doubled", DOUBLED, half=lambda x: 2 * x)
    half.wrong("shifted", SHIFTED, half=lambda x: x + 1)
    half.wrong("raises", "It raises.", half=lambda x: x[99])
    return half


def _said(question: Question, student: Student, x: torch.Tensor, got: Any) -> Any:
    with pytest.raises(Wrong) as caught, known_by_this_call(question, student, got, x):
        expect_close(got, x / 2)
    return caught.value.why


def test_the_only_one_that_gives_the_same_says_its_sentence() -> None:
    x = torch.tensor([1.0, 5.0, 9.0])
    assert _said(_question(), LocalStudent({}), x, x + 1) == SHIFTED


def test_it_goes_before_what_the_values_have_to_do_with_each_other() -> None:
    x = torch.tensor([1.0, 5.0, 9.0])
    assert _said(_question(), LocalStudent({}), x, 2 * x) == DOUBLED


def test_two_that_give_the_same_say_nothing() -> None:
    x = torch.ones(3)  # 2 x and x + 1 are the same
    assert _said(_question(), LocalStudent({}), x, 2 * x) not in (DOUBLED, SHIFTED)


def test_one_that_a_call_before_contradicts_says_nothing() -> None:
    """The answer doubled the ones, as `doubled` does, and shifted the threes, as it does not."""
    question, student = _question(), LocalStudent({"half": lambda x: x / 2})
    x = torch.tensor([1.0, 5.0, 9.0])
    student.call("half", torch.ones(3))
    student.call("half", x)
    assert _said(question, student, x, 2 * x) != DOUBLED


@pytest.mark.parametrize("before", [1.0, torch.nan, torch.inf])
def test_a_call_before_that_rounds_otherwise_contradicts_nothing(before: float) -> None:
    question = _question()
    question.wrong("of_twos", "Only of twos.", half=lambda x: x + 7 * (x[0] == 2))
    student = LocalStudent({"half": lambda x: x * (1 + 1e-6)})
    x = torch.tensor([2.0, 5.0, 9.0])
    student.call("half", torch.full((3,), before))
    student.call("half", x)
    assert _said(question, student, x, x + 7) == "Only of twos."


def test_two_with_one_sentence_say_it() -> None:
    question, x = _question(), torch.tensor([1.0, 5.0, 9.0])
    question.wrong("shifted_again", SHIFTED, half=lambda x: 1 + x)
    assert _said(question, LocalStudent({}), x, x + 1) == SHIFTED


@pytest.mark.parametrize("got", [torch.full((3,), torch.nan), torch.ones(2), None, 3])
def test_what_none_of_them_gives_has_no_sentence_of_theirs(got: Any) -> None:
    said = _said(_question(), LocalStudent({}), torch.tensor([1.0, 5.0, 9.0]), got)
    assert said not in (DOUBLED, SHIFTED)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_values_that_are_no_numbers_tell_nothing(value: float) -> None:
    question, x = _question(), torch.tensor([1.0, 5.0, 9.0])
    question.wrong("overflows", "exp overflows.", half=lambda x: x + value)
    assert _said(question, LocalStudent({}), x, x + value) != "exp overflows."


def test_a_known_answer_is_not_compared_with_itself() -> None:
    x = torch.tensor([1.0, 5.0, 9.0])
    assert _said(_question(), KnownAnswer({}), x, x + 1) != SHIFTED


def test_the_arguments_are_left_as_they_are() -> None:
    question, x = _question(), torch.tensor([1.0, 5.0, 9.0])
    question.wrong("writes", "It writes.", half=lambda x: x.zero_())
    _said(question, LocalStudent({}), x, x + 1)
    assert x.tolist() == [1.0, 5.0, 9.0]


def test_a_right_answer_raises_nothing() -> None:
    x = torch.tensor([1.0, 5.0, 9.0])
    with known_by_this_call(_question(), LocalStudent({}), x / 2, x):
        expect_close(x / 2, x / 2)
