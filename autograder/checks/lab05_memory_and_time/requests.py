"""Sequences of requests to the caching allocator, and what they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograder.judge import Draw

from .allocator_model import MIB, Allocator, Request

Requests = list[Request]
Plain = list[tuple[int, str, list[tuple[int, str | None]]]]


def drawn_bytes(draw: Draw) -> int:
    """Bytes of a request: of each kind that the allocator tells apart."""
    low, high = draw.choice(
        [(1, 4000), (4000, MIB), (MIB + 1, 4 * MIB), (4 * MIB, 10 * MIB), (10 * MIB, 30 * MIB)]
    )
    return draw.integer(low, high)


def drawn_requests(draw: Draw, count: int, *, streams: int = 1) -> Requests:
    """Requests in which tensors come and go; no two are of one size."""
    requests: Requests = []
    held: list[str] = []
    for n in range(count):
        if held and draw.integer(0, 9) < 4:
            gone = draw.choice(held)
            held.remove(gone)
            requests.append(("free", gone))
        elif draw.integer(0, 19) == 0:
            requests.append(("empty_cache",))
        else:
            name = f"t{n}"
            held.append(name)
            requests.append(("alloc", name, drawn_bytes(draw), draw.integer(0, streams - 1)))
    return requests


def after(requests: Sequence[Request], kind: type[Allocator] = Allocator) -> Plain:
    """The segments after all requests, by an allocator of this kind."""
    return [segment.plain() for segment in kind().run(_as_tuples(requests)).segments]


def _as_tuples(requests: Sequence[Any]) -> list[Request]:
    return [tuple(request) for request in requests]
