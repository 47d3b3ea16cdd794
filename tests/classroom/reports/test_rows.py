"""The list of those without a grade."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from autograder.attacks.sample_class import NAME
from autograder.classroom.intake.submissions import (
    Submission,
)
from autograder.classroom.reports.rows import Row, write_ungradable
from tests.classroom.made_class import record


@pytest.mark.parametrize("start", [" =1+1", "|calc", "\u00a0=1", "=1+1", "-1"])
def test_the_list_of_the_ungradable_has_no_formula(tmp_path: Path, start: str) -> None:
    path = tmp_path / "ungradable.csv"
    for lab in (NAME, "02_other", NAME):  # a line that was kept is not guarded twice
        write_ungradable(path, [Row(Submission(start, start), ungradable="No.")], lab)
    lines = list(csv.reader(io.StringIO(path.read_text())))
    kept = start.replace("\u00a0", " ")  # a cell holds one line of plain text
    assert [line[1:3] for line in lines[1:]] == [[f"'{kept}"] * 2] * 2


def listed(path: Path) -> list[list[str]]:
    """The list's lines below its header."""
    return list(csv.reader(io.StringIO(path.read_text())))[1:]


def failed(student: str, reason: str = "No.", note: str = "") -> Row:
    submission = Submission(student, f"{student}/lab.ipynb", note="Two were there.")
    return Row(submission, ungradable=reason, note=note)


def test_each_line_says_who_where_why_and_what_the_instructor_should_know(tmp_path: Path) -> None:
    path = tmp_path / "ungradable.csv"
    write_ungradable(path, [failed("zoe", note="It hung."), failed("bob", "Cut off.")], NAME)
    assert listed(path) == [
        [NAME, "bob", "bob/lab.ipynb", "Cut off.", "Two were there."],
        [NAME, "zoe", "zoe/lab.ipynb", "No.", "Two were there.; It hung."],
    ]


def test_who_has_a_grade_now_is_off_the_list_and_others_stay(tmp_path: Path) -> None:
    """Those of another lab, and whoever was not graded in this run."""
    path = tmp_path / "ungradable.csv"
    write_ungradable(path, [failed("ada"), failed("bob")], NAME)
    write_ungradable(path, [failed("ada")], "02_other")
    graded = Row(Submission("ada", "ada/lab.ipynb"), record("ada"))
    write_ungradable(path, [graded], NAME)
    assert [line[:2] for line in listed(path)] == [[NAME, "bob"], ["02_other", "ada"]]


def test_a_damaged_line_is_dropped_and_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ungradable.csv"
    path.write_text("lab,student\n\nshort,line\n02_other,zoe,zoe.ipynb,No.,\n")
    write_ungradable(path, [], NAME)
    assert [line[:2] for line in listed(path)] == [["02_other", "zoe"]]
    path.write_bytes(b"\xff\n")
    write_ungradable(path, [failed("bob")], NAME)
    assert [line[:2] for line in listed(path)] == [[NAME, "bob"]]


def test_a_row_is_of_an_earlier_run_unless_it_is_told_to_be_new() -> None:
    assert not failed("bob").is_new
