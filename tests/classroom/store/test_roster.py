"""The roster: what several runs into one grading folder leave behind."""

from __future__ import annotations

from dataclasses import astuple

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


def test_whoever_reads_the_file_finds_it_in_order_and_others_may_not(tmp_path):
    names = ["bob", "Zoë", "Ada", "李雷"]
    roster.update(tmp_path, NAME, map(Line, names))
    path = tmp_path / "roll" / f"{NAME}.json"
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text("utf-8")
    assert sorted(names, key=text.index) == sorted(names)
    assert len(text.splitlines()) > len(names)
    assert list(roster.read(tmp_path, NAME)) == ["Ada", "bob", "Zoë", "李雷"]


def test_a_line_that_nobody_filled_in_is_empty():
    assert astuple(Line("ada")) == ("ada", *[""] * 9)


@pytest.mark.parametrize("value", ["3", "null", "true", "[]"])
def test_a_line_of_anything_but_texts_is_damaged(tmp_path, value):
    (tmp_path / "roll").mkdir()
    (tmp_path / "roll" / f"{NAME}.json").write_text(f'[{{"student": "a", "key": {value}}}]')
    with pytest.raises(UserError, match="damaged"):
        roster.read(tmp_path, NAME)


def test_whose_record_speaks(tmp_path):
    assert roster.keys(tmp_path, NAME) == {}
    roster.update(tmp_path, NAME, [ADA, Line("bob", ungradable="No notebook.")])
    assert roster.keys(tmp_path, NAME) == {"ada": "k1"}


def test_whoever_comes_again_keeps_the_id(tmp_path):
    assert roster.students(tmp_path / "nowhere") == {}
    roster.update(tmp_path, NAME, [Line("ada", owner="Ada L."), Line("bob")])
    roster.update(tmp_path, "02_dispatcher", [Line("cy", owner="Cy"), Line("zé", owner="Ze\u0301")])
    assert roster.students(tmp_path) == {"Ada L.": "ada", "Cy": "cy", "Z\u00e9": "zé"}
    assert roster.labs(tmp_path) == [NAME, "02_dispatcher"]


def test_a_newer_hand_in_has_its_own_record(tmp_path):
    roster.update(tmp_path, NAME, [ADA])
    newer = Line("ada", "ada/y.ipynb", key="k2", sha256="s2", version="v2")
    roster.update(tmp_path, NAME, [newer])
    assert roster.read(tmp_path, NAME) == {"ada": newer}


def test_a_folder_s_name_that_is_no_utf_8(tmp_path):
    """As an archive from another system leaves it: nobody's grading ends with it."""
    roster.update(tmp_path, NAME, [Line("jos", owner="Jos\udce9")])
    roster.update(tmp_path, NAME, [Line("李雷")])
    assert roster.read(tmp_path, NAME)["jos"].owner == "Jos\udce9"
