"""Requests to the caching allocator, drawn where its rules have borders."""

from __future__ import annotations

import random

from autograder.checks.lab05_memory_and_time.allocator_model import MIB, Request

BORDERS = (MIB, MIB + 1, 10 * MIB, 10 * MIB - 512, 19 * MIB, 20 * MIB - 512, 12 * MIB, 11 * MIB)


def drawn_requests(rng: random.Random) -> list[Request]:
    """Up to 60 requests in which tensors come and go, on one stream or on three."""
    streams, held, found = rng.choice([1, 1, 3]), list[str](), list[Request]()
    for n in range(rng.randint(5, 60)):
        kind = rng.random()
        if held and 0.6 <= kind < 0.97:
            found.append(("free", held.pop(rng.randrange(len(held)))))
        elif kind >= 0.97:
            found.append(("empty_cache",))
        else:
            held.append(f"t{n}")
            found.append(("alloc", held[-1], _nbytes(rng), rng.randrange(streams)))
    return found


def _nbytes(rng: random.Random) -> int:
    small, any_small = rng.randint(1, 3000), rng.randint(1, MIB + 2000)
    shared, own = rng.randint(MIB, 12 * MIB), rng.randint(9 * MIB, 60 * MIB)
    return rng.choice(
        [small, any_small, shared, own, 512 * rng.randint(1, 10), rng.choice(BORDERS)]
    )
