"""Classes of any size: right answers to lab 01, each notebook with bytes of its own; and those that
keep a processor busy for nothing."""

from __future__ import annotations

import json
from pathlib import Path

from autograder.attacks.sample_class import NAME, filled, right_answers

SPINNING = """
import os
for _ in range(30):
    if os.fork() == 0:
        while True:
            pass
def contiguous_strides(size):
    while True:
        pass
"""
NEVER_ENDING = SPINNING + "while True: pass\n"


def write_class(folder: Path, n: int, *, salt: str = "") -> None:
    """`n` hand-ins of lab 01 into `folder`, one folder per student. No two are the same, so that
    nothing can be graded once for two; another `salt` gives other bytes to the same students."""
    right = right_answers()
    first = next(iter(right))
    for number in range(n):
        student = f"student-{number:04}"
        answers = right | {first: f"# {student} {salt}\n{right[first]}"}
        _write(folder / student, answers)


def write_spinning(folder: Path, n: int, *, everywhere: bool) -> None:
    """`n` hand-ins more, first in the class: a cell of each starts thirty processes that never end,
    and an answer that does not either. everywhere: in the cells of all answers, which never end."""
    right = right_answers()
    for number in range(n):
        cells = (
            dict.fromkeys(right, NEVER_ENDING) if everywhere else {"contiguous_strides": SPINNING}
        )
        said = {name: f"# {number}\n{source}" for name, source in cells.items()}
        _write(folder / f"a-spins-{number:04}", right | said)


def _write(place: Path, answers: dict[str, str]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    made = json.dumps(filled(answers), ensure_ascii=False)
    (place / f"{NAME}.ipynb").write_text(made, encoding="utf-8")
