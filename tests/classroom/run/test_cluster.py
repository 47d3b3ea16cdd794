"""Grading on a Dask cluster: the same verdicts, and nothing lost when a part of it goes."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from distributed import Client

from autograder.attacks.sample_class import write
from autograder.classroom.commands.grading_run import GradingRun, Order
from autograder.classroom.errors import UserError
from autograder.classroom.run import cluster
from autograder.classroom.store import seed_secret
from autograder.classroom.store.journal import Journal
from autograder.sandbox import probe
from tests.classroom.run import loopback_sshd, one_node_slurm

ROOT = Path(__file__).resolve().parents[3]
HAND_INS = ("ada-all-right", "ben-half", "lea-exits")
EXPECTED = {"ada-all-right": 30.0, "lea-exits": 28.0}

# distributed leaves sockets to the garbage collector, and pytest hears it
pytestmark = [
    pytest.mark.jail,
    pytest.mark.whole_class,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def order(tmp_path: Path) -> Order:
    everyone = tmp_path / "everyone"
    write(everyone)
    (tmp_path / "few").mkdir()
    for name in HAND_INS:
        (everyone / name).rename(tmp_path / "few" / name)
    return Order(tmp_path / "few", tmp_path / "out", ROOT)


def points(made: GradingRun) -> dict[str, float]:
    return {name: row.record.points for name, row in made.rows.items() if row.record}


def grade(order: Order) -> GradingRun:
    made = GradingRun(order)
    made.grade(made.look_up(), done=lambda student: None)
    return made


def location(order: Order) -> cluster.Location:
    made = GradingRun(order)
    name = seed_secret.name_of(made.grading.secret)
    return cluster.Location(order.out, name, cluster.importlib.metadata.version("torch"), probe())


def test_two_dask_workers_give_the_verdicts_of_the_local_pool(order):
    made = grade(replace(order, cluster="local:2"))
    assert set(made.rows) == set(HAND_INS)
    assert {name: points(made)[name] for name in EXPECTED} == EXPECTED
    again = GradingRun(order)  # the same seeds, the same keys: the local pool finds nothing to do
    assert again.look_up() == []
    assert points(again) == points(made)


@pytest.mark.parametrize("spec", ["", "tcp", "nfs:3", "local:", "local:two", "local:0", "ssh:"])
def test_a_cluster_that_is_none_is_one_sentence(order, spec):
    made = GradingRun(order)
    with pytest.raises(UserError, match="There is no cluster"):
        list(cluster.graded(made.look_up(), location(order), spec=spec))


def test_a_scheduler_that_does_not_answer_is_one_sentence(order, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)
    with pytest.raises(UserError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        grade(replace(order, cluster="tcp://127.0.0.1:9"))


def test_a_cluster_without_workers_is_one_sentence(order, monkeypatch):
    monkeypatch.setattr(cluster, "WAIT_S", 0.5)
    with scheduler() as (address, _), pytest.raises(UserError, match="No worker has joined"):
        grade(replace(order, cluster=address))


def test_a_machine_that_would_judge_otherwise_is_named(order):
    made, here = GradingRun(order), location(order)
    (job, *_) = made.look_up()
    for unfit, why in [
        (replace(here, out=order.out / "elsewhere"), "does not see"),
        (replace(here, seed_name="another"), "does not see"),
        (replace(here, torch="1.0"), "is graded with 1.0"),
        (replace(here, tier=replace(here.tier, name="vm")), "not 'vm'"),
    ]:
        outcome = cluster.grade_here(job, unfit)
        assert isinstance(outcome, cluster.Unfit)
        assert why in outcome.reason
    assert not (order.out / "elsewhere").exists()


@pytest.mark.thorough
def test_a_worker_puts_the_jail_of_the_class_before_away(order, tmp_path):
    (job, *_) = GradingRun(order).look_up()
    here = location(order)
    cluster.grade_here(job, here)
    (first,) = cluster._own.pool.workers
    cluster.grade_here(job, location(order))
    assert first.process.is_alive()  # the same class
    other = replace(order, out=tmp_path / "other")
    cluster.grade_here(next(iter(GradingRun(other).look_up())), location(other))
    with pytest.raises(OSError, match="closed"):
        first.connection.poll()
    cluster._own.end()


@contextlib.contextmanager
def scheduler():
    """A scheduler of its own process, on a port of its choosing."""
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        said = next(line for line in process.stderr if "Scheduler at:" in line)
        yield said.split()[-1], process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@contextlib.contextmanager
def worker(address):
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address]
    options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([*command, *options], stdout=quiet, stderr=quiet, env=env)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_kill_9_of_the_scheduler_loses_nothing_and_grades_nothing_twice(order):
    with scheduler() as (address, process), worker(address):
        made = GradingRun(replace(order, cluster=address))
        jobs = made.look_up()
        with pytest.raises(UserError, match=r"is lost\. What was graded is kept"):
            made.grade(jobs, done=lambda student: process.kill())
    journal = Journal(order.out / "journal" / made.release.name)
    kept = {job.student for job in jobs if journal.read(job.student, job.key)}
    assert kept
    written = {path: path.stat().st_mtime_ns for path in journal.folder.glob("*.json")}
    again = grade(order)
    assert set(points(again)) == set(HAND_INS)
    assert {path: path.stat().st_mtime_ns for path in written} == written


def test_kill_9_of_a_worker_costs_nobody_a_verdict(order):
    with scheduler() as (address, _), worker(address) as first, worker(address):
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        made = GradingRun(replace(order, cluster=address))
        made.grade(made.look_up(), done=lambda student: first.kill())
    assert set(points(made)) == set(HAND_INS)


@pytest.mark.slurm
@pytest.mark.thorough
def test_a_real_slurm_grades_the_class(order, monkeypatch):
    with one_node_slurm.slurm() as conf:
        monkeypatch.setenv("SLURM_CONF", str(conf))
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        made = grade(replace(order, cluster="slurm:1"))
    assert set(made.rows) == set(HAND_INS)
    assert {name: points(made)[name] for name in EXPECTED} == EXPECTED


@pytest.mark.sshd
@pytest.mark.thorough
def test_a_machine_over_a_real_ssh_grades_the_class(order, monkeypatch):
    with loopback_sshd.sshd(pythonpath=ROOT) as home:
        monkeypatch.setenv("HOME", str(home))
        made = grade(replace(order, cluster="ssh:127.0.0.1"))
    assert EXPECTED.items() <= points(made).items()
    assert {path.name for path in order.out.glob("grade-*.log")}


@pytest.mark.sshd
def test_a_machine_that_does_not_let_us_in_is_one_sentence(order, monkeypatch):
    with loopback_sshd.sshd(pythonpath=ROOT, key="stranger") as home:
        monkeypatch.setenv("HOME", str(home))
        with pytest.raises(UserError, match=r"does not start: Permission denied.*ssh HOST true"):
            grade(replace(order, cluster="ssh:127.0.0.1"))


def test_a_machine_without_ssh_is_one_sentence(order, monkeypatch, tmp_path):
    """Planted: a port at which nobody listens."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        (tmp_path / ".ssh").mkdir()
        config = f"Host *\n  Port {nobody.getsockname()[1]}\n"
        (tmp_path / ".ssh" / "config").write_text(config)
        monkeypatch.setenv("HOME", str(tmp_path))
        with pytest.raises(UserError, match=r"ssh:127.0.0.1 does not start: .*Connect call failed"):
            grade(replace(order, cluster="ssh:127.0.0.1"))
