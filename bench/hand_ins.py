"""Classes of any size: right answers to lab 01, each notebook with bytes of its own."""

from __future__ import annotations

import json
from pathlib import Path

from autograder.attacks.sample_class import NAME, filled, right_answers


def write_class(folder: Path, n: int, *, salt: str = "") -> None:
    """`n` hand-ins of lab 01 into `folder`, one folder per student. No two are the same, so that
    nothing can be graded once for two; another `salt` gives other bytes to the same students."""
    right = right_answers()
    first = next(iter(right))
    for number in range(n):
        student = f"student-{number:04}"
        answers = right | {first: f"# {student} {salt}\n{right[first]}"}
        place = folder / student
        place.mkdir(parents=True, exist_ok=True)
        made = json.dumps(filled(answers), ensure_ascii=False)
        (place / f"{NAME}.ipynb").write_text(made, encoding="utf-8")
