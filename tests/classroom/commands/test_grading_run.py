"""The three steps of a class, and when each begins."""

from __future__ import annotations

import threading

import pytest

from autograder.attacks.sample_class import ROOT, write
from autograder.classroom.commands import grading_run
from autograder.classroom.commands.grading_run import GradingRun, Order
from autograder.classroom.run import grading, pool
from autograder.sandbox import BUBBLEWRAP


@pytest.mark.parametrize("processors", [1, 2])
def test_the_pages_wait_for_the_verdicts_where_one_processor_does_both(
    tmp_path, monkeypatch, processors
):
    """Beside them they would be ready no sooner, and all verdicts later."""
    seen = []

    def graded(*given, **options):
        seen.extend(t.name for t in threading.enumerate() if t.name.startswith("publisher"))
        return iter(())

    monkeypatch.setattr(grading, "probe", lambda: BUBBLEWRAP)
    monkeypatch.setattr(grading_run, "processors", lambda: processors)
    monkeypatch.setattr(pool, "graded", graded)
    write(tmp_path / "in")
    made = GradingRun(Order(tmp_path / "in", tmp_path / "out", ROOT))
    made.grade(made.look_up(), done=lambda student: None)
    assert len(seen) == processors - 1
