"""What a verdict says of two values that are not equal is true of them, whatever they are."""

import math
from typing import Any

import pytest
import torch

from autograder.judge import Wrong, expect_close, expect_equal
from autograder.judge.relations import between_kinds, between_tensors, between_values


def said(got: Any, want: Any) -> str:
    """The key of the sentence for a wrong answer; "" where nothing is said."""
    expect = expect_close if isinstance(want, torch.Tensor) else expect_equal
    with pytest.raises(Wrong) as caught:
        expect(got, want)
    return caught.value.why and caught.value.why.key  # type: ignore[union-attr]


T = torch.tensor([[1.0, 2.0], [3.0, 5.0], [-4.0, 0.5]])
W = T.double()


@pytest.mark.parametrize(
    ("got", "want", "relation"),
    [
        (T.double(), T, "dtype"),
        (T.T, T, "transposed"),
        (T[:2].T, T[:2], "transposed"),
        (T.reshape(2, 3), T, "shape"),
        (T[:, :1], T[:, 0], "shape"),
        (-T, T, "sign"),
        (T / 3, T, "factor"),
        (T * 0, T, "zero"),
        (T / 0, T, "infinite"),
        (T * math.nan, T, "nan"),
        (T.flip(0), T, "order"),
        (T.flip(1), T, ""),
        ((W / 3).float().double(), W / 3, "digits"),
        (W * (1 + 1e-12), W, "digits"),
        (T * (1 + 1e-5), T, ""),  # a float32 has no later digits
        (T + 1, T, ""),
        (T.double() + 1, T, ""),
        (T[:2], T, ""),
        (torch.tensor(2.0), torch.tensor(1.0), "factor"),
        (torch.tensor(1.7), torch.tensor(1.0), ""),
        (torch.zeros(0, 3), torch.zeros(3, 0), ""),
        (T.to(torch.complex64), T, ""),
        (torch.tensor([1, 2]), torch.tensor([2, 1]), ""),
    ],
)
def test_what_is_said_of_two_tensors(got: Any, want: torch.Tensor, relation: str) -> None:
    assert said(got, want) == (relation and f"relation.{relation}")


@pytest.mark.parametrize(
    ("got", "want", "relation"),
    [
        ([2, 3, 5], [3, 4, 6], "below"),
        ([3, 4], [2, 3], "apart"),
        (8, 7, "apart_alone"),
        ([6], [7], "below_alone"),
        (9, 7, ""),
        (14, 7, "factor"),
        ([2, 4, 6], [1, 2, 3], "factor"),
        ([1, 3, 2], [1, 2, 3], "order"),
        ([1, 2, 2, 3], [1, 2, 3], "repeated"),
        ([1, 2], [1, 2, 3], "missing"),
        ([1, 2, 3, 4], [1, 2, 3], "extra"),
        ([1, 2, 4], [1, 2, 3], ""),
        ([("a", (1, 2)), ("b", None)], [("b", None), ("a", (1, 2))], "order"),
        ([True, False], [False, True], "opposite"),
        ("Raises ", "raises", "case"),
        ("raises", "silent", ""),
        ({"w": 1.0}, {"w": 2.0}, "keys"),
        ({}, {"w": 2.0}, "missing"),
        ({"w": 1.0, "b": 2.0}, {"w": 1.0}, "extra"),
        ({"w": 2.0}, {"w": 1.0, "b": 2.0}, ""),  # what is there is not right
        ({"w": 2.0, "b": 2.0}, {"w": 1.0}, ""),
        ({"w": torch.ones(2)}, {"w": torch.zeros(2)}, ""),
        ([], [1], "missing"),
        ([math.inf], [1.0], ""),
        ([2**63 - 1, 0], [1, 0], ""),
        (None, 3, ""),
        ([None, 2], [3, 2], ""),
        ([[[]]], [1], ""),
    ],
)
def test_what_is_said_of_two_values(got: Any, want: Any, relation: str) -> None:
    assert said(got, want) == (relation and f"relation.{relation}")


def test_a_sentence_can_be_read() -> None:
    assert "2 times" in str(between_values(14, 7))
    assert "3 times" in str(between_tensors(3 * T, T, 1e-6))
    assert "dtype" in str(between_kinds(T.half(), T, 0.0))


def test_a_very_long_answer_is_not_looked_into() -> None:
    assert between_values([0] * 20_000, [0, 1]) == ""
