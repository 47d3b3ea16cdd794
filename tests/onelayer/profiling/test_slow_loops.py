"""The slow loops: repaired, each computes the same numbers, and what made it slow is gone."""

from collections import Counter

import pytest
import torch

from onelayer.profiling.profiled import profiled
from onelayer.profiling.slow_loops import LOOPS

every_loop = pytest.mark.parametrize("name", LOOPS)


def losses(name, *, repaired):
    step = LOOPS[name]("cpu", repaired=repaired)
    return torch.stack([step(number) for number in range(4)])


@every_loop
def test_the_repaired_loop_has_the_same_losses_bit_for_bit(name):
    slow, repaired = losses(name, repaired=False), losses(name, repaired=True)
    assert torch.equal(slow, repaired)
    assert len(set(slow.tolist())) == 4  # it trains


def operators(name, *, repaired):
    events = profiled(LOOPS[name]("cpu", repaired=repaired), steps=1)
    return Counter(e["name"] for e in events if e["cat"] == "cpu_op")


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("reads_the_loss", "aten::item"),
        ("converts_and_recomputes", "aten::_to_copy"),
    ],
)
def test_what_made_it_slow_is_gone(name, operator):
    slow, repaired = operators(name, repaired=False), operators(name, repaired=True)
    assert slow[operator] > repaired[operator]


def test_adam_takes_lists_once_repaired():
    """On the CPU a list is worked off one by one: fewer calls, no fewer loops."""
    slow = operators("steps_each_parameter", repaired=False)
    repaired = operators("steps_each_parameter", repaired=True)
    assert repaired["aten::_foreach_lerp_"] == 1
    assert slow["aten::_foreach_lerp_"] == 0
