"""Late penalties: one file of the instructor's, and what nbgrader makes of it."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograder.attacks.sample_class import NAME, ROOT
from autograder.classroom.errors import UserError
from autograder.classroom.gradebook import course, late_policy, lateness
from autograder.classroom.intake.enrolment import Person
from autograder.classroom.intake.owners import LATE
from tests.classroom.made_class import FREE_TEXT, LAB, grading_folder, record

pytestmark = pytest.mark.whole_class

DUE = datetime(2026, 11, 20, 22, 59, tzinfo=UTC)
FILE = """\
grace_minutes = 15
per_day_percent = 10
cap_percent = 50

[due]
01_strides = 2026-11-20T23:59:00+01:00
"""
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)


@pytest.fixture
def read(tmp_path):
    """Writes `late.toml` and reads it as `autograder grade` does."""

    def read(text, labs=(NAME, "02_dispatcher")):
        (tmp_path / late_policy.NAME).write_text(text)
        return late_policy.read(tmp_path / late_policy.NAME, labs=labs)

    return read


def test_no_file_no_penalty(tmp_path):
    assert late_policy.read(tmp_path / late_policy.NAME) is None


def test_who_declares_nothing_charges_nothing():
    whole = late_policy.Policy(timedelta(0), 0.0, 1.0, {}, {}, timedelta(0), {})
    assert late_policy.Policy() == whole


def test_the_file_of_the_docstring_is_read(read, tmp_path):
    (tmp_path / "submitted.csv").write_text(
        f"student,lab,submitted\nada,{NAME},2026-11-20T10:00Z\n"
    )
    example = [line[4:] for line in late_policy.__doc__.splitlines() if line.startswith("    ")]
    policy = read("\n".join(example))
    assert policy.due == {NAME: DUE}
    assert policy.submitted == {(NAME, "ada"): datetime(2026, 11, 20, 10, tzinfo=UTC)}


def test_the_file_of_the_first_class_is_read(read, tmp_path):
    (tmp_path / "submitted.csv").write_text("student,lab,submitted\n")
    page = (ROOT / "docs" / "first-class.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    (example,) = [block for block in blocks if "per_day_percent" in block]
    assert read(example).due == {NAME: DUE}


@pytest.mark.parametrize(
    ("past", "share"),
    [
        (-DAY, 0.0),
        (timedelta(0), 0.0),
        (15 * MINUTE, 0.0),
        (15 * MINUTE + timedelta(seconds=1), 0.1),
        (DAY, 0.1),
        (DAY + timedelta(seconds=1), 0.2),
        (5 * DAY, 0.5),
        (365 * DAY, 0.5),
    ],
)
def test_a_day_begun_counts_as_a_day_after_the_grace_and_up_to_the_cap(read, past, share):
    policy = read(FILE)
    assert policy.penalty(30.0, past) == pytest.approx(30 * share)
    assert policy.penalty(0.0, past) == 0.0


def test_without_a_cap_all_can_be_lost_and_never_more(read):
    policy = read("per_day_percent = 40")
    assert policy.penalty(10.0, 2 * DAY) == 8.0
    assert policy.penalty(10.0, 9 * DAY) == 10.0


def test_a_penalty_has_six_digits_behind_the_point(read):
    assert read("per_day_percent = 33.333333").penalty(1.0, DAY) == 0.333333
    assert read("per_day_percent = 12.3456789").penalty(1.0, DAY) == 0.123457


def test_it_says_in_one_line_what_it_costs(read):
    line = "10% of the points per day begun, at most 50%; the first 15 minutes are free"
    assert str(read(FILE)) == line


def test_late_says_canvas_costs_nothing_unless_it_is_told_to(read):
    assert read(FILE).taken_as(NAME, "ada") is None
    two_days = read(FILE.replace("[due]", "canvas_late_days = 2\n[due]"))
    assert two_days.taken_as(NAME, "ada") == DUE + 2 * DAY


@pytest.mark.parametrize("begin", ["", "\ufeff"])  # as Excel writes UTF-8
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_times_are_read_whatever_ends_their_lines(read, tmp_path, end, begin):
    rows = [
        "student,lab,submitted",
        f"ada,{NAME},2026-11-20T10:00Z",
        f"Zoë,{NAME},2026-11-21T10:00Z",
    ]
    (tmp_path / "t.csv").write_bytes((begin + end.join(rows)).encode())
    policy = read("per_day_percent = 10\ntimes = 't.csv'")
    assert [who for _, who in policy.submitted] == ["ada", "Zoë"]


def test_what_is_written_into_the_grading_folder_says_the_same(read, tmp_path):
    policy = read(FILE.replace("per_day_percent = 10", "per_day_percent = 7.5"))
    (tmp_path / "copy.toml").write_text(late_policy.written(policy))
    assert late_policy.read(tmp_path / "copy.toml") == policy


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("per_day_percent = ", "is not TOML"),
        ("", "per_day_percent is missing"),
        ("per_day_percent = 'ten'", "must be a number from 0 to 100"),
        ("per_day_percent = true", "must be a number"),
        ("per_day_percent = -1", "must be a number from 0"),
        ("per_day_percent = 101", "from 0 to 100"),
        ("per_day_percent = nan", "must be a number"),
        ("per_day_percent = 10\ncap_percent = inf", "from 0 to 100"),
        ("per_day_percent = 10\ngrace_minutes = inf", "must be a number from 0, and is inf"),
        ("per_day_percent = 10\ngrace_minutes = 1_000_000_000", "must be a number from 0, and is"),
        ("per_day_percent = 10\ncap_percent = 101", "cap_percent must be a number from 0 to 100,"),
        ("per_day_percent = 10\ncap = 3", "no setting 'cap', only grace_minutes"),
        ("per_day_percent = 10\ndue = 3", "must be a table"),
        ("per_day_percent = 10\n[due]\n99_no = 2026-11-20T10:00:00Z", "no lab '99_no'"),
        (
            "per_day_percent = 10\n[due]\n01_strides = 2026-11-20T10:00:00Z\n"
            "99_no = 2026-11-20T10:00:00Z",
            "no lab '99_no'",
        ),
        ("per_day_percent = 10\n[due]\n01_strides = 2026-11-20T10:00:00", "a zone"),
        ("per_day_percent = 10\n[due]\n01_strides = 3", r"\[due\]: the due time of 01_strides"),
        ("per_day_percent = 10\n[due]\n01_strides = 2026-11-20", "a zone"),
        ("per_day_percent = 10\n[due]\n01_strides = '2026-11-20T10:00:00Z'", "without quotes"),
        ("per_day_percent = 10\ntimes = 7", "name of a CSV file"),
        ("per_day_percent = 10\ntimes = 'nowhere.csv'", "cannot read the times"),
    ],
)
def test_a_bad_file_is_one_clear_line(read, text, says):
    with pytest.raises(UserError, match=says) as caught:
        read(text)
    assert "\n" not in str(caught.value)
    assert late_policy.NAME in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("", "first line must name student, lab, submitted"),
        ("student,lab\nada,01_strides\n", "submitted is not there"),
        ("student,lab,submitted\nada,01_strides,yesterday\n", "line 2: 'yesterday' needs a date"),
        ("student,lab,submitted\nada,01_strides,2026-11-20T10:00\n", "and a zone"),
        ("student,lab,submitted\nada,01_strides\n", "line 2: '' needs a date"),
        ("student,lab,submitted\nada,07_no,2026-11-20T10:00Z\n", "no lab '07_no'"),
        ("student,lab,submitted\nada,01_strides,0001-01-01T00:00+14:00\n", "line 2"),
        (f"student,lab,submitted\n{'a' * 200_000},01_strides,2026-11-20T10:00Z\n", "larger than"),
    ],
)
def test_bad_times_are_one_clear_line(read, tmp_path, rows, says):
    (tmp_path / "t.csv").write_text(rows)
    with pytest.raises(UserError, match=says) as caught:
        read("per_day_percent = 10\ntimes = 't.csv'")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text(tmp_path):
    (tmp_path / late_policy.NAME).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="Cannot read"):
        late_policy.read(tmp_path / late_policy.NAME)


@pytest.mark.parametrize("text", ["2026-11-20 10:00:00", "2026-11-20 10:00:00 UTC"])
def test_the_exchanges_times_are_in_utc(text):
    assert late_policy.moment(text) == datetime(2026, 11, 20, 10, tzinfo=UTC)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="this system has one zone per process")
def test_a_time_without_a_zone_is_no_time_of_this_machines_zone(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert late_policy.moment("2026-11-20 10:00:00") == datetime(2026, 11, 20, 10, tzinfo=UTC)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "soon", "2026-99-99 10:00:00", "0001-01-01T00:00:00+14:00"])
def test_what_is_no_time_is_no_time(text):
    assert late_policy.moment(text) is None


POLICY = late_policy.Policy(15 * MINUTE, 0.1, 0.5, {NAME: DUE}, {(NAME, "dan"): DUE + 30 * DAY})
TIMES = {"ada": "2026-11-20 22:59:00", "ben": "2026-11-20 23:14:00", "cleo": "2026-11-21 23:00:00"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """In time; within the grace; into the second day; a month late; no time known."""
    records = [record(name) for name in ("ada", "ben", "cleo", "dan", "eve")]
    place = tmp_path_factory.mktemp("late") / "grading"
    return grading_folder(place, records, policy=POLICY, submitted=TIMES)


def exported(folder):
    command = [str(Path(sys.executable).parent / "nbgrader"), "export", "--to", "grades.csv"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    with open(folder / "grades.csv", encoding="utf-8") as file:
        return {row["student_id"]: row for row in csv.DictReader(file)}


def test_nbgraders_own_export_has_the_penalties(folder):
    rows = exported(folder)
    penalties = {name: float(row["late_submission_penalty"]) for name, row in rows.items()}
    full = LAB.max_points
    assert penalties == {"ada": 0, "ben": 0, "cleo": 0.2 * full, "dan": 0.5 * full, "eve": 0}
    assert float(rows["cleo"]["score"]) == 0.8 * full
    assert rows["cleo"]["duedate"] == "2026-11-20 22:59:00"


def test_feedback_shows_the_penalty_of_whoever_was_late(folder):
    pages = {
        name: (folder / "feedback" / name / NAME / f"{NAME}.html").read_text()
        for name in ("ada", "cleo")
    }
    assert f"Handed in late: {0.2 * LAB.max_points:g} points less" in pages["cleo"]
    assert "Handed in late" not in pages["ada"]


def test_the_penalty_follows_what_a_person_marks_later(folder):
    """nbgrader alone keeps the penalty of the score at autograding."""
    with Gradebook(course.database(folder)) as book:
        grade = book.find_grade(FREE_TEXT, NAME, NAME, "cleo")
        grade.manual_score, grade.needs_manual_grade = 5.0, False
        book.db.commit()
    row = exported(folder)["cleo"]
    assert float(row["late_submission_penalty"]) == pytest.approx(0.2 * (LAB.max_points + 5))


def test_nbgraders_own_autograde_takes_the_same_policy(folder):
    with Gradebook(course.database(folder)) as book:
        book.find_submission_notebook(NAME, NAME, "dan").late_submission_penalty = 1.0
        book.db.commit()
    command = [str(Path(sys.executable).parent / "nbgrader"), "autograde", NAME]
    command += ["--force", "--student", "dan"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    with Gradebook(course.database(folder)) as book:
        assert book.find_submission(NAME, "dan").late_submission_penalty == 0.5 * LAB.max_points


def test_another_policy_makes_new_penalties_and_new_pages_and_none_takes_them_back(tmp_path):
    records = [record("cleo"), record("ada")]
    folder = grading_folder(tmp_path / "g", records, policy=POLICY, submitted=TIMES)
    page = folder / "feedback" / "cleo" / NAME / f"{NAME}.html"
    other = folder / "feedback" / "ada" / NAME / f"{NAME}.html"
    was = other.stat().st_mtime_ns
    grading_folder(folder, records, policy=None, submitted=TIMES)
    assert "Late submission penalty" not in page.read_text()
    assert not (folder / late_policy.NAME).exists()
    assert other.stat().st_mtime_ns == was
    with Gradebook(course.database(folder)) as book:
        assert book.find_submission(NAME, "cleo").late_submission_penalty == 0


def test_a_hand_in_without_a_time_does_not_keep_an_earlier_ones(tmp_path):
    folder = grading_folder(tmp_path / "g", [record("cleo")], policy=POLICY, submitted=TIMES)
    stamp = folder / "submitted" / "cleo" / NAME / "timestamp.txt"
    assert stamp.read_text() == "2026-11-21 23:00:00 UTC\n"
    grading_folder(folder, [record("cleo")], policy=POLICY)
    assert not stamp.exists()
    with Gradebook(course.database(folder)) as book:
        assert book.find_submission(NAME, "cleo").timestamp is None


def test_a_time_that_nbgrader_could_not_read_is_no_time(tmp_path):
    """An exchange folder can be called ada+01_strides+2026-99-99 10:00:00 UTC."""
    times = {"ada": "2026-99-99 10:00:00"}
    folder = grading_folder(tmp_path / "g", [record("ada")], policy=POLICY, submitted=times)
    assert not (folder / "submitted" / "ada" / NAME / "timestamp.txt").exists()


def test_a_class_that_was_charged_by_nobody_stays_so(tmp_path):
    folder = grading_folder(tmp_path / "g", [record("cleo")], submitted=TIMES)
    assert lateness.charge_again(folder, NAME) is None
    assert float(exported(folder)["cleo"]["late_submission_penalty"]) == 0


MORE_TIME = (
    FILE
    + f"""
[extensions.{NAME}]
ada = 2026-11-22T23:59:00+01:00
"cleo@uni.example" = 2026-12-20T23:59:00+01:00
"""
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("extensions = 3", "extensions go by lab"),
        (f"[extensions]\n{NAME} = 3", "a line per student"),
        ("[extensions.02_dispatcher]\nada = 2026-12-20T23:59:00Z", "has no due time under"),
        (f"[extensions.{NAME}]\nada = 2026-12-20", "the due time of ada needs .* a zone"),
        (
            f"[extensions.{NAME}]\nada = 2026-12-20T23:59:00Z\n"
            "[extensions.02_dispatcher]\nada = 2026-12-20T23:59:00Z",
            "02_dispatcher has no due time",
        ),
        (f"[extensions.{NAME}]\nada = 2026-11-20T10:00:00Z", "before everybody's"),
        ("[extra]\nada = 3", "no setting 'extra'"),
    ],
)
def test_a_bad_extension_is_one_clear_line(read, text, says):
    due = f"[due]\n{NAME} = 2026-11-20T23:59:00+01:00"
    parts = [due, text] if text.startswith("[") else [text, due]
    with pytest.raises(UserError, match=says) as caught:
        read("\n".join(["per_day_percent = 10", *parts]))
    assert "\n" not in str(caught.value)


def test_an_extension_goes_by_any_name_on_the_class_list(read, tmp_path):
    people = [Person("ada", folder_id="ada"), Person("c", "", "cleo@uni.example", folder_id="cleo")]
    policy = late_policy.by_id(read(MORE_TIME), people, tmp_path)
    assert set(policy.extensions) == {(NAME, "ada"), (NAME, "cleo")}
    with pytest.raises(UserError, match="is not on the class list"):
        late_policy.by_id(read(MORE_TIME), people[:1], tmp_path)
    assert late_policy.by_id(read(MORE_TIME), [], tmp_path) == read(MORE_TIME)


def test_a_time_goes_by_any_name_too_and_an_extension_may_be_no_longer(read, tmp_path):
    (tmp_path / "t.csv").write_text(
        f"student,lab,submitted\nCleo@uni.example,{NAME},2026-11-20T10:00Z\n"
        f"Nobody@else,{NAME},2026-11-20T10:00Z\n"
    )
    people = [Person("c", "", "cleo@uni.example", folder_id="cleo")]
    no_longer = f'[extensions.{NAME}]\n"cleo@uni.example" = 2026-11-20T23:59:00+01:00\n'
    policy = late_policy.by_id(read(f"times = 't.csv'\n{FILE}{no_longer}"), people, tmp_path)
    assert set(policy.submitted) == {(NAME, "cleo"), (NAME, "Nobody@else")}
    assert policy.extension(NAME, "cleo") == timedelta(0)


def test_who_has_more_time_pays_from_their_own_due_time_on(tmp_path):
    """In time by the extension; a day past it; and a second run without it charges what is due."""
    extensions = {(NAME, "ada"): DUE + 3 * DAY, (NAME, "ben"): DUE + DAY}
    policy = late_policy.Policy(15 * MINUTE, 0.1, 0.5, {NAME: DUE}, extensions=extensions)
    records = [record(name) for name in ("ada", "ben", "cleo")]
    times = dict.fromkeys(("ada", "ben", "cleo"), "2026-11-22 22:00:00")
    place = tmp_path / "grading"
    share = LAB.max_points / 10
    for declared, costs in (
        (policy, {"ada": 0, "ben": share, "cleo": 2 * share}),
        (replace(policy, extensions={}), dict.fromkeys(times, 2 * share)),
        (policy, {"ada": 0, "ben": share, "cleo": 2 * share}),
    ):
        grading_folder(place, records, policy=declared, submitted=times)
        assert penalties(place) == costs


def test_late_says_canvas_counts_if_the_instructor_says_so(tmp_path):
    policy = late_policy.Policy(15 * MINUTE, 0.1, 0.5, {NAME: DUE})
    for declared, cost in (
        (policy, 0),
        (replace(policy, canvas_late=2 * DAY), LAB.max_points / 5),
        (replace(policy, canvas_late=2 * DAY, submitted={(NAME, "ada"): DUE}), 0),
        (replace(policy, canvas_late=2 * DAY, due={}), 0),
    ):
        grading_folder(tmp_path / "g", [record("ada")], policy=declared, notes={"ada": LATE})
        assert penalties(tmp_path / "g") == {"ada": cost}


def penalties(folder):
    with Gradebook(course.database(folder)) as book:
        found = book.find_assignment(NAME).submissions
        return {one.student_id: pytest.approx(one.late_submission_penalty) for one in found}
