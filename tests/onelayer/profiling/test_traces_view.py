"""show_traces: its lanes against the events, its functions, and its page."""

import pytest

import onelayer
from onelayer.drawing.played import script_of
from onelayer.profiling.loop_traces import FOLDER
from onelayer.profiling.traces_view import TracesView
from onelayer.recordings import read_recording
from tests.onelayer.drawing.shown import (
    Script,
    expect_html_without_anywidget,
    expect_one_piece,
    shown,
)


@pytest.fixture(scope="module")
def js():
    return Script(TracesView)


@pytest.fixture(scope="module")
def loop():
    return read_recording("loop_reads_the_loss", folder=FOLDER).content


@pytest.fixture(scope="module")
def view(loop):
    return onelayer.show_traces({"before": loop.before, "after": loop.after})


def lane(view, side, name):
    (found,) = [one for one in view.view["sides"][side]["lanes"] if one["name"] == name]
    return found["bars"]


def test_every_work_of_the_device_is_a_bar_on_its_stream(view, loop):
    for side, events in enumerate((loop.before, loop.after)):
        work = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
        streams = {e["tid"] for e in work}
        bars = [bar for stream in streams for bar in lane(view, side, f"stream {stream}")]
        assert len(bars) == len(work) > 10
        calls = lane(view, side, "calls of CUDA")
        assert {bar["link"] for bar in bars} <= {bar["link"] for bar in calls}


def test_waits_are_told_from_other_calls(view, loop):
    waits = [bar for bar in lane(view, 0, "calls of CUDA") if bar["kind"] == "wait"]
    assert all(bar["name"].endswith("Synchronize") for bar in waits)
    assert len(waits) == sum(e["name"].endswith("Synchronize") for e in loop.before)


def test_operators_do_not_overlap_in_their_lane(view):
    for name in ("operators 1", "operators 2", "regions"):
        bars = lane(view, 0, name)
        ends = [bar["start"] + bar["took"] for bar in bars]
        assert all(bar["start"] >= end - 0.02 for end, bar in zip(ends, bars[1:], strict=False)), (
            name
        )


def test_its_text_says_how_long_each_side_is(view):
    before, after = repr(view).splitlines()
    assert before.startswith("before: ")
    assert after.startswith("after: ")
    assert "1 wait," in after
    assert "kernels" in before


def test_a_trace_without_durations_is_refused():
    with pytest.raises(ValueError, match="empty"):
        onelayer.show_traces({"empty": [{"ph": "s", "cat": "ac2g", "ts": 1.0}]})
    with pytest.raises(ValueError, match="draws 1 to"):
        onelayer.show_traces({})


def test_both_sides_are_on_the_scale_of_the_longer_one(js, view):
    sides = view.view["sides"]
    assert js("longest", view.view) == max(side["span"] for side in sides)
    assert js("shown", view.view) == [0, js("longest", view.view)]
    half = js("shown", {**view.view, "zoom": 1, "from": 0.9})
    assert half == [js("longest", view.view) / 2, js("longest", view.view)]


def test_a_launch_and_its_kernel_find_each_other(js, view):
    side = view.view["sides"][0]
    names = [one["name"] for one in side["lanes"]]
    calls = names.index("calls of CUDA")
    launch = next(k for k, b in enumerate(side["lanes"][calls]["bars"]) if "Launch" in b["name"])
    ((stream, place),) = js("partners", side, [calls, launch])
    assert side["lanes"][stream]["bars"][place]["kind"] == "kernel"
    assert js("partners", side, [stream, place]) == [[calls, launch]]
    assert js("partners", side, [names.index("regions"), 0]) == []


def test_fine_bars_are_joined_and_none_outside_is_drawn(js):
    bars = [{"start": k, "took": 0.5, "name": "k", "kind": "kernel"} for k in range(10)]
    assert len(js("drawn", bars, [0, 10], 0.1)) == 10
    joined = js("drawn", bars, [0, 10], 1.0)
    assert len(joined) == 1
    assert joined[0]["stop"] == 9.5
    assert [bar["place"] for bar in js("drawn", bars, [2.6, 4.2], 0.1)] == [3, 4]


def test_it_is_one_piece(view):
    expect_one_piece(view.html(), text="before: ")
    assert "Page" in script_of(TracesView)


def test_it_shows_without_anywidget():
    expect_html_without_anywidget(
        "from onelayer.profiling.profiled import profiled",
        "view = onelayer.show_traces({'one': profiled(lambda n: torch.ones(2) + 1)})",
    )


@pytest.mark.browser
def test_a_bar_is_chosen_and_zoomed_into(browser, tmp_path, view):
    with shown(browser, tmp_path, view.html()) as page:
        kernel = page.locator(".ol-traces .bars .kernel").first
        kernel.dispatch_event("click")
        assert page.locator(".ol-traces .chosen").count() >= 2
        assert "us" in page.locator(".ol-traces .now").inner_text()
        before = page.locator(".ol-traces .window").inner_text()
        page.get_by_role("button", name="zoom in").press("Enter")
        assert page.locator(".ol-traces .window").inner_text() != before
