"""One lab of a class, read back."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autograder.attacks.sample_class import NAME
from autograder.classroom.errors import UserError
from autograder.classroom.gradebook import late_policy
from autograder.classroom.intake import enrolment
from autograder.classroom.intake.enrolment import Person
from autograder.classroom.intake.release import CHECK_SUFFIX
from autograder.classroom.reports.results import (
    LOST,
    NOTHING,
    STRANGER,
    Grade,
    Mark,
    Result,
    expect_one_each,
    grades,
    results,
)
from autograder.classroom.store import changes, roster
from autograder.classroom.store.changes import Change
from autograder.classroom.store.roster import Line
from autograder.judge import State
from tests.classroom.made_class import (
    FREE_TEXT,
    LAB,
    RELEASE,
    grading_folder,
    mark,
    marked,
    origin,
    record,
    result,
    ungradable,
    verdict,
)

DUE = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
FIRST = next(iter(LAB.questions))


def people(*origins: str) -> list[Result]:
    return [
        Result(replace(result(f"s{n}").line, origin=origin)) for n, origin in enumerate(origins)
    ]


@pytest.mark.parametrize(
    ("honest", "forged"),
    [
        (
            "Somebody Else_333_assignsubmission_file_01_strides.ipynb",
            "Some Body_333_assignsubmission_file_01_strides.ipynb",
        ),
        ("ada_12345_1_01_strides.ipynb", "eve_12345_2_01_strides.ipynb"),
    ],
)
def test_a_second_one_stops_the_export(honest: str, forged: str) -> None:
    with pytest.raises(UserError) as stopped:
        expect_one_each(people(honest, "zoe_9_9_01_strides.ipynb", forged))
    assert honest in str(stopped.value)
    assert forged in str(stopped.value)


def test_others_pass() -> None:
    expect_one_each(
        people(
            "ada_12345_1_01_strides.ipynb",
            "bob_12346_1_01_strides.ipynb",
            "ada/01_strides.ipynb",
            "bob/01_strides.ipynb",
        )
    )


def test_one_hand_in_is_no_forgery_of_itself() -> None:
    """As where somebody is on the class list twice."""
    expect_one_each(people("ada_12345_1_01_strides.ipynb", "ada_12345_1_01_strides.ipynb"))


def test_a_grade_is_what_its_marks_add_up_to_less_what_lateness_costs() -> None:
    marks = {"one": Mark(2.0, 3.0, False), "two": Mark(0.5, 4.0, True)}
    grade = Grade(marks, penalty=1.0)
    assert (grade.points, grade.max_points, grade.open_cells) == (1.5, 7.0, ("two",))
    assert Grade(marks, penalty=9.0).points == 0.0
    assert Grade(marks).points == 2.5
    assert Grade().late_s == Grade().points == Grade().max_points == 0.0


def test_what_counts_is_settled_unless_all_that_stands_is_asked_for() -> None:
    opened, closed = result("ada"), marked(result("ada"), 4.0)
    whole = LAB.max_points
    for one, settled, provisional in (
        (opened, None, whole),
        (closed, whole + 4, whole + 4),
        (replace(closed, reason="Cut off."), None, whole + 4),
        (ungradable("bob", "Cut off."), None, None),
        (Result(Line("zoe"), enrolment=NOTHING), None, None),
    ):
        assert one.settled == settled
        assert one.counted(provisional=False) == settled
        assert one.counted(provisional=True) == provisional


def test_who_is_somebody_and_whose_name_is_hidden() -> None:
    assert not result("ada").is_anonymous
    assert not result("ada", person=Person("ada", folder_id="ada")).is_anonymous
    assert result("ada", person=Person("ada", folder_id="anon-1")).is_anonymous
    assert result("ada").came
    assert not result("ada", enrolment=NOTHING).came


def test_verdicts_are_found_by_their_state() -> None:
    one = result("ada", record("ada", **{FIRST: verdict(FIRST, State.FLAGGED)}))
    assert [v.question for v in one.verdicts(State.FLAGGED)] == [FIRST]
    assert list(ungradable("bob", "Cut off.").verdicts(State.FLAGGED)) == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bob was late and wrong in one question; what Cy handed in last cannot be read; Dan's record
    is gone, and Eve never had one."""
    place = tmp_path_factory.mktemp("grading")
    records = [record("Cy"), record("ada"), record("bob", **{FIRST: verdict(FIRST, State.FAIL)})]
    policy = late_policy.Policy(per_day=0.1, due={NAME: DUE})
    grading_folder(place, records, policy=policy, submitted={"bob": "2026-11-20T15:00:00Z"})
    mark(place, "ada", 3.0)
    lost = Line("dan", origin("dan"), key="0" * 64, sha256="00ff")
    unread = [Line(name, origin(name), ungradable="Cut off.") for name in ("Cy", "eve")]
    roster.update(place, NAME, [lost, *unread])
    return place


def read(folder: Path) -> dict[str, Result]:
    return {one.student: one for one in results(folder, RELEASE, logging.getLogger(__name__))}


def test_everybody_is_read_back_by_name_with_verdicts_grade_and_reason(folder: Path) -> None:
    found = read(folder)
    assert list(found) == ["ada", "bob", "Cy", "dan", "eve"]
    assert [name for name, one in found.items() if one.record] == ["ada", "bob", "Cy"]
    assert [one.reason for one in found.values()] == ["", "", "Cut off.", LOST, "Cut off."]
    assert {one.enrolment for one in found.values()} == {""}  # there is no class list
    assert [name for name, one in found.items() if one.grade] == ["ada", "bob", "Cy"]
    for name, one in list(found.items())[:3]:
        assert one.record is not None
        assert one.grade is not None
        assert one.record.student == name
        assert one.person is None
        assert {cell: mark for cell, mark in one.grade.marks.items() if cell != FREE_TEXT} == {
            v.question + CHECK_SUFFIX: Mark(v.points, v.max_points, False)
            for v in one.record.verdicts
        }
    assert settled(found) == {"ada": LAB.max_points + 3, "bob": None, "Cy": None}


def settled(found: Mapping[str, Result]) -> dict[str, float | None]:
    return {name: one.settled for name, one in found.items() if one.grade}


def test_a_cell_is_open_until_a_person_has_marked_it_and_lateness_costs(folder: Path) -> None:
    grade = {name: one.grade for name, one in read(folder).items() if one.grade}
    assert grade["ada"].marks[FREE_TEXT] == Mark(3.0, 5.0, False)
    assert grade["bob"].marks[FREE_TEXT] == Mark(0.0, 5.0, True)
    assert (grade["ada"].late_s, grade["ada"].penalty) == (0.0, 0.0)
    missed = LAB.questions[FIRST].points
    assert grade["bob"].late_s == 3 * 3600
    assert grade["bob"].penalty == pytest.approx((LAB.max_points - missed) / 10)


def test_another_lab_and_an_empty_folder_have_no_grades(folder: Path, tmp_path: Path) -> None:
    assert grades(folder, "02_other") == {}
    assert grades(tmp_path, NAME) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_lab_that_was_never_graded_is_a_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        results(tmp_path, RELEASE, logging.getLogger(__name__))


def test_a_damaged_gradebook_is_a_users_error_and_a_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    roster.update(tmp_path, NAME, [Line("ada", origin("ada"))])
    (tmp_path / "gradebook.db").write_bytes(b"This is no database." * 100)
    with pytest.raises(UserError, match=r"gradebook\.db"):
        read(tmp_path)
    (line,) = caplog.records
    assert (line.name, line.levelname) == (__name__, "ERROR")


@pytest.mark.parametrize(
    ("key", "told", "reason"),
    [("", "", ""), ("0" * 64, "", LOST), ("0" * 64, "Cut off.", "Cut off.")],
)
def test_a_verdict_is_lost_where_one_was_made_and_nothing_else_is_known(
    key: str, told: str, reason: str, tmp_path: Path
) -> None:
    roster.update(tmp_path, NAME, [Line("ada", origin("ada"), key=key, ungradable=told)])
    (ada,) = read(tmp_path).values()
    assert (ada.record, ada.grade, ada.reason) == (None, None, reason)


def test_what_an_instructor_changed_counts(folder: Path) -> None:
    dropped = Change(FIRST, "It was unclear.", "2026-11-22 10:00", points=0.0)
    changes.write(folder, NAME, [dropped])
    try:
        found = read(folder)
    finally:
        changes.write(folder, NAME, [])
    for name in ("ada", "bob", "Cy"):
        made = found[name].record
        assert made is not None
        assert [v.max_points for v in made.verdicts if v.question == FIRST] == [0.0]
    assert found["dan"].record is found["eve"].record is None


def test_with_a_class_list_there_is_a_row_for_everybody_on_it(folder: Path) -> None:
    ada = Person("ada@school", name="Ada", login="ada", folder_id="ada")
    bob, zoe = Person("bob", folder_id="bob"), Person("Zoe", folder_id="Alone")
    enrolment.keep(folder, [zoe, bob, ada])
    try:
        found = read(folder)
    finally:
        (folder / enrolment.NAME).unlink()
    assert list(found) == ["ada", "Alone", "bob", "Cy", "dan", "eve"]
    assert {name: one.person for name, one in found.items() if one.person} == {
        "ada": ada,
        "Alone": zoe,
        "bob": bob,
    }
    strangers = dict.fromkeys(("Cy", "dan", "eve"), STRANGER)
    assert {name: one.enrolment for name, one in found.items() if one.enrolment} == {
        "Alone": NOTHING,
        **strangers,
    }


def test_a_folder_is_whose_name_it_bears_where_a_new_list_has_another_number(
    tmp_path: Path,
) -> None:
    cy = Person("cy@school", canvas="556", folder_id="Cy")
    roster.update(tmp_path, NAME, [Line("Cy", "cy_555_1_01_strides.ipynb")])
    enrolment.keep(tmp_path, [cy])
    found = read(tmp_path)
    assert {name: (one.person, one.enrolment) for name, one in found.items()} == {"Cy": (cy, "")}
