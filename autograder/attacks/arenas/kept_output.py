"""What a cell prints, and how much of it the grader keeps in which form; undefended, all of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from autograder.attacks.attack import PASS, Outcome
from autograder.attacks.ground import Ground

MOST_S = 20.0


@dataclass(frozen=True)
class Printed:
    """harmful: whether the text that was kept is what the attack wants kept. honest: what the twin
    prints, which must be kept as it is."""

    harmful: Callable[[str], bool]
    honest: str

    def defended(self, submission: str, ground: Ground) -> Outcome:
        with ground.open([submission]) as student:
            return self._judged(student.cells[0].output)

    def undefended(self, submission: str, ground: Ground) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-I", "-c", submission],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=MOST_S,
            cwd=ground.new_folder(),
            env={},
        )
        return self._judged(done.stdout)

    def _judged(self, kept: str) -> Outcome:
        if self.harmful(kept):
            return Outcome("kept", True, f"{len(kept):,} characters")
        return Outcome(PASS if kept == self.honest else "cut", False, f"{len(kept):,} characters")
