"""The sample class: what its students type is what the checks know as wrong."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from autograder.attacks.sample_class import LAB, wrong_source
from autograder.judge import LocalStudent, ask

KNOWN = [(question.name, wrong.name) for question in LAB for wrong in question.wrong_answers]


@pytest.mark.parametrize(("question", "mistake"), KNOWN)
def test_a_known_wrong_answer_can_be_typed(question: str, mistake: str) -> None:
    """Decorated or a lambda: as a student's text it is the same misconception."""
    asked = LAB.questions[question]
    known = next(wrong for wrong in asked.wrong_answers if wrong.name == mistake)
    typed: dict[str, object] = {"torch": torch, "math": math, "itertools": itertools}
    exec(wrong_source(question, known), typed)
    assert ask(asked, LocalStudent(typed), seed=3).misconception == mistake
