"""Questions that time an answer: a ratio against a peer, by our clock."""

from __future__ import annotations

import pytest
import torch

from autograder.judge import (
    Cause,
    Draw,
    Lab,
    LocalStudent,
    State,
    Turn,
    Wrong,
    ask,
    expect_no_slower,
    text,
)
from autograder.judge.timing import TooFast, turns
from tests.sandbox.simulated_gpu import HINTS, asking


class Clock:
    """Seconds as told, one stretch for each call that is timed."""

    def __init__(self, *stretches):
        self.stretches, self.now, self.ticks = stretches, 0.0, 0

    def __call__(self):
        if self.ticks % 2:
            self.now += self.stretches[self.ticks // 2 % len(self.stretches)]
        self.ticks += 1
        return self.now


def timed(clock, floor=0.0):
    lab = Lab("09_devices", "Devices")

    @lab.question("loss", points=1, minutes=1, difficulty=1, hints=HINTS, alone=True)
    def check(student, draw):
        """The loss."""

        def inputs():
            t = draw.integers(4, low=0, high=5)
            return draw.tensor(4, 8), draw.tensor(6, 8), draw.tensor(6), t

        peer = "onelayer.kernels.eager:eager_head_loss"
        expect_no_slower(student, "loss", peer, inputs, at_most=1.5, floor_s=floor, clock=clock)

    return next(iter(lab))


def loss(x, w, b, t):
    return torch.nn.functional.cross_entropy(x @ w.T + b, t)


@pytest.mark.parametrize(
    ("clock", "floor", "state"),
    [
        (Clock(1.2, 1.0), 0.5, State.PASS),
        (Clock(1.6, 1.0), 0.5, State.FAIL),
        (Clock(0.4, 1.0), 0.5, State.FLAGGED),
    ],
)
def test_time_is_a_ratio_by_our_clock_and_too_fast_is_flagged(clock, floor, state):
    verdict = ask(timed(clock, floor), LocalStudent({"loss": loss}), seed=1)
    assert verdict.state is state, str(verdict)
    assert verdict.points == (1.0 if state is State.PASS else 0.0)
    if state is State.FAIL:
        assert str(verdict.got) == "1.60 times"
    if state is State.FLAGGED:
        assert verdict.cause is Cause.TOO_FAST
        assert verdict.sentence.facts["floor_us"] == pytest.approx(5e5)


def test_a_wrong_value_is_wrong_however_fast():
    verdict = ask(timed(Clock(1.0)), LocalStudent({"loss": lambda *_: torch.zeros(())}), seed=1)
    assert verdict.state is State.FAIL


PEER = "onelayer.kernels.eager:eager_head_loss"
OWN_S, PEERS_S = (100, 1, 2, 3, 4, 5), (100, 1, 1, 2, 3, 3)
"""Seconds of six turns, of which the first warms up: medians of 3 and 2."""


def inputs():
    draw = Draw(1)
    t = draw.integers(4, low=0, high=5)
    return draw.tensor(4, 8), draw.tensor(6, 8), draw.tensor(6), t


def raced(at_most, floor_s):
    made = []

    def counted():
        made.append(1)
        return inputs()

    stretches = [s for turn in zip(OWN_S, PEERS_S, strict=True) for s in turn]
    ratio = expect_no_slower(
        LocalStudent({"loss": loss}),
        "loss",
        PEER,
        counted,
        at_most=at_most,
        floor_s=floor_s,
        clock=Clock(*stretches),
    )
    assert len(made) == 6
    return ratio


def test_medians_are_compared_behind_the_warm_up():
    assert raced(at_most=1.5, floor_s=1.0) == 1.5  # both bounds are reached, and not crossed
    with pytest.raises(Wrong) as slow:
        raced(at_most=1.25, floor_s=0.0)
    assert slow.value.expected == text("at_most_times", times=1.25, peer="eager_head_loss")
    assert slow.value.got == text("times", times=1.5)
    assert slow.value.why == text("too_slow")
    with pytest.raises(TooFast) as fast:
        raced(at_most=9.0, floor_s=1.25)
    assert fast.value.why == text("too_fast", took_us=1e6, floor_us=1.25e6)


def test_a_floor_is_needed_for_too_fast():
    options = {"at_most": 9.0, "clock": Clock(0.0, 1.0)}
    assert expect_no_slower(LocalStudent({"loss": loss}), "loss", PEER, inputs, **options) == 0.0


@pytest.mark.parametrize(("tolerance", "is_right"), [(None, False), (1e-2, True)])
def test_a_turn_says_how_close_its_answer_comes(tolerance, is_right):
    student = LocalStudent({"loss": lambda *given: loss(*given) * (1 + 1e-3)})
    made = [Turn(inputs(), tolerance=tolerance)]
    if is_right:
        assert list(turns(student, "loss", PEER, made, clock=Clock(2.0, 3.0))) == [(2.0, 3.0)]
        return
    with pytest.raises(Wrong) as wrong:
        list(turns(student, "loss", PEER, made))
    right = float(loss(*inputs()))
    assert float(str(wrong.value.got)) > right > 0
    assert float(str(wrong.value.expected)) == pytest.approx(right, rel=1e-4)


def test_a_peer_runs_beside_a_student_in_a_process_of_its_own(gpu_jail):
    with (
        asking(gpu_jail) as student,
        student.beside("import os\ndef who(): return os.getpid()") as peer,
    ):
        assert peer.device == "simulated"
        assert peer.call("who") == 1
        assert peer.pid != student.pid
