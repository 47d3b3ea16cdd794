"""A race: ratios turn by turn, and what half of them lie between."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch

from autograder.judge import LocalStudent, NoAnswer, Race, Spread, Turn, Wrong
from autograder.judge.race import TURNS


def turn(draw):
    t = draw.integers(4, low=0, high=5)
    return Turn((draw.tensor(4, 8), draw.tensor(6, 8), draw.tensor(6), t))


RACE = Race("loss", "onelayer.kernels.eager:eager_head_loss", turn)


def loss(x, w, b, t):
    return torch.nn.functional.cross_entropy(x @ w.T + b, t)


def test_a_right_answer_gets_a_ratio_for_each_turn() -> None:
    seen = []

    def noted(x, w, b, t):
        seen.append(x.clone())
        return loss(x, w, b, t)

    ratios = RACE.run(LocalStudent({"loss": noted}), seed=1)
    assert len(ratios) == TURNS
    assert all(ratio > 0 for ratio in ratios)
    assert len({float(x.sum()) for x in seen}) == len(seen) > TURNS


def test_whoever_is_wrong_in_a_later_turn_has_none() -> None:
    turns = iter(range(100))
    quick = {"loss": lambda *given: loss(*given) if next(turns) < 3 else torch.zeros(())}
    with pytest.raises(Wrong):
        RACE.run(LocalStudent(quick), seed=1)
    with pytest.raises(NoAnswer):
        RACE.run(LocalStudent({}), seed=1)


def test_it_is_run_where_the_question_says() -> None:
    @contextmanager
    def elsewhere(student):
        yield LocalStudent({"loss": loss})

    there = Race(RACE.function, RACE.peer, turn, elsewhere)
    assert len(there.run(LocalStudent({}), seed=1)) == TURNS


def test_half_of_the_ratios_lie_inside() -> None:
    assert Spread.of([5.0, 1.0, 3.0, 2.0, 4.0]) == Spread(2.0, 3.0, 4.0)
    assert Spread.of([1.0, 1.0, 1.0, 99.0]).middle == 1.0
