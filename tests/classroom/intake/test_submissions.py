"""Intake, as platforms hand in, as students misname, and as somebody hostile would pack it."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder.classroom.errors import UserError
from autograder.classroom.intake import files as in_files
from autograder.classroom.intake import owners as layout
from autograder.classroom.intake import submissions as intake
from autograder.classroom.intake.owners import student_ids
from autograder.classroom.intake.submissions import files_in, ignored, labs_named, submissions

LAB = "01_strides"
KNOWN = [LAB, "02_autograd"]

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


def in_folder(root: Path, paths: dict[str, bytes]) -> Path:
    for path, data in paths.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def in_zip(root: Path, paths: dict[str, bytes]) -> Path:
    made = root / "hand_in.zip"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in paths.items():
            archive.writestr(path, data)
    return made


def taken(source: Path, lab: str = LAB) -> dict[str, object]:
    return {one.student: one for one in submissions(files_in(source), lab, KNOWN)}


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


def test_the_newest_of_several_hand_ins_counts(tmp_path):
    canvas = in_zip(
        tmp_path,
        {
            "ada_1_10_01_strides.ipynb": b"first",
            "ada_1_12_01_strides-2.ipynb": b"third",
            "ada_1_11_01_strides-1.ipynb": b"second",
        },
    )
    assert taken(canvas)["ada_1"].data == b"third"
    inbound = in_folder(
        tmp_path / "inbound",
        {
            "ada+01_strides+2026-11-20 10:00:00 UTC+b/01_strides.ipynb": b"old",
            "ada+01_strides+2026-11-21 09:00:00 UTC+a/01_strides.ipynb": b"new",
            "ada+02_autograd+2026-11-22 09:00:00 UTC+a/02_autograd.ipynb": b"other lab",
        },
    )
    found = taken(inbound)
    assert found["ada"].data == b"new"
    assert found["ada"].submitted == "2026-11-21 09:00:00"


def test_a_late_hand_in_is_noted(tmp_path):
    source = in_zip(tmp_path, {"ada_LATE_1_10_01_strides.ipynb": b""})
    assert "late" in taken(source)["ada_1"].note


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


@pytest.mark.parametrize("pack", [in_folder, in_zip])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("ada_1", "ada_1_10_{}"),
        ("Ada_L_1", "Ada L_1_assignsubmission_file_{}"),
        ("ada", "Lab 1_ada_attempt_2026-11-20-10-00-00_{}"),
        ("ada", "ada/{}"),
        ("ada", "ada/deeper/{}"),
    ],
)
@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("report.pdf", "no notebook"),
        ("answer.py", "no notebook"),
        ("01_strides.zip", "Hand in the notebook in it"),
        ("02_autograd.ipynb", "notebook of 02_autograd"),
    ],
)
def test_nobody_disappears(tmp_path, owner, name, file, says, pack):
    zoe = {"zoe_9_9_01_strides.ipynb" if "/" not in name else "zoe/01_strides.ipynb": b"zoe"}
    found = taken(pack(tmp_path, {name.format(file): b"{}"} | zoe))
    assert says in found[owner].ungradable
    assert len(found) == 2


def test_an_empty_folder_is_somebodys(tmp_path):
    class_ = in_folder(tmp_path / "class", {"ada/01_strides.ipynb": b"ada"})
    (class_ / "bob" / "deep").mkdir(parents=True)
    in_folder(class_, {"cy/.DS_Store": b"", "dan/.DS_Store": b"", "dan/01_strides.ipynb": b"dan"})
    (class_ / "ada" / "data").mkdir()
    with zipfile.ZipFile(tmp_path / "made.zip", "w") as archive:
        for path in sorted(class_.rglob("*")):
            archive.write(path, path.relative_to(class_))
    for source in (class_, tmp_path / "made.zip"):
        found = taken(source)
        assert set(found) == {"ada", "bob", "cy", "dan"}
        assert "empty" in found["bob"].ungradable
        assert "empty" in found["cy"].ungradable
        assert (found["ada"].data, found["dan"].data) == (b"ada", b"dan")


def test_a_hard_link_to_a_neighbours_file_is_not_read(tmp_path):
    in_folder(tmp_path, {"eve/x.txt": b""})
    mine = in_folder(tmp_path / "home", {"01_strides.ipynb": b"a neighbour's"})
    os.link(mine / "01_strides.ipynb", tmp_path / "eve" / "01_strides.ipynb")
    in_folder(tmp_path / "eve", {})
    source = tmp_path / "class"
    source.mkdir()
    (tmp_path / "eve").rename(source / "eve")
    assert "hard link" in taken(source)["eve"].ungradable
    assert taken(source)["eve"].data == b""


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


def test_what_counted_is_said(tmp_path):
    files = {"ada/01_strides.ipynb": b"this", "ada/draft.ipynb": b"that", "bob/x.ipynb": b"only"}
    found = taken(in_folder(tmp_path, files))
    assert found["ada"].note == "ada/draft.ipynb lay beside it and was not read"
    assert found["bob"].note == ""


NAMES = st.sampled_from(
    [
        "01_strides.ipynb", "Copy of 01_strides.ipynb", "02_autograd.ipynb", "notes.pdf", "x.zip",
        "ada_1_10_01_strides.ipynb", "ada_1_11_01_strides-1.ipynb", "bob_LATE_2_12_notes.pdf",
        "Ada L_1_assignsubmission_file_01_strides.ipynb", "Eve_3_assignsubmission_file_x.py",
        "Lab_ada_attempt_2026-11-20-10-00-00_01_strides.ipynb", "grades.csv", ".DS_Store",
        "ada+01_strides+2026-11-20 10:00:00 UTC.ipynb", "ada+02_autograd+2026-11-20 10:00:00.ipynb",
    ]
)  # fmt: skip
FOLDERS = st.sampled_from(["", "ada", "bob/01_strides", "bob/02_autograd", "submitted/cy"])


@given(st.sets(st.tuples(FOLDERS, NAMES), min_size=1, max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_every_file_ends_in_one_row(tmp_path_factory, files):
    """Each is a student's (graded, refused or left for a better one) or is ignored by a rule that
    the summary counts."""
    root = tmp_path_factory.mktemp("class")
    in_folder(root, {f"{folder}/{name}".lstrip("/"): name.encode() for folder, name in files})
    found = files_in(root)
    try:
        rows = list(submissions(found, LAB, KNOWN))
    except UserError:
        return  # nothing is graded, and one sentence says why
    passed_over = [path for paths in ignored(found, LAB, KNOWN).values() for path in paths]
    owners = {claim.owner for claim in layout.claims(found, LAB)[0]}
    claimed = [claim.file for claim in layout.claims(found, LAB)[0]]
    assert len(claimed) + len(ignored(found, LAB, KNOWN).get(intake.BESIDE, ())) == len(found)
    assert len(set(passed_over)) == len(passed_over)
    assert len(rows) <= len(owners)
    assert all(one.ungradable or one.data for one in rows)
    kept_apart = {
        claim.owner
        for claim in layout.claims(found, LAB)[0]
        if not intake._is_kept_for_another(claim, LAB, KNOWN)
    }
    assert len(rows) == len(kept_apart)


def test_another_labs_notebook_is_nobodys_hand_in(tmp_path):
    source = in_folder(
        tmp_path,
        {
            "ada/01_strides/01_strides.ipynb": b"this",
            "ada/02_autograd/02_autograd.ipynb": b"that",
            "bob/02_autograd/02_autograd.ipynb": b"that",
        },
    )
    assert {name: one.data for name, one in taken(source).items()} == {"ada": b"this"}
    assert labs_named(files_in(source), KNOWN) == KNOWN


def test_what_lies_beside_the_students_is_nobodys(tmp_path):
    source = in_folder(
        tmp_path,
        {
            "ada/01_strides.ipynb": b"",
            "ada/.ipynb_checkpoints/01_strides-checkpoint.ipynb": b"old",
            "__MACOSX/ada/._01_strides.ipynb": b"",
            "grades.csv": b"",
        },
    )
    assert set(taken(source)) == {"ada"}


def test_two_different_notebooks_are_named_and_two_equal_ones_are_one(tmp_path):
    source = in_folder(
        tmp_path,
        {
            "ada/01_strides (2).ipynb": b"one",
            "ada/01_strides (1).ipynb": b"two",
            "bob/01_strides-Copy1.ipynb": b"same",
            "bob/01_strides (1).ipynb": b"same",
        },
    )
    found = taken(source)
    assert "several notebooks" in found["ada"].ungradable
    assert "01_strides (1).ipynb" in found["ada"].ungradable
    assert found["bob"].data == b"same"


@pytest.mark.parametrize("pack", [in_folder, in_zip])
@pytest.mark.parametrize(
    ("given", "copy"),
    [
        ("ada/01_strides.ipynb", "ada/01_strides (1).ipynb"),
        ("ada/01_strides.ipynb", "ada/01_strides-Copy1.ipynb"),
        ("ada/01_strides.ipynb", "ada/Copy of 01_strides.ipynb"),
        ("ada_1_10_01_strides.ipynb", "ada_1_11_01_strides-Copy1.ipynb"),
        ("ada_1_assignsubmission_file_/01_strides.ipynb",) * 2,
    ],
)
def test_the_name_that_was_given_out_wins_over_a_copy_beside_it(tmp_path, given, copy, pack):
    copy = copy.replace("file_/01_strides", "file_/01_strides (1)")
    (one,) = taken(pack(tmp_path, {given: b"mine", copy: b"a copy"})).values()
    assert one.data == b"mine"
    assert not one.ungradable
    assert Path(copy).name in one.note
    assert "was not read" in one.note


def test_a_later_hand_in_wins_whatever_its_name(tmp_path):
    source = in_folder(
        tmp_path,
        {
            "ada+01_strides+2026-11-20 10:00:00 UTC+b/01_strides.ipynb": b"old",
            "ada+01_strides+2026-11-21 09_00_00 UTC+a/01_strides (1).ipynb": b"new",
        },
    )
    assert taken(source)["ada"].data == b"new"
    assert taken(source)["ada"].submitted == "2026-11-21 09:00:00"


def test_a_zipped_notebook_is_told_from_none(tmp_path):
    source = in_folder(tmp_path, {"ada/01_strides.zip": b"PK", "bob/01_strides.ipynb": b""})
    assert "Hand in the notebook in it" in taken(source)["ada"].ungradable


class TestOneOwner:
    """Somebody who hands in as much as they can costs themselves, and nobody else."""

    @pytest.mark.parametrize("pack", [in_folder, in_zip])
    @pytest.mark.parametrize("name", ["eve/{}.txt", "eve/{}/x.txt", "eve/d/d/{}", "eve/.{}"])
    def test_with_too_many_files(self, tmp_path, monkeypatch, pack, name):
        monkeypatch.setattr(in_files, "MAX_FILES_EACH", 20)
        monkeypatch.setattr(in_files, "MAX_FILES", 60)
        hostile = {name.format(n): b"" for n in range(200)}
        class_ = {f"{who}/01_strides.ipynb": who.encode() for who in ("ada", "eve", "zoe")}
        found = (
            taken(pack(tmp_path / "h", hostile | class_))
            if pack is in_folder
            else taken(pack(tmp_path, hostile | class_))
        )
        assert "more than 20 files" in found["eve"].ungradable
        assert found["eve"].data == b""
        assert (found["ada"].data, found["zoe"].data) == (b"ada", b"zoe")
        monkeypatch.setattr(in_files, "MAX_FILES_EACH", 1_000)  # without it the class pays
        with pytest.raises(UserError, match="is it the right one"):
            taken(tmp_path / "h" if pack is in_folder else tmp_path / "hand_in.zip")

    def test_with_too_many_files_in_a_wrapping_folder_or_from_canvas(self, tmp_path, monkeypatch):
        monkeypatch.setattr(in_files, "MAX_FILES_EACH", 20)
        hostile = {f"submissions/eve_1_{n}_01_strides-{n}.ipynb": b"" for n in range(30)}
        source = in_zip(tmp_path, hostile | {"submissions/ada_2_9_01_strides.ipynb": b"ada"})
        found = taken(source)
        assert "more than 20 files" in found["eve_1"].ungradable
        assert found["ada_2"].data == b"ada"

    @pytest.mark.parametrize("pack", [in_folder, in_zip])
    def test_with_many_notebooks_has_few_of_them_read(self, tmp_path, monkeypatch, pack):
        read = []
        monkeypatch.setattr(
            intake._Reading, "__call__", lambda self, claim: read.append(claim) or b"same"
        )
        source = pack(tmp_path, {f"eve/{n}.ipynb": b"same" for n in range(100)})
        assert "several notebooks" in taken(source)["eve"].ungradable
        assert len(read) <= intake.MAX_CANDIDATES

    def test_with_large_notebooks_leaves_the_others_theirs(self, tmp_path, monkeypatch):
        monkeypatch.setattr(intake, "MAX_TOTAL_BYTES", 9)
        source = in_folder(
            tmp_path,
            {f"eve/{n}.ipynb": b"12345" for n in range(50)}
            | {"zoe/01_strides.ipynb": b"zoe", "ada/01_strides.ipynb": b"ada"},
        )
        found = taken(source)
        assert (found["ada"].data, found["zoe"].data) == (b"ada", b"zoe")

    def test_all_together_are_bounded_still(self, tmp_path, monkeypatch):
        monkeypatch.setattr(intake, "MAX_TOTAL_BYTES", 4)
        source = in_zip(
            tmp_path, {"ada/01_strides.ipynb": b"1234", "eve/01_strides.ipynb": b"5678"}
        )
        found = taken(source)
        assert found["ada"].data == b"1234"
        assert "larger than may be read at once" in found["eve"].ungradable
        assert "two folders" in found["eve"].note


def test_a_folder_without_a_notebook_is_named(tmp_path):
    found = taken(in_folder(tmp_path, {"ada/report.pdf": b"", "bob/01_strides.ipynb": b""}))
    assert "no notebook" in found["ada"].ungradable


class TestHostileFolder:
    """Whoever can put names into a hand-in folder gets nothing read but their own bytes."""

    def reason(self, tmp_path, make):
        (tmp_path / "eve").mkdir()
        make(tmp_path / "eve" / "01_strides.ipynb")
        in_folder(tmp_path, {"ada/01_strides.ipynb": b"fine"})
        found = taken(tmp_path)
        assert found["ada"].data == b"fine"
        assert found["eve"].data == b""
        return found["eve"].ungradable

    def test_a_link_is_not_followed(self, tmp_path):
        assert "link" in self.reason(tmp_path, lambda path: path.symlink_to("/etc/passwd"))

    def test_a_link_to_a_neighbour_is_not_followed(self, tmp_path):
        ada = tmp_path / "ada" / "01_strides.ipynb"
        assert "link" in self.reason(tmp_path, lambda path: path.symlink_to(ada))

    def test_a_pipe_does_not_hang(self, tmp_path):
        assert "not an ordinary file" in self.reason(tmp_path, os.mkfifo)

    def test_a_device_is_not_read(self, tmp_path):
        def zero(path):
            try:
                os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
            except PermissionError:
                pytest.skip("only root makes devices")

        assert self.reason(tmp_path, zero)

    def test_a_folder_with_the_notebooks_name(self, tmp_path):
        assert "no notebook" in self.reason(tmp_path, lambda p: in_folder(p, {"x.txt": b""}))

    def test_ten_megabytes_are_enough(self, tmp_path):
        large = b" " * (in_files.MAX_NOTEBOOK_BYTES + 1)
        assert "larger than 10 MB" in self.reason(tmp_path, lambda path: path.write_bytes(large))

    def test_a_sparse_terabyte_costs_nothing(self, tmp_path):
        def sparse(path):
            path.touch()
            os.truncate(path, 2**40)

        assert "larger than 10 MB" in self.reason(tmp_path, sparse)

    def test_a_linked_folder_is_named_and_not_entered(self, tmp_path):
        in_folder(tmp_path / "class", {"ada/01_strides.ipynb": b"fine"})
        (tmp_path / "class" / "eve").symlink_to(tmp_path / "class" / "ada")
        found = taken(tmp_path / "class")
        assert found["ada"].data == b"fine"
        assert "link" in found["eve"].ungradable

    def test_a_folder_that_becomes_a_link_leads_nowhere(self, tmp_path):
        (tmp_path / "secret").mkdir()
        (tmp_path / "secret" / "01_strides.ipynb").write_bytes(b"secret")
        folder = in_folder(tmp_path / "class", {"eve/01_strides.ipynb": b"", "x/a.txt": b""})
        files = files_in(folder)
        (folder / "eve" / "01_strides.ipynb").unlink()
        (folder / "eve").rmdir()
        (folder / "eve").symlink_to(tmp_path / "secret")
        (eve,) = [one for one in submissions(files, LAB, KNOWN) if one.student == "eve"]
        assert eve.data == b""
        assert "link" in eve.ungradable

    def test_depth_and_number_of_files_are_limited(self, tmp_path, monkeypatch):
        deep = "/".join(["d"] * 60)
        source = in_folder(tmp_path, {f"eve/{deep}/01_strides.ipynb": b"", "ada/a.ipynb": b""})
        assert "eve" not in taken(source)
        monkeypatch.setattr(in_files, "MAX_FILES", 3)
        in_folder(tmp_path, {f"ada/{n}.txt": b"" for n in range(4)})
        with pytest.raises(UserError, match="is it the right one"):
            files_in(source)


class TestHostileArchive:
    """A zip is read, never unpacked; what is wrong with one member is said of that member."""

    def reason(self, tmp_path, name="eve/01_strides.ipynb", data=b"x", **attributes):
        source = tmp_path / "h.zip"
        with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("ada/01_strides.ipynb", b"fine")
            archive.writestr("bob/01_strides.ipynb", b"fine too")
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            for key, value in attributes.items():
                setattr(info, key, value)
            archive.writestr(info, data)
        found = taken(source)
        assert found.pop("ada").data == b"fine"
        assert found.pop("bob").data == b"fine too"
        (eve,) = found.values()
        assert eve.data == b""
        assert sorted(tmp_path.iterdir()) == [source]
        return eve.ungradable

    @pytest.mark.parametrize(
        "name",
        [
            "eve/../../01_strides.ipynb",
            "../01_strides.ipynb",
            "/etc/01_strides.ipynb",
            "eve\\..\\01_strides.ipynb",
            "C:/eve/01_strides.ipynb",
            "eve/" + "d/" * 40 + "01_strides.ipynb",
            "eve/" + "n" * 300 + ".ipynb",
        ],
    )
    def test_a_name_that_leads_elsewhere(self, tmp_path, name):
        assert "leads out" in self.reason(tmp_path, name)

    def test_a_link(self, tmp_path):
        mode = (stat.S_IFLNK | 0o777) << 16
        assert "link" in self.reason(tmp_path, data=b"/etc/passwd", external_attr=mode)

    def test_a_bomb(self, tmp_path):
        bomb = b" " * (in_files.MAX_NOTEBOOK_BYTES)
        assert "hundreds of times" in self.reason(tmp_path, data=bomb)

    def test_a_large_member(self, tmp_path):
        large = os.urandom(1024) * (10 * 1024 + 1)
        assert "10 MB" in self.reason(tmp_path, data=large)

    def test_a_twin_in_capitals(self, tmp_path):
        source = in_zip(tmp_path, {"eve/01_strides.ipynb": b"a", "eve/01_STRIDES.ipynb": b"b"})
        assert "twice" in taken(source)["eve"].ungradable

    def test_a_header_that_lies_about_the_size(self, tmp_path):
        source = in_zip(tmp_path, {"eve/01_strides.ipynb": os.urandom(3_000)})
        data = source.read_bytes()
        assert data.count((3_000).to_bytes(4, "little")) >= 2
        source.write_bytes(data.replace((3_000).to_bytes(4, "little"), (17).to_bytes(4, "little")))
        assert "damaged" in taken(source)["eve"].ungradable

    def test_flipped_bytes(self, tmp_path):
        source = in_zip(tmp_path, {"eve/01_strides.ipynb": os.urandom(3_000)})
        data = bytearray(source.read_bytes())
        data[1_500] ^= 0xFF
        source.write_bytes(data)
        assert "damaged" in taken(source)["eve"].ungradable

    def test_a_password(self, tmp_path):
        source = in_zip(tmp_path, {"eve/01_strides.ipynb": b"x"})
        data = bytearray(source.read_bytes())
        for start in (data.index(b"PK\x03\x04") + 6, data.index(b"PK\x01\x02") + 8):
            data[start] |= 1
        source.write_bytes(data)
        assert "password" in taken(source)["eve"].ungradable

    @pytest.mark.parametrize("data", [b"", b"not a zip", b"PK\x05\x06" + b"\xff" * 18])
    def test_what_is_no_archive_is_the_instructors_mistake(self, tmp_path, data):
        source = tmp_path / "h.zip"
        source.write_bytes(data)
        with pytest.raises(UserError, match="zip"):
            files_in(source)


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
