"""The worker that is begun before the class is read, and what a command does not import."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from autograder.attacks.sample_class import ROOT
from autograder.checks import lab01_strides
from autograder.classroom.run import pool, startup
from autograder.classroom.run.worker import Setting
from autograder.classroom.store.journal import Record
from autograder.sandbox import Tier, probe
from tests.classroom.commands.sample_grading import LIMIT_S
from tests.classroom.run.test_pool import job, serve_by_name
from tests.processes import children_with

# pytest has threads beside this one; a command has none when it forks its worker, see below.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")


@pytest.fixture
def begun():
    startup.begin_jail()
    startup.begin_worker()
    taken = startup.take()
    yield taken
    taken.process.kill()
    taken.process.join()
    startup.end()


def setting(tmp_path, tier):
    return Setting(tier, tmp_path / "log", tmp_path, os.getpid())


@pytest.mark.jail
@pytest.mark.whole_class
@pytest.mark.timeout(LIMIT_S)
def test_it_grades_what_it_is_given_in_the_jail_that_it_has_begun(begun, tmp_path):
    """One question of a notebook without an answer: worker, jail and check have to be there."""
    seeds = dict.fromkeys(lab01_strides.lab.questions, 7)
    given = replace(job("ada"), seeds=seeds, only=("address",))
    found = pool.graded([given], setting(tmp_path, probe()), workers=1, begun=begun)
    _, outcome = next(found)
    assert begun.process.is_alive()
    found.close()
    assert isinstance(outcome, Record), outcome
    assert [verdict.question for verdict in outcome.verdicts] == ["address"]
    assert {verdict.tier for verdict in outcome.verdicts} == {probe().name}
    assert not begun.process.is_alive()


@pytest.mark.slow
def test_one_that_was_lost_meanwhile_is_replaced(begun, tmp_path):
    begun.process.kill()
    begun.process.join()
    plain = setting(tmp_path, Tier("process", "none", False))
    given = [job("fine-1")]
    ((_, outcome),) = pool.graded(given, plain, workers=1, target=serve_by_name, begun=begun)
    assert isinstance(outcome, Record)


@pytest.mark.jail
def test_ctrl_c_does_not_reach_it(begun):
    begun.process.join(0.2)
    os.kill(begun.process.pid, signal.SIGINT)
    begun.process.join(1.0)
    assert begun.process.is_alive()


FIRST = """
import os, signal
from autograder.classroom.run import startup
startup.begin_jail()
from autograder.classroom.commands.grade import grade
print(len(os.listdir("/proc/self/task")))
startup.begin_worker()
begun = startup.take()
os.kill(begun.process.pid, signal.SIGINT)
begun.process.join(1.0)
print(begun.process.is_alive())
begun.process.kill()
begun.process.join()
startup.end()
"""


@pytest.mark.jail
def test_ctrl_c_does_not_reach_the_first_process_of_all():
    """With which multiprocessing begins a tracker of its own, and lets all signals in again. The
    command has one thread when it forks: what another one held would be held for ever."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST], capture_output=True, text=True, check=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("1\nTrue\n", "")


@pytest.mark.jail
def test_what_nobody_took_is_ended_and_nobody_takes_it_twice():
    before = multiprocessing.active_children()
    startup.begin_jail()
    startup.begin_worker()
    (child,) = (one for one in multiprocessing.active_children() if one not in before)
    startup.end()
    assert not child.is_alive()
    assert startup.take() is None


def jails():
    """The outermost processes of the jails that this process has begun."""
    return children_with("bwrap")


@pytest.mark.jail
def test_a_jail_whose_worker_was_never_begun_is_ended():
    before = jails()
    startup.begin_jail()
    (jail,) = set(jails()) - {*before}
    startup.end()
    assert not jail.is_running()
    startup.begin_worker()
    assert startup.take() is None


@pytest.mark.jail
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_jail_ends_with_the_worker_that_it_was_given_to(how):
    before = jails()
    startup.begin_jail()
    (jail,) = set(jails()) - {*before}
    startup.begin_worker()
    begun = startup.take()
    os.kill(begun.process.pid, how)
    begun.process.join()
    startup.end()  # waits for the jail
    assert not jail.is_running()


@pytest.mark.jail
def test_the_end_does_not_wait_for_a_worker_that_is_still_there(monkeypatch):
    """As after Ctrl-C between two verdicts: the loop over them keeps its worker."""
    monkeypatch.setattr(startup, "LEAVE_S", 0.2)
    before = jails()
    startup.begin_jail()
    (jail,) = set(jails()) - {*before}
    startup.begin_worker()
    begun = startup.take()
    startup.end()
    assert begun.process.is_alive()
    assert not jail.is_running()
    begun.process.kill()
    begun.process.join()


def imported(code):
    """The modules that a fresh process has after `code`."""
    said = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return set(said.stdout.split())


def test_what_is_imported_is_never_looked_through_for_garbage():
    before = gc.get_freeze_count()
    with startup.importing():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > before
    gc.unfreeze()  # what other tests left is to be collected


def test_what_cannot_be_imported_leaves_the_garbage_looked_for():
    with pytest.raises(ImportError), startup.importing():
        raise ImportError
    assert gc.isenabled()
    gc.unfreeze()


def test_whoever_begins_it_has_not_imported_torch_yet():
    assert not {"torch", "numpy", "IPython"} & imported("import autograder.classroom.run.startup")


@pytest.mark.slow
def test_nbgrader_comes_without_a_grammar_of_web_addresses():
    """It takes longer than nbgrader itself; and without it notebooks are checked all the same."""
    there = imported(
        "import autograder.classroom.gradebook, nbgrader.api, nbformat\n"
        "nbformat.validate(nbformat.v4.new_notebook())"
    )
    assert {"nbgrader", "jsonschema"} <= there
    assert "rfc3987_syntax.syntax_helpers" not in there
    assert "lark" not in there


@pytest.mark.slow
def test_a_command_imports_the_questions_of_its_lab_alone():
    there = imported(
        "from pathlib import Path\n"
        "from autograder.classroom.intake.release import releases\n"
        f"known = releases(Path({str(ROOT)!r}))\n"
        "assert len(known) > 1 and '02_dispatcher' in known and 'no_lab' not in known\n"
        "known['01_strides'].lab"
    )
    labs = {name.split(".")[2] for name in there if name.startswith("autograder.checks.lab")}
    assert labs == {"lab01_strides"}
