"""Streams, engines and events by their rules."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from autograder.checks.lab05_memory_and_time.stream_model import StreamModel


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
