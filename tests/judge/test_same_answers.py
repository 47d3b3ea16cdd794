"""When two answers do the same, so that one is named after the other."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from autograder.judge import (
    Cause,
    WroteInput,
    text,
)
from autograder.judge.answer import Raised
from autograder.judge.same_answers import (
    _same_but_for_order,
    same_outcome,
    same_transcript,
)
from autograder.judge.student import Call
from autograder.judge.values import DTYPES

ASSERT = "CUDA error: device-side assert triggered"

OUT_OF_RANGE = Raised(Cause.RAISED, "IndexError", "index 9 is out of bounds for dimension 0")
CLASSES = Raised(Cause.RAISED, "RuntimeError", "Class values must be non-negative.")
LOST = Raised(Cause.RAISED, "AcceleratorError", ASSERT)
ONES = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 1),
        (None, None),
        ("a", "a"),
        (True, True),
        (1.0, 1),
        (2, 2.0),
        (0.5, 0.5 + 1e-9),
        (math.nan, math.nan),
        (math.inf, math.inf),
        (2.0**60, 2.0**60 + 2.0**38),  # beyond 2**53 no float is a count
        (2.0**53, 2.0**53 + 2),
        (2.0**53, 2.0**53 - 1),
        ([1, (2,)], (1, [2])),
        ({"a": 1.0, "b": ONES}, {"b": ONES, "a": 1}),
        (ONES, ONES + 1e-7),
        (torch.tensor([math.nan, -math.inf, 1]), torch.tensor([math.nan, -math.inf, 1])),
        (torch.tensor([1, 2]), torch.tensor([1, 2])),
        (torch.zeros(0, 3), torch.zeros(0, 3)),
        (WroteInput(1), WroteInput(1)),
        (Raised(Cause.RAISED, "E", "m", ((1, "a"),)), Raised(Cause.RAISED, "E", "m")),
        (OUT_OF_RANGE, LOST),
        (CLASSES, LOST),
    ],
)
def test_two_outcomes_are_the_same(a: Any, b: Any) -> None:
    assert same_outcome(a, b) is True


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 2),
        (None, 0),
        ("1", 1),
        (True, 1),
        (1, True),
        (True, 1.0),
        (1.0, True),
        (1.0, "1.0"),
        (None, 0.5),
        (0.5, 0.5 + 1e-5),
        (0.5, 0.5 * (1 + 1.5e-6)),
        ([1, 2], [1, 3]),
        ("ab", ["a", "b"]),
        (["a", "b"], "ab"),
        ({"a": 1}, 1),
        ({"a": 1}, [1]),
        ([1], {"a": 1}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}),
        (3.0, 4.0),
        (40_000_000.0, 40_000_001),
        (math.nan, 1.0),
        (1.0, math.nan),
        (math.inf, -math.inf),
        (10**400, 1.5),
        ([1, 2], [1]),
        ([1], [2]),
        ([1, 2], {1: 1, 2: 2}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": 1, "b": 2}),
        (ONES, ONES + 1e-3),
        (ONES, 1),
        (ONES, ONES.double()),
        (ONES, torch.ones(3, 2)),
        (ONES, torch.ones(3, 2).T),
        (torch.ones(3)[1:], torch.ones(2)),
        (torch.tensor([math.nan, 1]), torch.tensor([1, math.nan])),
        (torch.tensor([math.inf]), torch.tensor([-math.inf])),
        (torch.tensor([math.inf]), torch.tensor([math.nan])),
        (WroteInput(1), WroteInput(2)),
        (WroteInput(1), 1),
        (1, WroteInput(1)),
        (LOST, OUT_OF_RANGE),
        (OUT_OF_RANGE, Raised(Cause.RAISED, "RuntimeError", "CUDA error: illegal access")),
        (Raised(Cause.RAISED, "E", "other"), LOST),
        (OUT_OF_RANGE, ASSERT),
        (Raised(Cause.RAISED, "E", "m"), Raised(Cause.RAISED, "F", "m")),
        (Raised(Cause.RAISED, "E", "m"), Raised(Cause.RAISED, "E", "n")),
        (Raised(Cause.UNSENDABLE, "E", why=text("forged")), Raised(Cause.UNSENDABLE, "E")),
        (Raised(Cause.RAISED, "E", "m"), None),
    ],
)
def test_two_outcomes_are_not_the_same(a: Any, b: Any) -> None:
    assert same_outcome(a, b) is False


def test_of_one_storage_two_views_are_the_same_as_their_copies_in_no_case() -> None:
    wide = torch.ones(2, 6)
    assert not same_outcome(wide[:, ::2], wide[:, :3].clone())
    assert same_outcome(wide[:, ::2], torch.ones(2, 6)[:, ::2])


def test_where_the_layout_is_left_out_a_view_is_the_same_as_its_copy() -> None:
    view, copy = torch.ones(2, 6)[:, ::2], torch.ones(2, 3)
    for a, b in (view, copy), ([view, 1], [copy, 1]), ({"w": view}, {"w": copy}):
        assert not same_outcome(a, b)
        assert same_outcome(a, b, layout=False)
        assert same_transcript(calls(a, 1), calls(b, 1), layout=False)
        assert same_transcript(calls(a), calls(b), layout=False)
        assert not same_transcript(calls(a), calls(b))
    assert same_transcript(calls([view, 2 * view], 1), calls([2 * copy, copy], 1), layout=False)
    assert not same_outcome(view, 2 * copy, layout=False)
    assert not same_outcome(view, copy.double(), layout=False)
    assert not same_outcome(view, copy.T, layout=False)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ([ONES, 2 * ONES], [2 * ONES, ONES], True),
        ([ONES, ONES], [ONES, 2 * ONES], False),
        ([ONES, 2 * ONES], [ONES, ONES], False),
        ([ONES], [ONES, ONES], False),
        ((ONES, [ONES, 2 * ONES]), (ONES, [2 * ONES, ONES]), True),
        ([1, 2], [2, 1], False),
        ([1, 2], [1, 3], False),
        ([1, ONES], [ONES, 1], False),
        (ONES, [ONES[0], ONES[1]], False),
        ([ONES[0], ONES[1]], ONES, False),
        (1, 1.0, True),
        (ONES, [ONES], False),
        ([], [], True),
    ],
)
def test_lists_of_tensors_are_the_same_in_any_order(a: Any, b: Any, same: bool) -> None:
    assert _same_but_for_order(a, b, True) is same


def calls(*outcomes: Any, function: str = "f") -> list[Call]:
    return [Call(function, (), {}, outcome) for outcome in outcomes]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (calls(1, 2), calls(1, 2), True),
        (calls(1), calls(1, 2), False),
        (calls(1, 2), calls(1, 3), False),
        (calls(1, 2), calls(3, 2), False),
        (calls(1, 2, 3), calls(1, 4, 3), False),
        (calls(1), calls(1, function="g"), False),
        (calls([ONES, 2 * ONES], 1), calls([2 * ONES, ONES], 1), True),
        (calls(1, [ONES, 2 * ONES]), calls(1, [2 * ONES, ONES]), False),
        ([], [], True),
    ],
)
def test_two_transcripts(a: list[Call], b: list[Call], same: bool) -> None:
    assert same_transcript(a, b) is same


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_that_an_answer_may_have_can_be_compared(dtype: str) -> None:
    """One that torch cannot compare would be a fault of the check."""
    zeros = torch.zeros(3).to(DTYPES[dtype])
    assert same_outcome(zeros, zeros.clone()) is True
    assert same_outcome(zeros, torch.ones_like(zeros)) is False
