"""The recordings that a mocked device made: what it makes today is what is shipped."""

import pytest
import torch

from bench.record import RECORDERS, UNFIT, recorded
from onelayer.recordings import MOCKED, read_recording

MADE_HERE = [name for name in RECORDERS if name not in UNFIT["mocked"]]


@pytest.fixture
def again(mocked):
    """A recording made anew, and the one that is shipped: where the same torch made both."""

    def made(name):
        shipped = read_recording(name, folder=MOCKED)
        if shipped.made.torch != torch.__version__:
            pytest.skip(f"{name} comes from {shipped.made}")
        content, _ = mocked(recorded, name, "mocked", memory=None, trace=False).result
        return content, shipped.content

    return made


@pytest.mark.parametrize("name", MADE_HERE)
def test_each_says_that_it_is_mocked(mocked, name):
    _, made = mocked(recorded, name, "mocked", memory=None, trace=False).result
    assert made.ran_on == "mocked"
    assert made.device.startswith("mocked ")
    assert made.driver == "none"


def test_the_allocator_is_asked_for_the_same_bytes_in_the_same_order(again):
    now, shipped = again("step_memory")
    asked = [[(r.phase, r.action, r.bytes) for r in one.requests] for one in (now, shipped)]
    assert asked[0] == asked[1]


def test_inductor_writes_the_same_kernels(again):
    now, shipped = again("head_loss")
    assert now.summary == shipped.summary


def test_copies_run_beside_the_kernels(again):
    for trace in again("step_overlap"):
        (kernels,) = [lane for lane in trace.lanes if lane.startswith("kernels")]
        (copies,) = [lane for lane in trace.lanes if lane.startswith("copies")]
        each = trace.lanes[copies]
        assert len(each) == 6
        hidden = trace.overlap_us(kernels, copies) / trace.busy_us(copies)
        assert 0 < hidden <= 5 / 6 + 0.01  # the last one has nothing to hide behind
        assert each[-1].end_us > max(work.end_us for work in trace.lanes[kernels])
