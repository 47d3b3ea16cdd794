"""The way of an answer stays short: what a reader of the code has to read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.way_of_an_answer import ROOT, Way, walked, way_of_a_graded_answer

FUNCTIONS, FILES = 80, 16
# Its page, class list and exchange are some 40 of them. 259 run on a quiet machine; beside other
# tests one more has been seen.
GRADED_FUNCTIONS, GRADED_FILES = 260, 45
MEASURED = """
from bench.way_of_an_answer import way_of_a_check
print(*sorted(way_of_a_check().functions), sep="\\n")
"""


@pytest.mark.slow
def test_one_check_in_a_notebook_passes_few_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own: what other tests have imported and cached is none of it."""
    monkeypatch.setenv("ONELAYER_HOME", str(tmp_path))
    command = [sys.executable, "-c", MEASURED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    way = Way(set(done.stdout.splitlines()))
    assert "autograder/judge/ask.py" in way.files
    assert "autograder/checks/lab01_strides/is_contiguous.py" in way.files
    assert len(way.functions) <= FUNCTIONS, done.stdout
    assert len(way.files) <= FILES, sorted(way.files)


def test_what_runs_is_seen_and_what_does_not_run_is_not() -> None:
    from autograder.judge import describe, floor_s, pack

    with walked() as way:
        describe(3)
        pack([[3]])  # two comprehensions run in it
    floor_s("T4", moved_bytes=1.0)
    names = {function.split()[-1] for function in way.functions}
    assert "describe" in names
    assert "floor_s" not in names
    assert not [name for name in names if name.endswith("comp>")]
    assert way.files == {"autograder/judge/student.py", "autograder/judge/values.py"}


@pytest.mark.jail
@pytest.mark.whole_class
def test_one_more_hand_in_passes_few_functions() -> None:
    way = way_of_a_graded_answer()
    assert len(way.functions) <= GRADED_FUNCTIONS, sorted(way.functions)
    assert len(way.files) <= GRADED_FILES, sorted(way.files)
