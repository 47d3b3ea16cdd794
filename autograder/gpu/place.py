"""Which sandbox of this machine has a GPU in it: found by launching a kernel there."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from autograder.classroom.run.health import expect_healthy
from autograder.judge import GraderFault
from autograder.sandbox import Gpu, Jail, Limits, Tier, probe
from autograder.sandbox.engines.choice import by_container
from autograder.sandbox.host.tiers import BUBBLEWRAP, container, obstacle, plain
from autograder.sandbox.host.trial import failure


@dataclass(frozen=True)
class Place:
    """The first tier in which a kernel ran. refused: why not the better ones, a sentence each."""

    tier: Tier
    refused: tuple[str, ...] = ()


class NoLaunch(Exception):
    """No tier of this machine launches a kernel; the message says what each of them said."""


def place_with(gpu: Gpu) -> Place:
    """Raises NoLaunch."""
    refused: list[str] = []
    for tier in _tiers():
        try:
            with Jail(tier=tier, gpu=gpu) as jail:
                expect_healthy(jail, f"in the tier {tier.name!r}")
        except GraderFault as reason:
            refused.append(" ".join(str(reason).split()))
        else:
            return Place(tier, tuple(refused))
    raise NoLaunch(". ".join(refused))


def _tiers() -> Iterator[Tier]:
    """From the best on. Our own answers may run without walls, where nothing else has the GPU."""
    best = probe()
    yield best
    if best == BUBBLEWRAP and shutil.which("podman"):
        instead = container("it runs, but no kernel does in it")
        if not obstacle(instead) and not failure(Limits(), start=by_container):
            yield instead
    if best.safe:
        yield plain("no kernel runs in a tier with walls here")
