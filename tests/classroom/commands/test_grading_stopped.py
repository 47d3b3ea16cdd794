"""A grader that is killed in the middle, and the same command again."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from autograder.attacks.sample_class import NAME, PUPILS
from tests import samples
from tests.classroom.commands.sample_grading import (
    LIMIT_S,
    cgroups_left,
    left_over,
    outcome,
    records,
    run,
    start,
)

pytestmark = [pytest.mark.jail, pytest.mark.whole_class, pytest.mark.timeout(LIMIT_S + 60)]


KILLED = (
    "ada-all-right",
    "ben-half",
    "cleo-nothing",
    "dan-warns",
    "max-loops",
    "sue-patches-torch",
)


def kill_9(grader):
    grader.kill()


def ctrl_c(grader):
    """A terminal sends it to everything in the foreground, not to the grader alone."""
    os.killpg(grader.pid, signal.SIGINT)


@pytest.fixture(scope="module", params=samples.sample([kill_9, ctrl_c], [kill_9]))
def stopped(tmp_path_factory, request):
    """Half a class graded; what was left running, what the grader said, and its journal."""
    place = tmp_path_factory.mktemp("stopped")
    for name in KILLED:
        (place / "hand_in" / name).mkdir(parents=True)
        PUPILS[name].write(place / "hand_in" / name)
    before = left_over(0.0)
    grader = start(place / "hand_in", place / "out", "--workers", "2", scratch=place / "scratch")
    journal = place / "out" / "journal" / NAME
    deadline = time.monotonic() + LIMIT_S
    while len(list(journal.glob("*.json"))) < 2 and time.monotonic() < deadline:
        assert grader.poll() is None, grader.communicate()[0]
        psutil.wait_procs([psutil.Process(grader.pid)], timeout=0.02)
    request.param(grader)
    said, _ = grader.communicate(timeout=LIMIT_S)
    left = [process for process in left_over() if process not in before]
    if request.param is ctrl_c:
        assert grader.returncode == 130
        assert said.rstrip().endswith("Stopped. The same command goes on where it was.")
        assert "Traceback" not in said
    return place, left, {path: path.stat() for path in journal.glob("*.json")}


class TestStopped:
    """`kill -9` or Ctrl-C in the middle, and the same command again."""

    def test_nothing_outlives_it(self, stopped):
        _, left, _ = stopped
        assert left == []

    def test_the_same_command_goes_on(self, stopped):
        place, _, was = stopped
        assert 2 <= len(was) < len(KILLED)
        code, said = run(place / "hand_in", place / "out", scratch=place / "scratch")
        assert code == 0, said
        assert f"{len(was)} already graded, {len(KILLED) - len(was)} to grade" in said
        found = records(place / "out")
        assert set(found) == set(KILLED)
        assert len(list((place / "out" / "journal" / NAME).iterdir())) == len(KILLED)
        for path, status in was.items():
            assert (path.stat().st_ino, path.stat().st_mtime_ns) == (
                status.st_ino,
                status.st_mtime_ns,
            )
        for name in KILLED:
            verdicts = {v["question"]: outcome(v) for v in found[name]["verdicts"]}
            assert verdicts == PUPILS[name].expected
            assert (place / "out" / "feedback" / name / NAME / f"{NAME}.html").is_file()
        assert not list((place / "out").rglob(".*.tmp"))
        assert cgroups_left() == []
