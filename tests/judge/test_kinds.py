"""What kind of thing an answer is: told by kind and number, and where it is wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from autograder.judge import (
    Wrong,
    expect_close,
    expect_equal,
    expect_kind,
    expect_tensors,
    expect_tuple,
    in_language,
    within,
)


@pytest.mark.parametrize("got", [(1, 2), [1, 2]])
def test_a_list_and_a_tuple_are_the_same_kind(got: Any) -> None:
    assert expect_tuple(got, 2, "a pair") is got
    assert expect_tuple(got, None, "some") is got


@pytest.mark.parametrize("got", [None, "ab", {1: 2, 3: 4}, torch.ones(2), (1,), [1, 2, 3]])
def test_whatever_is_no_pair_is_wrong(got: Any) -> None:
    with pytest.raises(Wrong) as wrong:
        expect_tuple(got, 2, "a pair", where="on rank 1", why="Because.")
    assert wrong.value.expected == "a pair"
    assert (wrong.value.where, wrong.value.why) == ("on rank 1", "Because.")


def test_of_any_number_is_still_a_tuple() -> None:
    assert expect_tuple([], None, "some") == []
    with pytest.raises(Wrong):
        expect_tuple("text", None, "some")


def test_a_kind_is_given_back_or_wrong() -> None:
    assert expect_kind("text", str, "a text") == "text"
    with pytest.raises(Wrong) as wrong:
        expect_kind(3, str, "a text", where="on rank 1")
    said = wrong.value
    assert (said.expected, said.got, said.where) == ("a text", "3", "on rank 1")


@pytest.mark.parametrize("got", [None, torch.ones(2), [torch.ones(2), 3]])
def test_what_is_no_list_of_tensors_is_wrong(got: Any) -> None:
    with pytest.raises(Wrong) as wrong:
        expect_tensors(got, "tensors to save", where="on rank 1")
    assert (wrong.value.expected, wrong.value.where) == ("tensors to save", "on rank 1")


def test_tensors_come_back_as_a_list() -> None:
    first = torch.ones(2)
    assert expect_tensors((first,), "tensors to save")[0] is first


def test_a_place_stands_before_the_place_in_it() -> None:
    with pytest.raises(Wrong) as wrong, within("in dw"), within("on rank 1,"):
        expect_equal([1, 3], [1, 2])
    assert str(wrong.value.where) == "in dw on rank 1, at [1]"
    with in_language("es"):
        assert str(wrong.value.where).endswith(" en [1]")


def test_a_place_without_a_place_in_it_ends_cleanly() -> None:
    with pytest.raises(Wrong) as wrong, within("on rank 1,"):
        expect_equal(1, 2)
    assert wrong.value.where == "on rank 1"


def test_before_brackets_stands_no_comma() -> None:
    with pytest.raises(Wrong) as wrong, within("the loss, float16,"):
        expect_close(torch.tensor(1.0), torch.tensor(2.0))
    assert str(wrong.value.where).startswith("the loss, float16 (allowed error ")


def test_a_place_in_words_of_the_course_stands_behind_a_place() -> None:
    with pytest.raises(Wrong) as wrong, within("in dw,"):
        raise Wrong(expected="1", got="2", where="row 3")
    assert str(wrong.value.where) == "in dw, row 3"


def test_a_reason_needs_no_place() -> None:
    with pytest.raises(Wrong) as wrong, within("", why="Because."):
        expect_equal([1, 3], [1, 2])
    assert (str(wrong.value.where), wrong.value.why) == ("at [1]", "Because.")


def test_why_is_found_out_only_where_something_is_wrong() -> None:
    asked: list[str] = []

    def why() -> str:
        asked.append("why")
        return "Because."

    with within("in dw", why=why):
        expect_equal(1, 1)
    assert not asked
    with pytest.raises(Wrong) as wrong, within("in dw", why=why):
        expect_equal(1, 2)
    assert wrong.value.why == "Because."


def test_a_reason_that_finds_none_leaves_the_first() -> None:
    with pytest.raises(Wrong) as wrong, within("in dw", why=lambda: ""):
        expect_equal(1, 2, why="The first.")
    assert wrong.value.why == "The first."
