"""read_trace: lanes and overlaps, from a trace whose numbers are known on paper."""

from __future__ import annotations

from typing import Any

import pytest

from onelayer.memory.stream_lanes import page_of
from onelayer.memory.stream_trace import StreamTrace, Work, read_trace


def event(cat: str, name: str, start: float, took: float, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": start, "dur": took, "tid": 7} | more


def on(stream: int) -> dict[str, Any]:
    return {"args": {"stream": stream, "correlation": 1}}


# A host launches two kernels and a copy, and is done long before the device.
EVENTS = [
    event("cpu_op", "aten::linear", 100, 10),
    event("cpu_op", "aten::addmm", 102, 6),  # inside
    event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 112, 8, tid=8),
    event("cuda_runtime", "cudaLaunchKernel", 104, 2),
    event("kernel", "void at::native::add<4, at::Tensor>(int, float*)", 110, 40, **on(7)),
    event("kernel", "sm90_gemm_128x64_tn", 150, 50, **on(7)),
    event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 160, 60, **on(13)),
    {"ph": "M", "name": "process_name", "args": {"name": "python"}},
    event("user_annotation", "a step", 100, 200),
]


@pytest.fixture
def trace() -> StreamTrace:
    return read_trace(EVENTS)


def test_lanes_are_threads_and_streams(trace: StreamTrace) -> None:
    assert list(trace.lanes) == [
        "host thread 1",
        "host thread 2",
        "kernels, stream 7",
        "copies, stream 13",
    ]


def test_only_the_outermost_operator_counts_and_names_are_short(trace: StreamTrace) -> None:
    assert trace.lanes["host thread 1"] == (Work("aten::linear", 0.0, 10.0),)
    assert trace.lanes["host thread 2"] == (Work("MmBackward0", 12.0, 8.0),)
    names = [work.name for work in trace.lanes["kernels, stream 7"]]
    assert names == ["at::native::add", "sm90_gemm_128x64_tn"]
    assert trace.lanes["copies, stream 13"][0].name == "Memcpy DtoH"


def test_what_overlaps_is_counted_once(trace: StreamTrace) -> None:
    kernels, copies = "kernels, stream 7", "copies, stream 13"
    assert trace.busy_us(kernels) == 90
    assert trace.overlap_us(kernels, copies) == 40  # the copy runs from 160 to 220, the gemm to 200
    assert trace.overlap_us(copies, kernels) == 40
    assert trace.overlap_us("host thread 1", copies) == 0
    assert trace.span_us == 120
    assert "0.04 ms of copies, stream 13, 67%, beside kernels, stream 7" in str(trace)


def test_work_inside_other_work_of_a_lane_is_not_counted_twice() -> None:
    lane = (Work("a", 0.0, 10.0), Work("b", 2.0, 3.0), Work("c", 9.0, 5.0), Work("d", 20.0, 1.0))
    trace = StreamTrace({"one": lane, "other": (Work("e", 4.0, 30.0),)})
    assert trace.busy_us("one") == 15
    assert trace.overlap_us("one", "other") == 11


def test_it_travels_as_plain_data(trace: StreamTrace) -> None:
    assert StreamTrace.from_plain(trace.plain()) == trace


def test_the_picture_has_words_for_those_who_see_none(trace: StreamTrace) -> None:
    page = page_of(trace)
    assert page.count("<img") == 2
    assert "beside kernels, stream 7" in page


def test_a_trace_without_work_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing was at work"):
        read_trace([])
    with pytest.raises(ValueError, match="nothing was at work"):
        read_trace([event("user_annotation", "a step", 0, 1)])
