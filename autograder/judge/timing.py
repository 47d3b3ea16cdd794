"""Time, asked as a ratio: a function against a peer of ours in the same run, in turns, by a clock
that the student's process cannot touch.

The clock stands on our side and stops when the bytes of the answer are there. Inputs are new in
each turn and each answer is compared with the peer's, so nothing can be computed beforehand or
left out. What no device can do is `flagged`, and goes to a person.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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
    module, _, name = peer.partition(":")
    own: list[float] = []
    peers: list[float] = []
    with student.beside(f"from {module} import {name}") as other:
        for turn in range(TURNS + 1):
            given = inputs()
            got, seconds = _timed(student, function, given, clock)
            want, peer_s = _timed(other, name, given, clock)
            expect_close(got, want)
            if seconds < floor_s:
                raise TooFast(seconds, floor_s)
            if turn:  # the first one warms up
                own.append(seconds)
                peers.append(peer_s)
    ratio = median(own) / median(peers)
    if ratio > at_most:
        expected = text("at_most_times", times=at_most, peer=name)
        raise Wrong(expected=expected, got=text("times", times=ratio), why=text("too_slow"))
    return ratio


def _timed(
    student: Student, function: str, given: tuple[Any, ...], clock: Clock
) -> tuple[Any, float]:
    started = clock()
    value = student.call(function, *given)
    return value, clock() - started
