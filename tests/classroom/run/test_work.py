"""One submission in a worker, with a jail that is none: what grading adds to the judge's words."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from autograder.classroom.intake.release import Release
from autograder.classroom.run import work
from autograder.classroom.run.job import AGAIN_S, Job
from autograder.judge import (
    Cause,
    GraderFault,
    Lab,
    LocalStudent,
    Raised,
    Reply,
    State,
    expect_equal,
    text,
)
from autograder.sandbox import CellResult

lab = Lab("07_doubling", "Doubling")


def ask_for(name, points=2):
    @lab.question(name, points=points, minutes=1, difficulty=1, hints=("a", "b", "c"))
    def check(student, draw):
        n = draw.integer(1, 9)
        expect_equal(student.call(name, n), 2 * n)


for name in ("twice", "double"):
    ask_for(name)


class OpenStudent(LocalStudent):
    """Runs the cells in this very process. Has the shape of a JailedStudent."""

    pid, gpu, suspects_device, times_left_running = None, None, False, 0

    def __init__(self, cells):
        super().__init__({})
        self.cells = tuple(self._run(cell) for cell in cells)

    def _run(self, cell):
        try:
            exec(compile(cell.source, f"<cell {cell.name}>", "exec"), self.namespace)
        except Exception as error:
            lines = ((1, cell.source.split("\n")[0]),)
            raised = Raised("raised", type(error).__name__, str(error), lines)
            missed = getattr(error, "name", "") or ""
            return CellResult(cell.name, replace(raised, kind=Cause.RAISED, name=missed), "")
        return CellResult(cell.name, None, "hello\n" * 10_000)


class OpenJail:
    without, gpu = frozenset(), None

    def preload(self, names):
        pass

    @contextlib.contextmanager
    def open(self, cells, *, total_s, extra_load_s, loopback):
        self.loopback = loopback
        yield OpenStudent(cells)


def job(left_out=(), **sources):
    cells = (("setup", "import math"), *sources.items())
    seeds = {question: 7 + n for n, question in enumerate(lab.questions)}
    return Job("ada", lab.name, "key", "sha", cells, 1, seeds, frozenset(left_out))


def graded(left_out=(), **sources):
    record = work.grade(job(left_out, **sources), lab, OpenJail())
    return {verdict.question: verdict for verdict in record.verdicts}


STUB = 'raise NotImplementedError("Lab 7.1: twice, about 1 line")'
GOOD = {"twice": "def twice(n): return 2 * n", "double": "def double(n): return n + n"}


def test_right_answers_pass_with_the_seed_of_their_question():
    found = graded(**GOOD)
    assert [v.state for v in found.values()] == [State.PASS, State.PASS]
    assert [v.seed for v in found.values()] == [7, 8]


@pytest.mark.parametrize("talking", [False, True])
def test_only_a_lab_whose_ranks_talk_gets_a_network(talking):
    ranks, jail = Lab(lab.name, lab.title), OpenJail()
    for name in lab.questions:
        declared = {"loopback": talking and name == "double"}
        ranks.question(name, points=2, minutes=1, difficulty=1, hints=("", "", ""), **declared)(
            lab.questions[name].check
        )
    asked = replace(job(**GOOD), loopback=Release(ranks, b"").loopback)
    assert all(v.state is State.PASS for v in work.grade(asked, ranks, jail).verdicts)
    assert jail.loopback is talking


def test_a_helper_in_a_cell_that_is_not_graded_is_named():
    found = graded({"helper"}, **GOOD | {"twice": "def twice(n): return helper(n)"})
    assert found["twice"].state is State.FAIL
    assert found["twice"].sentence == text("name_left_out", name="helper")
    assert found["double"].state is State.PASS


def test_a_name_that_stands_nowhere_is_an_ordinary_error():
    found = graded({"other"}, **GOOD | {"twice": "def twice(n): return helper(n)"})
    assert found["twice"].cause is Cause.RAISED
    assert found["twice"].sentence == text("your_code_raised", line=1)
    assert found["twice"].got.facts["error"] == "NameError"


def test_a_cell_that_stopped_says_why_instead_of_missing_its_function():
    found = graded(**GOOD | {"twice": "1 / 0\ndef twice(n): return 2 * n"})
    assert found["twice"].cause is Cause.RAISED
    assert found["twice"].got.facts["error"] == "ZeroDivisionError"
    assert found["twice"].where.facts["lines"] == [text("line", number=1, source="1 / 0")]
    assert found["twice"].sentence == text("cell_stopped")


def of_cell(error, **sources):
    """The verdict on `twice`, whose cell ended with `error`."""

    class Student(OpenStudent):
        def _run(self, cell):
            ran = super()._run(cell)
            return replace(ran, error=error) if cell.name == "twice" else ran

    class Jail(OpenJail):
        @contextlib.contextmanager
        def open(self, cells, **_):
            yield Student(cells)

    return work.grade(job(**GOOD | sources), lab, Jail()).verdicts[0]


STOPPED = Raised(Cause.TIMED_OUT, "TimeoutError", lines=((3, "go()"),))
LINE_STOPPED = text("line_stopped", line=3, source="go()")


@pytest.mark.parametrize("kind", [Cause.DIED, Cause.TIMED_OUT])
def test_a_cell_that_ended_its_process_is_not_said_to_have_stopped_before(kind):
    verdict = of_cell(Raised(kind, "ProcessEnded"), twice="1 + 1")
    assert (verdict.cause, verdict.sentence) == (kind, text("cell_lost"))


def test_the_line_that_took_too_long_is_named():
    assert of_cell(STOPPED, twice="1 + 1").sentence == LINE_STOPPED
    wrong = of_cell(STOPPED, twice="def twice(n): return 3 * n")
    assert wrong.remarks == (LINE_STOPPED,)
    assert of_cell(STOPPED).state is State.PASS


def test_a_package_that_grading_has_not_is_named():
    missed = Raised(Cause.RAISED, "ModuleNotFoundError", "No module named 'pandas'")
    verdict = of_cell(missed, twice="def twice(n): return pd.x")
    assert verdict.remarks == (text("no_package", message="No module named 'pandas'"),)
    assert of_cell(missed).state is State.PASS


def test_a_cell_that_stopped_for_want_of_a_left_out_import():
    found = graded({"np"}, **GOOD | {"twice": "np.zeros(3)\ndef twice(n): return 2 * n"})
    assert found["twice"].sentence == text("name_left_out", name="np")


def test_an_answer_in_another_cell_is_pointed_at():
    found = graded({"twice"}, **GOOD | {"twice": f"def twice(n): {STUB}"})
    assert found["twice"].cause is Cause.BLANK
    assert found["twice"].remarks == (text("answered_elsewhere"),)


def test_our_own_cell_failing_is_our_fault():
    broken = job(**GOOD)
    broken = Job(**{**vars(broken), "cells": (("setup", "1 / 0"), *broken.cells[1:])})
    with pytest.raises(GraderFault, match="the lab's own cell 'setup'"):
        work.grade(broken, lab, OpenJail())


def test_who_used_up_the_time_is_not_asked_further():
    record = work.grade(replace(job(**GOOD), total_s=-1), lab, OpenJail())
    assert {(v.cause, v.mark, v.points) for v in record.verdicts} == {(Cause.TIMED_OUT, "fail", 0)}
    assert record.timed_out == ("twice", "double")


class BusyStudent(OpenStudent):
    """Waits in vain for the functions named in `starved`, as beside a busy neighbour."""

    starved = frozenset({"twice"})

    def _send(self, function, requests):
        if function in self.starved:
            return [Reply(Raised(Cause.TIMED_OUT, "TimeoutError"))]
        return super()._send(function, requests)


class BusyJail:
    without, gpu = frozenset(), None

    @contextlib.contextmanager
    def open(self, cells, *, total_s, extra_load_s, loopback):
        yield BusyStudent(cells)


class TestAskedTwice:
    """A question that timed out beside others is asked again, alone, and the verdict says so."""

    def first(self):
        record = work.grade(job(**GOOD), lab, BusyJail())
        assert [v.state for v in record.verdicts] == [State.FAIL, State.PASS]
        assert record.timed_out == ("twice",)
        return record

    def test_it_passes_when_its_time_was_a_neighbours_fault(self):
        first = self.first()
        again = work.grade(job(**GOOD).again(first), lab, OpenJail())
        assert [v.state for v in again.verdicts] == [State.PASS, State.PASS]
        assert again.verdicts[0].remarks == (text("asked_twice"),)
        assert again.verdicts[1] == first.verdicts[1]
        assert again.timed_out == ()
        assert again.wall_s > first.wall_s

    def test_it_fails_when_it_is_endless_in_itself(self):
        again = work.grade(job(**GOOD).again(self.first()), lab, BusyJail())
        assert again.verdicts[0].cause is Cause.TIMED_OUT
        assert again.verdicts[0].remarks == (text("asked_twice"),)

    def test_it_keeps_its_verdict_when_there_is_no_time_to_ask_again(self):
        first = self.first()
        again = work.grade(replace(job(**GOOD), extra_s=-1 - AGAIN_S).again(first), lab, OpenJail())
        assert again.verdicts[0].got == first.verdicts[0].got
        assert again.verdicts[0].remarks == (text("not_asked_again"),)

    def test_asking_again_has_a_limit_of_its_own(self):
        longer = replace(job(**GOOD), extra_s=45.0)  # a question with a budget
        assert longer.again(self.first()).total_s == AGAIN_S + 45

    def test_an_ordinary_mistake_is_asked_once(self):
        assert (
            work.grade(job(**GOOD | {"twice": "def twice(n): 1 / 0"}), lab, OpenJail()).timed_out
            == ()
        )
        claims_it = "def twice(n): raise TimeoutError('no answer within 10 s')"
        assert work.grade(job(**GOOD | {"twice": claims_it}), lab, OpenJail()).timed_out == ()

    @pytest.mark.parametrize(
        ("loopback", "said", "again"),
        [
            (True, "rank 1 was not back after 10 s, and waiting in broadcast()", ("twice",)),
            (True, "rank 1 raised ValueError", ()),
            (False, "rank 1 was not back after 10 s, and waiting in broadcast()", ()),
        ],
    )
    def test_ranks_that_were_not_waited_for_are(self, monkeypatch, loopback, said, again):
        """Their clock goes on while others keep the processors. Elsewhere it is a claim."""
        questions = lab.questions | {"twice": replace(lab.questions["twice"], loopback=loopback)}
        monkeypatch.setattr(lab, "questions", questions)
        late = "class RanksFailed(Exception): pass\n\n"
        late += f"def twice(n): raise RanksFailed({said!r})"
        record = work.grade(job(**GOOD | {"twice": late}), lab, OpenJail())
        assert (record.verdicts[0].state, record.timed_out) == (State.FAIL, again)


def test_long_output_is_cut():
    record = work.grade(job(**GOOD), lab, OpenJail())
    assert all(len(cell.output) <= work.MAX_SHOWN for cell in record.cells)


CHILD = """
import os, sys, signal
from autograder.classroom.run.worker import die_with_parent
die_with_parent(int(sys.argv[1]))
print(os.getpid(), flush=True)
while True:
    signal.pause()
"""
PARENT = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}, str(os.getpid())])
child.wait()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_a_worker_dies_with_its_parent_however_that_dies():
    command = [sys.executable, "-c", PARENT]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    child.wait(timeout=20)
    assert not child.is_running()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_a_worker_whose_parent_is_gone_already_ends():
    command = [sys.executable, "-c", CHILD, str(os.getppid())]
    assert subprocess.run(command, check=False, timeout=60, stdout=subprocess.PIPE).returncode == 1


def test_a_question_that_times_something_waits_for_a_quiet_machine(monkeypatch):
    monkeypatch.setattr(lab.questions["double"], "alone", True)
    asked = job(**GOOD)
    first = work.grade(asked, lab, OpenJail())
    twice, double = first.verdicts
    assert (twice.state, double.state) == (State.PASS, State.UNGRADABLE)
    assert first.timed_out == ("double",)
    assert Cause.PUT_OFF in first.causes
    assert not first.is_final
    second = work.grade(asked.again(first), lab, OpenJail())
    assert [v.state for v in second.verdicts] == [State.PASS, State.PASS]
    assert second.timed_out == ()
    assert "second time" not in second.verdicts[1].sentence


def test_grading_asks_more_than_a_notebook_does():
    rounds, asking = [], Lab(lab.name, lab.title)

    @asking.question("twice", points=2, minutes=1, difficulty=1, hints=("a", "b", "c"))
    def check(student, draw):
        rounds.append(len(draw.cases(1)))
        expect_equal(student.call("twice", 1), 2)

    work.grade(job(**GOOD), asking, OpenJail())
    assert rounds == [3]
