"""How an author lists wrong answers, and what a question is made of."""

from __future__ import annotations

from typing import Any

import pytest

from autograder.judge import Draw, Lab, Question, Student

WELL: dict[str, Any] = {"points": 1, "minutes": 5, "difficulty": 1, "hints": ("a", "b", "c")}


def asked(lab: Lab | None = None, **options: Any) -> Question:
    @(lab or Lab("07_test", "")).question("twice", **{**WELL, **options})
    def twice(student: Student, draw: Draw) -> None:
        """Two times n.

        More of it.
        """

    return twice


def test_a_wrong_answer_is_decorated_or_given() -> None:
    question = asked()

    @question.wrong("squared", "A square.")
    def squared(n: int) -> int:
        return n * n

    question.wrong("kept", "As it was.", twice=lambda n: n)
    assert [wrong.name for wrong in question.wrong_answers] == ["squared", "kept"]
    assert [wrong.functions["twice"](3) for wrong in question.wrong_answers] == [9, 3]
    assert squared(3) == 9


def test_the_function_that_is_called_may_have_another_name() -> None:
    question = asked(function="run_cu")

    @question.wrong("kept", "As it was.")
    def _(n: int) -> int:
        return n

    assert set(question.wrong_answers[0].functions) == {"run_cu"}


def test_a_wrong_answer_leaves_the_other_functions_right() -> None:
    question = asked()
    question.otherwise(forward=lambda n: n + n, backward=lambda n: n / 2)
    question.wrong("squared", "A square.", forward=lambda n: n * n)
    (wrong,) = question.wrong_answers
    assert (wrong.functions["forward"](3), wrong.functions["backward"](3)) == (9, 1.5)


def test_an_option_that_no_question_has_is_refused() -> None:
    with pytest.raises(TypeError, match="minuets"):
        asked(minuets=5)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_of_more_than_one_device_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="0 to 1"):
        asked(device_share=share)


def test_a_name_is_asked_once_and_questions_are_counted() -> None:
    lab = Lab("07_test", "")
    assert asked(lab).title == "Lab 7.1"
    with pytest.raises(ValueError, match="twice"):
        asked(lab)


def test_the_goal_is_the_first_paragraph() -> None:
    assert asked().goal == "Two times n."
