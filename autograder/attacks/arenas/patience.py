"""A submission that does not end; undefended, it is asked to end, politely."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass

from autograder.attacks.attack import Outcome
from autograder.attacks.ground import IMPATIENT, Ground, Walls
from autograder.judge import Question

from .asked import asked

POLITE_S = 0.5
BEGUN = "import threading\nthreading.Timer(0.2, print, ('begun',), {'flush': True}).start()"


@dataclass(frozen=True)
class Patience:
    """question: as in grading, where whoever does not end is killed. by: the signal with which a
    polite grader ends a process, once. call: what it runs of the submission."""

    question: Question
    by: signal.Signals
    call: str

    def defended(self, submission: str, ground: Ground) -> Outcome:
        walls = Walls(limits=IMPATIENT)
        return asked(self.question, submission, ground, seed=ground.seed(), walls=walls)

    def undefended(self, submission: str, ground: Ground) -> Outcome:
        program = f"{submission}\n{BEGUN}\n{self.call}\n"
        with subprocess.Popen(
            [sys.executable, "-I", "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ground.new_folder(),
            env={},
        ) as process:
            try:
                return self._asked_to_end(process)
            finally:
                process.kill()

    def _asked_to_end(self, process: subprocess.Popen[bytes]) -> Outcome:
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        process.send_signal(self.by)
        try:
            status = process.wait(POLITE_S)
        except subprocess.TimeoutExpired:
            return Outcome("goes on", True, f"{self.by.name} did not end it")
        return Outcome("ended", False, f"with {status}")
