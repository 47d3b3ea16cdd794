"""The clean room: what a student's Python does never reaches it, and a text is data."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from autograder.judge import (
    Cause,
    Draw,
    Impossible,
    KnownAnswer,
    Lab,
    LocalStudent,
    NoAnswer,
    NotAdmitted,
    Rules,
    Student,
    Text,
    Wrong,
    answer_room,
    ask,
    clean_room,
    expect_close,
    floor,
    text,
    text_of,
)
from autograder.sandbox import Cell, Jail

HARNESS = """
import os
RAN = []
def run(text, x):
    names = {}
    exec(text, names)
    RAN.append(text)
    return names["twice"](x)
def who(): return os.getpid()
def how_many(): return len(RAN)
def hello(): return "harness"
"""
HONEST = """
def answer(): return "def twice(x): return 2 * x"
"""
lab = Lab("00_room", "A room")
TOLD = {"points": 1, "minutes": 1, "difficulty": 1, "hints": ("a", "b", "c")}


@lab.question("answer", budget_s=60.0, **TOLD)
def answer(student: Student, draw: Draw) -> None:
    """A text that doubles."""
    source = text_of(student, "answer", "Python")
    with clean_room(student, HARNESS) as room:
        for n in draw.sizes(1, 3):
            x = draw.tensor(n)
            expect_close(room.call("run", source, x), 2 * x)
        floor("runs", room.call("how_many"), at_least=2)


answer.wrong("squared", "This is a square.", run=lambda text, x: x * x, how_many=lambda: 9)


def here(source: str) -> LocalStudent:
    names: dict[str, Any] = {}
    exec(source, names)
    return LocalStudent(names)


def test_a_text_is_judged_from_the_room() -> None:
    assert ask(answer, here(HONEST), seed=1).cause is Cause.PASSED


def test_a_known_wrong_answer_models_what_a_text_does() -> None:
    squared = 'def answer(): return "def twice(x): return x * x"'
    assert ask(answer, here(squared), seed=1).misconception == "squared"


def test_what_a_student_calls_as_the_harness_does_is_never_asked() -> None:
    forged = HONEST.replace("2 * x", "3 * x") + "\ndef run(text, x): return 2 * x\n"
    assert ask(answer, here(forged), seed=1).cause is Cause.WRONG


@pytest.mark.parametrize("given", ["3", "None", "'a' * 50_001"])
def test_what_is_no_text_is_wrong(given: str) -> None:
    with pytest.raises(Wrong) as wrong:
        text_of(here(f"def answer(): return {given}"), "answer", "CUDA")
    assert wrong.value.expected == text("as_text", kind="CUDA")
    assert wrong.value.why == text("returns_text", kind="CUDA")


def test_a_text_may_have_fifty_thousand_characters() -> None:
    assert len(text_of(here("def answer(): return 'a' * 50_000"), "answer")) == 50_000


def test_a_stub_is_no_text_and_is_noted_down() -> None:
    student = here("def answer(): raise NotImplementedError('Lab 0.1: later')")
    with pytest.raises(NoAnswer):
        text_of(student, "answer")
    assert ask(answer, student, seed=1).cause is Cause.BLANK


def test_the_record_of_calls_is_one() -> None:
    student = here(HONEST)
    with clean_room(student, HARNESS) as room:
        room.call("hello")
    assert [call.function for call in student.calls] == ["hello"]


def test_a_harness_may_be_a_module() -> None:
    with clean_room(here(HONEST), types) as room:
        assert room is not None


TAKING = """
ANSWERS = {}
def take_cell(name, source):
    names = {}
    exec(source, names)
    ANSWERS[name] = names[name]
def run(name, x): return ANSWERS[name](x)
"""


class Graded(LocalStudent):
    """As in grading: the functions are another process's, and the cells are known."""

    is_grading = True
    cells: Mapping[str, str]

    def cell_of(self, name: str) -> str:
        return self.cells[name]


def graded(**cells: str) -> Graded:
    student = Graded({})
    student.cells = cells
    return student


def test_a_notebook_hands_its_functions_over() -> None:
    student = here("seen = []\ndef f(x): return seen.append(x) or 2 * x\ndef g(x): return 3 * x")
    with answer_room(student, TAKING, ["f", "g"], Rules()) as room:
        assert [room.call("run", "f", 1), room.call("run", "g", 1)] == [2, 3]
    assert student.namespace["seen"] == [1]


def test_in_grading_the_cells_go_in_as_text_without_what_was_tried() -> None:
    cells = {"f": "%%time\ndef f(x): return 2 * x\nopen(f)\n", "g": "def g(x): return 3 * x"}
    with answer_room(graded(**cells), TAKING, ["f", "g"], Rules()) as room:
        assert [room.call("run", "f", 1), room.call("run", "g", 1)] == [2, 3]


def test_a_cell_that_is_not_admitted_is_flagged_with_its_first_such_line() -> None:
    student = graded(f="def f(x):\n    import sys\n    return open(x)\n")
    with pytest.raises(NotAdmitted) as flagged, answer_room(student, TAKING, ["f"], Rules()):
        pass
    assert isinstance(flagged.value.why, Text)
    assert flagged.value.why.facts["line"] == 2
    assert "import sys" in str(flagged.value.where)


def test_a_cell_that_is_a_stub_is_blank_whatever_it_uses() -> None:
    told = "Lab 4.1: f, about 9 lines"
    student = graded(f=f"def f(x: Answer):\n    raise NotImplementedError({told!r})\n")
    with pytest.raises(NoAnswer) as blank, answer_room(student, TAKING, ["f"], Rules()):
        pass
    (call,) = student.calls
    assert (call.function, call.args, call.kwargs) == ("f", (), {})
    assert call.outcome is blank.value.raised
    assert blank.value.raised.kind is Cause.BLANK
    assert (blank.value.raised.error, blank.value.raised.message) == ("NotImplementedError", told)


def test_a_model_is_its_own_room() -> None:
    model = KnownAnswer({"hello": lambda: "model"})
    with clean_room(model, HARNESS) as room:
        assert room.call("hello") == "model"
    assert text_of(model, "answer") == ""


def test_fewer_than_physics_allows_is_flagged() -> None:
    floor("loads", 10, at_least=10)
    with pytest.raises(Impossible) as flagged:
        floor("loads", 9, at_least=10)
    assert flagged.value.cause.state == "flagged"
    assert isinstance(flagged.value.why, Text)
    assert flagged.value.why.facts == {"what": "loads", "got": 9, "floor": 10}


ROTTEN = """
import builtins, os, sys, types, torch
def answer(): return "def twice(x): return 3 * x"
def run(text, x): return 2 * x
def how_many(): return 99
torch.Tensor.__mul__ = torch.Tensor.__rmul__ = lambda a, b: a + a
builtins.sum = lambda numbers: 99
os.getpid = lambda: 77
"""


@pytest.fixture(scope="module")
def jail() -> Any:
    with Jail() as jail:
        yield jail


@pytest.mark.jail
def test_nothing_that_a_cell_did_is_in_the_room(jail: Jail) -> None:
    with jail.open([Cell("rotten", ROTTEN)]) as student:
        assert student.cells[0].error is None
        verdict = ask(answer, student, seed=1)
        assert verdict.cause is Cause.WRONG, verdict
        with clean_room(student, HARNESS) as room:
            assert room.call("who") == 1  # of a process namespace of its own
            assert torch.equal(
                room.call("run", "def twice(x): return x", torch.ones(2)), torch.ones(2)
            )


@pytest.mark.jail
def test_the_honest_twin_passes_there(jail: Jail) -> None:
    with jail.open([Cell("honest", HONEST)]) as student:
        assert ask(answer, student, seed=1).cause is Cause.PASSED


@pytest.mark.jail
def test_a_harness_that_does_not_start_is_our_fault(jail: Jail) -> None:
    @Lab("01_room", "Broken").question("answer", **TOLD)
    def broken(student: Student, draw: Draw) -> None:
        """A room that is not ready."""
        with clean_room(student, "import a_module_that_is_not_there") as room:
            room.call("run")

    with jail.open([Cell("honest", HONEST)]) as student:
        assert ask(broken, student, seed=1).cause is Cause.GRADER_FAULT


@pytest.mark.jail
def test_a_text_that_kills_the_room_costs_its_question_alone(jail: Jail) -> None:
    deadly = "def answer(): return 'import os\\ndef twice(x): os._exit(3)'"
    with jail.open([Cell("deadly", deadly)]) as student:
        assert ask(answer, student, seed=1).cause is Cause.DIED
        assert student.call("answer").startswith("import os")
