"""Calls that are handed over together are the same calls, one after the other: whatever a function
does in the middle of them."""

import sys
import time

import pytest
import torch

from autograder.judge import (
    Lab,
    LocalStudent,
    NoAnswer,
    State,
    WroteInput,
    ask,
    expect_equal,
    expect_view,
)
from autograder.sandbox import Cell, Jail, Limits
from autograder.sandbox.student import BYTES_TOGETHER, MOST_TOGETHER

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")
LIMITS = Limits(wall_s=6.0, load_s=12.0)

SOURCE = """
import os, time
import torch
seen = []
def plus_one(n): return n + 1
def count(n):
    seen.append(n)
    return list(seen)
def middle(x): return x[1:-1]
def zeroed(x): return x.zero_()
def raises_at_three(n): return 1 / (3 - n)
def dies_at_three(n): return n if n != 3 else os._exit(1)
def sleeps_at_three(n):
    if n == 3: time.sleep(60)
    return n
def shouts(n):
    print("x" * 10_000, flush=True)
    return n
def big(n): return torch.zeros(n, dtype=torch.uint8)
def answers_ahead(n):
    if n == 0:  # the whole rest, guessed: without the nonces of the requests
        os.write(3, (b"\\0\\0\\0\\x2d" + b'{"nonce":"x","tree":7,"written":[],"sizes":[]}') * 5)
    return n
"""


@pytest.fixture(scope="module")
def jail():
    with Jail(LIMITS) as jail:
        yield jail


@pytest.fixture
def student(jail):
    with jail.open([Cell("functions", SOURCE)]) as student:
        student.begin(may_write=False)
        yield student


def numbers(n):
    return [(k,) for k in range(n)]


def taken_until_it_fails(student, function, cases):
    """The values that came, and the Raised that ended them."""
    values = []
    with pytest.raises(NoAnswer) as caught:
        values.extend(student.each(function, cases))  # keeps what came before
    return values, caught.value.raised


def exchanges(student, monkeypatch):
    """A list that grows by the number of requests of each exchange."""
    running, found = student._running, []
    exchange = running.exchange

    def counted(requests, **budget):
        found.append(len(requests))
        return exchange(requests, **budget)

    monkeypatch.setattr(running, "exchange", counted)
    return found


def test_all_go_over_at_once_and_are_recorded_one_by_one(student, monkeypatch):
    found = exchanges(student, monkeypatch)
    answers = student.each("plus_one", numbers(50))
    assert student.calls == []
    assert next(answers) == 1
    assert len(student.calls) == 1
    assert list(answers) == list(range(2, 51))
    assert [call.arguments for call in student.calls[:2]] == [("0",), ("1",)]
    assert found == [50]


def test_they_run_in_their_order_in_one_process(student):
    assert list(student.each("count", numbers(3))) == [[0], [0, 1], [0, 1, 2]]


def test_more_than_are_handed_over_together_come_all_the_same(student, monkeypatch):
    found = exchanges(student, monkeypatch)
    n = MOST_TOGETHER + 2
    assert list(student.each("plus_one", numbers(n))) == list(range(1, n + 1))
    assert found == [MOST_TOGETHER, 1, 1]


def test_large_arguments_go_one_by_one(student, monkeypatch):
    found = exchanges(student, monkeypatch)
    cases = [(torch.arange(BYTES_TOGETHER // 8 + 8),) for _ in range(3)]
    for (x,), got in zip(cases, student.each("middle", cases), strict=True):
        expect_view(got, x[1:-1])
    assert [n for n in found if n] == [1, 1, 1]


def test_no_cases_are_no_calls(student):
    assert list(student.each("plus_one", [])) == []
    assert student.calls == []


def test_views_come_back_as_views_of_their_own_arguments(student):
    x = torch.randn(6)
    cases = [(x,), (torch.randn(5),), (x[1:],)]
    for (each,), got in zip(cases, student.each("middle", cases), strict=True):
        expect_view(got, each[1:-1])


def test_writing_is_told_at_its_call(student):
    answers = student.each("zeroed", [(torch.ones(2),), (torch.ones(3),)])
    with pytest.raises(WroteInput):
        next(answers)
    assert len(student.calls) == 1


def test_where_writing_is_allowed_each_call_sees_what_the_one_before_wrote(student, monkeypatch):
    student.begin(may_write=True)
    found, x = exchanges(student, monkeypatch), torch.ones(4)
    assert [got.sum().item() for got in student.each("zeroed", [(x,), (x,)])] == [0.0, 0.0]
    assert not x.any()
    assert found == [1, 1]


def test_an_error_is_that_of_its_call(student):
    values, raised = taken_until_it_fails(student, "raises_at_three", numbers(6))
    assert values == [1 / 3, 1 / 2, 1.0]
    assert raised.error == "ZeroDivisionError"
    assert student.calls[-1].arguments == ("3",)


def test_a_process_that_dies_is_known_by_the_call_that_killed_it(student):
    values, raised = taken_until_it_fails(student, "dies_at_three", numbers(6))
    assert (values, raised.kind) == ([0, 1, 2], "died")
    assert student.calls[-1].arguments == ("3",)
    assert list(student.each("plus_one", numbers(3))) == [1, 2, 3]


def test_an_endless_call_is_named_and_costs_no_more_than_the_questions_time(student):
    started = time.monotonic()
    values, raised = taken_until_it_fails(student, "sleeps_at_three", numbers(6))
    assert (values, raised.kind) == ([0, 1, 2], "timeout")
    assert student.calls[-1].arguments == ("3",)
    assert time.monotonic() - started < LIMITS.wall_s + LIMITS.load_s


def test_printing_is_no_answer_and_stops_nobody(student):
    assert list(student.each("shouts", numbers(40))) == list(range(40))


def test_answers_together_have_the_room_of_one(student):
    """Nine that fit alone and not together: the record of calls refuses them as it always did."""
    values, raised = taken_until_it_fails(student, "big", [(40 * 2**20,)] * 9)
    assert raised.kind == "unsendable"
    assert "too large" in raised.message
    assert len(values) < 7


def test_answers_sent_ahead_are_no_answers(student):
    values, raised = taken_until_it_fails(student, "answers_ahead", numbers(6))
    assert values == []
    assert raised.kind == "unsendable"


def test_a_verdict_is_that_of_the_notebook(jail):
    lab = Lab("07_test", "A lab for tests")

    @lab.question("plus_one", points=1, minutes=1, difficulty=1, hints=("one", "two", "three"))
    def plus_one(student, draw):
        """n -> n + 1."""
        cases = numbers(6)
        for (n,), got in zip(cases, student.each("plus_one", cases), strict=True):
            expect_equal(got, n + 1)

    @plus_one.wrong("stops_at_four", "It stops counting at 4.")
    def _(n):
        return min(n + 1, 4)

    answers = ("min(n + 1, 4)", "n + 1", "n + 1 if n < 2 else missing", "n")
    for answer in answers:
        source = f"def plus_one(n): return {answer}"
        space = {}
        exec(source, space)
        with jail.open([Cell("plus_one", source)]) as student:
            graded = ask(plus_one, student, seed=1)
        at_home = ask(plus_one, LocalStudent(space), seed=1)
        for field in ("state", "asked", "expected", "got", "sentence", "misconception"):
            assert getattr(graded, field) == getattr(at_home, field), (answer, field)
    assert graded.state is State.FAIL
