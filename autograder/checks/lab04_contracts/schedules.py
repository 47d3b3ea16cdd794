"""Checkpoint schedules of a chain, and what each of them costs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from autograder.judge import Draw

Ints = Sequence[int]
Keep = Sequence[int]


def drawn_chain(draw: Draw, layers: int) -> tuple[list[int], list[int]]:
    """nbytes and flops of a chain of unequal layers."""
    nbytes = [256 * draw.integer(1, 12) for _ in range(layers)]
    return nbytes, [1000 * draw.integer(1, 12) for _ in range(layers)]


def segments(layers: int, keep: Keep) -> list[tuple[int, int]]:
    """From each kept activation to the next one."""
    return list(zip(keep, [*keep[1:], layers], strict=True))


def peak(nbytes: Ints, keep: Keep) -> int:
    """While a segment goes back, all of it is held, and what is kept below; what lies above is
    gone. The end of the forward is the last segment's moment."""
    return sum(nbytes[k] for k in held_at_peak(nbytes, keep))


def held_at_peak(nbytes: Ints, keep: Keep) -> list[int]:
    """The activations that are held at the peak, at the first moment of several."""
    moments = [
        [*(k for k in keep if k < start), *range(start, end)]
        for start, end in segments(len(nbytes), keep)
    ]
    return max(reversed(moments), key=lambda held: sum(nbytes[k] for k in held))


def again(flops: Ints, keep: Keep) -> int:
    """Each dropped activation is written once more, by the layer before it."""
    return sum(flops[i - 1] for i in range(len(flops)) if i not in keep)


def peak_never_freed(nbytes: Ints, keep: Keep) -> int:
    """The peak, were a kept activation never let go."""
    inside = [sum(nbytes[start + 1 : end]) for start, end in segments(len(nbytes), keep)]
    return sum(nbytes[k] for k in keep) + max(inside)


def every_schedule(layers: int) -> list[Keep]:
    """All lists of rising indices that begin with 0."""
    rest = range(1, layers)
    return [[0, *kept] for n in range(layers) for kept in combinations(rest, n)]
