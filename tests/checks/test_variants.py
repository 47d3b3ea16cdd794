"""Questions whose text has other numbers for each student: each choice is a question of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autograder import checks
from autograder.checks.lab05_memory_and_time.overlap_plan import _plan, overlap_plan
from autograder.checks.lab11_distributed.step_bytes import sent_bytes, step_bytes
from autograder.judge import Doubles, LocalStudent, Numbers, Question, ask

Right = Callable[[Numbers], Callable[..., Any]]
RIGHT: dict[str, tuple[Question, Right]] = {
    "overlap_plan": (
        overlap_plan,
        lambda said: lambda batches: _plan(batches, buffers=said["buffers"]),
    ),
    "step_bytes": (
        step_bytes,
        lambda said: lambda *sizes: sent_bytes(*sizes) * said["itemsize"] / 4,
    ),
}
"""Each question with a variant, and a right answer for its numbers."""


def test_no_question_with_a_variant_is_left_out() -> None:
    named = [question.name for lab in checks.labs() for question in lab if question.variant]
    assert sorted(named) == sorted(RIGHT)
    for question, _ in RIGHT.values():
        assert all(len(values) >= 3 for values in question.variant.values())  # public, two others


@pytest.mark.parametrize("name", RIGHT)
def test_an_answer_is_right_for_its_own_numbers_alone(name: str) -> None:
    question, right = RIGHT[name]
    for said in question.variants:
        for own in question.variants:
            student = LocalStudent({name: right(own)})
            for seed in range(3):
                verdict = ask(question, student, seed=seed, numbers=said)
                assert (verdict.points > 0) == (own == said), (said, own, verdict)
                assert own == said or "right for" in verdict.explanation, verdict


@pytest.mark.parametrize("name", RIGHT)
def test_a_known_mistake_is_known_whatever_the_numbers(name: str) -> None:
    question, _ = RIGHT[name]
    for said in question.variants:
        own = question.of(said)
        doubles = Doubles(own, 11)
        for known in own.wrong_answers:
            student = LocalStudent(known.functions)
            verdict = ask(question, student, seed=11, numbers=said, doubles=doubles)
            assert verdict.misconception == known.name, (said, known.name, verdict)
