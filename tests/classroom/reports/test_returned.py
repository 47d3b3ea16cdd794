"""Feedback in one archive, by the names that Canvas and Moodle gave, which lead them back to the
student.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.attacks.sample_class import NAME
from autograder.classroom.intake.owners import canvas_user, moodle_participant
from autograder.classroom.reports.results import Result
from autograder.classroom.reports.returned import give_back
from tests.classroom.made_class import (
    marked,
    result,
)

Send = Callable[..., dict[str, str]]

BACK = {
    "adalovelace_LATE_12345_67890_01_strides-1.ipynb": (
        "adalovelace_LATE_12345_67890_01_strides-1.html"
    ),
    "Ada Lovelace_12345_assignsubmission_file_/mine/01_strides.ipynb": (
        f"Ada Lovelace_12345_assignsubmission_file_/{NAME}.html"
    ),
    "submissions/ada/01_strides.ipynb": f"ada/{NAME}.html",
    "ada/../../bob_7_8_x.ipynb": f"ada/{NAME}.html",
    "assignment_7_export/submission_12/01_strides.ipynb": f"submission_12/{NAME}.html",
    "lab-1-submissions/lab-1-ada/labs/x/01_strides.ipynb": f"lab-1-ada/{NAME}.html",
    "lab-1-submissions/bob_7_8_x.ipynb": f"lab-1-submissions/{NAME}.html",
    "assignment_7_export/Bob_12345_assignsubmission_file_/x.ipynb": (
        f"assignment_7_export/{NAME}.html"
    ),
}


@pytest.fixture
def sent(tmp_path: Path) -> Send:
    """The archive's contents by name, for results whose pages are there."""

    def send(*graded: Result, **options: bool) -> dict[str, str]:
        for one in graded:
            page = tmp_path / "feedback" / one.student / NAME / f"{NAME}.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(f"for {one.student}")
        give_back(tmp_path / "feedback.zip", tmp_path, NAME, graded, **options)
        with zipfile.ZipFile(tmp_path / "feedback.zip") as archive:
            return {name: archive.read(name).decode() for name in archive.namelist()}

    return send


def test_what_is_unpacked_is_its_owners_alone(sent: Send, tmp_path: Path) -> None:
    sent(marked(result("ada"), 4.0), marked(result("bob"), 4.0))
    with zipfile.ZipFile(tmp_path / "feedback.zip") as archive:
        modes = [entry.external_attr >> 16 for entry in archive.infolist()]
    assert modes == [0o600, 0o600]


@pytest.mark.parametrize("origin", BACK)
def test_a_page_lies_where_the_hand_in_lay(sent: Send, origin: str) -> None:
    one = marked(result("ada"), 4.0)
    made = sent(replace(one, line=replace(one.line, origin=origin)))
    assert made == {BACK[origin]: "for ada"}


def test_canvas_and_moodle_find_their_student_by_it() -> None:
    canvass, moodles = list(BACK.values())[:2]
    assert canvas_user(canvass.replace(".html", ".ipynb")) == ("adalovelace", "12345")
    assert moodle_participant(moodles) == ("Ada Lovelace", "12345")


def test_who_waits_for_a_person_waits_for_the_page_too(sent: Send) -> None:
    ada, bob = marked(result("ada"), 4.0), result("bob")
    assert set(sent(ada, bob)) == {f"ada/{NAME}.html"}
    assert set(sent(ada, bob, provisional=True)) == {f"ada/{NAME}.html", f"bob/{NAME}.html"}


@pytest.mark.parametrize("folders", [("ada", "ada"), ("Ada", "ada")])
def test_two_who_handed_in_at_the_same_place_get_a_page_each(
    sent: Send, folders: tuple[str, str]
) -> None:
    """From the folders of two assistants; and where capitals are the same, one file."""
    first, second = (
        replace(one, line=replace(one.line, origin=f"{folder}/01_strides.ipynb"))
        for folder, one in zip(
            folders, [marked(result(name), 4.0) for name in ("ada", "ada-5f0c2e")], strict=True
        )
    )
    assert sent(first, second) == {
        f"ada/{NAME}.html": "for ada",
        f"ada-5f0c2e/{NAME}.html": "for ada-5f0c2e",
    }


def test_who_has_no_page_is_left_out(tmp_path: Path) -> None:
    give_back(tmp_path / "feedback.zip", tmp_path, NAME, [marked(result("ada"), 4.0)])
    assert zipfile.ZipFile(tmp_path / "feedback.zip").namelist() == []


def test_the_same_pages_make_the_same_bytes_for_the_instructor_alone(
    sent: Send, tmp_path: Path
) -> None:
    made = []
    for _ in range(2):
        sent(marked(result("ada"), 4.0))
        made.append((tmp_path / "feedback.zip").read_bytes())
    assert made[0] == made[1]
    assert (tmp_path / "feedback.zip").stat().st_mode & 0o077 == 0
