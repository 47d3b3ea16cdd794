"""Runs attacks: defended, their twin, and with the defence off."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from .attack import PASS, Outcome
from .collected import Named
from .ground import Ground
from .honest import HonestProgram
from .honest_inside import INSIDE
from .honest_outside import OUTSIDE

HONEST = OUTSIDE + INSIDE


@dataclass(frozen=True)
class Tried:
    """One attack, run. Where it was not, `not_run` says why and the outcomes are None."""

    named: Named
    defended: Outcome | None = None
    twin: Outcome | None = None
    undefended: Outcome | None = None
    not_run: str = ""
    wall_s: float = 0.0

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong: the attack succeeded, its verdict is another, its twin was punished, or it
        proves nothing because it does not work without the defence either."""
        if self.defended is None or self.twin is None or self.undefended is None:
            return ()
        attack, found = self.named.attack, []
        if self.defended.succeeded:
            found.append(f"succeeded: {self.defended.detail}")
        elif self.defended.verdict not in attack.expected:
            expected = " or ".join(attack.expected)
            found.append(f"{self.defended.verdict}, not {expected}: {self.defended.detail}")
        if self.twin.verdict != PASS:
            found.append(f"its honest twin: {self.twin.verdict}: {self.twin.detail}")
        if not self.undefended.succeeded:
            found.append(f"not live with its defence off: {self.undefended.detail}")
        return tuple(found)


@dataclass(frozen=True)
class Judged:
    """An honest program, asked."""

    program: HonestProgram
    outcome: Outcome

    @property
    def faults(self) -> tuple[str, ...]:
        if self.outcome.verdict == PASS:
            return ()
        return (f"punished: {self.outcome.verdict}: {self.outcome.detail}",)


def try_attack(named: Named, ground: Ground) -> Tried:
    """Runs one attack three times. Raises GraderFault where the grader itself fails."""
    attack = named.attack
    if reason := attack.needs():
        return Tried(named, not_run=reason)
    started = time.monotonic()
    defended = attack.arena.defended(attack.hostile, ground)
    twin = attack.arena.defended(attack.twin, ground)  # after it: nothing of it may linger
    undefended = attack.arena.undefended(attack.hostile, ground)
    return Tried(named, defended, twin, undefended, wall_s=time.monotonic() - started)


def judge_honest(ground: Ground) -> Iterator[Judged]:
    """Every honest program, asked."""
    for program in HONEST:
        yield Judged(program, program.asked(ground))
