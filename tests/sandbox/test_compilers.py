"""Compilers in the jail: a question that asks for one has a budget, the others keep theirs."""

from __future__ import annotations

import pytest
import torch

from autograder.judge import Lab, State, ask, expect_close, expect_equal
from autograder.sandbox import Cell, Jail, Limits

pytestmark = [pytest.mark.jail, pytest.mark.compiler]
lab = Lab("15_compilers", "Compilers")
WELL = {"points": 1, "minutes": 5, "difficulty": 1, "hints": ("a", "b", "c")}
COMPILE_S = 400.0  # twenty seconds of one processor, on a machine that has other things to do


@lab.question("compiled_head", budget_s=COMPILE_S, **WELL)
def compiled_head(student, draw):
    """softmax(2 x) by the compiler."""
    x = draw.tensor(7, 33)
    expect_close(student.call("compiled_head", x), torch.softmax(2 * x, -1))


@lab.question("built", budget_s=COMPILE_S, **WELL)
def built(student, draw):
    """2 n + 1, in C++."""
    n = draw.integer(1, 99)
    expect_equal(student.call("built", n), 2 * n + 1)


@lab.question("patient", budget_s=4.0, **WELL)
def patient(student, draw):
    """Waits two seconds."""
    expect_equal(student.call("waits", 2.0), 2.0)


@lab.question("hasty", **WELL)
def hasty(student, draw):
    """Waits two seconds, and has no budget of its own."""
    expect_equal(student.call("waits", 2.0), 2.0)


COMPILES = """
import os, torch

@torch.compile(backend="inductor")
def both(x):
    return torch.softmax(2 * x, -1)

def compiled_head(x):
    y = both(x)
    assert torch._inductor.metrics.generated_kernel_count > 0, "nothing was compiled"
    return y
"""
BUILDS = """
import ctypes, subprocess

def built(n):
    with open("/tmp/b.cpp", "w") as file:
        file.write('extern "C" long f(long n) { return 2 * n + 1; }')
    subprocess.run(["g++", "-shared", "-fPIC", "-o", "/tmp/b.so", "/tmp/b.cpp"], check=True)
    return ctypes.CDLL("/tmp/b.so").f(n)
"""
WAITS = """
import time

def waits(s):
    time.sleep(s)
    return s
"""


@pytest.mark.timeout(900)
def test_inductor_compiles_and_gcc_builds_in_the_jail():
    cells = [Cell("a", COMPILES), Cell("b", BUILDS)]
    with Jail() as jail, jail.open(cells, extra_load_s=COMPILE_S) as student:
        for name in ("built", "compiled_head"):
            verdict = ask(lab.questions[name], student, seed=7)
            assert verdict.state is State.PASS, f"{verdict}\n{student.cells}"


def test_a_budget_is_the_question_s_own_and_the_next_has_the_usual_one():
    with Jail(Limits(wall_s=1.0)) as jail, jail.open([Cell("a", WAITS)]) as student:
        states = [ask(lab.questions[n], student, seed=7).state for n in ("patient", "hasty")]
        assert states == [State.PASS, State.FAIL]
        assert student.calls[-1].outcome.kind == "timeout"


def test_cells_have_the_same_budget_on_top_of_the_usual_one():
    """A decorator compiles while its cell runs."""
    cells = [Cell("slow", WAITS + "waits(2)")]
    with Jail(Limits(load_s=1.0)) as jail:
        for extra_s, kind in ((0.0, "timeout"), (7.0, None)):
            with jail.open(cells, extra_load_s=extra_s) as student:
                assert (error := student.cells[0].error) is None or error.kind == kind
                assert (error is None) is (kind is None)


def test_the_usual_budget_is_ten_seconds():
    assert Limits().wall_s == 10.0
    assert lab.questions["hasty"].budget_s is None
