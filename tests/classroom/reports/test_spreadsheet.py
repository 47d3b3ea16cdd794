"""CSV that a spreadsheet shows and never computes."""

from __future__ import annotations

import csv
import io

import pytest

from autograder.classroom.reports.spreadsheet import inert, written


@pytest.mark.parametrize(
    "start", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "|x", "%0"]
)
def test_no_cell_is_a_formula(start: str) -> None:
    [[cell, after]] = csv.reader(io.StringIO(written([[start, "x"]]).decode()))
    assert cell.startswith("'")
    assert after == "x"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1234567.0, "1234567"),
        (1234567.891, "1234567.89"),
        (100.0, "100"),
        (0.1 + 0.2, "0.3"),
        (2, "2"),
        (0.0, "0"),
        (-0.001, "0"),
        (-2.5, "-2.5"),
    ],
)
def test_a_number_is_written_as_a_person_writes_it(number: float, text: str) -> None:
    assert written([[number]]) == f"{text}\n".encode()


@pytest.mark.parametrize("plain", ["ada", "3", "a=b", "", "'x"])
def test_ordinary_cells_stay_as_they_are(plain: str) -> None:
    assert inert(plain) == plain


def test_a_cell_holds_one_line_and_nothing_is_an_empty_one() -> None:
    assert written([[None, "a\nb", 2.5], ["\ud800x", None]]) == b",a b,2.5\n x,\n"
