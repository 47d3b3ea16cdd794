"""show_segments: its states against the allocator's own snapshot, and its page."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onelayer
from autograder.checks.lab05_memory_and_time.allocator_model import Allocator
from onelayer.drawing.played import script_of
from onelayer.memory.allocator_history import AllocatorHistory, Request, Segment
from onelayer.memory.segments_view import SegmentsView, show_segments
from onelayer.recordings import read_recording
from onelayer.recordings.mocked import FOLDER, MockedRun
from tests.onelayer.drawing.shown import (
    Script,
    expect_html_without_anywidget,
    expect_one_piece,
    shown,
)
from tests.onelayer.memory.drawn_requests import drawn_requests

RECORDED = sorted(file.stem for file in FOLDER.glob("05_*.json"))
APART = 2**40  # between the addresses of two segments


@pytest.fixture(scope="module")
def js() -> Script:
    return Script(SegmentsView)


def history_of(requests: list[tuple[Any, ...]]) -> AllocatorHistory:
    """As torch's trace would have it, of the model."""
    allocator, lines, where = Allocator(), list[Request](), dict[str, Request]()
    for n, (verb, *arguments) in enumerate(requests):
        before = {segment.number: segment for segment in allocator.segments}
        allocator.run([(verb, *arguments)])
        after = {segment.number: segment for segment in allocator.segments}
        for gone in before.keys() - after.keys():
            size = before[gone].bytes
            lines.append(Request("run", "segment_free", gone * APART, size, 0, n))
        for new in after.keys() - before.keys():
            lines.append(Request("run", "segment_alloc", new * APART, after[new].bytes, 0, n))
        if verb == "alloc":
            name, nbytes, stream = arguments
            address = next(a for held, a, _ in tensors(allocator) if held == name)
            where[name] = Request("run", "alloc", address, nbytes, stream, n)
            lines.append(where[name])
        elif verb == "free":
            own = where.pop(arguments[0])
            for action in ("free_requested", "free_completed"):
                lines.append(Request("run", action, own.address, own.bytes, own.stream, n))
    return AllocatorHistory(tuple(lines), (), ())


def tensors(allocator: Allocator) -> Iterator[tuple[str, int, int]]:
    for segment in allocator.segments:
        address = segment.number * APART
        for block in segment.blocks:
            if block.name is not None:
                yield block.name, address, block.asked
            address += block.bytes


@pytest.mark.parametrize("seed", range(10))
def test_after_the_last_step_it_shows_what_the_allocator_holds(js: Script, seed: int) -> None:
    requests = drawn_requests(random.Random(seed))
    view = show_segments(history_of(requests)).view
    allocator = Allocator().run(requests)
    found = js("segmentsAt", view, len(view["steps"]))
    held = {(a, n) for segment in found for a, n in segment["tensors"]}
    assert held == {(address, asked) for _, address, asked in tensors(allocator)}
    assert [s["bytes"] for s in found] == [s.bytes for s in allocator.segments]
    times = js("overTime", view)
    assert times[-1] == [sum(n for _, n in held), allocator.reserved]
    assert js("sums", found)["reserved"] == allocator.reserved
    assert max(reserved for _, reserved in times) == times[view["at"]][1]


@pytest.mark.parametrize("name", RECORDED)
def test_it_shows_every_recorded_history(js: Script, name: str) -> None:
    run = read_recording(name, folder=FOLDER).content
    assert isinstance(run, MockedRun)
    if run.history is None:
        return
    view = show_segments(run.history).view
    found = js("segmentsAt", view, len(view["steps"]))
    assert sum(s["bytes"] for s in found) == sum(s.bytes for s in run.history.after)


def test_the_longest_free_stretch(js: Script) -> None:
    segment = {"address": 0, "bytes": 100, "stream": 0, "tensors": [[10, 20], [60, 5]]}
    assert js("sums", [segment]) == {"used": 25, "reserved": 100, "largest": 35}
    assert js("sums", []) == {"used": 0, "reserved": 0, "largest": 0}


def test_what_was_held_before_is_there(js: Script) -> None:
    before = Segment(0, 2**21, 0, "small", ((1024, 1000, "active_allocated"), (512, 0, "inactive")))
    lines = (Request("run", "alloc", 4096, 8, 0, 0),)
    view = show_segments(AllocatorHistory(lines, (before,), ())).view
    (start,) = js("segmentsAt", view, 0)
    assert start["tensors"] == [[0, 1000]]


def test_too_much_to_tell_apart_is_refused() -> None:
    lines = tuple(Request("run", "alloc", n, 1, 0, n) for n in range(3001))
    with pytest.raises(ValueError, match="too many"):
        show_segments(AllocatorHistory(lines, (), ()))


def test_it_is_one_piece_of_a_page_and_says_what_it_shows() -> None:
    view = show_segments(history_of(drawn_requests(random.Random(1))))
    expect_one_piece(view.html(), text="step by step")
    assert "tensors" in repr(view)
    assert "export default" in script_of(SegmentsView)


def test_without_anywidget_it_is_a_page() -> None:
    expect_html_without_anywidget(
        "from onelayer.memory.allocator_history import AllocatorHistory, Request",
        "line = Request('run', 'alloc', 0, 8, 0, 0)",
        "view = onelayer.show_segments(AllocatorHistory((line,), (), ()))",
    )


def test_a_browser_plays_it(browser: Any, tmp_path: Path) -> None:
    view = onelayer.show_segments(history_of(drawn_requests(random.Random(2))), at=0)
    with shown(browser, tmp_path, view.html()) as page:
        assert page.locator(".segment").count() == 0
        page.get_by_text("next step").click()
        assert "cudaMalloc gives" in page.locator(".says").inner_text()
        page.get_by_text("next step").click()
        assert page.locator(".tensor.new").count() == 1
        page.locator("input").fill(str(len(view.view["steps"])))
        assert page.get_by_text("next step").is_disabled()
        page.get_by_text("most reserved").click()
        assert page.locator(".segment").count() > 0
