"""The sample class, graded once."""

from __future__ import annotations

import csv
import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from autograder.attacks.sample_class import write as write_class
from tests.classroom.commands.sample_grading import (
    LIMIT_S,
    SEED,
    left_over,
    run,
)

PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(scope="module", autouse=True)
def adopts_orphans():
    """Whatever a grader leaves behind becomes a child of this process, where it can be counted."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0)


@pytest.fixture(scope="session")
def graded(tmp_path_factory, worker_id):
    """Where the whole sample class was graded, once for all workers: nobody writes there."""
    session = tmp_path_factory.getbasetemp()
    place = (session if worker_id == "master" else session.parent) / "sample_class"
    with FileLock(f"{place}.lock", timeout=LIMIT_S):
        if not (place / "is_graded").exists():
            grade_into(place)
            (place / "is_graded").touch()
    return place


def grade_into(place):
    """The sample class, handed in and graded below `place`, anew where that was stopped."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    write_class(place / "hand_in")
    (place / "out").mkdir()
    (place / "out" / "seed").write_bytes(SEED)
    before = left_over(0.0)
    code, said = run(place / "hand_in", place / "out", scratch=place / "scratch")
    print(said)
    assert code == 0, said
    assert [process for process in left_over() if process not in before] == []


@pytest.fixture(scope="module")
def gradebook(graded, tmp_path_factory):
    """What nbgrader's own export says, by student."""
    exported = str(tmp_path_factory.mktemp("export") / "grades.csv")
    command = [str(Path(sys.executable).parent / "nbgrader"), "export", "--to", exported]
    subprocess.run(command, cwd=graded / "out", check=True, capture_output=True, timeout=120)
    with open(exported, encoding="utf-8") as file:
        return {row["student_id"]: row for row in csv.DictReader(file)}
