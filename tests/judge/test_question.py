"""How an author lists wrong answers, and what a question is made of."""

from __future__ import annotations

from typing import Any

import pytest

from autograder.judge import Draw, Lab, LocalStudent, Question, Student, ask, expect_equal

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

    assert question.wrong("kept", "As it was.", twice=lambda n: n) is question.wrong_answers[1]
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


def test_what_is_not_said_of_a_question_is_the_usual() -> None:
    usual = asked()
    flags = usual.may_write, usual.witnessed, usual.loopback, usual.alone, usual.by_effect
    assert (*flags, usual.simulated) == (False,) * 6
    assert (usual.budget_s, usual.device_share, usual.host, usual.cost_of) == (None, 0.0, "", None)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_may_be_nothing_and_a_whole_device(share: float) -> None:
    assert asked(device_share=share).device_share == share


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_of_more_than_one_device_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="0 to 1"):
        asked(device_share=share)


def test_a_name_is_asked_once_and_questions_are_counted() -> None:
    lab = Lab("07_test", "")
    assert asked(lab).title == "Lab 7.1"
    with pytest.raises(ValueError, match="twice"):
        asked(lab)


def test_a_lab_is_the_sum_of_its_questions() -> None:
    lab = Lab("07_test", "", {"twice": {"squared": "Look at squares."}})
    assert (lab.max_points, lab.device_share, lab.loopback) == (0, 0.0, False)
    first = asked(lab, points=2, device_share=0.25)
    second = lab.question("thrice", **{**WELL, "points": 3, "device_share": 0.5})(first.check)
    assert (lab.max_points, lab.device_share, lab.loopback) == (5, 0.5, False)
    assert (first.next_lines, second.next_lines) == ({"squared": "Look at squares."}, {})
    lab.question("again", **{**WELL, "loopback": True})(first.check)
    assert lab.loopback
    assert [question.title for question in lab] == ["Lab 7.1", "Lab 7.2", "Lab 7.3"]


def test_a_cost_is_listed_and_stays_a_function() -> None:
    question = asked()

    def measured(student: Student, draw: Draw) -> str:
        return "nothing"

    assert question.cost(measured) is measured
    assert question.cost_of is measured


def test_the_goal_is_the_first_paragraph() -> None:
    assert asked().goal == "Two times n."
    assert Lab("07_test", "").question("bare", **WELL)(lambda student, draw: None).goal == ""


def add(n: int, more: int) -> int:
    return n + more


def numbered(**options: Any) -> Question:
    @Lab("07_test", "").question("plus", **{**WELL, "variant": {"more": (2, 3)}, **options})
    def plus(student: Student, draw: Draw, *, more: int = 2) -> None:
        expect_equal(student.call("plus", 10), add(10, more))

    plus.wrong("forgotten", "Nothing was added.", plus=lambda n: n)

    @plus.wrong("twice", "It was added twice.")
    def _(n: int, *, more: int = 2) -> int:
        return add(add(n, more), more)

    return plus


def test_a_variant_reaches_the_check_the_wrong_answers_and_the_cost() -> None:
    question = numbered()

    @question.cost
    def _(student: Student, draw: Draw, *, more: int = 2) -> str:
        return f"{more} added"

    assert question.variants == [{"more": 2}, {"more": 3}]
    own = question.of({"more": 3})
    assert (question.said, own.said) == ({"more": 2}, {"more": 3})
    own.check(LocalStudent({"plus": lambda n: n + 3}), Draw(1))
    question.check(LocalStudent({"plus": lambda n: n + 2}), Draw(1))
    assert [known.functions["plus"](10) for known in own.wrong_answers] == [10, 16]
    assert [known.functions["plus"](10) for known in question.wrong_answers] == [10, 14]
    assert own.cost_of is not None
    assert own.cost_of(LocalStudent({}), Draw(1)) == "3 added"
    again = own.of({"more": 2})
    assert again.wrong_answers[1].functions["plus"](10) == 14


def test_without_a_variant_there_is_one_way_to_ask() -> None:
    question = asked()
    assert question.variants == [{}]


def test_the_check_and_the_text_begin_with_the_same_number() -> None:
    with pytest.raises(ValueError, match="its text says"):
        numbered(variant={"more": (3, 2)})
    with pytest.raises(ValueError, match="its text says"):
        numbered(variant={"other": (2, 3)})


def test_who_answers_for_other_numbers_is_told_so() -> None:
    question = numbered()
    for own, theirs in ((2, 3), (3, 2)):
        student = LocalStudent({"plus": lambda n, theirs=theirs: n + theirs})
        verdict = ask(question, student, seed=1, numbers={"more": own})
        assert verdict.points == 0
        assert verdict.asked.endswith(f"; more = {own}")
        assert f"right for more = {theirs}. Asked is more = {own}" in verdict.explanation
        assert len(student.calls) == 1  # what was tried besides is no part of the answer


def test_a_known_mistake_with_the_own_numbers_keeps_its_name() -> None:
    question = numbered()
    for name in ("forgotten", "twice"):
        (known,) = (w for w in question.of({"more": 3}).wrong_answers if w.name == name)
        verdict = ask(question, LocalStudent(known.functions), seed=1, numbers={"more": 3})
        assert verdict.misconception == name
    verdict = ask(question, LocalStudent({"plus": lambda n: n + 3}), seed=1, numbers={"more": 3})
    assert verdict.points == question.points


def test_one_name_is_asked_once() -> None:
    lab = Lab("07_test", "")
    asked = lab.question("q", **WELL)
    asked(lambda student, draw: None)
    with pytest.raises(ValueError, match="twice"):
        lab.question("q", **WELL)
