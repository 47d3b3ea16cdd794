"""What a verdict says of two values that are not equal is true of them, whatever they are."""

import math
from typing import Any

import pytest
import torch

from autograder.judge import Wrong, expect_close, expect_equal, relations, text
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


def key_of(said: Any) -> str:
    return said and said.key.removeprefix("relation.")


SQUARE = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
ONE = torch.tensor([[7.0]])
FLOAT32 = torch.finfo(torch.float32).eps


@pytest.mark.parametrize(
    ("got", "want", "relation"),
    [
        (torch.zeros(0).double(), torch.zeros(0), ""),
        (torch.zeros(1, 0), torch.zeros(0), ""),
        (T.double().T, T, ""),  # two things at once
        (T.half(), T.double(), "dtype"),
        ((T / 3).half(), (T / 3).double(), "dtype"),  # as close as halves can be
        (torch.tensor([1 + 64 / 1024]).half(), torch.ones(1).double(), "dtype"),
        (torch.tensor([1 + 65 / 1024]).half(), torch.ones(1).double(), ""),
        (torch.zeros(2).double(), torch.zeros(2), "dtype"),
        (T.half() + 0.5, T, ""),
        (T.T.contiguous(), T, "transposed"),
        (T.T + 1, T, ""),
        (T.T.flip(0), T, ""),
        (T.reshape(6), T, "shape"),
        (T.reshape(6) + 1, T, ""),
        (T.reshape(3, 1, 2), T, "shape"),
        (torch.tensor([1, 2]), torch.tensor([1.0, 2.0]), "dtype"),
        (torch.tensor([1, 3]), torch.tensor([1.0, 2.0]), ""),
        (torch.tensor([True, False]), torch.tensor([1, 0]), "dtype"),
        (SQUARE, SQUARE, ""),
        (SQUARE[None], SQUARE, "shape"),
        (T.to(torch.complex64), T, ""),
        (T, T.to(torch.complex64), ""),
    ],
)
def test_what_would_make_one_kind_of_the_other(got: Any, want: Any, relation: str) -> None:
    assert key_of(between_kinds(got, want, 1e-5)) == relation


@pytest.mark.parametrize(
    ("got", "want", "relation"),
    [
        (SQUARE.T, SQUARE, "transposed"),
        (SQUARE.T + 1, SQUARE, ""),
        (ONE + 1, ONE, ""),
        (torch.tensor([math.inf, 1.0]), torch.tensor([2.0, 1.0]), "infinite"),
        (torch.tensor([math.inf, math.nan]), torch.tensor([2.0, 1.0]), "nan"),
        (torch.zeros(1), torch.ones(1), ""),
        (torch.zeros(2), torch.ones(2), "zero"),
        (torch.ones(2), torch.zeros(2), ""),
        (torch.zeros(0), torch.zeros(0), ""),
        (torch.tensor([1, 2]), torch.tensor([2, 4]), ""),
        *((torch.tensor(k), torch.tensor(1.0), "factor") for k in (2.0, 0.5, -2.0, -0.5)),
        (torch.tensor(-1.0), torch.tensor(1.0), "sign"),
        (torch.tensor([0.0, 3.0]), torch.tensor([0.0, 1.0]), ""),  # one number is no evidence
        (torch.tensor([3.0, 6.0]), torch.tensor([1.0, 2.0]), "factor"),
        (torch.tensor([3.0, 6.1]), torch.tensor([1.0, 2.0]), ""),
        (torch.tensor([1.00001, 2.00002]), torch.tensor([1.0, 2.0]), ""),
        (torch.tensor([2.0, 1.0]), torch.tensor([1.0, 2.0]), "order"),
        (torch.tensor([2.0, 1.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]), ""),
        (torch.tensor([[1.0, 2.0], [1.0, 3.0]]), torch.tensor([[1.0, 3.0], [1.0, 2.0]]), ""),
        (T[:1] + 1, T[:1], ""),
        (torch.tensor(5.0), torch.tensor(3.0), ""),
        (W * (1 + 1e-6), W, "digits"),
        (W * (1 + 1e-4), W, ""),  # once, in four digits
        (W * (1 + 1e-2), W, "factor"),
        (W + 1e-3, W, ""),
        (T * (1 + 1e-6), T, ""),
        (torch.tensor([0.0, 3.0, 6.0]), torch.tensor([0.0, 1.0, 2.0]), "factor"),
        (3 * W * (1 + 5e-6 * (W > 4)), W, "factor"),
        (3 * W * (1 + 1.5e-5 * (W > 4)), W, ""),
        (W + (W > 4) * 5 * 63.5 * FLOAT32, W, "digits"),
        (W + (W > 4) * 5 * 64.5 * FLOAT32, W, ""),
        (torch.tensor([1e8, 2e-10]), torch.tensor([1e8, 1e-10]), ""),
    ],
)
def test_what_two_tensors_of_a_kind_have_to_do(got: Any, want: Any, relation: str) -> None:
    assert key_of(between_tensors(got, want, 1e-9)) == relation


@pytest.mark.parametrize(
    ("got", "want", "allowed", "relation"),
    [
        ([-100.0, -1.0, -1.6], [100.0, 1.0, 2.0], 0.5, "sign"),
        ([-100.0, -1.0, 8.0], [100.0, 1.0, 2.0], 0.5, ""),
        ([300.0, 3.0, 6.3], [100.0, 1.0, 2.0], 0.5, "factor"),
        ([2.0001], [1.0], 1e-3, "factor"),
        ([2.0003], [1.0], 1e-3, ""),
        ([-1.00005, -2.0001], [1.0, 2.0], 1e-3, "sign"),
        ([1e8, 2e-10], [1e8, 1e-10], 0.0, ""),  # no row has moved
    ],
)
def test_how_far_off_it_may_be_beside_that(
    got: list[float], want: list[float], allowed: float, relation: str
) -> None:
    assert key_of(between_tensors(torch.tensor(got), torch.tensor(want), allowed)) == relation


def test_a_million_elements_are_looked_into() -> None:
    ones = torch.ones(1_000_001)
    assert key_of(between_tensors(-ones[1:], ones[1:], 1e-6)) == "sign"
    assert between_tensors(-ones, ones, 1e-6) == ""


def test_infinities_alone_are_no_nan() -> None:
    assert key_of(between_tensors(T / 0, T, 1e-6)) == "infinite"


def test_a_tensor_that_is_too_large_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relations, "LARGEST", 6)
    assert key_of(between_tensors(-T, T, 1e-6)) == "sign"
    assert key_of(between_kinds(T.double(), T, 1e-6)) == "dtype"
    monkeypatch.setattr(relations, "LARGEST", 5)
    assert between_tensors(-T, T, 1e-6) == ""
    assert between_kinds(T.double(), T, 1e-6) == ""


@pytest.mark.parametrize(
    ("got", "want", "said"),
    [
        (3 * T, T, text("relation.factor", factor="3")),
        (T / 3, T, text("relation.factor", factor="0.3333")),
        (-3 * T, T, text("relation.factor", factor="-3")),
        (-T, T, text("relation.sign")),
    ],
)
def test_by_how_much_a_tensor_is_off(got: Any, want: Any, said: Any) -> None:
    assert between_tensors(got, want, 1e-6) == said


def apart(key: str, by: str) -> Any:
    return text(f"relation.{key}", by=by)


def some(key: str, what: str) -> Any:
    return text(f"relation.{key}", what=what)


@pytest.mark.parametrize(
    ("got", "want", "said"),
    [
        (8, 7, apart("apart_alone", "1")),
        (6, 7, apart("below_alone", "1")),
        (9.5, 7, ""),
        ([3, 4], [2, 3], apart("apart", "1")),
        ([1, 2], [2, 3], apart("below", "1")),
        ([4, 5], [2, 3], ""),  # two numbers are two apart by chance
        ([4, 5, 6], [2, 3, 4], apart("apart", "2")),
        ([2.5, 3.5, 4.5], [2, 3, 4], apart("apart", "0.5")),
        ([1, 2, 3], [3, 4, 5], apart("below", "2")),
        (-7, 7, text("relation.sign")),
        (3.5, 7, text("relation.factor", factor="0.5")),
        (-14, 7, text("relation.factor", factor="-2")),
        (-3.5, 7, text("relation.factor", factor="-0.5")),
        (21, 7, ""),
        ([3, 6], [1, 2], ""),
        ([2, 4], [1, 2], text("relation.factor", factor="2")),
        ([3, 6, 9], [1, 2, 3], text("relation.factor", factor="3")),
        ([3, 6, 9.1], [1, 2, 3], ""),
        ([0, 0, 0], [1, 2, 3], ""),
        ([3, 6, 9], [0, 2, 3], ""),
        (1, 0, apart("apart_alone", "1")),
        (2, 0, ""),
        (True, 2, ""),
        (1, True, ""),
        (math.nan, 1, ""),
        (1, math.inf, ""),
        ([10**400], [1], ""),
        (10**400, 1, ""),
        ("RAISES", "raises", text("relation.case")),
        (" raises\n", "raises", text("relation.case")),
        (3, "raises", ""),
        ("raise", "raises", ""),
        ([True, False], [False, True], text("relation.opposite")),
        ([True], [False], ""),
        ([True, True], [False, True], ""),
        ([True], [False, True], ""),
        ([True, 3], [False, True], ""),
        ([2, 1], [1, 2], text("relation.order")),
        ((2, 1), [1, 2], text("relation.order")),
        (["a", "a", "b"], ["a", "b"], some("repeated", "'a'")),
        (["a", "c", "b"], ["a", "b"], some("extra", "'c'")),
        (["a"], ["a", "b"], some("missing", "'b'")),
        (["a", "c"], ["a", "b"], ""),
        (["a", "a", "b"], ["a", "b", "b"], ""),
        ([["a", {}]], [["a", {}], 1], ""),
        ({"a": 1}, {"a": True}, ""),
        ("raises", "raises", ""),
        ([1, 2, 3], [math.inf] * 3, ""),
        ([math.inf] * 3, [1, 2, 3], ""),
        ([1, 2, 3], [0, 0, 0], ""),
        ([3, 6, 9 * (1 + 5e-7)], [1, 2, 3], text("relation.factor", factor="3")),
        ([3, 6, 9 * (1 + 1.5e-6)], [1, 2, 3], ""),
        ([2 * (1 + 5e-7), 4 * (1 + 5e-7)], [1, 2], text("relation.factor", factor="2")),
        ([2 * (1 + 1.5e-6), 4 * (1 + 1.5e-6)], [1, 2], ""),
        ([], [], text("relation.order")),  # and nobody divides by the first
        ([*"cdef", "a"], ["a"], some("extra", "'c', 'd', 'e', ...")),
        ([*"cde", "a"], ["a"], some("extra", "'c', 'd', 'e'")),
        (["a"], ["a", "x" * 99], some("missing", "'" + "x" * 59)),
        ([["a", [1]]], [["a", [1]], ["b"]], some("missing", "('b',)")),
        ([[0] * 20], [[0] * 20, 1], some("missing", "1")),
        ([[0] * 21], [[0] * 21, 1], ""),
        (["a", {}], ["a"], ""),
        (["a"], ["a", {}], ""),
        ("ab", ["a", "b"], ""),
        ({"a": 1}, [1], ""),
        ([1], {"a": 1}, ""),
        ({"a": 1}, {"a": 1, "b": 2, 3: 4}, some("missing", "3, b")),
        ({"a": 1, "b": 2, 3: 4}, {"a": 1}, some("extra", "3, b")),
        ({"a": 1, "c": 2}, {"a": 1, "b": 2}, some("missing", "b")),
        ({"a": 1, "b": 3, "c": 5}, {"a": 1, "b": 2, "c": 4}, some("keys", "b, c")),
        ({"a": [1, {}]}, {"a": [1]}, ""),
    ],
)
def test_what_is_said_of_two_values_with_its_facts(got: Any, want: Any, said: Any) -> None:
    assert between_values(got, want) == said


def test_an_answer_of_at_most_ten_thousand_is_looked_into() -> None:
    many = list(range(10_000))
    assert between_values(many[::-1], many) == text("relation.order")
    assert between_values([*many, 0], many) == ""
    assert between_values(many, [*many, 0]) == ""
