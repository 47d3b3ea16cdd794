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
from tests.classroom.intake.handed_in import LAB, in_folder, in_zip, taken

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


@pytest.mark.parametrize("beside", ["lab-1-submissions/other", "lab-1-submissions/lab-2-eve"])
def test_a_folder_that_classroom_has_not_cloned_is_not_guessed(tmp_path, beside):
    """A student's own folder may be called so, and hold a folder that names a neighbour."""
    paths = ("lab-1-submissions/lab-1-ada", beside)
    inside = {f"{path}/01_strides.ipynb": path.encode() for path in paths}
    with pytest.raises(UserError, match="grade that folder itself"):
        taken(in_folder(tmp_path, inside))


@pytest.mark.parametrize(
    ("outer", "owner"),
    [
        ("Ada L_77_assignsubmission_file_", "Ada_L_77"),
        ("ada+01_strides+2026-11-20 10:00:00 UTC+x7f", "ada"),
    ],
)
def test_a_folder_that_a_platform_named_is_one_students(tmp_path, outer, owner):
    inside = {f"{outer}/{name}/01_strides.ipynb": b"ada's" for name in ("old", "bob")}
    assert list(taken(in_folder(tmp_path, inside))) == [owner]


def test_a_folder_of_one_student_may_hold_the_lab_and_one_more(tmp_path):
    """No class lies so: a class has a folder per student, or the lab's in each."""
    inside = {f"ada/{name}/01_strides.ipynb": b"ada's" for name in (LAB, "backup")}
    assert list(taken(in_folder(tmp_path, inside | {"ada/x.ipynb": b"ada's"}))) == ["ada"]


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


BESIDE = {
    "a wrapping folder": {
        "grades.csv": "",
        "submissions/roster.csv": "",
        "submissions/ada/01_strides.ipynb": "ada",
        "submissions/submissions-bob/01_strides.ipynb": "submissions-bob",
    },
    "a wrapping folder and a file of its name": {
        "submissions": "",
        "submissions/ada/01_strides.ipynb": "ada",
    },
    "GitHub Classroom": {
        "README": "",
        "notes/plan.txt": "",
        "lab-1-submissions/lab-1-ada/01_strides.ipynb": "ada",
        "lab-1-submissions/lab-1-/01_strides.ipynb": "lab-1-",
    },
    "GitHub Classroom, wrapped": {
        "submissions/lab-1-submissions/lab-1-ada/01_strides.ipynb": "ada",
    },
    "GitHub Classroom and a file of its name": {
        "lab-1-submissions": "",
        "lab-1-submissions/lab-1-ada/01_strides.ipynb": "ada",
    },
    "a student whose folder holds one named after them": {
        "ada/ada-work/01_strides.ipynb": "ada",
    },
    "a student who hands in what looks like a clone": {
        "-ada/lab-1-submissions/01_strides.ipynb": "-ada",
        "bob/lab-1-submissions/01_strides.ipynb": "bob",
    },
}


@pytest.mark.parametrize("case", BESIDE)
def test_what_lies_beside_a_wrapping_folder_changes_no_owner(tmp_path, case):
    owners = BESIDE[case]
    files = files_in(in_zip(tmp_path, dict.fromkeys(owners, b"")))
    claimed, nobodys = layout.claims(files, LAB)
    found = {"/".join(claim.file.path): claim.owner for claim in claimed}
    assert found | {"/".join(file.path): "" for file in nobodys} == owners


def test_what_lies_in_the_exchange_of_another_lab_is_of_that_lab(tmp_path):
    """Whatever its notebook is called."""
    names = {f"{who}+{lab}+2026-11-20 10:00:00 UTC": lab for who, lab in (("a", LAB), ("b", "02"))}
    files = files_in(in_folder(tmp_path, {f"{name}/x.ipynb": b"" for name in names}))
    claimed, _ = layout.claims(files, LAB)
    assert {claim.owner: claim.of_another_lab for claim in claimed} == {"a": False, "b": True}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ada_1_10_01_strides.ipynb", "ada_1_11_01_strides-1.ipynb"),
        ("ada_1_11_01_strides-9.ipynb", "ada_1_10_01_strides-10.ipynb"),
        (
            "Lab 1_ada_attempt_2026-11-20-10-00-59_x.ipynb",
            "Lab 1_ada_attempt_2026-11-20-10-01-00_x.ipynb",
        ),
        ("ada+01_strides+2026-99-20 10:00:00.ipynb", "ada+01_strides+2026-11-20 10:00:00.ipynb"),
        ("ada+01_strides+2026-11-20 10:00:59.ipynb", "ada+01_strides+2026-11-20 10:01:00.ipynb"),
    ],
)
def test_of_two_hand_ins_the_later_one_counts(tmp_path, first, second):
    """A time that no calendar has is before all others, and neither is late by itself."""
    files = {first: b"first", second: b"second", "zoe_9_9_01_strides.ipynb": b"zoe"}
    found = taken(in_folder(tmp_path, files))
    (ada,) = (one for name, one in found.items() if not name.startswith("zoe"))
    assert (ada.data, ada.ungradable) == (b"second", "")
    assert layout.LATE not in ada.note


@pytest.mark.parametrize(
    ("origin", "place"),
    [
        ("ada/deep/01_strides.ipynb", "ada/page.html"),
        ("submissions/submitted/ada/01_strides.ipynb", "ada/page.html"),
        ("ada/submissions/01_strides.ipynb", "ada/page.html"),
        ("adal_1_2_01_strides.ipynb", "adal_1_2_01_strides.html"),
        ("submissions/adal_1_2_report.pdf", "adal_1_2_report.pdf.html"),
        ("submissions", "submissions.html"),
        ("lab-1-submissions/lab-1-ada/01_strides.ipynb", "lab-1-ada/page.html"),
        ("lab-1-submissions/ada/01_strides.ipynb", "lab-1-submissions/page.html"),
        ("assignment_7_export/submission_1/01_strides.ipynb", "submission_1/page.html"),
        ("assignment_7_export/ada/01_strides.ipynb", "assignment_7_export/page.html"),
        ("ada/submission_1/01_strides.ipynb", "ada/page.html"),
    ],
)
def test_a_page_lies_where_its_students_hand_in_lay(origin, place):
    assert layout.beside_hand_in(origin, "page.html") == place


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("ada/x.ipynb", "ada"),
        ("submitted/Inbound/ada/x.ipynb", "ada"),
        ("ada/submitted/bob/x.ipynb", "ada"),
        ("ada/bob_1_2_x.ipynb", "ada"),
        ("ada_1_2_old/x.ipynb", "ada_1_2_old"),
        ("submitted/ada_1_2_x.ipynb", "ada_1"),
        ("Lab 1_ada_attempt_2026-11-20-10-00-00_x.ipynb", "Lab 1_ada_attempt"),
        ("Ada L_77_assignsubmission_file_/bob/x.ipynb", "Ada L_77"),
        ("submitted/ada+01_strides+2026-11-20 10:00:00 UTC+x7f/x.ipynb", "ada"),
        ("submitted", "submitted"),
    ],
)
def test_a_path_alone_says_whose_quota_it_uses(path, owner):
    assert layout.whose(tuple(path.split("/"))) == owner


def test_the_same_name_is_not_the_same_person(tmp_path):
    files = {"01_strides.ipynb": b"one's", "Copy of 01_strides.ipynb": b"another's"}
    found = taken(in_folder(tmp_path, files | {"ada.ipynb": b"ada"}))
    assert sorted(one.data for one in found.values()) == [b"ada", b"another's", b"one's"]


EMPTY = {
    "Gradescope": (
        {
            "assignment_7_export/submission_metadata.yml": (
                b"submission_1:\n  :submitters:\n  - :email: ada@example.org\n"
                b"submission_2:\n  :submitters:\n  - :name: Bob\n"
            ),
            "assignment_7_export/submission_1.ipynb": b"whose it is, nobody knows",
            "assignment_7_export/submission_2/01_strides.ipynb": b"bob",
        },
        "assignment_7_export/submission_1",
        {"ada@example.org": b"", "submission_1": b"whose it is, nobody knows", "Bob": b"bob"},
    ),
    "GitHub Classroom": (
        {
            "lab-1-submissions/lab-1-ada.ipynb": b"whose it is, nobody knows",
            "lab-1-submissions/lab-1-bob/01_strides.ipynb": b"bob",
        },
        "lab-1-submissions/lab-1-ada",
        {"ada": b"", "lab-1-ada": b"whose it is, nobody knows", "bob": b"bob"},
    ),
}


@pytest.mark.parametrize("case", EMPTY)
def test_an_empty_folder_is_its_students_and_a_file_beside_it_is_not(tmp_path, case):
    """A platform names folders; what somebody has put beside them it did not name."""
    files, empty, owners = EMPTY[case]
    (in_folder(tmp_path, files) / empty).mkdir()
    found = taken(tmp_path)
    assert {name: one.data for name, one in found.items()} == owners


@pytest.mark.parametrize(
    "metadata", [b"", b"[", b"- 1", b"submission_1: 3", b"submission_1: {:submitters: []}", b"\xff"]
)
def test_metadata_that_says_nothing_leaves_the_folders_names(tmp_path, metadata):
    files = {"submission_1/01_strides.ipynb": b"ada", "submission_metadata.yml": metadata}
    assert set(taken(in_folder(tmp_path, files))) == {"submission_1"}


def metadata(*entries):
    return "".join(f"submission_{n}:{entry}\n" for n, entry in enumerate(entries)).encode()


KNOWN_ENTRY = "\n  :submitters:\n  - :name: Bob"


@pytest.mark.parametrize(
    "entry",
    [
        " 3",
        " []",
        " {}",
        "\n  :submitters: 3",
        "\n  :submitters: []",
        "\n  :submitters: {}",
        "\n  :submitters: [3]",
        "\n  :submitters:\n  - :name: ''",
    ],
)
def test_an_entry_that_says_nothing_leaves_the_others_theirs(tmp_path, entry):
    """And a notebook that reads like metadata is none."""
    files = {f"submission_{n}/01_strides.ipynb": b'{"submission_1": {}}' for n in range(2)}
    files["submission_metadata.yml"] = metadata(entry, KNOWN_ENTRY)
    assert set(taken(in_folder(tmp_path, files))) == {"submission_0", "Bob"}


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
            assert student_ids(["ada", "Ada", victim]).items() > first.items()

    def test_differ_where_two_marks_are_the_same(self, monkeypatch):
        monkeypatch.setattr(layout, "MARKS", (0, 1, 64))
        owners = ["a" + " " * n + "b" for n in range(40)]  # more than a mark of one letter has
        assert len(set(student_ids(owners).values())) == 40

    def test_are_the_same_in_each_version(self):
        """Labs of one class may be graded by several, into folders that are merged."""
        assert student_ids(["ada", "Ada", "x" * 99, "😀"]) == {
            "ada": "ada-fdee43",
            "Ada": "Ada-99a563",
            "x" * 99: "x" * 48,
            "😀": "student-f0443a",
        }

    def test_a_mark_is_for_who_has_no_id_yet(self):
        assert student_ids(["Ada", "ada"], {"Ada": "Ada-1"}) == {"Ada": "Ada-1", "ada": "ada"}
        assert student_ids(["ada"], {"Ada": "Ada"}) == {"ada": "ada-fdee43"}

    def test_do_not_depend_on_who_else_handed_in_first(self):
        assert student_ids(["ada", "Ada"]) == student_ids(["Ada", "ada"])


@pytest.mark.parametrize("pack", [in_folder, in_zip])
def test_a_blackboard_assignment_called_as_canvas_calls_files_is_no_canvas(tmp_path, pack):
    """All students would be "Lab", number 1, and the newest of them would count."""
    time = "attempt_2026-11-20-10-00-00"
    files = {f"Lab_1_2_{who}_{time}_01_strides.ipynb": who.encode() for who in ("ada", "bob")}
    one, other = sorted(files)
    with pytest.raises(UserError, match=f"^'{one}' and '{other}' bear one number of Canvas's"):
        taken(pack(tmp_path, files))
    (tmp_path / "apart").mkdir()
    apart = {f"{name.split('_')[3]}/{name}": data for name, data in files.items()}
    assert set(taken(pack(tmp_path / "apart", apart))) == {"ada", "bob"}


def test_a_class_of_canvas_that_names_files_as_blackboard_does_is_a_class(tmp_path):
    """Canvas gives each file a number, and a user as many files as they hand in."""
    time = "attempt_2026-11-20-10-00-00"
    numbers = (("ada", 1, 11), ("bob", 2, 12), ("cy", 3, 12))
    files = {f"{who}_{user}_{file}_x_{time}_01_strides.ipynb": b"" for who, user, file in numbers}
    assert set(taken(in_folder(tmp_path, files))) == {"ada_1", "bob_2", "cy_3"}


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
        ("ada_1_2_old/01_strides.ipynb", ("", ""), ("", "")),
        ("ada-submissions/ada-bob_1_2_01_strides.ipynb", ("", ""), ("", "")),
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
