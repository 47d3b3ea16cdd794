"""Streams, events, copies and graphs on the modelled clock: order and overlap, never speed."""

from tests.onelayer.mock_cuda import programs


def test_a_synchronisation_really_waits_and_events_measure_the_model(mocked):
    facts = mocked(programs.streams_and_events, memory="8 GiB").result
    assert facts["still at work"]
    assert facts["side waits"]
    assert facts["done"]
    # Read and written at the H100's bandwidth. A host that was held up adds gaps, and never less.
    assert facts["elapsed_ms"] >= 400 * 2 * (256 << 20) / 3.35e12 * 1e3


def test_a_stream_that_waits_for_an_event_begins_after_it(mocked):
    run = mocked(programs.streams_and_events, memory="8 GiB")
    *first, last = run.kernels
    assert last.stream != first[-1].stream
    assert last.begin_us >= first[-1].finish_us


def test_a_pageable_copy_waits_and_a_pinned_one_does_not(mocked):
    copies = [call for call in mocked(programs.copies).calls if call.kind == "copy"]
    pageable, pinned, small = copies
    assert pageable.end_us >= pageable.finish_us
    assert pinned.end_us < pinned.finish_us
    assert small.end_us < small.finish_us  # up to 64 KiB travel with the command


def test_a_captured_graph_is_replayed_with_its_library_calls(mocked):
    run = mocked(programs.captured)
    replays = [call for call in run.calls if call.api == "cudaGraphLaunch"]
    names = [call.kernel for call in replays]
    assert len(names) == 4
    assert "cublas" in names[0]
    assert names[:2] == names[2:]


def test_a_wait_inside_a_capture_is_refused_in_cudas_words(mocked):
    assert (
        "operation not permitted when stream is capturing"
        in mocked(programs.captured).result["said"]
    )
