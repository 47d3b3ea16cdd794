"""A class on a GPU, with the CPU playing the GPU: a sick device, a lost one, and what the driver
says."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest

from autograder.attacks.sample_class import ROOT, write
from autograder.classroom.commands.grading_run import GradingRun, Order
from autograder.classroom.errors import UserError
from autograder.classroom.run import grading, health, nvidia_smi, pool, work
from autograder.classroom.run.health import DeviceLost
from autograder.classroom.run.job import Job
from autograder.classroom.run.worker import NoDevice, Ready, Setting, die_with_parent
from autograder.classroom.store.journal import Record
from autograder.judge import Cause, Lab, State, Verdict, expect_close
from autograder.sandbox import BUBBLEWRAP, DEFAULT_SHARE
from autograder.sandbox.engines import gpu
from tests.sandbox.simulated_gpu import CELL, HINTS, MIB, SIMULATED


def job(name, **changes):
    cells = (("answers", CELL.source),)
    seeds = {"illegal": 1, "double": 1}
    return Job(name, "09_devices", "key", "sha", cells, 0, seeds, frozenset(), **changes)


def two_questions():
    lab = Lab("09_devices", "Devices")
    for name in ("illegal", "double"):

        @lab.question(name, points=1, minutes=1, difficulty=1, hints=HINTS)
        def check(student, draw, name=name):
            """Twice as much."""
            x = draw.tensor(3)
            expect_close(student.call(name, x), 2 * x)

    return lab


def test_the_probe_runs_in_the_jail_and_tells_a_sick_device(gpu_jail, monkeypatch):
    health.expect_healthy(gpu_jail, "now")
    monkeypatch.setattr(health, "PROBE", health.PROBE.replace("x.sum()", "x[1:].sum()"))
    with pytest.raises(DeviceLost, match=r"^simulated \(GPU simulated\) does not work now: it ans"):
        health.expect_healthy(gpu_jail, "now")
    monkeypatch.setattr(health, "PROBE", "def device_health(x): raise RuntimeError('CUDA error')")
    with pytest.raises(DeviceLost, match=r"RuntimeError: CUDA error$"):
        health.expect_healthy(gpu_jail, "now")


def test_memory_that_is_not_given_back_is_nobodys_of_ours(monkeypatch):
    monkeypatch.setattr(health, "RETURN_S", 0.0)
    left = count(3 * gpu.CONTEXT_BYTES, -gpu.CONTEXT_BYTES)
    returned = replace(SIMULATED, used_bytes=lambda pids: next(left))
    health.expect_returned(SimpleNamespace(gpu=returned))  # by and by
    kept = replace(SIMULATED, used_bytes=lambda pids: 5 * gpu.CONTEXT_BYTES)
    with pytest.raises(DeviceLost, match="5,120 MiB of its memory are not given back"):
        health.expect_returned(SimpleNamespace(gpu=kept))
    health.expect_returned(SimpleNamespace(gpu=None))


def test_a_fault_costs_its_question_and_is_followed_by_a_probe(gpu_jail, monkeypatch):
    probed = []
    monkeypatch.setattr(work, "expect_healthy", lambda gpu_jail, after: probed.append(after))
    record = work.grade(job("ada"), two_questions(), gpu_jail)
    assert [verdict.state for verdict in record.verdicts] == [State.FAIL, State.PASS]
    assert "illegal memory access" in str(record.verdicts[0].got)
    assert probed == ["after the submission of ada"]


def test_nothing_is_recorded_of_a_submission_whose_device_was_lost(gpu_jail, monkeypatch):
    monkeypatch.setattr(health, "PROBE", "def device_health(x): raise RuntimeError('gone')")
    with pytest.raises(DeviceLost, match=r"after the submission of ada: .*gone"):
        work.grade(job("ada"), two_questions(), gpu_jail)


def test_one_question_can_be_asked_alone(gpu_jail):
    record = work.grade(job("ada", only=("double",)), two_questions(), gpu_jail)
    assert [verdict.question for verdict in record.verdicts] == ["double"]


def serve_until_bob(connection, setting):
    """A worker whose GPU is lost with bob's submission, if it is GPU 0."""
    die_with_parent(setting.parent)
    connection.send(Ready())
    while (given := connection.recv()) is not None:
        if given.student == "bob" and setting.device == "0":
            connection.send(NoDevice("GPU 0 does not work after the submission of bob: gone"))
            return
        verdict = Verdict("double", Cause.PASSED, 1.0, 1.0, 7, device=setting.device)
        record = Record(given.student, given.lab, given.key, given.sha256, (verdict,))
        connection.send(record)


def setting(tmp_path):
    return Setting(BUBBLEWRAP, tmp_path / "log", tmp_path, os.getpid())


@pytest.mark.slow
def test_grading_goes_on_without_a_lost_device_and_stops_in_one_sentence_without_any(tmp_path):
    jobs = [job(name) for name in ("ada", "bob", "cleo")]
    given = {"setting": setting(tmp_path), "target": serve_until_bob}
    done = pool.graded(jobs, **given, workers=2, devices=("0", "1"))
    assert {one.student for one, _ in done} == {"ada", "bob", "cleo"}
    kept = []
    with pytest.raises(
        UserError, match=r"of bob: gone\. What is graded is kept: put the GPU right"
    ):
        kept.extend(pool.graded(jobs, **given, workers=1, devices=("0",)))
    assert [one.student for one, _ in kept] == ["ada"]


def smi(**told):
    """An nvidia-smi that says what it is told to."""

    def query(*words):
        key = next(name for name in ("compute", "used", "driver") if name in words[-1])
        return told.get(key, [])

    return query


def test_what_the_driver_says():
    told = [["NVIDIA H200", "570.86.15", "143771"]]
    facts = nvidia_smi.facts("0", smi(driver=told))
    assert (facts.title, facts.driver) == ("NVIDIA H200", "570.86.15")
    assert facts.memory_bytes == 143771 * MIB
    assert nvidia_smi.facts("0", smi()) is None
    assert nvidia_smi.facts("0", smi(driver=[["No devices were found", "", ""]])) is None


@pytest.mark.parametrize(
    ("alone", "compute", "used"),
    [(False, [["7", "300"], ["9", "50"]], 300 * MIB), (True, [], 40 * MIB), (False, [], None)],
)
def test_a_watch_counts_what_the_driver_tells(alone, compute, used):
    """By process; in a container all that is lent more than at first, if nobody else is there."""
    totals = count(100, 40)
    answers = {"compute": lambda: compute, "used": lambda: [["0", str(next(totals))]]}

    def query(*words):
        return answers["compute" if "compute" in words[-1] else "used"]()

    assert nvidia_smi.Watch("0", alone=alone, ask=query)([7, 8]) == used


def test_a_class_is_graded_on_cuda_only_where_there_is_a_gpu(tmp_path, monkeypatch):
    """Each submission takes a share then, and a verdict from the CPU does not stand for it."""
    write(tmp_path / "in")
    monkeypatch.setattr(grading, "probe", lambda: BUBBLEWRAP)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    keys = {}
    for device, share in (("", 0.0), ("cpu", 0.0), ("cuda", DEFAULT_SHARE)):
        made = GradingRun(Order(tmp_path / "in", tmp_path / "out", ROOT, device=device))
        jobs = made.look_up()
        assert {job.device_share for job in jobs} == {share}
        keys[device] = {job.key for job in jobs}
    assert keys[""] == keys["cpu"]
    assert not keys["cuda"] & keys["cpu"]
    with pytest.raises(UserError, match="no NVIDIA GPU here"):
        made.grade(jobs, done=print)
