"""Whose a file is: as platforms name hand-ins, as students misname them, and as somebody would
forge a name."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from autograder.attacks.sample_class import NAME
from autograder.classroom.errors import UserError
from autograder.classroom.intake import owners as layout
from autograder.classroom.intake.owners import canvas_user, moodle_participant, student_ids
from autograder.classroom.intake.submissions import files_in, submissions
from tests.classroom.intake.handed_in import in_folder, in_zip, taken

LAYOUTS = {
    "folder per student": {
        "ada/01_strides.ipynb": "ada",
        "bob/01_strides.ipynb": "bob",
    },
    "folder per student and lab": {
        "ada/01_strides/01_strides.ipynb": "ada",
        "bob/01_strides/01_strides.ipynb": "bob",
    },
    "one student": {"ada/01_strides/01_strides.ipynb": "ada"},
    "one student in a wrapping folder": {"submissions/ada/01_strides.ipynb": "ada"},
    "one student who names a neighbour": {"eve/bob/01_strides.ipynb": "eve"},
    "one who names a neighbour as Canvas does": {"eve/bob_123_456_01_strides.ipynb": "eve"},
    "one who wraps like nbgrader": {"submitted/eve/submitted/bob/01_strides.ipynb": "eve"},
    "nbgrader, collected": {
        "submitted/ada/01_strides/01_strides.ipynb": "ada",
        "submitted/bob/01_strides/01_strides.ipynb": "bob",
    },
    "nbgrader, inbound": {
        "ada+01_strides+2026-11-20 10:00:00 UTC+x7f/01_strides.ipynb": "ada",
        "bob+01_strides+2026-11-20 11:00:00.123456 UTC/01_strides.ipynb": "bob",
    },
    "Canvas": {
        "adalovelace_12345_67890_01_strides.ipynb": "adalovelace_12345",
        "byronbob_LATE_12346_67891_01_strides-2.ipynb": "byronbob_12346",
    },
    "nbgrader, inbound, zipped on Windows": {
        "ada+01_strides+2026-11-20 10_00_00 UTC+x7f/01_strides.ipynb": "ada",
        "bob+01_strides+2026-11-20 11-00-00 UTC/01_strides.ipynb": "bob",
    },
    "nbgrader, inbound, without folders": {
        "ada+01_strides+2026-11-20 10:00:00 UTC+x7f.ipynb": "ada",
        "bob+01_strides+2026-11-20 11:00:00 UTC.ipynb": "bob",
    },
    "Canvas, late and again": {
        "lovelaceada_LATE_12345_67890_01_strides-1.ipynb": "lovelaceada_12345",
        "o-haracy_12347_67892_01_strides-Copy1.ipynb": "o-haracy_12347",
    },
    "Canvas in a wrapping folder": {
        "submissions/adalovelace_12345_67890_01_strides.ipynb": "adalovelace_12345",
    },
    "Moodle": {
        "Ada Lovelace_12345_assignsubmission_file_/01_strides.ipynb": "Ada_Lovelace_12345",
        "Bob B_12346_assignsubmission_file/01_strides.ipynb": "Bob_B_12346",
        "Cy C_12347_assignsubmission_/01_strides.ipynb": "Cy_C_12347",
    },
    "Moodle without folders": {
        "Ada Lovelace_12345_assignsubmission_file_01_strides.ipynb": "Ada_Lovelace_12345",
    },
    "renamed by a browser, by Jupyter, by Colab": {
        "ada/01_strides (1).ipynb": "ada",
        "bob/01_strides-Copy1.ipynb": "bob",
        "cy/Copy of 01_strides.ipynb": "cy",
    },
    "named by the student": {"ada/final FINAL.ipynb": "ada", "bob/01_strides_bob.ipynb": "bob"},
    "notebooks side by side": {"ada.ipynb": "ada", "bob.ipynb": "bob"},
}


@pytest.mark.parametrize("pack", [in_folder, in_zip])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_says_whose_each_notebook_is(tmp_path, layout, pack):
    owners = LAYOUTS[layout]
    found = taken(pack(tmp_path, {path: path.encode() for path in owners}))
    assert {one.data.decode(): name for name, one in found.items()} == owners
    assert not any(one.ungradable for one in found.values())


def test_one_folder_with_several_inside_is_not_guessed(tmp_path):
    inside = {f"class/{name}/01_strides.ipynb": name.encode() for name in ("ada", "bob")}
    with pytest.raises(UserError, match="grade that folder itself"):
        taken(in_folder(tmp_path, inside))


def test_a_zipped_folder_is_the_folder(tmp_path):
    inside = {f"hand_in/{name}/01_strides.ipynb": name.encode() for name in ("ada", "bob")}
    assert set(taken(in_zip(tmp_path, inside))) == {"ada", "bob"}


def test_a_student_cannot_hand_in_as_somebody_else(tmp_path):
    """Moodle puts its own name in front of the name that the student chose."""
    forged = "Eve E_777_assignsubmission_file_Somebody Else_333_assignsubmission_file_"
    source = in_zip(
        tmp_path,
        {
            f"{forged}01_strides.ipynb": b"eve",
            "Somebody Else_333_assignsubmission_file_01_strides.ipynb": b"else",
            "eve_778_1_Somebody Else_333_assignsubmission_file_01_strides.ipynb": b"eve at Canvas",
            "eve_779_1_ada+01_strides+2026-11-20 10-00-00.ipynb": b"eve again",
        },
    )
    found = {name: one.data for name, one in taken(source).items()}
    assert found == {
        "Eve_E_777": b"eve",
        "Somebody_Else_333": b"else",
        "eve_778": b"eve at Canvas",
        "eve_779": b"eve again",
    }


def test_a_name_like_another_platforms_changes_nobodys_number(tmp_path):
    """Blackboard's mark, in a name that Moodle has put its own in front of."""
    moodle = "Eve E_777_assignsubmission_file_"
    source = in_zip(tmp_path, {f"{moodle}ada_attempt_2026-11-20-10-00-00_01_strides.ipynb": b"eve"})
    (eve,) = taken(source).values()
    assert (eve.student, eve.data) == ("Eve_E_777", b"eve")
    assert layout.moodle_participant(eve.origin) == ("Eve E", "777")


DEEP = "Ada L_333_assignsubmission_file_/b/c/d/e/f/g"


@pytest.mark.parametrize("wrapper", ["", "submissions/"])
@pytest.mark.parametrize("owner", ["Eve E_777_assignsubmission_file_", "eve"])
def test_a_deep_folder_in_an_archive_is_still_its_owners(tmp_path, wrapper, owner):
    """Whose it is stands at the beginning of a path, however long a student makes it."""
    ada = "Ada L_333_assignsubmission_file_" if "_777_" in owner else "ada"
    files = {
        f"{wrapper}{owner}/{DEEP}/01_strides.ipynb": b"eve",
        f"{wrapper}{ada}/01_strides.ipynb": b"ada",
    }
    found = taken(in_zip(tmp_path, files))
    assert len(found) == 2
    (ada_id,) = (name for name in found if name.casefold().startswith("ada"))
    assert found[ada_id].data == b"ada"
    (eve,) = (one for name, one in found.items() if name != ada_id)
    assert "in more than 7 folders" in eve.ungradable


def test_who_hands_in_a_deep_folder_alone_has_a_row(tmp_path):
    place = tmp_path / "class"
    for path in ("ada/01_strides.ipynb", "eve/a/b/c/d/e/f/g/h/01_strides.ipynb"):
        (place / path).parent.mkdir(parents=True)
        (place / path).write_bytes(b"{}")
    (place / "ada/a/b/c/d/e/f/g/h").mkdir(parents=True)
    found = taken(place)
    assert found["ada"].data == b"{}"
    assert "no notebook" in found["eve"].ungradable


ONE_PERSON = {
    "Blackboard, two attempts": (
        {
            "Lab 1_ada_attempt_2026-11-20-10-00-00_01_strides.ipynb": b"old",
            "Lab 1_ada_attempt_2026-11-21-10-00-00_01_strides.ipynb": b"new",
            "Lab 1_ada_attempt_2026-11-21-10-00-00.txt": b"a comment",
            "Lab 1_bob_attempt_2026-11-20-10-00-00_01_strides.ipynb": b"bob",
        },
        {"ada": b"new", "bob": b"bob"},
    ),
    "Blackboard, a long title": (
        {
            f"{'The first lab of this course ' * 3}_{who}_attempt_2026-11-20-10-00-00_x.ipynb": b"x"
            for who in ("ada", "bob")
        },
        {"ada": b"x", "bob": b"x"},
    ),
    "Drive, flat": (
        {"ada.ipynb": b"mine", "Copy of ada.ipynb": b"a copy", "bob (1).ipynb": b"bob"},
        {"ada": b"mine", "bob": b"bob"},
    ),
    "Gradescope": (
        {
            "assignment_7_export/submission_metadata.yml": (
                b"submission_1:\n  :submitters:\n  - :name: Ada L\n    :sid: '12'\n"
                b"    :email: ada@example.org\n"
                b"submission_2:\n  :submitters:\n  - :name: Bob B\n    :sid: '13'\n"
            ),
            "assignment_7_export/submission_1/01_strides.ipynb": b"ada",
            "assignment_7_export/submission_2/01_strides.ipynb": b"bob",
            "assignment_7_export/submission_3/01_strides.ipynb": b"nobody knows",
        },
        {"ada@example.org": b"ada", "13": b"bob", "submission_3": b"nobody knows"},
    ),
    "GitHub Classroom": (
        {
            "lab-1-submissions/lab-1-ada/01_strides.ipynb": b"ada",
            "lab-1-submissions/lab-1-bob-b/01_strides.ipynb": b"bob",
        },
        {"ada": b"ada", "bob-b": b"bob"},
    ),
    "a fork of the whole course": (
        {
            "ada/labs/01_strides/01_strides.ipynb": b"ada",
            "ada/solutions/01_strides/01_strides.ipynb": b"ours",
            "ada/notebooks/01_strides.ipynb": b"to read",
            "bob/01_strides.ipynb": b"bob",
        },
        {"ada": b"ada", "bob": b"bob"},
    ),
}


@pytest.mark.parametrize("pack", [in_folder, in_zip])
@pytest.mark.parametrize("case", ONE_PERSON)
def test_one_person_stays_one(tmp_path, case, pack):
    files, owners = ONE_PERSON[case]
    found = taken(pack(tmp_path, files))
    assert {name: one.data for name, one in found.items()} == owners
    assert not any(one.ungradable for one in found.values())


def test_the_same_name_is_not_the_same_person(tmp_path):
    files = {"01_strides.ipynb": b"one's", "Copy of 01_strides.ipynb": b"another's"}
    found = taken(in_folder(tmp_path, files | {"ada.ipynb": b"ada"}))
    assert sorted(one.data for one in found.values()) == [b"ada", b"another's", b"one's"]


@pytest.mark.parametrize(
    "metadata", [b"", b"[", b"- 1", b"submission_1: 3", b"submission_1: {:submitters: []}", b"\xff"]
)
def test_metadata_that_says_nothing_leaves_the_folders_names(tmp_path, metadata):
    files = {"submission_1/01_strides.ipynb": b"ada", "submission_metadata.yml": metadata}
    assert set(taken(in_folder(tmp_path, files))) == {"submission_1"}


class TestIds:
    """An id is a folder's name, a URL's part and a CSV field: it must be safe as each."""

    @pytest.mark.parametrize(
        "owner",
        [
            "..",
            "-rf",
            "a/b",
            "a,b",
            'a"b',
            "a\nb",
            "[ab]*?",
            "😀",
            "",
            "ﬁ\u202exe",
            "x" * 500,
            "\udcff",
        ],
    )
    def test_are_safe_whatever_a_folder_is_called(self, owner):
        (name,) = student_ids([owner]).values()
        assert name
        assert name == name.strip("._-")
        assert all(c.isalnum() or c in "_.@-" for c in name)
        assert len(name.encode()) < 220

    def test_stay_recognisable(self):
        assert student_ids(["Ada Lovelace", "ada@example.org", "Zoë"]) == {
            "Ada Lovelace": "Ada_Lovelace",
            "ada@example.org": "ada@example.org",
            "Zoë": "Zoë",
        }

    def test_differ_also_where_a_file_system_knows_no_capitals(self):
        owners = ["ada", "Ada", "a b", "a_b", "x" * 100, "x" * 101]
        ids = [name.casefold() for name in student_ids(owners).values()]
        assert len(set(ids)) == len(owners)

    def test_differ_also_from_a_name_that_was_made_to_look_like_a_mark(self):
        first = student_ids(["ada", "Ada"])
        for victim in first.values():
            ids = student_ids(["ada", "Ada", victim, victim.upper()])
            assert len({name.casefold() for name in ids.values()}) == 4
            assert ids["ada"] == first["ada"]  # nobody can change another's id
            assert ids == student_ids([victim.upper(), victim, "Ada", "ada"])

    def test_differ_where_two_marks_are_the_same(self, monkeypatch):
        monkeypatch.setattr(layout, "MARKS", (0, 1, 64))
        owners = ["a" + " " * n + "b" for n in range(40)]  # more than a mark of one letter has
        assert len(set(student_ids(owners).values())) == 40

    def test_do_not_depend_on_who_else_handed_in_first(self):
        assert student_ids(["ada", "Ada"]) == student_ids(["Ada", "ada"])


@pytest.mark.parametrize("pack", [in_folder, in_zip])
def test_a_blackboard_assignment_called_as_canvas_calls_files_is_no_canvas(tmp_path, pack):
    """All students would be "Lab", number 1, and the newest of them would count."""
    time = "attempt_2026-11-20-10-00-00"
    files = {f"Lab_1_2_{who}_{time}_01_strides.ipynb": who.encode() for who in ("ada", "bob")}
    with pytest.raises(UserError, match="assignment's name looks like Canvas"):
        taken(pack(tmp_path, files))
    (tmp_path / "apart").mkdir()
    apart = {f"{name.split('_')[3]}/{name}": data for name, data in files.items()}
    assert set(taken(pack(tmp_path / "apart", apart))) == {"ada", "bob"}


def test_one_who_names_two_files_as_canvas_does_stops_no_class(tmp_path):
    """In a folder whose files the students named."""
    time = "attempt_2026-11-20-10-00-00"
    mine = {f"eve_1_2_{n}_{time}_01_strides.ipynb": b"eve" for n in "ab"}
    found = taken(in_folder(tmp_path, mine | {"ada.ipynb": b"ada", "bob.ipynb": b"bob"}))
    assert found["ada"].data == b"ada"
    assert found["bob"].data == b"bob"


@pytest.mark.parametrize("outer", ["", "submissions/"])
@pytest.mark.parametrize(
    ("name", "from_canvas", "from_moodle"),
    [
        ("adalovelace_12345_67890_01_strides.ipynb", ("adalovelace", "12345"), ("", "")),
        ("adalovelace_LATE_12345_67890_01_strides-2.ipynb", ("adalovelace", "12345"), ("", "")),
        (
            "Ada Lovelace_77_assignsubmission_file_/01_strides.ipynb",
            ("", ""),
            ("Ada Lovelace", "77"),
        ),
        (
            "Ada Lovelace_77_assignsubmission_file_01_strides.ipynb",
            ("", ""),
            ("Ada Lovelace", "77"),
        ),
        ("ada/bob_1_2_01_strides.ipynb", ("", ""), ("", "")),
        ("ada/bob_1_assignsubmission_file_/01_strides.ipynb", ("", ""), ("", "")),
        ("ada/01_strides.ipynb", ("", ""), ("", "")),
    ],
)
def test_a_platforms_number_comes_from_its_own_file_names_only(
    tmp_path: Path,
    name: str,
    outer: str,
    from_canvas: tuple[str, str],
    from_moodle: tuple[str, str],
) -> None:
    """As intake finds them; what lies in a student's folder is the student's to name."""
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        archive.writestr(f"{outer}{name}", "{}")
        archive.writestr(f"{outer}zoe_9_9_01_strides.ipynb", "{}")
    found = submissions(files_in(tmp_path / "class.zip"), NAME, [NAME])
    (one,) = [submission for submission in found if not submission.student.startswith("zoe")]
    assert canvas_user(one.origin) == from_canvas
    assert moodle_participant(one.origin) == from_moodle
