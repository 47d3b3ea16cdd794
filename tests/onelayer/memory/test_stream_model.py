"""Streams, engines and events by their rules, and what is timed on them."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from onelayer.memory.stream_model import StreamModel
from onelayer.memory.timed_kernel import TimedKernel


def drawn_steps(rng: random.Random) -> list[tuple[object, ...]]:
    steps: list[tuple[object, ...]] = []
    for n in range(40):
        stream = rng.randrange(3)
        steps.append(("launch", f"k{n}", rng.randint(1, 30), stream, rng.choice("ab")))
        if rng.random() < 0.4:
            steps.append(("record", f"e{n}", stream))
            steps.append(("wait", f"e{n}", rng.randrange(3)))
        if rng.random() < 0.1:
            steps += [("host", rng.randint(1, 50)), ("sync",)]
    return steps


@pytest.mark.parametrize("seed", range(20))
def test_streams_and_engines_do_one_thing_at_a_time_and_in_order(seed: int) -> None:
    model = StreamModel(launch_us=2.0).run(drawn_steps(random.Random(seed)))
    for of in ("stream", "engine"):
        for key in {getattr(piece, of) for piece in model.pieces}:
            own = [piece for piece in model.pieces if getattr(piece, of) == key]
            assert all(a.finish_us <= b.begin_us for a, b in pairwise(own))
    ends = {piece.name: piece.finish_us for piece in model.pieces}
    assert all(ends[name] <= piece.begin_us for piece in model.pieces for name in piece.after)


def test_an_event_holds_the_other_stream_and_not_the_host() -> None:
    steps = [
        ("launch", "a", 50, 0, "x"),
        ("record", "e", 0),
        ("wait", "e", 1),
        ("launch", "b", 5, 1, "y"),
    ]
    model = StreamModel(launch_us=1.0).run(steps)
    assert model.pieces[1].begin_us == model.pieces[0].finish_us == model.events["e"]
    assert "a" in model.pieces[1].after
    assert model.now_us == 4
    assert model.run([("sync",)]).now_us == model.done_us


def test_without_the_event_there_is_no_order() -> None:
    model = StreamModel().run([("launch", "a", 50, 0, "x"), ("launch", "b", 5, 1, "y")])
    assert model.pieces[1].after == frozenset()
    with pytest.raises(KeyError):
        model.run([("wait", "never recorded", 0)])


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
