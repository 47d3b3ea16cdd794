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
    assert len(ratios) == TURNS == 11
    assert all(ratio > 0 for ratio in ratios)
    assert len({float(x.sum()) for x in seen}) == len(seen) == 13


def test_a_ratio_is_the_own_time_by_the_peers_and_the_first_two_warm_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = [(9.0, 1.0), (8.0, 1.0), (6.0, 2.0), (1.0, 2.0)]
    monkeypatch.setattr("autograder.judge.race.turns", lambda *_: iter(seconds))
    assert RACE.run(LocalStudent({}), seed=1) == [3.0, 0.5]


@pytest.mark.parametrize(("budget_s", "given"), [(None, 60.0), (7.0, 60.0), (90.0, 90.0)])
def test_it_runs_on_the_cpu_with_time_for_all_turns(budget_s: float | None, given: float) -> None:
    begun = []

    class Noted(LocalStudent):
        def begin(self, **options) -> None:
            begun.append(options)

    RACE.run(Noted({"loss": loss}), seed=1, budget_s=budget_s)
    assert begun == [{"may_write": False, "budget_s": given, "on_host": True}]


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
