"""torch.profiler on the mocked device: Kineto's own rules about what belongs together."""

import json

from tests.onelayer.mock_cuda import programs


def _events(run, category):
    return [e for e in run.trace["traceEvents"] if e.get("cat") == category]


def test_each_kernel_has_its_launch_and_begins_after_it(mocked):
    run = mocked(programs.profiled_step)
    launches = {e["args"]["correlation"]: e for e in _events(run, "cuda_runtime")}
    kernels = _events(run, "kernel")
    assert len(kernels) == len(run.kernels) > 5
    for kernel in kernels:
        launch = launches[kernel["args"]["correlation"]]
        assert "Launch" in launch["name"]
        assert kernel["ts"] >= launch["ts"]


def test_each_kernel_has_its_arrow(mocked):
    run = mocked(programs.profiled_step)
    arrows = [e for e in run.trace["traceEvents"] if e.get("cat") == "ac2g"]
    ends = {e["id"] for e in arrows if e["ph"] == "f"}
    assert {e["args"]["correlation"] for e in _events(run, "kernel")} <= ends


def test_a_stream_does_one_thing_at_a_time(mocked):
    run = mocked(programs.profiled_step)
    work = [*_events(run, "kernel"), *_events(run, "gpu_memcpy"), *_events(run, "gpu_memset")]
    work.sort(key=lambda e: e["ts"])
    ends = [e["ts"] + e["dur"] for e in work]
    assert all(later["ts"] >= end - 0.01 for end, later in zip(ends, work[1:], strict=False))


def test_the_profilers_clock_is_the_models(mocked):
    run = mocked(programs.profiled_step)
    theirs = [e["dur"] for e in _events(run, "kernel")]
    ours = [call.took_us for call in run.kernels]
    assert all(abs(a - b) < 0.02 * b + 0.002 for a, b in zip(theirs, ours, strict=True))


def test_the_table_shows_cuda_totals_of_a_program_that_profiles_itself(facts):
    totals = facts["own_profiler"]
    assert totals["aten::mul"] > 0
    assert any("reduce_kernel" in name for name in totals)


def test_the_trace_says_that_it_is_mocked(mocked):
    trace = mocked(programs.profiled_step).trace
    assert "mocked" in trace["onelayer"]
    assert "mocked GPU" in json.dumps(trace["traceEvents"])


def test_each_call_knows_the_line_that_caused_it(mocked):
    run = mocked(programs.profiled_step)
    assert {call.line.file for call in run.calls} == {programs.__file__}
    backward = [call for call in run.kernels if "backward" in call.kernel]
    assert {call.line.function for call in backward} == {"_step"}


def test_pictures_say_that_they_are_mocked(mocked):
    run = mocked(programs.profiled_step)
    for picture in (run.show_timeline(), run.show_memory(), run.show_launches()):
        assert "Mocked" in picture.bundle()["text/html"]
        assert "ocked" in repr(picture)
