"""`autograder selftest`: clean on the course, and red for every fault it promises to find."""

from __future__ import annotations

import copy
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from autograder import checks, selftest
from autograder.judge import Draw, KnownAnswer, Lab, Student, WrongAnswer, ask, expect_equal, text
from tests import samples

ROOT = Path(__file__).parents[2]


def faults(lab: Lab, question: str) -> list[str]:
    return list(selftest.count(lab, ROOT, question).faults)


def run(labs: list[Lab]) -> tuple[int, str]:
    console = Console(file=io.StringIO(), width=200)
    number = selftest.run(ROOT, labs, console)
    return number, console.file.getvalue()  # type: ignore[attr-defined]


NAMES = sorted(path.name for path in (ROOT / "solutions").glob("[0-9]*"))
ONCE = [(name, 1) for name in NAMES]
LABS = [*ONCE, *((name, len(selftest.SEEDS)) for name in NAMES)]


@pytest.mark.whole_lab
@pytest.mark.timeout(1_500)  # it asks every known answer of a lab; lab 06 compiles most of its own
@pytest.mark.parametrize(("name", "seeds"), samples.sample(LABS, ONCE), ids=str)
def test_a_lab_is_clean(name: str, seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many seeds as the command asks, in make thorough."""
    monkeypatch.setattr(selftest, "SEEDS", selftest.SEEDS[:seeds])
    number, printed = run([lab for lab in checks.labs() if lab.name == name])
    assert number == 0, printed
    assert name in printed


def test_nothing_to_test_is_a_fault() -> None:
    number, printed = run([])
    assert number == 1
    assert "nothing was tested" in printed


@pytest.fixture
def lab() -> Lab:
    """Lab 01, to be broken."""
    return copy.deepcopy(next(lab for lab in checks.labs() if lab.name == "01_strides"))


def change(lab: Lab, name: str, **fields: Any) -> None:
    lab.questions[name] = replace(lab.questions[name], **fields)


def test_a_wrong_answer_that_passes_is_found(lab: Lab) -> None:
    right = WrongAnswer("right", "no", {"contiguous_strides": lambda n: torch.empty(n).stride()})
    lab.questions["contiguous_strides"].wrong_answers.append(right)
    assert any("'right' is not rejected" in fault for fault in faults(lab, "contiguous_strides"))


def seeds_of(lab: Lab) -> list[str]:
    return list(selftest.count(lab, ROOT, "contiguous_strides", seeds=3).faults)


def test_an_answer_whose_verdict_hangs_on_the_seed_is_found(lab: Lab) -> None:
    assert seeds_of(lab) == []

    def sometimes(student: Student, draw: Draw) -> None:
        if draw.integer(0, 2) or isinstance(student, KnownAnswer):
            student.call("contiguous_strides", (2, 3))
        else:
            expect_equal(0, 1)

    change(lab, "contiguous_strides", check=sometimes)
    found = seeds_of(lab)
    assert any("the solution fails with" in fault for fault in found)
    assert any("passes with 3 of 3 seeds: 1" in fault for fault in found)


def test_a_verdict_that_another_language_reads_in_english_is_found(lab: Lab) -> None:
    question = lab.questions["contiguous_strides"]
    verdict = ask(question, KnownAnswer({"contiguous_strides": lambda size: "none"}), seed=1)
    assert list(selftest.left_in_english(verdict)) == []
    for got in ("the first of the two", text("within", place="en dw", rest="for each row")):
        (fault,) = selftest.left_in_english(replace(verdict, got=got))
        assert "got is in English for a reader of 'es'" in fault
    for got in ("`the` code 'of the", "IndexError: list index out of the range", "in situ"):
        assert list(selftest.left_in_english(replace(verdict, got=got))) == []


def test_two_wrong_answers_that_look_alike_are_found(lab: Lab) -> None:
    known = lab.questions["overlaps"].wrong_answers
    known.append(replace(known[0], name="twin", sentence="Another sentence."))
    assert any("'twin' is taken for" in fault for fault in faults(lab, "overlaps"))


def test_too_few_wrong_answers_are_found(lab: Lab) -> None:
    del lab.questions["address"].wrong_answers[2:]
    assert any("2 wrong answer(s)" in fault for fault in faults(lab, "address"))


def test_a_check_that_rejects_the_solution_is_found(lab: Lab) -> None:
    def wants_minus_one(student: Student, draw: Draw) -> None:
        expect_equal(student.call("address", (0,), (1,), (1,), 0), -1)

    change(lab, "address", check=wants_minus_one)
    assert any("the solution does not pass" in fault for fault in faults(lab, "address"))


def test_a_question_that_the_page_does_not_ask_is_found(lab: Lab) -> None:
    lab.questions["addresses"] = replace(lab.questions["address"], name="addresses")
    found = faults(lab, "addresses")
    assert any("addresses: the page has no check cell" in fault for fault in found)


def test_one_question_is_asked_alone(lab: Lab) -> None:
    change(lab, "overlaps", cost_of=None)
    change(lab, "address", cost_of=None)
    found = selftest.count(lab, ROOT, "overlaps")
    assert found.questions == 1
    assert found.wrong == len(lab.questions["overlaps"].wrong_answers)
    assert found.faults
    assert all("overlaps" in fault for fault in found.faults)


def test_a_missing_cost_line_is_found(lab: Lab) -> None:
    change(lab, "overlaps", cost_of=None)
    assert any("without a cost line" in fault for fault in faults(lab, "overlaps"))


def test_an_alternative_to_nothing_is_found(lab: Lab) -> None:
    del lab.questions["overlaps"]
    assert any("'overlaps', which is not asked" in fault for fault in faults(lab, "address"))


def test_too_few_right_answers_are_found(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "alternatives", lambda path: {})
    assert any("1 right answer(s)" in fault for fault in faults(lab, "address"))
