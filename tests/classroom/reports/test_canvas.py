"""Grades for Canvas, against the rules of its own importer (`lib/gradebook_importer.rb`)."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import pytest

from autograder.classroom.intake.enrolment import Person
from autograder.classroom.reports.canvas import HEADER, canvas
from autograder.classroom.reports.results import Grade, Result
from autograder.classroom.store.roster import Line
from tests.classroom.made_class import (
    LAB,
    class_of,
    marked,
    result,
    ungradable,
)


def rows(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode())))


def from_canvas(name: str, user: int) -> Result:
    line = Line(f"{name}_{user}", f"submissions/{name}_LATE_{user}_67890_01_strides-1.ipynb")
    return replace(marked(result(f"{name}_{user}"), 4.0), line=line)


def test_the_header_is_one_that_canvas_accepts() -> None:
    header, possible, *_ = rows(canvas("Strides", [from_canvas("ada", 12345)]))
    assert "Student" in header[0]
    assert "ID" in header[1]
    assert re.search(r"SIS\s+User\s+ID", header[2])
    assert re.search(r"SIS\s+Login\s+ID", header[3])
    assert "Section" in header[4]
    assert header[5:] == ["Strides"]
    assert "Points Possible" in possible[0]
    assert float(possible[5]) == LAB.max_points + 5


def test_a_hand_in_from_canvas_is_found_by_canvass_own_number() -> None:
    *_, row = rows(canvas("Strides", [from_canvas("adalovelace", 12345)]))
    assert row == ["adalovelace", "12345", "", "", "", str(int(LAB.max_points + 4))]


def test_a_folder_that_only_looks_like_canvass_is_found_by_login() -> None:
    """`smith_2` is not Canvas's user 2, whose grade it would overwrite."""
    one = marked(result("smith_2"), 4.0)
    inner = replace(one, line=replace(one.line, origin="smith_2/bob_7_8_01_strides.ipynb"))
    for made in (one, inner):
        *_, row = rows(canvas("Strides", [made]))
        assert row[:5] == ["smith_2", "", "", "smith_2", ""]


def test_who_waits_for_a_person_gets_no_number_unless_asked_for() -> None:
    people = [result("ada"), ungradable("bob", "No notebook.")]
    assert [row[5] for row in rows(canvas("Strides", people))[2:]] == ["", ""]
    provisional = rows(canvas("Strides", people, provisional=True))[2:]
    assert [row[5] for row in provisional] == [f"{LAB.max_points:g}", ""]


def test_a_newer_hand_in_that_could_not_be_graded_holds_the_grade_back() -> None:
    one = replace(marked(result("ada"), 4.0), reason="It was cut off.")
    assert rows(canvas("Strides", [one]))[2][5] == ""


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_every_size(size: int) -> None:
    assert len(rows(canvas("Strides", class_of(size)))) == size + 2


def test_the_most_is_that_of_who_has_the_most_to_get() -> None:
    """Grades of before a cell was added have less."""
    one = from_canvas("ada", 12345)
    assert one.grade is not None
    old = replace(one, grade=Grade(dict(list(one.grade.marks.items())[:1])))
    for people in ([one, old, ungradable("bob", "No.")], [old, one]):
        assert float(rows(canvas("Strides", people))[1][5]) == LAB.max_points + 5
    assert rows(canvas("Strides", [])) == [
        [*HEADER, "Strides"],
        ["    Points Possible", "", "", "", "", "0"],
    ]


ADA = Person(
    "ada", name="Lovelace, Ada", section="B", login="al", number="S1", canvas="77", moodle="5"
)


@pytest.mark.parametrize(
    ("person", "origin", "found_by"),
    [
        (ADA, "ada_12345_1_01_strides.ipynb", ["Lovelace, Ada", "77", "S1", "al", "B"]),
        (Person("Ada"), "ada_12345_1_01_strides.ipynb", ["ada", "12345", "", "", ""]),
        (Person("Ada", login="al"), "x/01_strides.ipynb", ["Ada", "", "", "al", ""]),
        (Person("Ada"), "x/01_strides.ipynb", ["Ada", "", "", "Ada", ""]),
        (None, "x/01_strides.ipynb", ["anybody", "", "", "anybody", ""]),
    ],
)
def test_the_class_list_says_who_it_is_before_the_files_name_does(
    person: Person | None, origin: str, found_by: list[str]
) -> None:
    one = replace(result("anybody"), person=person)
    *_, row = rows(canvas("Strides", [replace(one, line=replace(one.line, origin=origin))]))
    assert row[:5] == found_by
