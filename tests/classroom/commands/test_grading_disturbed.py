"""A worker that is killed beside a submission that spins."""

from __future__ import annotations

import json
import time

import psutil
import pytest

from autograder.attacks.sample_class import NAME, PUPILS, filled, right_answers
from bench.hand_ins import SPINNING
from tests.classroom.commands.sample_grading import (
    LIMIT_S,
    cgroups_left,
    outcome,
    records,
    start,
)
from tests.processes import children_with

pytestmark = [pytest.mark.jail, pytest.mark.whole_class, pytest.mark.timeout(LIMIT_S + 60)]


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory):
    """A class in which one submission spins with thirty children, and a worker is killed."""
    place = tmp_path_factory.mktemp("disturbed")
    names = ("ada-all-right", "ben-half", "cleo-nothing", "dan-warns")
    for name in names:
        (place / "hand_in" / name).mkdir(parents=True)
        PUPILS[name].write(place / "hand_in" / name)
    (place / "hand_in" / "aaa-spins").mkdir()
    made = filled({**right_answers(), "contiguous_strides": SPINNING})
    (place / "hand_in" / "aaa-spins" / f"{NAME}.ipynb").write_text(json.dumps(made))
    grader = start(place / "hand_in", place / "out", "--workers", "2", scratch=place / "scratch")
    journal, deadline = place / "out" / "journal" / NAME, time.monotonic() + LIMIT_S
    while not list(journal.glob("*.json")) and time.monotonic() < deadline:
        assert grader.poll() is None, grader.communicate()[0]
        psutil.wait_procs([psutil.Process(grader.pid)], timeout=0.02)
    was = {path: path.stat().st_mtime_ns for path in journal.glob("*.json")}
    workers = children_with("spawn_main", psutil.Process(grader.pid))
    assert workers
    workers[-1].kill()
    said, _ = grader.communicate(timeout=LIMIT_S)
    print(said)
    assert grader.returncode == 0, said
    return place, names, was


class TestDisturbed:
    """`kill -9` of a worker beside a submission that takes every processor it can get."""

    def test_everybody_has_a_grade_and_no_one_pays_for_the_neighbour(self, disturbed):
        place, names, _ = disturbed
        found = records(place / "out")
        assert set(found) == {*names, "aaa-spins"}
        for name in names:
            verdicts = {v["question"]: outcome(v) for v in found[name]["verdicts"]}
            assert verdicts == PUPILS[name].expected
        spun = found["aaa-spins"]["verdicts"][0]
        assert spun["cause"] == "timeout"
        assert spun["remarks"] == [["less_time", {}]]  # and is not asked again

    def test_what_was_graded_before_was_not_graded_again(self, disturbed):
        _, _, was = disturbed
        assert was
        assert all(path.stat().st_mtime_ns == time_ns for path, time_ns in was.items())

    def test_nothing_stays_behind(self, disturbed):
        place, _, _ = disturbed
        assert cgroups_left() == []
        assert not (place / "out" / ".scratch").exists()
