"""The roster: what several runs into one grading folder leave behind."""

from __future__ import annotations

import pytest

from autograder.attacks.sample_class import NAME
from autograder.classroom.errors import UserError
from autograder.classroom.store import roster
from autograder.classroom.store.roster import Line

ADA = Line("ada", "ada/x.ipynb", key="k1", sha256="s1", version="v1")


def test_a_lab_that_was_never_graded_says_what_to_type(tmp_path):
    with pytest.raises(UserError, match=f"First type: autograder grade .* --lab {NAME}"):
        roster.read(tmp_path, NAME)
    with pytest.raises(UserError, match="no grading folder"):
        roster.labs(tmp_path / "nowhere")


def test_runs_add_up_and_newer_lines_replace(tmp_path):
    roster.update(tmp_path, NAME, [ADA, Line("bob", key="k2")])
    roster.update(tmp_path, NAME, [Line("ada", key="k3"), Line("cy", ungradable="No notebook.")])
    lines = roster.read(tmp_path, NAME)
    assert list(lines) == ["ada", "bob", "cy"]
    assert lines["ada"].key == "k3"
    assert roster.labs(tmp_path) == [NAME]


def test_a_broken_hand_in_leaves_the_earlier_grade_in_force_and_says_so(tmp_path):
    roster.update(tmp_path, NAME, [ADA])
    roster.update(tmp_path, NAME, [Line("ada", "late/ada.ipynb", ungradable="It was cut off.")])
    line = roster.read(tmp_path, NAME)["ada"]
    assert (line.key, line.sha256, line.version) == ("k1", "s1", "v1")
    assert (line.origin, line.ungradable) == ("late/ada.ipynb", "It was cut off.")


@pytest.mark.parametrize(
    "content",
    [b"", b"[", b"{}x", b"[1]", b'[{"student": 3}]', b'[{"student": "a", "more": "b"}]', b"\xff"],
)
def test_a_damaged_roll_is_one_line_and_never_overwritten(tmp_path, content):
    roster.update(tmp_path, NAME, [ADA])
    path = tmp_path / "roll" / f"{NAME}.json"
    path.write_bytes(content)
    for touch in (
        lambda: roster.read(tmp_path, NAME),
        lambda: roster.update(tmp_path, NAME, [ADA]),
    ):
        with pytest.raises(UserError, match=r"is damaged\. Remove it and grade"):
            touch()
    assert path.read_bytes() == content


def test_names_that_no_ascii_holds(tmp_path):
    roster.update(tmp_path, NAME, [Line("李雷", note="\u202e<b>")])
    assert roster.read(tmp_path, NAME)["李雷"].note == "\u202e<b>"
