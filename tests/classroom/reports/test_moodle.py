"""Grades for Moodle, against its own importer
(`mod/assign/feedback/offline/importgradeslib.php`).
"""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from autograder.classroom.intake.enrolment import Person
from autograder.classroom.reports.moodle import moodle
from tests.classroom.made_class import (
    LAB,
    marked,
    result,
    ungradable,
)


def rows(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode())))


def test_a_hand_in_from_moodle_is_found_by_its_participant() -> None:
    origin = "submissions/Ada Lovelace_12345_assignsubmission_file_/01_strides.ipynb"
    one = marked(result("Ada_Lovelace_12345"), 4.0)
    header, row = rows(moodle([replace(one, line=replace(one.line, origin=origin))]))
    assert {"Identifier", "Grade", "Last modified (grade)"} <= set(header)
    made = dict(zip(header, row, strict=True))
    assert made["Identifier"].removeprefix("Participant ") == "12345"
    assert made["Full name"] == "Ada Lovelace"
    assert float(made["Grade"]) == LAB.max_points + 4
    assert float(made["Maximum grade"]) == LAB.max_points + 5


def test_others_are_mapped_by_their_user_name() -> None:
    header, row = rows(moodle([marked(result("ada"), 4.0)]))
    made = dict(zip(header, row, strict=True))
    assert (made["Identifier"], made["Username"]) == ("", "ada")


def test_a_name_that_is_a_formula_is_a_name() -> None:
    origin = "=HYPERLINK(1)_12345_assignsubmission_file_/01_strides.ipynb"
    one = result("x")
    assert rows(moodle([replace(one, line=replace(one.line, origin=origin))]))[1][1] == (
        "'=HYPERLINK(1)"
    )


ADA = Person("ada", name="Lovelace, Ada", login="al", canvas="5", moodle="77")
FROM_MOODLE = "A Lovelace_12345_assignsubmission_file_/01_strides.ipynb"


@pytest.mark.parametrize(
    ("person", "origin", "found_by"),
    [
        (ADA, FROM_MOODLE, ["Participant 77", "Lovelace, Ada", ""]),
        (ADA, "x/01_strides.ipynb", ["Participant 77", "Lovelace, Ada", ""]),
        (Person("Ada"), FROM_MOODLE, ["Participant 12345", "A Lovelace", ""]),
        (Person("Ada", login="al"), "x/01_strides.ipynb", ["", "", "al"]),
        (Person("Ada"), "x/01_strides.ipynb", ["", "", "Ada"]),
        (None, "x/01_strides.ipynb", ["", "", "anybody"]),
    ],
)
def test_the_class_list_says_who_it_is_before_the_files_name_does(
    person: Person | None, origin: str, found_by: list[str]
) -> None:
    one = replace(result("anybody"), person=person)
    _, row = rows(moodle([replace(one, line=replace(one.line, origin=origin))]))
    assert row[:3] == found_by


def test_who_waits_for_a_person_gets_no_number_unless_asked_for() -> None:
    people = [result("ada"), ungradable("bob", "No notebook.")]
    most = f"{LAB.max_points + 5:g}"
    assert [row[3:] for row in rows(moodle(people))[1:]] == [["", most, ""], ["", "", ""]]
    provisional = rows(moodle(people, provisional=True))[1:]
    assert [row[3:] for row in provisional] == [[f"{LAB.max_points:g}", most, ""], ["", "", ""]]
