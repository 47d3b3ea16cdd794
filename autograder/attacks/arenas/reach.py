"""A submission's function `attempt` tries to reach something; undefended, a wall is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from autograder.attacks.attack import PASS, Outcome
from autograder.attacks.ground import ALL, Ground, Walls
from autograder.judge import NoAnswer

HONEST = "honest"
"""What the function of an honest twin returns."""
SETUP = "import ctypes, os, signal, socket, subprocess, sys, threading, time\nimport torch\n"


@dataclass(frozen=True)
class Bait:
    """What there is to be reached. args: what `attempt` is told about it. taken: whether it was
    reached, judged on our side from what `attempt` returned."""

    args: tuple[Any, ...]
    taken: Callable[[Any], bool]


def says_so(answer: Any) -> bool:
    """Reached when the function returns True: for things that leave no trace outside."""
    return answer is True


@contextmanager
def nothing(ground: Ground, walls: Walls) -> Iterator[Bait]:
    """No bait: the function tells whether it was let through."""
    yield Bait((), says_so)


Baited = Callable[[Ground, Walls], AbstractContextManager[Bait]]


@dataclass(frozen=True)
class Reach:
    """bait: what is put out. off: the walls that are left where the defence is missing; on: the
    walls that stand (all of them, but where one is shown to be enough by itself)."""

    off: Walls
    bait: Baited = nothing
    on: Walls = ALL

    def defended(self, submission: str, ground: Ground) -> Outcome:
        return self._tried(submission, ground, self.on)

    def undefended(self, submission: str, ground: Ground) -> Outcome:
        return self._tried(submission, ground, self.off)

    def _tried(self, source: str, ground: Ground, walls: Walls) -> Outcome:
        with (
            self.bait(ground, walls) as bait,
            ground.open([SETUP + source], walls) as student,
        ):
            student.begin(may_write=False)
            try:
                answer = student.call("attempt", *bait.args)
            except NoAnswer as none:
                return Outcome(none.raised.kind, bait.taken(None), str(none.raised))
            taken = answer != HONEST and bait.taken(answer)
        return Outcome(_word(answer, taken), taken, repr(answer)[:200])


def _word(answer: Any, taken: bool) -> str:
    if taken:
        return "reached"
    return PASS if answer == HONEST else "refused"
