"""GPUs as slots, with simulated ones: names in the environment, files in a folder, numbers that a
Dask worker declares."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from distributed import Client, LocalCluster

from autograder.attacks.sample_class import ROOT, write
from autograder.classroom.commands.grading_run import GradingRun, Order
from autograder.classroom.errors import UserError
from autograder.classroom.run import cluster, devices, grading, pool
from autograder.classroom.run.job import Job
from autograder.judge import Lab
from autograder.sandbox import BUBBLEWRAP

HINTS = ("a", "b", "c")


@pytest.mark.parametrize(
    ("named", "nodes", "found"),
    [
        ({}, (), ()),
        ({}, ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm"), ("0", "2", "10")),
        ({"CUDA_VISIBLE_DEVICES": "1, GPU-5ab"}, ("nvidia0",), ("1", "GPU-5ab")),
        ({"CUDA_VISIBLE_DEVICES": ""}, ("nvidia0",), ()),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ("nvidia0",), ()),
    ],
)
def test_the_devices_that_are_lent_to_us(tmp_path, named, nodes, found):
    for name in nodes:
        (tmp_path / name).touch()
    assert devices.lent(named, tmp_path) == found


@pytest.mark.parametrize(("share", "held"), [(1.0, 2), (0.6, 2), (0.5, 4), (0.1, 20), (1 / 3, 6)])
def test_a_device_holds_so_many_shares(share, held):
    assert devices.slots(("0", "1"), share) == held


def test_the_emptiest_device_is_given_next():
    assert devices.emptiest(("0", "1"), ["0"]) == "1"
    assert devices.emptiest(("0", "1"), ["0", "1", "0"]) == "1"
    assert devices.emptiest((), []) == ""


def question(lab, name, **needs):
    @lab.question(name, points=1, minutes=1, difficulty=1, hints=HINTS, **needs)
    def check(student, draw):
        """Nothing."""


def test_a_lab_needs_what_its_neediest_question_needs():
    lab = Lab("09_devices", "Devices")
    question(lab, "none")
    assert lab.device_share == 0
    question(lab, "half", device_share=0.5)
    question(lab, "quarter", device_share=0.25)
    assert lab.device_share == 0.5
    with pytest.raises(ValueError, match="a share of one device"):
        question(lab, "two", device_share=2)


@pytest.mark.parametrize(
    ("visible", "share", "workers", "given"),
    [("0,1", 0.5, 4, ("0", "1")), ("0", 1.0, 1, ("0",)), ("", 0.5, 8, ()), ("0,1", 0.0, 8, ())],
)
def test_a_class_has_as_many_workers_as_its_devices_hold(
    tmp_path, monkeypatch, visible, share, workers, given
):
    """Without a device, or without a question for one, nothing changes."""
    seen = {}

    def graded(jobs, setting, *, workers, devices, begun):
        seen.update(workers=workers, devices=devices)
        return iter(())

    write(tmp_path / "in")
    made = GradingRun(Order(tmp_path / "in", tmp_path / "out", ROOT, workers=8))
    monkeypatch.setattr(grading, "probe", lambda: BUBBLEWRAP)
    jobs = [replace(job, device_share=share) for job in made.look_up()]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(pool, "graded", graded)
    made.grade(jobs, done=lambda student: None)
    assert seen == {"workers": workers, "devices": given}


def jobs(n, share):
    made = Job("ada", "01_strides", "key", "sha", (), 0, {}, frozenset(), device_share=share)
    return [replace(made, student=f"s{number}") for number in range(n)]


class Crowd:
    """Counts how many are graded at the same time, and lets each wait for company."""

    def __init__(self):
        self.now, self.most, self.changed = 0, 0, threading.Condition()

    def join(self):
        with self.changed:
            self.now += 1
            self.most = max(self.most, self.now)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.most >= 4, timeout=0.3)
            self.now -= 1


crowd = Crowd()


def counted(job, place):
    crowd.join()
    return job.student


def test_two_instructors_at_once_have_a_scheduler_each():
    """The first takes whatever port there is, and nobody is warned (a warning is an error here)."""
    with cluster._locally("1", None), cluster._locally("1", None) as second:
        assert second.scheduler.http_server.port != 8787


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_dask_counts_the_shares_that_its_workers_declare(monkeypatch):
    monkeypatch.setattr(cluster, "grade_here", counted)
    local = {
        "n_workers": 1,
        "threads_per_worker": 4,
        "processes": False,
        "scheduler_kwargs": cluster.NO_DASHBOARD,
    }
    with LocalCluster(**local, resources={"device": 1}) as some, Client(some) as client:
        for share, most in ((0.0, 4), (0.5, 2), (1.0, 1)):
            crowd.most = 0
            outcomes = list(cluster._answered(client, jobs(4, share), None, "tcp://x"))
            assert len(outcomes) == 4
            assert crowd.most == most
    with (
        LocalCluster(**local, resources={"device": 0.25}) as some,
        Client(some) as client,
        pytest.raises(UserError, match=r"needs 0.5 of a GPU.*--resources device=1"),
    ):
        list(cluster._answered(client, jobs(1, 0.5), None, "tcp://x"))
    with LocalCluster(**local) as some, Client(some) as client:
        assert cluster._resources(client, 0.5, "tcp://x") is None
