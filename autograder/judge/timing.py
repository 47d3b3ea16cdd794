"""Time, asked as a ratio: a function against a peer of ours in the same run, in turns, by a clock
that the student's process cannot touch.

The clock stands on our side and stops when the bytes of the answer are there. Inputs are new in
each turn and each answer is compared with the peer's, so nothing can be computed beforehand or
left out. What no device can do is `flagged`, and goes to a person.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, islice
from statistics import median
from typing import Any

from .compare import Wrong, expect_close
from .flagged import Flagged
from .student import Student
from .verdict import Cause
from .words import text

TURNS = 5
Clock = Callable[[], float]


class TooFast(Flagged):
    """An answer came sooner than the device can have computed it."""

    cause = Cause.TOO_FAST

    def __init__(self, seconds: float, floor_s: float) -> None:
        super().__init__(text("too_fast", took_us=seconds * 1e6, floor_us=floor_s * 1e6))


def expect_no_slower(
    student: Student,
    function: str,
    peer: str,
    inputs: Callable[[], tuple[Any, ...]],
    *,
    at_most: float,
    floor_s: float = 0.0,
    clock: Clock = time.perf_counter,
) -> float:
    """How many times the peer's time `function` takes (medians); not more than `at_most`.

    peer: "module:function" of `onelayer`, which runs in a process and on a device like the
    student's. inputs: makes new ones for each turn. floor_s: as `roofline.floor_s` gives it.
    Raises Wrong for what is slower or has another value, TooFast for what is impossible.
    """
    own: list[float] = []
    peers: list[float] = []
    made = (Turn(inputs()) for _ in count())
    for seconds, peer_s in islice(turns(student, function, peer, made, clock=clock), TURNS + 1):
        if seconds < floor_s:
            raise TooFast(seconds, floor_s)
        own.append(seconds)
        peers.append(peer_s)
    ratio = median(own[1:]) / median(peers[1:])  # the first one warms up
    if ratio > at_most:
        expected = text("at_most_times", times=at_most, peer=peer.partition(":")[2])
        raise Wrong(expected=expected, got=text("times", times=ratio), why=text("too_slow"))
    return ratio


@dataclass(frozen=True)
class Turn:
    """Inputs of one turn, new ones each time. peer_options: what the peer is told beside them, to
    do the same; tolerance: as `expect_close` takes it."""

    inputs: tuple[Any, ...]
    peer_options: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float | None = None


def turns(
    student: Student,
    function: str,
    peer: str,
    made: Iterable[Turn],
    *,
    clock: Clock = time.perf_counter,
) -> Iterator[tuple[float, float]]:
    """Seconds of `function` and of the peer, one after the other, for each turn that was made.

    Raises Wrong where the two answers differ.
    """
    module, _, name = peer.partition(":")
    with student.beside(f"from {module} import {name}") as other:
        for turn in made:
            got, seconds = _timed(student, function, turn.inputs, {}, clock)
            want, peer_s = _timed(other, name, turn.inputs, turn.peer_options, clock)
            expect_close(got, want, tolerance=turn.tolerance)
            yield seconds, peer_s


def _timed(
    student: Student,
    function: str,
    given: tuple[Any, ...],
    options: Mapping[str, Any],
    clock: Clock,
) -> tuple[Any, float]:
    started = clock()
    value = student.call(function, *given, **options)
    return value, clock() - started
