"""The time of a cell's statements, and which of them define."""

import ast
import signal
import time

import pytest

from autograder.sandbox.inside.statements import Overrun, Statements, definitions


def timed(seconds, skipped=()):
    statements = Statements(seconds, skipped)
    statements.nodes = ast.parse("\n" * 9 + ("pass" + "\n" * 10) * 9).body
    return statements


def test_a_statement_that_overruns_is_remembered_by_number_and_line():
    statements = timed(0.3)
    with statements.timed():
        pass
    with pytest.raises(Overrun), statements.timed():
        time.sleep(10)
    assert statements.overran == [(1, 20)]


def test_what_follows_has_less_and_has_some():
    statements, started = timed(0.5), time.monotonic()
    for _ in range(3):
        with pytest.raises(Overrun), statements.timed():
            time.sleep(10)
    assert time.monotonic() - started < 5
    assert [number for number, _ in statements.overran] == [0, 1, 2]


def test_a_statement_that_is_done_leaves_no_alarm():
    before = signal.getsignal(signal.SIGALRM)
    with timed(60.0).timed():
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert signal.getsignal(signal.SIGALRM) == before


def test_skipped_statements_count():
    statements = timed(60.0, [0, 2])
    asked = []
    for _ in range(4):
        asked.append(statements.skips_next())
        if not asked[-1]:
            with statements.timed():
                pass
    assert asked == [True, False, True, False]


def test_an_overrun_is_no_exception_that_a_student_would_catch():
    assert not issubclass(Overrun, Exception)


@pytest.mark.parametrize(
    ("source", "defines"),
    [
        ("def f(): go()", True),
        ("async def f(): pass", True),
        ("class A: pass", True),
        ("import math", True),
        ("from math import pi", True),
        ("N = 3", True),
        ("names: list = ['a', 'b']", True),
        ("twice = lambda x: 2 * x", True),
        ("x = f()", False),
        ("x: int = f()", False),
        ("f()", False),
        ("while True: pass", False),
        ("if True:\n    x = 1", False),
    ],
)
def test_what_defines(source, defines):
    assert bool(definitions(ast.parse(source).body)) is defines
