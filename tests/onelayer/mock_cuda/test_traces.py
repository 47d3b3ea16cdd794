"""Lab 09's answers on traces made here and now, against the log that the library writes itself: it
knows nothing of torch's profiler."""

import re

import pytest

from onelayer.profiling.profiled import profiled
from onelayer.profiling.slow_loops import LOOPS
from tests.checks.test_lab09 import answers, torchs_form

STEPS = 2


def traced(name):
    """The events of a slow loop on the device."""
    return profiled(LOOPS[name]("cuda", repaired=False), steps=STEPS, device="cuda")


@pytest.fixture(scope="module")
def run_of(mocked):
    return lambda name: mocked(traced, name, device="T4", memory=None, trace=False)


def test_the_waits_of_the_trace_are_those_of_the_librarys_own_log(run_of):
    run = run_of("reads_the_loss")
    ((name, times, took),) = answers()["host_waits"](run.result)
    assert re.search(r"slow_loops\.py\(\d+\): remember$", name)
    logged = [c for c in run.calls if c.kind == "wait" and c.line.function == "remember"]
    assert times == STEPS
    assert took == pytest.approx(sum(c.waited_us for c in logged[-STEPS:]), rel=0.05, abs=20)


def test_the_bytes_of_the_trace_are_those_of_the_librarys_own_log(run_of):
    run = run_of("copies_each_batch")
    copies, nbytes, stood = answers()["pageable_copies"](run.result)
    logged = [c for c in run.calls if c.kind == "copy" and c.bytes > 4096][-copies:]
    assert copies == 2 * STEPS
    assert nbytes == sum(c.bytes for c in logged)
    assert stood == pytest.approx(sum(c.waited_us for c in logged), rel=0.05, abs=20)


def test_the_launches_of_the_trace_are_those_of_the_librarys_own_log(run_of):
    run = run_of("steps_each_parameter")
    regions = answers()["launches"](run.result)
    in_all = sum(launches for launches, _, _ in regions.values())
    traced_kernels = sorted(
        (e for e in run.result if e.get("cat") == "kernel"), key=lambda e: e["ts"]
    )
    assert in_all == len(traced_kernels) == sum(kernels for _, kernels, _ in regions.values())
    grids = [tuple(e["args"]["grid"]) for e in traced_kernels]
    assert grids == [call.grid for call in run.kernels[-in_all:]]
    assert regions["optimizer"][0] > 400


def test_the_drawn_traces_have_the_form_of_this_torchs(run_of):
    torchs_form(run_of("reads_the_loss").result)
