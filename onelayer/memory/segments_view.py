"""`show_segments`: the segments that the caching allocator holds, step by step.

What is held after a step is worked out in `segments_view.js`, so that the same view runs in a
notebook, where it is an anywidget, and on a page without a kernel.
"""

from collections.abc import Iterable, Iterator

from onelayer.drawing.played import Played
from onelayer.drawing.words import say

from .allocator_history import AllocatorHistory, Segment

_MOST_STEPS, _MOST_SEGMENTS = 3000, 60
# torch's words -> those of the view. A block that other streams still use is in use until then.
_WORDS = {
    "alloc": "alloc",
    "free_completed": "free",
    "segment_alloc": "grow",
    "segment_free": "shrink",
    "segment_map": "map",
    "segment_unmap": "unmap",
}


class SegmentsView(Played):
    """What `show_segments` shows; `view` follows how far the reader has gone."""

    name = "segments"

    def __repr__(self) -> str:
        held, steps = self.view["before"], self.view["steps"]
        kinds = [kind for kind, *_ in steps]
        segments = len(held) + kinds.count("grow") + kinds.count("map")
        tensors, frees = kinds.count("alloc"), kinds.count("shrink")
        return say(
            "{segments} segments, of which {frees} go back, and {tensors} tensors, step by step",
            segments=segments,
            frees=frees,
            tensors=tensors,
        )


def show_segments(history: AllocatorHistory, *, at: int | None = None) -> SegmentsView:
    """The segments of a history to step through: what is in use, what is free, what is reserved.

        show_segments(onelayer.mocked("05_first_tensor", first_tensor).history)

    `at` is the step at which it opens, the one with most bytes reserved if it is not given. A
    tensor is drawn with the bytes that were asked for; what its block was rounded up by is free.

    Raises ValueError for a history of over 3,000 steps or 60 segments, which nobody can tell apart.
    """
    steps = list(_steps(history))
    before = [_segment(segment) for segment in history.before]
    segments = len(before) + sum(kind == "grow" for kind, *_ in steps)
    if len(steps) > _MOST_STEPS or segments > _MOST_SEGMENTS:
        raise ValueError(
            say(
                "{count:,} steps and {segments} segments are too many to draw",
                count=len(steps),
                segments=segments,
            )
        )
    start = _fullest(before, steps) if at is None else at
    return SegmentsView({"before": before, "steps": steps, "at": start}).show()


def _steps(history: AllocatorHistory) -> Iterator[list[object]]:
    """[kind, address, bytes, stream, phase] of each line that changes what is held."""
    for line in history.requests:
        if line.action in _WORDS:
            kind = _WORDS[line.action]
            yield [kind, line.address, line.bytes, line.stream, line.phase]


def _segment(segment: Segment) -> dict[str, object]:
    """With the address and the bytes of each tensor in it."""
    tensors, address = [], segment.address
    for size, asked, state in segment.blocks:
        if state != "inactive":
            tensors.append([address, asked or size])
        address += size
    return {
        "address": segment.address,
        "bytes": segment.bytes,
        "stream": segment.stream,
        "tensors": tensors,
    }


def _fullest(before: Iterable[dict[str, object]], steps: Iterable[list[object]]) -> int:
    """The first step after which most bytes are reserved."""
    reserved = most = sum(int(str(segment["bytes"])) for segment in before)
    fullest = 0
    for number, (kind, _, nbytes, *_) in enumerate(steps, start=1):
        reserved += int(str(nbytes)) * ((kind in ("grow", "map")) - (kind in ("shrink", "unmap")))
        if reserved > most:
            most, fullest = reserved, number
    return fullest
