"""Calls gathered by what they have in common: the kernels of a run, and where its host waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from onelayer.drawing.words import counted, say
from onelayer.mock_cuda.calls import Call, Line, short_kernel

WAITS = {"wait", "copy", "memory"}
LONGEST_NAME = 44


@dataclass(frozen=True)
class Group:
    """Calls that are alike. name: what they are; line: the Python that caused the first of them."""

    name: str
    line: Line | None
    calls: tuple[Call, ...]

    @property
    def took_us(self) -> float:
        return sum(call.took_us for call in self.calls)

    @property
    def waited_us(self) -> float:
        return sum(call.waited_us for call in self.calls)

    @property
    def bytes(self) -> int:
        return sum(call.bytes for call in self.calls)


def by_kernel(calls: Iterable[Call]) -> list[Group]:
    """The kernels, the longest in all first."""
    kernels = [call for call in calls if call.kind == "kernel"]
    return sorted(_grouped(kernels, lambda c: c.kernel), key=lambda g: -g.took_us)


def host_waits(calls: Sequence[Call]) -> list[Group]:
    """Where the host stood still for the device, by line of Python: synchronisations, copies that
    come with one, and frees. The longest in all first."""
    waiting = [call for call in calls if call.kind == "wait" or call.api == "cudaFree"]
    return sorted(_by_line(waiting), key=lambda g: -len(g.calls))


def host_copies(calls: Sequence[Call]) -> list[Group]:
    """Copies between host and device by line of Python, the most bytes first."""
    copies = [call for call in calls if call.kind == "copy"]
    return sorted(_by_line(copies), key=lambda g: -g.bytes)


def _by_line(calls: Iterable[Call]) -> list[Group]:
    return _grouped(calls, lambda c: (c.api, c.line))


def _grouped(calls: Iterable[Call], key: Callable[[Call], object]) -> list[Group]:
    found: dict[object, list[Call]] = {}
    for call in calls:
        found.setdefault(key(call), []).append(call)
    return [Group(_name(alike[0]), alike[0].line, tuple(alike)) for alike in found.values()]


def _name(call: Call) -> str:
    name = short_kernel(call.kernel) if call.kind == "kernel" else call.api
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def launch_table(calls: Iterable[Call], *, most: int = 20) -> str:
    """The kernels as a table, with what their times are worth."""
    groups = by_kernel(calls)
    head = (
        f"{say('kernel'):<{LONGEST_NAME}} {say('times'):>6} {say('grid'):>14} "
        f"{say('block'):>12} {say('us, modelled'):>13}"
    )
    lines = [head, *(_row(group) for group in groups[:most])]
    if (more := len(groups) - most) > 0:
        lines.append(counted(more, "and {n} other kernel", "and {n} other kernels"))
    return "\n".join(lines)


def _row(group: Group) -> str:
    first = group.calls[0]
    grid, block = (",".join(map(str, dim)) for dim in (first.grid, first.block))
    times = f"{len(group.calls):>6} {grid:>14} {block:>12} {group.took_us:>13.1f}"
    return f"{group.name:<{LONGEST_NAME}} {times}  {group.line or ''}".rstrip()
