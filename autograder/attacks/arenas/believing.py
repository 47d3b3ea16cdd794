"""A script runs the answer and its tests in one process, and whatever it leaves behind is believed:
an exit status, the last line printed, a file of results.

The script runs as an ordinary process in a temporary folder, for a few seconds at most.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autograder.attacks.attack import PASS, Outcome
from autograder.attacks.ground import Ground
from autograder.judge import Question

from .asked import asked

SCRIPT_S = 10.0
Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Believing:
    """question: as in grading. script: runs `answer.py` of its folder, and tests it. believed:
    whether what it left behind says that the answer is right."""

    question: Question
    script: str
    believed: Callable[[Path, Done], bool]

    def defended(self, submission: str, ground: Ground) -> Outcome:
        return asked(self.question, submission, ground, seed=ground.seed())

    def undefended(self, submission: str, ground: Ground) -> Outcome:
        folder = ground.new_folder()
        (folder / "answer.py").write_text(submission)
        (folder / "script.py").write_text(self.script)
        try:
            done = run_script(folder)
        except subprocess.TimeoutExpired:
            return Outcome("timeout", False, "the script did not end")
        succeeded = self.believed(folder, done)
        return Outcome(PASS if succeeded else "fail", succeeded, done.stderr[-200:])


def run_script(folder: Path) -> Done:
    """Runs `script.py` of `folder` there. Raises TimeoutExpired."""
    return subprocess.run(
        [sys.executable, "-I", "-B", "script.py"],
        cwd=folder,
        env={},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SCRIPT_S,
    )
