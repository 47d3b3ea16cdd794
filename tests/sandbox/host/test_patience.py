"""The clock of an answer stands while the machine has no processor for it, and not for ever."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from autograder.judge import Cause, NoAnswer
from autograder.sandbox import Cell, Jail, Limits
from autograder.sandbox.engines.left_running import Watch
from autograder.sandbox.host import patience
from autograder.sandbox.host.patience import BUSY, Patience


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(patience, "time", clock)
    return clock


@pytest.mark.parametrize(
    ("kept_waiting_s", "most_s", "ends_after_s"),
    [(0.0, 60.0, 10.0), (4.0, 60.0, 14.0), (60.0, 60.0, 10.0 * BUSY), (60.0, 17.0, 17.0),
     (4.0, 0.0, 10.0), (4.0, 9.0, 10.0)],
)  # fmt: skip
def test_it_grows_by_what_was_waited_and_to_its_most(
    clock: Clock, kept_waiting_s: float, most_s: float, ends_after_s: float
) -> None:
    waiting = Patience(10.0, most_s=most_s)
    waiting.kept_waiting_s = kept_waiting_s
    clock.now += 50.0  # it began when it was made
    assert waiting.deadline == 100.0 + ends_after_s


def test_without_more_it_does_not_grow(clock: Clock) -> None:
    waiting = Patience(10.0)
    waiting.kept_waiting_s = 5.0
    assert waiting.deadline == 110.0


@pytest.mark.parametrize(("kept_waiting_s", "spent_s"), [(0.0, 6.0), (2.0, 4.0), (5.9, 6.0 / BUSY)])
def test_what_was_waited_is_not_spent_but_for_a_share(
    clock: Clock, kept_waiting_s: float, spent_s: float
) -> None:
    """Else a question of many calls would take as long as it liked."""
    waiting = Patience(10.0, most_s=60.0)
    waiting.kept_waiting_s = kept_waiting_s
    clock.now += 6.0
    assert waiting.spent_s == pytest.approx(spent_s)


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
