"""The clock of an answer stands while the machine has no processor for it, and not for ever."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from autograder.judge import Cause, NoAnswer
from autograder.sandbox import Cell, Jail, Limits
from autograder.sandbox.engines.left_running import Watch
from autograder.sandbox.host.running import BUSY, Patience


@pytest.mark.parametrize(
    ("kept_waiting_s", "most_s", "longer_s"),
    [(0.0, 60.0, 0.0), (4.0, 60.0, 4.0), (60.0, 60.0, 10.0 * (BUSY - 1)), (60.0, 17.0, 7.0),
     (4.0, 0.0, 0.0), (4.0, 9.0, 0.0)],
)  # fmt: skip
def test_it_grows_by_what_was_waited_and_to_its_most(
    kept_waiting_s: float, most_s: float, longer_s: float
) -> None:
    assert Patience(10.0, most_s, kept_waiting_s).longer_s() == longer_s


SLOW = Cell("slow", "import time\ndef slow(s):\n    time.sleep(s)\n    return s\n")
LIMITS = Limits(wall_s=1.0)


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    with Jail(LIMITS) as jail:
        yield jail


def always_waiting(watch: Watch) -> float:
    return 0.1


def test_who_was_kept_waiting_answers(jail: Jail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "look", always_waiting)
    with jail.open([SLOW]) as student:
        student.begin(may_write=False)
        assert student.call("slow", 1.5) == 1.5
        assert student.call("slow", 0.0) == 0.0  # and has not used its second up


@pytest.mark.parametrize("seconds", [1.5, 60.0])
def test_who_was_not_or_was_for_too_long_timed_out(
    jail: Jail, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    if seconds > BUSY:
        monkeypatch.setattr(Watch, "look", always_waiting)
    with jail.open([SLOW]) as student:
        student.begin(may_write=False)
        with pytest.raises(NoAnswer) as none:
            student.call("slow", seconds)
        assert none.value.raised.kind is Cause.TIMED_OUT


def test_the_clock_stands_for_nobody_who_left_something_running(
    jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be what takes the processors."""
    monkeypatch.setattr(Watch, "look", always_waiting)
    spins = Cell("spins", "import os\nif not os.fork():\n    while True: pass\n")
    with jail.open([SLOW, spins]) as student:
        student.begin(may_write=False, budget_s=5.0)  # a fifth of it
        with pytest.raises(NoAnswer):
            student.call("slow", 1.5)


def test_a_row_of_calls_takes_no_longer_than_one(
    jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was waited is not spent but for a share: else a question of many calls would take as
    long as it liked."""
    monkeypatch.setattr(Watch, "look", always_waiting)
    with jail.open([SLOW]) as student:
        student.begin(may_write=False)
        with pytest.raises(NoAnswer):
            [student.call("slow", 0.5) for _ in range(4 * BUSY)]
