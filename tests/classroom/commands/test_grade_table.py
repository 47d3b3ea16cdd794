"""The table that `autograder grade` ends with, in a terminal as narrow as they come."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from autograder.classroom.commands.grade import table
from autograder.classroom.commands.grading_run import GradingRun, Order
from autograder.classroom.gradebook import late_policy
from autograder.classroom.intake.submissions import Submission
from autograder.classroom.reports.rows import Row
from autograder.classroom.store import roster
from autograder.classroom.store.roster import Line
from autograder.judge import State
from tests.classroom.made_class import LAB, NAME, RELEASE, record, verdict

ALL = LAB.max_points


def graded(student, **more):
    return Row(Submission(student, f"{student}/{NAME}.ipynb", **more), record(student))


def printed(rows, penalties=None, width=80):
    out = io.StringIO()
    console = Console(file=out, width=width)
    console.print(table(RELEASE, rows, penalties or {}))
    return out.getvalue()


def test_the_points_are_those_after_the_penalty():
    said = printed([graded("ada"), graded("ben")], {"ben": 3.0}, width=120)
    ada, ben = [line for line in said.splitlines() if "graded before" in line]
    assert f" {ALL:g} " in ada
    assert f" {ALL - 3:g} " in ben
    assert "late: 3 points less" in ben
    assert "late" not in ada


def test_equal_reasons_stand_in_one_line():
    reason = "The file is not a notebook: it is damaged or was cut off."
    refused = [
        Row(Submission(f"s{number:02}", f"s{number:02}/x.pdf"), ungradable=reason)
        for number in range(71)
    ]
    other = Row(Submission("zoe", "zoe"), ungradable="The folder that was handed in is empty.")
    rows = [*refused, graded("ada"), other]
    assert len(printed(rows).splitlines()) < 20
    said = printed(rows, width=200)
    assert "s00, s01, s02 and 68 more" in said
    assert said.count(reason) == 1
    assert "zoe" in said


def test_a_student_with_every_misconception_takes_one_line_of_eighty_columns():
    answers = {}
    for name, question in LAB.questions.items():
        for known in list(question.wrong_answers)[:1]:
            answers[name] = verdict(name, State.FAIL, misconception=known.name)
    rows = [Row(Submission(f"s{n}", "x"), record(f"s{n}", **answers)) for n in range(30)]
    said = printed(rows)
    assert len(said.splitlines()) <= 30 + 7
    assert max(map(len, said.splitlines())) <= 80
    assert "misconceptions: " in printed(rows, width=200)


@pytest.mark.parametrize("width", [20, 40, 400])
def test_a_name_of_any_length_and_a_terminal_of_any_width(width):
    rows = [graded("x" * 48), Row(Submission("", ""), ungradable="A sentence. " * 40)]
    assert max(map(len, printed(rows, width=width).splitlines())) <= width


def test_a_time_for_a_name_that_nobody_bears_is_said(tmp_path):
    roster.update(tmp_path, NAME, [Line("ada_12345"), Line("ben")])
    names = [(NAME, "ada"), (NAME, "ben"), (NAME, "zoe"), ("02_dispatcher", "ida")]
    run = object.__new__(GradingRun)
    run.release, run.order = RELEASE, Order(None, tmp_path, tmp_path)
    run.late = late_policy.Policy(submitted=dict.fromkeys(names, None))
    assert run.unknown_times == ["'ada', who may be 'ada_12345'", "'zoe'"]
    run.late = None
    assert run.unknown_times == []
