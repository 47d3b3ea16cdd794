"""The pool, with workers that do everything a worker should not."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

import pytest

from autograder.classroom.errors import UserError
from autograder.classroom.run import pool
from autograder.classroom.run.job import SUBMISSION_S, Fault, Job
from autograder.classroom.run.worker import NoJail, Ready, Setting, die_with_parent
from autograder.classroom.store.journal import Record
from autograder.judge import Cause, State, Verdict
from autograder.sandbox import BUBBLEWRAP, Limits
from autograder.sandbox.engines import cgroups
from tests import samples
from tests.processes import children_with

pytestmark = pytest.mark.whole_class


def job(name):
    return Job(name, "01_strides", "key", "sha", (), 0, {}, frozenset())


def record(given, cause=Cause.PASSED):
    verdict = Verdict("address", cause, 1.0, 1.0, 7)
    return Record(given.student, given.lab, given.key, given.sha256, (verdict,))


def late_record(given, trace):
    """Notes begin and end of each asking; the first waits for company where some is to come."""
    turn = "again" if given.first else "first"
    note(trace, f"{given.student} {turn} begin")
    while turn == "first" and given.student != "late-alone" and trace.read_text().count("\n") < 2:
        os.sched_yield()
    note(trace, f"{given.student} {turn} end")
    return replace(record(given), timed_out=() if given.first else ("address",))


def timed_record(given, trace):
    """A question that times something is put off at first."""
    note(trace, f"{given.student} begin")
    note(trace, f"{given.student} end")
    if given.first:
        return record(given)
    (verdict,) = record(given, Cause.PUT_OFF).verdicts
    put_off = replace(verdict, sentence="It times something.")
    return replace(record(given), verdicts=(put_off,), timed_out=("address",))


def note(trace, line):
    with open(trace, "a") as file:
        file.write(line + "\n")


def serve_by_name(connection, setting):
    """Does what the student's name says; attempts are counted in files, which outlive a worker."""
    die_with_parent(setting.parent)
    connection.send(Ready())
    while (given := connection.recv()) is not None:
        tried = setting.log.parent / given.student
        with open(tried, "a") as file:
            file.write("x")
        attempts = len(tried.read_text())
        if given.student.startswith("dies") and attempts <= int(given.student[-1]):
            os.kill(os.getpid(), signal.SIGKILL)
        if given.student.startswith("hangs"):
            while True:
                signal.pause()
        if given.student.startswith("faults") and attempts <= int(given.student[-1]):
            connection.send(Fault("the disk is gone"))
            return
        if given.student.startswith("times"):
            connection.send(timed_record(given, setting.log.parent / "trace"))
            continue
        if given.student.startswith("late"):
            connection.send(late_record(given, setting.log.parent / "trace"))
            continue
        if given.student.startswith("check"):
            (verdict,) = record(given, Cause.CHECK_FAULT).verdicts
            ours = replace(verdict, sentence="The check itself failed (ValueError: no).")
            connection.send(replace(record(given), verdicts=(ours,)))
            continue
        is_open = given.student.startswith("open") and attempts <= int(given.student[-1])
        connection.send(record(given, Cause.GRADER_FAULT if is_open else Cause.PASSED))


class InterruptedWhileItStarts:
    """`serve_by_name`, and a Ctrl-C that comes while the worker still imports."""

    def __reduce__(self):
        return interrupt, ()


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    return serve_by_name


def serve_without_jail(connection, setting):
    connection.send(NoJail("no namespaces here"))


def serve_nothing(connection, setting):
    os._exit(3)


def serve_in_a_cage(connection, setting):
    """Holds a cgroup, as a worker with an open jail does, and never answers."""
    connection.send(Ready())
    connection.recv()
    cgroups.Cgroup(cgroups.find(), Limits(memory_bytes=2**30))
    (setting.log.parent / "pid").write_text(str(os.getpid()))
    while True:
        signal.pause()


def outcomes(names, tmp_path, target=serve_by_name, workers=2):
    setting = Setting(BUBBLEWRAP, tmp_path / "log", tmp_path, os.getpid())
    jobs = [job(name) for name in names]
    found = pool.graded(jobs, setting, workers=workers, target=target)
    return {given.student: outcome for given, outcome in found}


def attempts(tmp_path, name):
    return len((tmp_path / name).read_text())


def test_everybody_is_graded_once(tmp_path):
    names = [f"fine-{n}" for n in range(7)]
    found = outcomes(names, tmp_path)
    assert set(found) == set(names)
    assert all(isinstance(outcome, Record) for outcome in found.values())
    assert {attempts(tmp_path, name) for name in names} == {1}


@pytest.mark.parametrize("kind", samples.sample(["dies", "faults"], ["dies"]))
def test_a_lost_worker_costs_an_attempt_and_no_neighbour(tmp_path, kind):
    names = [f"{kind}-1", f"{kind}-2", f"{kind}-9", "fine-1", "fine-2"]
    found = outcomes(names, tmp_path)
    assert isinstance(found.pop(f"{kind}-9"), Fault)
    assert all(isinstance(outcome, Record) for outcome in found.values())
    assert [attempts(tmp_path, name) for name in names] == [2, 3, 3, 1, 1]


def test_a_death_is_named(tmp_path):
    (fault,) = outcomes(["dies-9"], tmp_path).values()
    assert "-9" in fault.reason


def test_ctrl_c_does_not_reach_a_worker_that_starts(tmp_path):
    (outcome,) = outcomes(["fine-1"], tmp_path, InterruptedWhileItStarts()).values()
    assert isinstance(outcome, Record), outcome
    assert attempts(tmp_path, "fine-1") == 1


def test_a_question_that_the_grader_failed_at_is_tried_again(tmp_path):
    found = outcomes(["open-1", "open-9"], tmp_path)
    assert found["open-1"].is_final
    assert not found["open-9"].is_final
    assert {name: attempts(tmp_path, name) for name in found} == {"open-1": 2, "open-9": 3}


def test_a_check_that_raises_is_asked_once(tmp_path):
    """It would raise again, and a notebook that makes it raise would cost the class three times."""
    found = outcomes(["check-1"], tmp_path)
    assert not found["check-1"].is_final
    assert attempts(tmp_path, "check-1") == 1


def test_what_timed_out_beside_others_is_asked_again_when_nobody_else_is(tmp_path):
    names = ["late-1", "late-2", "late-3", "fine-1", "fine-2"]
    found = outcomes(names, tmp_path)
    assert set(found) == set(names)
    assert all(outcome.timed_out == () for outcome in found.values())
    lines = (tmp_path / "trace").read_text().splitlines()
    for name in ("late-1", "late-2", "late-3"):
        begin = lines.index(f"{name} again begin")
        assert lines[begin + 1] == f"{name} again end"
        assert begin > lines.index(f"{name} first end")
    assert len(lines) == 12  # nobody is asked a third time


def test_what_timed_out_alone_is_not_asked_again(tmp_path):
    outcomes(["late-alone", "fine-1"], tmp_path, workers=1)
    assert "again" not in (tmp_path / "trace").read_text()


@pytest.mark.parametrize("workers", [1, 2])
def test_what_times_something_is_asked_when_nobody_else_is(tmp_path, workers):
    names = ["times-1", "times-2", "fine-1", "times-3", "fine-2"]
    found = outcomes(names, tmp_path, workers=workers)
    assert {name: outcome.verdicts[0].state for name, outcome in found.items()} == dict.fromkeys(
        names, State.PASS
    )
    lines = (tmp_path / "trace").read_text().splitlines()
    assert len(lines) == 12
    for begin, end in zip(lines[6::2], lines[7::2], strict=True):
        assert (begin.split()[0], begin.split()[1], end.split()[1]) == (
            end.split()[0],
            "begin",
            "end",
        )


def serve_on_a_device(connection, setting):
    """Says which device it was given, and keeps it until everybody has one."""
    die_with_parent(setting.parent)
    connection.send(Ready())
    while (given := connection.recv()) is not None:
        trace = setting.log.parent / "trace"
        if given.student == "dies" and not (setting.log.parent / "died").exists():
            (setting.log.parent / "died").write_text(setting.device)
            os._exit(1)
        note(trace, f"{given.student} {setting.device}")
        while trace.read_text().count("\n") < 4:
            os.sched_yield()
        connection.send(record(given))


def serve_slowly(connection, setting):
    """Notes which worker has which submission; a slow one takes longer than a start."""
    die_with_parent(setting.parent)
    time.sleep(0.2)
    connection.send(Ready())
    while (given := connection.recv()) is not None:
        note(setting.log.parent / "trace", f"{given.student} {os.getpid()}")
        connection.send(record(given) if given.student.startswith("quick") else stalled(setting))


def stalled(setting):
    """Until somebody else has begun as well."""
    while len(workers_seen(setting.log.parent)) < 2:
        time.sleep(0.05)
    return Fault("slow")


def workers_seen(folder):
    return {line.split()[1] for line in (folder / "trace").read_text().splitlines()}


def slowly(names, tmp_path, monkeypatch, processors):
    monkeypatch.setattr(pool, "processors", lambda: processors)
    monkeypatch.setattr(pool, "MAX_ATTEMPTS", 1)
    found = outcomes(names, tmp_path, serve_slowly, workers=2)
    assert set(found) == set(names)
    return len(workers_seen(tmp_path))


def test_a_class_that_one_worker_is_through_with_at_once_gets_no_second(tmp_path, monkeypatch):
    assert slowly([f"quick-{n}" for n in range(9)], tmp_path, monkeypatch, 2) == 1


def test_whoever_waits_for_a_slow_one_gets_a_second_worker(tmp_path, monkeypatch):
    assert slowly(["slow", "quick-1"], tmp_path, monkeypatch, 2) == 2


def test_where_processors_are_free_all_workers_start_at_once(tmp_path, monkeypatch):
    assert slowly(["quick-1", "quick-2"], tmp_path, monkeypatch, 4) == 2


def test_workers_divide_the_devices_and_a_new_one_takes_what_was_left(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "processors", lambda: 8)  # all four start at once
    setting = Setting(BUBBLEWRAP, tmp_path / "log", tmp_path, os.getpid())
    jobs = [job(name) for name in ("dies", "b", "c", "d")]
    started = pool.graded(
        jobs, setting, workers=4, devices=("0", "GPU-7"), target=serve_on_a_device
    )
    assert len(list(started)) == 4
    given = dict(line.split() for line in (tmp_path / "trace").read_text().splitlines())
    assert sorted(given.values()) == ["0", "0", "GPU-7", "GPU-7"]
    assert given["dies"] == (tmp_path / "died").read_text()


@pytest.mark.skipif(not cgroups.find(), reason="this machine lends no cgroups")
@pytest.mark.parametrize("sweeps", [True, False])
def test_a_killed_workers_cgroups_go_with_the_pool(tmp_path, monkeypatch, sweeps):
    monkeypatch.setattr(pool, "SLACK_S", 3.0 - SUBMISSION_S)
    monkeypatch.setattr(pool, "MAX_ATTEMPTS", 1)
    if not sweeps:
        monkeypatch.setattr(pool, "sweep", lambda **_: 0)
    assert isinstance(outcomes(["caged-1"], tmp_path, serve_in_a_cage)["caged-1"], Fault)
    of_it = f"{cgroups.PREFIX}-{(tmp_path / 'pid').read_text()}-*"
    left = [d for h in cgroups.find() for d in h.parent.glob(of_it)]
    assert bool(left) is not sweeps
    cgroups.sweep()


def test_a_worker_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "SLACK_S", 3.0 - SUBMISSION_S)
    monkeypatch.setattr(pool, "MAX_ATTEMPTS", 1)
    found = outcomes(["hangs", "fine-1"], tmp_path)
    assert "no answer within 3 seconds" in found["hangs"].reason
    assert isinstance(found["fine-1"], Record)


@pytest.mark.parametrize("target", [serve_without_jail, serve_nothing])
def test_where_no_worker_starts_the_instructor_is_told_soon(tmp_path, target):
    with pytest.raises(UserError, match="does not start"):
        outcomes([f"fine-{n}" for n in range(30)], tmp_path, target)


def test_no_job_starts_no_worker(tmp_path):
    assert outcomes([], tmp_path, serve_nothing) == {}


def test_leaving_early_ends_the_workers(tmp_path):
    setting = Setting(BUBBLEWRAP, tmp_path / "log", tmp_path, os.getpid())
    found = pool.graded([job("fine-1"), job("hangs")], setting, workers=2, target=serve_by_name)
    given, _ = next(found)
    assert given.student == "fine-1"
    mine = children_with("spawn_main")
    assert mine
    found.close()
    assert not any(process.is_running() for process in mine)
