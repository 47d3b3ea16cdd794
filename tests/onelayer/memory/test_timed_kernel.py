"""What is timed on a modelled device: a launch, a kernel, a cold one."""

from __future__ import annotations

import pytest

from onelayer.memory.timed_kernel import TimedKernel


def test_a_clock_around_a_launch_times_the_launch() -> None:
    plan = [("run",)] * 3 + [("flush",), ("clock", "a"), ("run",), ("clock", "b")]
    assert TimedKernel(cold_us=80.0, hot_us=30.0).play(plan).elapsed_us("a", "b") == 5.0


def test_events_time_the_kernel_cold_or_hot() -> None:
    timed = [("record", "a"), ("run",), ("record", "b")]
    warm = [("run",)] * 3
    cold = TimedKernel(cold_us=80.0, hot_us=30.0).play([*warm, ("flush",), *timed, ("sync",)])
    hot = TimedKernel(cold_us=80.0, hot_us=30.0).play([*warm, *timed, ("sync",)])
    assert (cold.elapsed_us("a", "b"), hot.elapsed_us("a", "b")) == (80.0, 30.0)


def test_an_event_that_nobody_waited_for_cannot_be_read() -> None:
    kernel = TimedKernel(cold_us=80.0, hot_us=30.0)
    kernel.play([("record", "a"), ("run",), ("record", "b")])
    with pytest.raises(RuntimeError, match="not over"):
        kernel.elapsed_us("a", "b")
