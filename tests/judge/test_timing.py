"""Questions that time an answer: a ratio against a peer, by our clock."""

from __future__ import annotations

import pytest
import torch

from autograder.judge import Cause, Lab, LocalStudent, State, ask, expect_no_slower
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


def test_a_peer_runs_beside_a_student_in_a_process_of_its_own(gpu_jail):
    with (
        asking(gpu_jail) as student,
        student.beside("import os\ndef who(): return os.getpid()") as peer,
    ):
        assert peer.device == "simulated"
        assert peer.call("who") == 1
        assert peer.pid != student.pid
