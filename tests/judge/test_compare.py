"""The comparisons that every verdict rests on: what they accept, and what they say otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.judge import (
    Wrong,
    compare,
    describe,
    expect_close,
    expect_equal,
    expect_view,
    is_close,
    numbers_apart,
    text,
)

BIG = 2**53


def refused(got: Any, want: Any, **options: Any) -> Wrong:
    with pytest.raises(Wrong) as caught:
        (expect_close if isinstance(want, torch.Tensor) else expect_equal)(got, want, **options)
    return caught.value


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.complex64])
def test_the_tolerance_is_64_roundings_of_the_largest_value(dtype: torch.dtype) -> None:
    want = torch.tensor([1.0, -4.0], dtype=dtype)
    eps = 4.0 * torch.finfo(dtype).eps
    near, far = want.clone(), want.clone()
    near[1] -= 64 * eps
    far[1] -= 65 * eps
    expect_close(near, want)
    assert refused(far, want).where.facts["wrong"] == 1
    far[0] += 4000 * eps
    assert refused(far, want).where.facts["place"] == "[0]"


@pytest.mark.parametrize("n", [0, 1, 7, 64])
def test_a_nan_is_wrong_wherever_it_stands(n: int) -> None:
    want = torch.arange(n, dtype=torch.float32)
    expect_close(want.clone(), want)
    for place in range(n):
        got = want.clone()
        got[place] = math.nan
        assert refused(got, want).where.facts["place"] == f"[{place}]"


@pytest.mark.parametrize("off", [1, -1])
def test_integers_are_compared_as_integers(off: int) -> None:
    want = torch.tensor([3, BIG], dtype=torch.int64)
    wrong = refused(want + torch.tensor([0, off]), want)
    assert (wrong.expected, wrong.got) == (str(BIG), str(BIG + off))
    assert wrong.where.facts == {"place": "[1]", "allowed": 0.0, "wrong": 1, "total": 2}
    expect_equal(want.clone(), want)
    with pytest.raises(Wrong):
        expect_equal([want + torch.tensor([0, off])], [want])
    with pytest.raises(Wrong):
        expect_equal(BIG + off, BIG)


def test_the_worst_of_several_wrong_integers_is_shown() -> None:
    wrong = refused(torch.tensor([1, 9, 3]), torch.tensor([1, 2, 4]))
    assert (wrong.expected, wrong.got, wrong.where.facts["wrong"]) == ("2", "9", 2)


@pytest.mark.parametrize("wrap", [lambda t: [t], lambda t: (t, 1), lambda t: {"a": [t]}])
def test_tensors_in_an_answer_are_compared_exactly(wrap: Any) -> None:
    want = torch.tensor([1.0, 2.0])
    expect_equal(wrap(want.clone()), wrap(want))
    nearly = want * (1 + 8 * torch.finfo(torch.float32).eps)
    expect_close(nearly, want)  # near enough for expect_close, not equal
    for wrong in (nearly, torch.tensor([math.nan, 2.0]), torch.tensor([1.0, math.inf])):
        with pytest.raises(Wrong) as caught:
            expect_equal(wrap(wrong), wrap(want))
        assert caught.value.expected == caught.value.got == describe(wrap(want))  # as shapes


def test_a_tensor_is_equal_to_itself_and_to_nothing_near_it() -> None:
    want = torch.tensor([1.0, 2.0])
    expect_equal(want.clone(), want)
    for got in (want * (1 + 8 * torch.finfo(torch.float32).eps), want + 0.7):
        with pytest.raises(Wrong) as caught:
            expect_equal(got, want)
        assert float(caught.value.expected) in (1.0, 2.0)
        assert caught.value.where.facts["allowed"] == 0.0


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (1.0, 1),
        (True, 1),
        (1, True),
        (torch.tensor(1), 1),
        ([1], 1),
        ([1, 2], (1, 2, 3)),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, [1]),
        ([1], {"a": 1}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}),
        ("1", 1),
        (None, 0),
    ],
)
def test_another_kind_is_not_equal(got: Any, want: Any) -> None:
    with pytest.raises(Wrong):
        expect_equal(got, want)


def test_a_right_value_of_another_kind_is_told_so() -> None:
    assert refused(1.0, 1).why == text("right_value", kind="int")
    assert refused(7, 1).why == ""
    assert refused(torch.tensor(4), 4).why == text("right_value", kind="int")
    assert refused(torch.tensor([4, 4]), 4).why == ""
    assert refused(complex(1), 1).why == refused(1, complex(1)).why == ""


def test_a_list_is_as_good_as_a_tuple_and_its_first_difference_is_named() -> None:
    expect_equal([1, (2, [3])], (1, [2, (3,)]))
    assert refused([1, 5, 6], [1, 2, 3]).where == text("at", place="[1]")
    assert refused([1], [1, 2]).where == text("length", want=2, got=1)
    assert refused(5, [1, 2]).where == refused(5, 6).where == ""
    wrong = refused([1, 5, 6], [1, 2, 3])
    assert (wrong.expected, wrong.got) == ("[1, 2, 3]", "[1, 5, 6]")
    assert Wrong(expected="a", got="b").args == ("a", "b")


@pytest.mark.parametrize(
    "got",
    [torch.zeros(2, 3), torch.zeros(3, 2).double(), torch.zeros(0), 0.0, [[0.0]], None],
    ids=str,
)
def test_another_shape_or_dtype_or_no_tensor_is_wrong(got: Any) -> None:
    wrong = refused(got, torch.zeros(3, 2))
    assert "(3, 2)" in str(wrong.expected)
    with pytest.raises(Wrong):
        expect_view(got, torch.zeros(3, 2))


@pytest.mark.parametrize(("off", "digits"), [(0.1, 6), (1e-8, 9), (1e-11, 12), (1e-15, 17)])
def test_two_numbers_are_told_in_as_few_digits_as_tell_them_apart(off: float, digits: int) -> None:
    want = torch.tensor([1 / 3, 0.5], dtype=torch.float64)
    got = want + torch.tensor([off, 0.0], dtype=torch.float64)
    wrong = refused(got, want, tolerance=0.0)
    assert (wrong.expected, wrong.got) == (f"{1 / 3:.{digits}g}", f"{float(got[0]):.{digits}g}")
    assert wrong.where.facts["total"] == 2
    assert "worst of 1 wrong of 2" in str(wrong.where)


def test_an_integer_is_told_in_all_its_digits() -> None:
    wrong = refused(torch.tensor([[1234567, 3, 4]]), torch.tensor([[9, 3, 5]]))
    assert (wrong.expected, wrong.got, wrong.where.facts["total"]) == ("9", "1234567", 3)


def test_a_number_without_neighbours_is_told_without_a_place() -> None:
    for shape in ((), (1, 1)):
        where = refused(torch.zeros(shape), torch.ones(shape)).where
        assert "[" not in str(where)
        assert "worst" not in str(where)
    assert refused(torch.zeros(()), torch.ones(3)).got == "() float32"
    assert describe(torch.zeros(())) == "() float32"


def test_a_long_list_is_shown_from_its_first_difference_on() -> None:
    want = list(range(400))
    wrong = refused([*want[:300], -7, *want[301:]], want)
    assert str(wrong.got).startswith("[-7, 301, ")
    assert str(wrong.expected).startswith("[300, 301, ")
    assert str(wrong.got).endswith("from [300] on")
    assert len(str(refused(want[:-1], want).got)) <= 200  # a difference of lengths alone
    assert str(refused([-7, *want[1:]], want).got).startswith("[-7, 1, ")
    assert "from" not in str(refused([-7, *want[1:]], want).got)  # the first one is the first


def test_a_truth_that_is_not_finite_is_the_checks_fault() -> None:
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="check is at fault"):
            expect_close(torch.zeros(2), torch.tensor([1.0, bad]))


def test_a_view_is_the_same_storage_strides_and_offset() -> None:
    x = torch.arange(12.0).view(3, 4)
    expect_view(x.T, x.T)
    expect_view(x[:1], x[:1].as_strided((1, 4), (99, 1)))  # nobody steps along a size of 1
    for other in (x.T.clone(), x.T.contiguous(), x.view(4, 3)):
        with pytest.raises(Wrong):
            expect_view(other, x.T)
    with pytest.raises(Wrong) as moved:
        expect_view(x[1:], x[:2])
    assert (moved.value.expected, moved.value.got) == (
        "strides (4, 1), offset 0",
        "strides (4, 1), offset 4",
    )
    with pytest.raises(Wrong) as turned:
        expect_view(x[:3, :3].T, x[:3, :3])
    assert turned.value.got == "strides (1, 4), offset 0"
    with pytest.raises(Wrong) as copied:
        expect_view(x.clone(), x)
    assert "48" in str(copied.value.got)


def test_a_single_number_is_a_view_too_and_of_nothing_any_memory_is() -> None:
    x = torch.arange(6.0).view(2, 3)
    expect_view(x[0, 1], x[0, 1])
    for other in (x[0, 1].clone(), x[0, 2]):
        with pytest.raises(Wrong):
            expect_view(other, x[0, 1])
    expect_view(torch.empty(0, 3), x[:0])
    expect_view(torch.empty(3, 0).T, x[:0])


def test_what_is_said_is_bounded() -> None:
    wrong = Wrong(expected="e" * 9_999, got="g" * 9_999, where="w" * 9_999)
    assert max(map(len, (wrong.expected, wrong.got, wrong.where))) <= 400


TENSORS = [
    torch.tensor([1.0, 2.0]), torch.tensor(3), torch.empty(0), torch.tensor([True, False]),
    torch.ones(2, 3, dtype=torch.complex64), torch.ones(2).half(), torch.arange(6).view(2, 3).T,
    torch.ones(1).expand(4), torch.tensor([1 + 1j]).conj(), torch.ones(2, requires_grad=True),
]  # fmt: skip
UNSOUND = [
    torch.tensor([math.nan, 2.0]),
    torch.tensor([1.0, -math.inf]),
    torch.tensor([1j * math.nan]),
]
PLAIN = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([BIG, -(2**63)])
    | st.floats(-3, 3) | st.sampled_from(["", "a", "a\nb"]) | st.sampled_from(TENSORS)
    | st.sampled_from([torch.float32, 2j, slice(1, None)])
)  # fmt: skip


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(["a", "b", 1])
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=2).map(tuple)
            | st.dictionaries(keys, inner, max_size=2)
        ),
        max_leaves=6,
    )


ANY = nested(PLAIN | st.sampled_from([math.nan, math.inf, -math.inf, *UNSOUND]))


def with_nan(value: Any) -> Any:
    """`value` with nothing but NaN in its tensors of floats."""
    if isinstance(value, torch.Tensor):
        return torch.full_like(value, math.nan) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: with_nan(part) for key, part in value.items()}
    return type(value)(map(with_nan, value)) if isinstance(value, (list, tuple)) else value


@given(got=ANY, want=nested(PLAIN))
@settings(max_examples=200)
def test_whatever_an_answer_is_it_is_right_or_wrong(got: Any, want: Any) -> None:
    """Never a fault of ours; and what is wrong can be said."""
    answers = [got, with_nan(want), want]
    answers += [[*want[:-1], got]] if isinstance(want, (list, tuple)) and want else []
    expects = [expect_equal, expect_view] if isinstance(want, torch.Tensor) else [expect_equal]
    for expect, one in product(expects, answers):
        if wrong := verdict_of(expect, one, want):
            assert one is not want
            assert str(wrong)
            assert all(str(said) is not None for said in (wrong.where, wrong.why))


def verdict_of(expect: Callable[[Any, Any], None], got: Any, want: Any) -> Wrong | None:
    try:
        expect(got, want)
    except Wrong as wrong:
        return wrong
    return None


def test_of_another_dtype_the_values_are_right_as_far_as_is_allowed() -> None:
    """By the tolerance that was asked for, times the largest value that is wanted."""
    want = torch.tensor([1.0, 6.0])
    near, far = torch.tensor([4.0, 6.0]).double(), torch.tensor([1.0, 12.0]).double()
    assert refused(near, want, tolerance=0.5).why == text("relation.dtype")
    assert refused(near, want).why == refused(far, want, tolerance=0.5).why == ""


def test_a_view_of_another_dtype_is_not_the_view() -> None:
    x = torch.arange(6.0)
    with pytest.raises(Wrong, match="float32"):
        expect_view(x.unfold(0, 2, 1).view(torch.int32), x.unfold(0, 2, 1))


@pytest.mark.parametrize("tolerance", [None, 0.0, 0.5])
def test_whether_it_is_close_is_told_as_a_verdict_tells_it(
    tolerance: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And without what a verdict says of it, which takes many times as long."""
    ones, words = torch.ones(3), torch.tensor([BIG + 1, 3])
    near, off, nan = ones + 1e-6, ones + 0.25, torch.tensor([1.0, math.nan, 1.0])
    others: list[Any] = [ones.double(), ones[:2], ones[None], None, [1.0] * 3, 1.0]
    cases = [(got, ones) for got in (ones, near, off, nan, *others)]
    cases += [(words.clone(), words), (words - 1, words), (ones[:0], ones[:0])]
    cases += [(ones + 1j, ones + 1j), (ones + 2j, ones + 1j), (ones > 0, ones > 1)]
    passed = []
    for got, want in cases:
        try:
            expect_close(got, want, tolerance=tolerance)
            passed.append(True)
        except Wrong:
            passed.append(False)
    assert len({*passed}) == 2
    monkeypatch.setattr(compare, "Wrong", None)
    assert [is_close(got, want, tolerance=tolerance) for got, want in cases] == passed


@pytest.mark.parametrize(
    ("a", "b", "shown"),
    [
        (1.5, 2.5, ("1.5", "2.5")),
        (1.000012, 1.000023, ("1.00001", "1.00002")),
        (1.00000012, 1.00000023, ("1.00000012", "1.00000023")),
        (2**53, 2**53 + 1, ("9007199254740992", "9007199254740993")),
        (math.nan, math.nan, ("nan", "nan")),
    ],
)
def test_numbers_are_shown_in_as_many_digits_as_part_them(
    a: float, b: float, shown: tuple[str, str]
) -> None:
    assert numbers_apart(a, b, digits=3) == shown
