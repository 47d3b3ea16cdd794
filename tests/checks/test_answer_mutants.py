"""`autograder selftest --mutants`: it finds a question that asks too little, and says so."""

from __future__ import annotations

import copy
import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from autograder import answer_mutants, checks
from autograder.judge import Draw, Lab, Student, expect_equal

ROOT = Path(__file__).parents[2]
ENDLESS = "def address(*arguments):\n    while True:\n        pass"


@pytest.fixture
def lab() -> Lab:
    return copy.deepcopy(checks.lab("01_strides"))  # to be broken


def outcome(lab: Lab, name: str) -> answer_mutants.Outcome:
    return answer_mutants.outcome_of(ROOT, lab, lab.questions[name])


@pytest.mark.parametrize("name", ["address", "contiguous_strides", "overlaps"])
def test_no_mutant_of_a_solution_passes_unexplained(lab: Lab, name: str) -> None:
    found = outcome(lab, name)
    assert found.made > 5
    assert found.faults == []


def test_a_case_too_few_is_found(lab: Lab) -> None:
    """Without a step in the second dimension, nobody looks at its stride."""

    def lazy(student: Student, draw: Draw) -> None:
        expect_equal(student.call("address", (3, 0), (4, 5), (5, 1), 0), 15)

    lab.questions["address"] = replace(lab.questions["address"], check=lazy)
    assert outcome(lab, "address").alive


def test_a_lottery_and_a_fault_of_ours_are_found(lab: Lab) -> None:
    def by_chance(student: Student, draw: Draw) -> None:
        row = -(draw.seed % 2)  # the last one, with some seeds
        got = student.call("address", (row, 1), (4, 5), (5, 1), 0)
        assert type(got) is int
        expect_equal(got, 1 if row == 0 else 16)

    lab.questions["address"] = replace(lab.questions["address"], check=by_chance)
    found = outcome(lab, "address")
    assert found.lottery
    assert found.ours


@pytest.mark.slow
def test_a_loop_that_never_ends_is_noticed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_mutants, "SECONDS", 1)
    endless = replace(next(answer_mutants.mutants("x = 1 + 1")), source=ENDLESS)
    assert answer_mutants._passes(lab.questions["address"], endless, {}, {}) == {"fail"}


def test_the_command_prints_a_line_for_each_question_and_counts_faults(lab: Lab) -> None:
    console = Console(file=io.StringIO(), width=200)
    assert answer_mutants.run(ROOT, lab, console, only="address") == 0
    assert "address: 12 mutants, 12 rejected" in console.file.getvalue()  # type: ignore[attr-defined]
