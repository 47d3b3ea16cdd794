"""The jail's process, started before anybody on the grader's side has imported torch: the zygote
imports its own meanwhile, which takes it longer than anything else.

Nothing here imports torch, nor anything that does.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..engines import bubblewrap
from ..engines.choice import ENGINES, Jailed
from ..engines.gpu import Gpu
from ..engines.isolation import JailSpec
from ..engines.limits import Limits
from .tiers import Tier, obstacle, probe

PROGRAM = (
    "import gc; gc.disable()  # what it imports is no garbage; it goes on when it is ready\n"
    "from autograder.sandbox.inside.zygote import main; main(int(sys.argv[1]))"
)


@dataclass(frozen=True)
class BegunZygote:
    """A zygote on its way. control: the socket that it will obey. paths: what it may read."""

    jailed: Jailed
    control: socket.socket
    paths: Sequence[str]

    def end(self) -> None:
        """Ends the jail and everything in it."""
        self.control.close()  # the zygote leaves when it hears nothing more
        self.jailed.end()

    def let_go(self) -> None:
        """For the process that started it and has given it to a fork of itself: the zygote is
        the fork's from now on, and leaves when that does."""
        self.control.close()
        self.jailed.let_go()


def begin(
    engine: str,
    limits: Limits,
    *,
    readable: Sequence[str | Path] = (),
    without: frozenset[str] = frozenset(),
    gpu: Gpu | None = None,
) -> BegunZygote:
    """Starts one. Raises OSError. engine: see `ENGINES`. gpu: what its submissions are lent."""
    paths = bubblewrap.visible(readable)
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with theirs:
            spec = JailSpec(
                bubblewrap.python(PROGRAM),
                paths=paths,
                tmp_bytes=limits.tmp_bytes,
                handed=theirs.fileno(),
                without=without,
                gpu=gpu,
            )
            return BegunZygote(ENGINES[engine](spec), control, paths)
    except OSError:
        control.close()
        raise


def begin_usual() -> tuple[Tier, BegunZygote | None]:
    """The best tier of this machine, and the zygote of a jail with nothing special about it; None
    where there can be none, which who wants to open one is told."""
    tier = probe()
    if not tier.safe or obstacle(tier):
        return tier, None
    try:
        return tier, begin(tier.name, Limits())
    except OSError:
        return tier, None
