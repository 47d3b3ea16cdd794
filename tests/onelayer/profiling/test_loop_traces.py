"""The traces of the slow loops: recorded, read back, and what the repair takes out of them."""

import json
from collections import Counter

import pytest

from onelayer.profiling import loop_traces
from onelayer.profiling.loop_traces import FOLDER, LoopTraces, loop_trace
from onelayer.profiling.profiled import profiled
from onelayer.profiling.slow_loops import LOOPS
from onelayer.recordings import read_recording

every_loop = pytest.mark.parametrize("name", LOOPS)


def recorded(name):
    found = read_recording(f"loop_{name}", folder=FOLDER)
    assert found.made is not None
    assert isinstance(found.content, LoopTraces)
    return found


def test_events_come_back_as_they_were():
    step = LOOPS["reads_the_loss"]("cpu", repaired=False)
    traces = LoopTraces(profiled(step, steps=1), [{"ph": "s", "id": 3, "ts": 1.5, "cat": "ac2g"}])
    again = LoopTraces.from_plain(json.loads(json.dumps(traces.plain())))
    assert again == traces
    assert len(traces.before) > 30


@every_loop
def test_each_recording_says_that_it_is_mocked(name):
    made = recorded(name).made
    assert made.ran_on == "mocked"
    assert "mocked" in str(made)
    assert "times are a model" in str(made)


def count(events):
    return Counter(e["name"] for e in events if e["ph"] == "X")


def test_each_repair_takes_out_what_was_slow():
    pageable = "Memcpy HtoD (Pageable -> Device)"
    gone = {
        "reads_the_loss": "cudaStreamSynchronize",
        "copies_each_batch": pageable,
        "converts_and_recomputes": pageable,
    }
    for name, event in gone.items():
        traces = recorded(name).content
        assert count(traces.before)[event] >= 2, name
        assert count(traces.after)[event] == 0, name
    each = recorded("steps_each_parameter").content
    before, after = (count(side)["cudaLaunchKernel"] for side in (each.before, each.after))
    assert before > 10 * after > 0


def test_without_a_cuda_build_the_recording_is_read(monkeypatch):
    def none():
        raise loop_traces.NoMock("no CUDA build")

    monkeypatch.setattr(loop_traces, "_mocked", none)
    monkeypatch.setattr(loop_traces.torch.cuda, "is_available", lambda: False)
    trace = loop_trace("reads_the_loss")
    assert trace.traces == recorded("reads_the_loss").content
    assert "mocked" in repr(trace)
    with pytest.raises(KeyError):
        loop_trace("another")
