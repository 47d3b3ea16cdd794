"""Calls that are handed over together are the same calls, one after the other: whatever a function
does in the middle of them."""

import psutil
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
    text,
)
from autograder.judge.student import MAX_ROW_BYTES
from autograder.sandbox import Cell, Jail, Limits
from autograder.sandbox.host import running
from autograder.sandbox.wire import frames
from autograder.sandbox.wire.channel import SILENT_BYTES

pytestmark = pytest.mark.jail
LIMITS = Limits(wall_s=4.0, load_s=12.0)

SOURCE = """
import os, socket, sys, threading, time
import torch
seen = []
def plus_one(n): return n + 1
def count(n):
    seen.append(n)
    return list(seen)
def middle(x): return x[1:-1]
def room_of_the_socket():
    return socket.socket(fileno=os.dup(3)).getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
def zeroed(x): return x.zero_()
def counted_up(x): return x.add_(1)
def slow(seconds):
    time.sleep(seconds)
    return seconds
def dies_of_memory_at_three(n): return n if n != 3 else len(bytearray(2**40))
def shouts_and_answers(n):
    print("x" * 100_000, flush=True)
    return [0] * 10_000
def forge(nonces):
    time.sleep(0.3)  # after the true answer of the first
    os.write(4, b"+")
    for nonce in nonces:
        tree = b"[" + b"[]," * 330_000 + b"[]]"
        header = b'{"nonce":"' + nonce.encode() + b'","tree":' + tree
        header += b',"written":[],"sizes":[]}'
        os.write(3, len(header).to_bytes(4, "big") + header)
def forges_long_headers(n):
    frame = sys._getframe()
    while "request" not in frame.f_locals or not hasattr(frame.f_locals["request"], "header"):
        frame = frame.f_back
    nonces = [nonce for nonce, *_ in frame.f_locals["request"].header["calls"]]
    threading.Thread(target=forge, args=(nonces[1:],)).start()
    while n > 0: time.sleep(1)  # the second call: never a true answer
    return n
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
    """A list that grows by the number of answers of each exchange."""
    running, found = student._running, []
    exchange = running.exchange

    def counted(parts, answers, take, **budget):
        found.append(answers)
        exchange(parts, answers, take, **budget)

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


def test_more_than_are_handed_over_together_come_in_rows(student, monkeypatch):
    found, n = exchanges(student, monkeypatch), student.together + 2
    assert list(student.each("plus_one", numbers(n))) == list(range(1, n + 1))
    assert found == [student.together, 2]


def test_large_arguments_end_a_row(student, monkeypatch):
    found = exchanges(student, monkeypatch)
    cases = [(torch.arange(MAX_ROW_BYTES // 16),) for _ in range(4)]
    for (x,), got in zip(cases, student.each("middle", cases), strict=True):
        expect_view(got, x[1:-1])
    assert found == [2, 2]


def test_a_row_that_is_too_long_for_a_frame_goes_over_in_several(student, monkeypatch):
    found, cases = exchanges(student, monkeypatch), [(torch.arange(k + 3.0),) for k in range(10)]
    monkeypatch.setattr(frames, "MAX_BLOBS", 3)
    for (x,), got in zip(cases, student.each("middle", cases), strict=True):
        expect_view(got, x[1:-1])
    assert found == [10]


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
    assert [got.sum().item() for got in student.each("counted_up", [(x,), (x,)])] == [8.0, 12.0]
    assert x.sum() == 12
    assert found == [1, 1]
    local = LocalStudent({"counted_up": lambda x: x.add_(1)})
    local.begin(may_write=True)
    assert [got.sum().item() for got in local.each("counted_up", [(x,), (x,)])] == [16.0, 20.0]


def test_an_error_is_that_of_its_call(student):
    values, raised = taken_until_it_fails(student, "raises_at_three", numbers(6))
    assert values == [1 / 3, 1 / 2, 1.0]
    assert raised.error == "ZeroDivisionError"
    assert student.calls[-1].arguments == ("3",)


@pytest.mark.parametrize("function", ["dies_at_three", "dies_of_memory_at_three"])
def test_a_process_that_dies_is_known_by_the_call_that_killed_it(student, function, monkeypatch):
    found = exchanges(student, monkeypatch)
    values, raised = taken_until_it_fails(student, function, numbers(6))
    assert values == [0, 1, 2]
    assert raised.kind == ("died" if function == "dies_at_three" else "raised")
    assert student.calls[-1].arguments == ("3",)
    assert found == [6]  # and no second chance
    assert list(student.each("plus_one", numbers(3))) == [1, 2, 3]


def test_an_endless_call_is_named_and_the_question_keeps_to_its_time(student):
    values, raised = taken_until_it_fails(student, "sleeps_at_three", numbers(6))
    assert (values, raised.kind) == ([0, 1, 2], "timeout")
    assert raised.why == text("no_answer_in_time", seconds=pytest.approx(4, abs=0.5))
    assert student.calls[-1].arguments == ("3",)


def test_slow_calls_have_all_the_time_of_the_question(student):
    """As long as one by one: all but a little of it."""
    assert list(student.each("slow", [(LIMITS.wall_s / 4,)] * 3)) == [LIMITS.wall_s / 4] * 3


RINGS_NO_MORE = {
    "closed": "os.close(4)",
    "closed, a child lives": "if os.fork() == 0: time.sleep(60)\nos.close(4)",
    "closed in a call": "def plus_one(n):\n    os.closerange(4, 64)\n    return n + 1",
}


@pytest.fixture
def last_looks(monkeypatch):
    """One entry for each time that answers were looked for only when all the time was over."""
    looked, look = [], running._Exchange._receive_what_is_there
    monkeypatch.setattr(
        running._Exchange, "_receive_what_is_there", lambda self: (looked.append(self), look(self))
    )
    return looked


@pytest.mark.parametrize("how", RINGS_NO_MORE)
def test_whoever_closes_the_bell_is_watched(jail, how, last_looks):
    with jail.open([Cell("functions", SOURCE + RINGS_NO_MORE[how])]) as student:
        student.begin(may_write=False)
        assert [student.call("plus_one", n) for n in range(4)] == [1, 2, 3, 4]
        assert list(student.each("plus_one", numbers(3))) == [1, 2, 3]
        assert last_looks == []


def test_who_answers_and_never_rings_loses_time_and_nothing_else(jail, last_looks):
    mute = "os.dup2(os.open('/tmp/silence', os.O_CREAT | os.O_WRONLY), 4)"
    kept = "notify_fd = os.dup(4)\n"
    with jail.open([Cell("functions", SOURCE + kept + mute)]) as student:
        student.begin(may_write=False)
        assert list(student.each("plus_one", numbers(3))) == [1, 2, 3]
        assert last_looks


def test_a_small_socket_holds_what_is_written_without_a_ring(jail):
    """As on a machine where sockets begin small: what may lie there is asked for."""
    with jail.open([Cell("functions", SOURCE)]) as student:
        student.begin(may_write=False)
        sizes = student.call("room_of_the_socket"), 2 * SILENT_BYTES
        assert sizes[0] >= sizes[1]


def test_the_cells_of_a_new_process_are_charged_to_no_question(jail):
    """The question after one that ended the process has all its time."""
    slow = Cell("slow", f"import time; time.sleep({LIMITS.wall_s * 0.7})")
    with jail.open([slow, Cell("functions", SOURCE)]) as student:
        student.begin(may_write=False)
        taken_until_it_fails(student, "dies_at_three", numbers(6))
        student.begin(may_write=False)
        share = LIMITS.wall_s * 0.2
        assert list(student.each("slow", [(share,)] * 3)) == [share] * 3


def test_a_great_many_large_answers_fill_no_socket(student):
    cases = [(2**20,)] * 60
    assert [got.numel() for got in student.each("big", cases)] == [2**20] * 60
    assert list(student.each("shouts_and_answers", cases[:40])) == [[0] * 10_000] * 40


def test_printing_is_no_answer_and_stops_nobody(student):
    assert list(student.each("shouts", numbers(40))) == list(range(40))


def test_answers_together_have_the_room_of_one(student):
    """Nine that fit alone and not together: the row ends, before the record of calls is full."""
    values, raised = taken_until_it_fails(student, "big", [(40 * 2**20,)] * 9)
    assert (raised.kind, raised.error, len(values)) == ("unsendable", "Malformed", 6)


def test_headers_together_have_the_room_of_one(student):
    """A header of 4 MiB takes a hundred of memory to be read, and a row may have a hundred."""
    taken = psutil.Process().memory_info().rss
    values, raised = taken_until_it_fails(student, "forges_long_headers", numbers(50))
    assert (values, raised.kind) == ([0], "unsendable")
    assert psutil.Process().memory_info().rss - taken < 250 * 2**20


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
        exec(compile(source, "<cell 1>", "exec"), space)
        with jail.open([Cell("plus_one", source)]) as student:
            graded = ask(plus_one, student, seed=1)
        at_home = ask(plus_one, LocalStudent(space), seed=1)
        for field in ("state", "asked", "expected", "got", "sentence", "misconception"):
            assert getattr(graded, field) == getattr(at_home, field), (answer, field)
    assert graded.state is State.FAIL
