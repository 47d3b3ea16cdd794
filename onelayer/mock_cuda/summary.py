"""What a person wants to know of a script before renting a GPU for it, in a page of text."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onelayer.drawing.words import counted, say
from onelayer.mock_cuda.calls import TO_HOST, Call, Line
from onelayer.mock_cuda.devices import DeviceModel
from onelayer.mock_cuda.launches import Group, by_kernel, host_copies, host_waits

GIB, MIB = 2**30, 2**20
_MOST_LINES = 12


@dataclass(frozen=True)
class Seen:
    """What there is to tell of a script. stats: the allocator's counters of each device of each
    process. out_of_memory: torch's own words, if it ran out; ended: how it ended."""

    model: DeviceModel
    values: bool
    calls: Sequence[Call]
    stats: Sequence[dict[str, int]]
    out_of_memory: str
    ended: str


def summary(seen: Seen) -> str:
    """The page."""
    return "\n".join(
        [*_head(seen), *_memory(seen), *_work(seen.calls), *_host(seen.calls, values=seen.values)]
    )


def _head(seen: Seen) -> Iterator[str]:
    yield say(
        "mocked {device}, {size}: launches, memory and order",
        device=seen.model.name,
        size=_size(seen.model.memory_bytes),
    )
    yield say("are torch's own; times are a model; no speed of a real GPU can be read from them")
    yield _row("ended", seen.ended)


def _row(name: str, told: str) -> str:
    return f"{say(name) if name else '':<9} {told}"


def _memory(seen: Seen) -> Iterator[str]:
    used = [s for s in seen.stats if s.get("allocated_bytes.all.peak")]
    if seen.out_of_memory:
        yield _row("memory", say("does not fit: {words}", words=seen.out_of_memory))
    elif used:
        yield _row("memory", say("fits in {size}", size=_size(seen.model.memory_bytes)))
    for counters in used:
        yield f"          {peak_words(counters)}"


def peak_words(counters: dict[str, int]) -> str:
    """A device's peaks in words: allocated, reserved, and what of that no tensor could use."""
    allocated = counters["allocated_bytes.all.peak"]
    reserved = counters["reserved_bytes.all.peak"]
    words = say(
        "peak {allocated} allocated, {reserved} reserved, {lost:.0%} unused",
        allocated=_size(allocated),
        reserved=_size(reserved),
        lost=1 - allocated / reserved,
    )
    return words + counted(
        counters.get("num_alloc_retries", 0),
        "; {n} retry after a full device",
        "; {n} retries after a full device",
    )


def _work(calls: Sequence[Call]) -> Iterator[str]:
    kernels = [call for call in calls if call.kind == "kernel"]
    launched = counted(
        len(kernels),
        "{n:,} launch, {ms:.1f} ms of the device's modelled time",
        "{n:,} launches, {ms:.1f} ms of the device's modelled time",
        ms=sum(call.took_us for call in kernels) / 1e3,
    )
    yield _row("kernels", launched)
    for group in by_kernel(calls)[:5]:
        yield f"{len(group.calls):>9,} x {group.name}"
    for name in sorted({call.api for call in calls if call.kind == "not mocked"}):
        yield say("not mocked: {name}; please open an issue for onelayer with this name", name=name)


def _host(calls: Sequence[Call], *, values: bool) -> Iterator[str]:
    waits, copies = host_waits(calls), host_copies(calls)
    stood = counted(
        _count(waits),
        "the host stood {n:,} time until the device was done",
        "the host stood {n:,} times until the device was done",
    )
    yield _row("waits", stood)
    yield from _places(waits)
    yield _row("copies", say("{n:,} between host and device, or on it", n=_count(copies)))
    yield from _places(copies)
    read = sum(call.kernel == TO_HOST for call in calls)
    if read and not values:
        nothing = counted(
            read,
            "{n:,} copy to the host read numbers that nothing computed: NaN",
            "{n:,} copies to the host read numbers that nothing computed: NaN",
        )
        yield _row("numbers", nothing)


def _places(groups: Sequence[Group]) -> Iterator[str]:
    for group in groups[:_MOST_LINES]:
        where = f"{group.line}  {source(group.line)}" if group.line else say("no line of Python")
        size = say(", {n:,} bytes", n=group.bytes) if group.bytes else ""
        yield f"{len(group.calls):>9,} x {where}  ({group.name}{size})"
    if len(groups) > _MOST_LINES:
        more = len(groups) - _MOST_LINES
        yield _row("", counted(more, "and {n} other line", "and {n} other lines"))


def source(line: Line) -> str:
    """The text of a line of Python, cut to what a row has room for."""
    text = linecache.getline(line.file, line.number).strip()
    return text if len(text) <= 60 else text[:59] + "…"


def _count(groups: Sequence[Group]) -> int:
    return sum(len(group.calls) for group in groups)


def _size(nbytes: int) -> str:
    return f"{nbytes / GIB:.2f} GiB" if nbytes >= GIB else f"{nbytes / MIB:.1f} MiB"
