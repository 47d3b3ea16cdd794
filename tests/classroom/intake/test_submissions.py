"""One submission for each student: which file counts, and what is said where none does."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder.attacks.sample_class import ROOT
from autograder.classroom.errors import UserError
from autograder.classroom.intake import files as in_files
from autograder.classroom.intake import owners as layout
from autograder.classroom.intake import submissions as intake
from autograder.classroom.intake.enrolment import Person
from autograder.classroom.intake.release import releases
from autograder.classroom.intake.submissions import files_in, ignored, labs_named, submissions
from autograder.classroom.intake.taking import take_in
from tests.classroom.intake.handed_in import KNOWN, LAB, in_folder, in_zip, taken
from tests.house.test_house import files_of_the_course


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


def test_an_id_does_not_depend_on_who_hands_in_beside(tmp_path):
    """Ada and ADA come with the first zip; with the second Ada alone, and a stranger whose name is
    as her id."""
    first = taken(in_folder(tmp_path / "1", {"Ada/a.ipynb": b"1", "ADA/a.ipynb": b"2"}))
    before = {one.owner: one.student for one in first.values()}
    files = {"Ada/a.ipynb": b"3", f"{before['Ada']}/a.ipynb": b"4", "ada/a.ipynb": b"5"}
    source = in_folder(tmp_path / "2", files)
    again = {one.owner: one for one in submissions(files_in(source), LAB, KNOWN, before=before)}
    assert again["Ada"].student == before["Ada"]
    assert again["Ada"].data == b"3"
    ids = [one.student.casefold() for one in again.values()]
    assert len({*ids, before["ADA"].casefold()}) == 4


@pytest.mark.parametrize("pack", [in_folder, in_zip])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_is_one_students_in_whatever_normal_form(tmp_path, pack, form):
    """macOS packs "é" as two characters, Windows and Linux as one."""
    written = normalize(form, "José Peña")
    files = {f"{written}/a.ipynb": b"1", f"{written}_1_9_01_strides.ipynb": b"2"}
    (first, second) = taken(pack(tmp_path, files)).values()
    assert first.owner == normalize("NFC", "José Peña")
    assert second.owner == normalize("NFC", "José Peña_1")


def test_what_counted_is_said(tmp_path):
    files = {"ada/01_strides.ipynb": b"this", "ada/draft.ipynb": b"that", "bob/x.ipynb": b"only"}
    found = taken(in_folder(tmp_path, files))
    assert found["ada"].note == "ada/draft.ipynb lay beside it and was not read"
    assert found["bob"].note == ""


GIVEN_OUT = "labs/01_strides/01_strides.ipynb"


@pytest.mark.parametrize(
    ("names", "counts"),
    [
        (["01_strides_final.ipynb", "a_draft.ipynb"], "01_strides_final.ipynb"),
        (["01_strides.ipynb", "01_strides_final.ipynb"], "01_strides.ipynb"),
        (["02_autograd.ipynb", "a_draft.ipynb"], "a_draft.ipynb"),
        (["report.pdf", "a_draft.ipynb"], "a_draft.ipynb"),
        (["01_strides.ipynb", GIVEN_OUT], GIVEN_OUT),
        ([GIVEN_OUT, "x/01_strides/01_strides.ipynb"], GIVEN_OUT),
    ],
)
def test_the_best_named_notebook_counts(tmp_path, names, counts):
    """A copy of the whole course holds the lab where it was given out."""
    files = {f"ada/{name}": name.encode() for name in names}
    one = taken(in_folder(tmp_path, files | {"bob/x.ipynb": b""}))["ada"]
    assert (one.origin, one.data, one.ungradable) == (f"ada/{counts}", counts.encode(), "")


def test_students_come_in_the_order_of_their_ids(tmp_path):
    source = in_folder(tmp_path, {f"{who}/x.ipynb": b"" for who in ("cy", "Bob", "ada")})
    assert list(taken(source)) == ["ada", "Bob", "cy"]


def test_all_that_is_noted_is_said(tmp_path):
    """The platform's word, and the notebooks that did not count, of which one is named."""
    files = {
        f"ada_LATE_1_1{n}_{name}": b""
        for n, name in enumerate([f"{LAB}.ipynb", f"{'b' * 90}.ipynb", "z.ipynb", "notes.pdf"])
    }
    first = f"ada_LATE_1_11_{'b' * 90}"[:80]
    assert taken(in_folder(tmp_path, files))["ada_1"].note == (
        f"{layout.LATE}; {first} and 1 more lay beside it and was not read"
    )


@pytest.mark.parametrize(
    ("n", "says"),
    [
        (2, "(ada/0{}, ada/1{})"),
        (3, "(ada/0{}, ada/1{}, ada/2{})"),
        (4, "(ada/0{}, ada/1{}, ada/2{} and 1 more)"),
        (6, "(ada/0{}, ada/1{}, ada/2{} and 3 more)"),
    ],
)
def test_of_several_notebooks_three_are_named(tmp_path, n, says):
    files = {f"ada/{k}{'x' * 90}.ipynb": str(k).encode() for k in range(n)}
    (one,) = taken(in_folder(tmp_path, files)).values()
    assert one.ungradable == (
        f"There are several notebooks {says.format(*['x' * 75] * 3)}. Hand in one."
    )


@pytest.mark.parametrize("copies", [False, True])
def test_as_many_equal_notebooks_as_are_read_are_one(tmp_path, copies):
    name = f"{LAB} ({{}}).ipynb" if copies else "{}.ipynb"
    most = intake.MAX_CANDIDATES
    files = {f"ada/{name.format(k)}": b"same" for k in range(most)}
    files |= {f"bob/{name.format(k)}": b"same" for k in range(most + 1)}
    found = taken(in_folder(tmp_path, files))
    assert found["ada"].data == b"same"
    assert "several notebooks" in found["bob"].ungradable


def test_a_name_that_cannot_be_printed_is_shown_without_what_cannot(tmp_path):
    """It would turn a line of the table around."""
    source = in_folder(tmp_path, {"ada/\u202e01.ipynb": b"ada", "bob/Zoë 01.ipynb": b"bob"})
    found = taken(source)
    assert [one.origin for one in found.values()] == ["ada/?01.ipynb", "bob/Zoë 01.ipynb"]
    assert found["ada"].data == b"ada"


@pytest.mark.parametrize("name", ["a.ZIP", "a.tar", "a.tar.gz", "a.tgz", "a.rar", "a.7z"])
def test_an_archive_beside_something_else_is_an_archive(tmp_path, name):
    source = in_folder(tmp_path, {f"ada/{name}": b"PK", "ada/0.txt": b"", "ada/z.txt": b""})
    (source / "ada" / "empty").mkdir()
    assert "Hand in the notebook in it" in taken(source)["ada"].ungradable


def test_a_student_called_as_a_lab_is_a_student(tmp_path):
    """As the assignment is called that somebody's folder was made for."""
    files = {"02_autograd/01_strides.ipynb": b"1", "ada/02_autograd/01_strides.ipynb": b"2"}
    source = in_folder(tmp_path, files | {"ada/01_strides/01_strides.ipynb": b"3"})
    assert {name: one.data for name, one in taken(source).items()} == {
        "02_autograd": b"1",
        "ada": b"3",
    }
    assert ignored(files_in(source), LAB, KNOWN) == {
        intake.ELSEWHERE: ["ada/02_autograd/01_strides.ipynb"]
    }


@pytest.mark.parametrize("name", ["0.pdf", "z.pdf"])
def test_another_labs_notebook_beside_a_page_is_told_as_such(tmp_path, name):
    """There is a notebook among what was handed in."""
    files = {f"ada/{name}": b"%PDF", "ada/02_autograd.ipynb": b"{}", "bob/x.ipynb": b"{}"}
    found = taken(in_folder(tmp_path, files))
    assert found["ada"].ungradable == (
        "You handed in the notebook of 02_autograd. Hand in 01_strides.ipynb."
    )


def test_a_file_that_is_called_as_a_lab_is_no_folder_of_it(tmp_path):
    found = taken(in_folder(tmp_path, {"ada/02_autograd": b"", "bob/x.ipynb": b""}))
    assert list(found) == ["ada", "bob"]
    assert found["ada"].ungradable


def test_what_was_handed_in_for_another_lab_is_nobodys_hand_in(tmp_path):
    """nbgrader's exchange names the lab; the notebook may have any name."""
    names = {lab: f"{lab[:2]}+{lab}+2026-11-20 10:00:00 UTC/mine.ipynb" for lab in KNOWN}
    source = in_folder(tmp_path, dict.fromkeys(names.values(), b"{}"))
    assert list(taken(source)) == ["01"]
    assert ignored(files_in(source), LAB, KNOWN) == {intake.ELSEWHERE: [names["02_autograd"]]}


def test_who_is_enrolled_changes_no_strangers_id(tmp_path):
    """The two ids would be one without a mark, were both of them needed."""
    source = in_folder(tmp_path, {f"{who}/x.ipynb": b"" for who in ("a b", "a_b")})
    people = [Person("a b", folder_id="s1"), Person("c", folder_id="c")]
    found = list(submissions(files_in(source), LAB, KNOWN, people))
    assert [(one.owner, one.student) for one in found] == [("a_b", "a_b"), ("a b", "s1")]


def test_copies_count_only_where_nobody_has_answered_beside_them(tmp_path):
    names = {f"a/{LAB}": b"mine", f"b/{LAB}": b"given out", f"b/{LAB} (1)": b"an older one"}
    source = in_folder(tmp_path, {f"ada/{LAB}/{name}.ipynb": data for name, data in names.items()})

    def untouched_in(data):
        return "en" if data == b"given out" else ""

    (ada,) = submissions(files_in(source), LAB, KNOWN, untouched_in=untouched_in)
    assert (ada.data, ada.ungradable) == (b"mine", "")


def test_as_many_copies_as_are_read_count_beside_an_untouched_lab(tmp_path):
    copies = {f"ada/{LAB} ({n}).ipynb": b"mine" for n in range(intake.MAX_CANDIDATES)}
    source = in_folder(tmp_path, {f"ada/{LAB}.ipynb": b"given out", **copies})

    def untouched_in(data):
        return "en" if data == b"given out" else ""

    (ada,) = submissions(files_in(source), LAB, KNOWN, untouched_in=untouched_in)
    assert (ada.data, ada.ungradable) == (b"mine", "")


def test_a_notebook_that_is_too_large_keeps_what_the_platform_says(tmp_path, monkeypatch):
    monkeypatch.setattr(in_files, "MAX_NOTEBOOK_BYTES", 3)
    source = in_folder(tmp_path, {"ada_LATE_1_10_01_strides.ipynb": b"1234"})
    (ada,) = taken(source).values()
    assert "larger than" in ada.ungradable
    assert ada.note == layout.LATE


def test_the_secret_is_that_of_the_hand_in_that_counts(tmp_path):
    """By it nbgrader's exchange gives the page to whoever handed in just this."""
    files = {}
    for day, letter in (("20", "a"), ("21", "b")):
        place = f"ada+01_strides+2026-11-{day} 10:00:00 UTC"
        files |= {f"{place}/{LAB}.ipynb": day.encode()}
        files |= {f"{place}/submission_secret.txt": letter.encode() * 32}
    (ada,) = taken(in_folder(tmp_path, files)).values()
    assert (ada.data, ada.secret) == (b"21", "b" * 32)


def test_what_is_hidden_names_no_lab(tmp_path):
    files = {"ada/02_autograd.ipynb": b"", "ada/.01_strides.ipynb": b""}
    assert labs_named(files_in(in_folder(tmp_path, files)), KNOWN) == ["02_autograd"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere", "There is no folder or zip archive .*/nowhere"),
        ("mine.ipynb", "/mine.ipynb is one notebook. Name the folder that it lies in"),
    ],
)
def test_what_is_no_class_is_said(tmp_path, name, says):
    (tmp_path / "mine.ipynb").write_text("{}")
    with pytest.raises(UserError, match=says):
        files_in(tmp_path / name)


NAMES = st.sampled_from(
    [
        "01_strides.ipynb", "Copy of 01_strides.ipynb", "02_autograd.ipynb", "notes.pdf", "x.zip",
        "ada_1_10_01_strides.ipynb", "ada_1_11_01_strides-1.ipynb", "bob_LATE_2_12_notes.pdf",
        "Ada L_1_assignsubmission_file_01_strides.ipynb", "Eve_3_assignsubmission_file_x.py",
        "Lab_ada_attempt_2026-11-20-10-00-00_01_strides.ipynb", "grades.csv", ".DS_Store",
        "ada+01_strides+2026-11-20 10:00:00 UTC.ipynb", "ada+02_autograd+2026-11-20 10:00:00.ipynb",
    ]
)  # fmt: skip


FOLDERS = st.sampled_from(
    ["", "ada", "bob/01_strides", "bob/02_autograd", "submitted/cy", "ada/.ipynb_checkpoints"]
)


@given(st.sets(st.tuples(FOLDERS, NAMES), min_size=1, max_size=12), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_file_ends_in_one_row(tmp_path_factory, files, zipped):
    """Each that came in is a student's (graded, refused or left for a better one) or is ignored by
    a rule that the summary counts; a hidden folder counts once."""
    root = tmp_path_factory.mktemp("class")
    names = [f"{folder}/{name}".lstrip("/") for folder, name in files]
    source = (in_zip if zipped else in_folder)(root, {name: name.encode() for name in names})
    found = files_in(source)
    try:
        rows = list(submissions(found, LAB, KNOWN))
    except UserError:
        return  # nothing is graded, and one sentence says why
    claimed = layout.claims(found, LAB)[0]
    passed_over = ignored(found, LAB, KNOWN)
    theirs = [claim for claim in claimed if not intake._is_kept_for_another(claim, LAB, KNOWN)]
    counted = ["/".join(claim.file.path) for claim in theirs if not claim.file.is_empty_folder]
    counted += [path for paths in passed_over.values() for path in paths]
    assert set(_came_in(names)) <= set(counted)
    assert len(set(counted)) == len(counted)
    assert all(one.ungradable or one.data for one in rows)
    assert len(rows) == len({claim.owner for claim in theirs})


def _came_in(names):
    """The files by name; of those in a hidden folder, the folder."""
    for name in names:
        above, is_hidden, _ = name.partition("/.ipynb_checkpoints")
        yield above + is_hidden


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


def test_an_empty_folder_of_another_lab_is_nobodys_hand_in(tmp_path):
    source = in_folder(tmp_path, {"submitted/ada/01_strides/01_strides.ipynb": b"this"})
    (source / "submitted" / "bob" / "02_autograd").mkdir(parents=True)
    assert set(taken(source)) == {"ada"}
    assert ignored(files_in(source), LAB, KNOWN) == {
        intake.ELSEWHERE: ["submitted/bob/02_autograd"]
    }


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
        handed_in = {"ada": b"123", "bob": b"4567", "eve": b"8"}
        files = {f"{who}/01_strides.ipynb": data for who, data in handed_in.items()}
        found = taken(in_zip(tmp_path, files))
        assert (found["ada"].data, found["bob"].data) == (b"123", b"4567")
        assert "larger than may be read at once" in found["eve"].ungradable
        assert "two folders" in found["eve"].note


def test_a_folder_without_a_notebook_is_named(tmp_path):
    found = taken(in_folder(tmp_path, {"ada/report.pdf": b"", "bob/01_strides.ipynb": b""}))
    assert "no notebook" in found["ada"].ungradable


RELEASES = releases(ROOT)


@cache
def course():
    """Every file of the repository, by its path in it."""
    return {str(path.relative_to(ROOT)): path.read_bytes() for path in files_of_the_course()}


class TestACopyOfTheWholeCourse:
    """Somebody forks the repository, fills in a lab in one language and hands in all of it."""

    ENGLISH, SPANISH = f"labs/{LAB}/{LAB}.ipynb", f"es/labs/{LAB}/{LAB}.ipynb"

    def saved(self, path, answers=()):
        """The lab as Jupyter saves it: with a mark of its own, and with these answers in it."""
        made = json.loads(course()[path])
        made["metadata"]["saved"] = path
        for cell in made["cells"]:
            if cell["id"] in answers:
                cell["source"] = answers[cell["id"]]
        return json.dumps(made).encode()

    def filled(self, path):
        answer = "def address(index, size, stride, offset):\n    return 41\n"
        return self.saved(path, {"address": answer})

    def take(self, tmp_path, mine):
        """What is taken in of the course's files with `mine` instead of theirs, and of bob's."""
        fork = {f"ada/{path}": data for path, data in (course() | mine).items()}
        source = in_zip(tmp_path, fork | {f"bob/{LAB}.ipynb": self.filled(self.ENGLISH)})
        return take_in(source, RELEASES, LAB, tmp_path)

    @pytest.mark.parametrize("path", [ENGLISH, SPANISH])
    @pytest.mark.parametrize("other", ["as given out", "run and saved"])
    def test_the_language_that_was_filled_in_counts(self, tmp_path, path, other):
        (untouched,) = {self.ENGLISH, self.SPANISH} - {path}
        beside = {untouched: self.saved(untouched)} if other == "run and saved" else {}
        found = self.take(tmp_path, beside | {path: self.filled(path)})
        assert not found.refusals
        assert set(found.entries) == {"ada", "bob"}
        ada = found.entries["ada"]
        assert "return 41" in ada.rebuilt.answers["address"]
        assert ada.submission.origin == f"ada/{path}"
        assert ada.rebuilt.language == ("es" if path == self.SPANISH else "en")

    def test_both_filled_in_is_not_guessed(self, tmp_path):
        both = {path: self.filled(path) for path in (self.ENGLISH, self.SPANISH)}
        (refused,) = self.take(tmp_path, both).refusals
        assert refused.submission.student == "ada"
        assert refused.reason == (
            f"There are several notebooks (ada/{self.SPANISH}, ada/{self.ENGLISH}). Hand in one."
        )

    @pytest.mark.parametrize("given", ["as given out", "run and saved"])
    def test_a_copy_that_was_filled_in_counts_beside_an_untouched_lab(self, tmp_path, given):
        """Who downloads the lab again gets its name back, with a number."""
        untouched = RELEASES[LAB].notebook if given == "as given out" else self.saved(self.ENGLISH)
        files = {
            f"ada/{LAB}.ipynb": untouched,
            f"ada/{LAB} (1).ipynb": self.filled(self.ENGLISH),
            f"bob/{LAB}.ipynb": untouched,
            f"bob/{LAB} (1).ipynb": untouched,
            f"eve/{LAB}.ipynb": untouched,
            **{f"eve/{LAB} ({n}).ipynb": self.filled(self.ENGLISH) for n in range(1, 6)},
        }
        found = take_in(in_folder(tmp_path / "in", files), RELEASES, LAB, tmp_path)
        origins = {name: entry.submission.origin for name, entry in found.entries.items()}
        assert origins == {"ada": f"ada/{LAB} (1).ipynb", "bob": f"bob/{LAB}.ipynb"}
        assert "return 41" in found.entries["ada"].rebuilt.answers["address"]
        (refused,) = found.refusals
        assert "There are several notebooks" in refused.reason

    def test_free_text_alone_is_an_answer(self, tmp_path):
        text = next(
            name for name, cell in RELEASES[LAB].answers.items() if cell["cell_type"] == "markdown"
        )
        found = self.take(tmp_path, {self.SPANISH: self.saved(self.SPANISH, {text: "Porque sí."})})
        assert found.entries["ada"].rebuilt.answers[text] == "Porque sí."

    def test_a_damaged_one_is_not_taken_for_an_untouched_one(self, tmp_path):
        mine = {self.ENGLISH: b"{", self.SPANISH: self.filled(self.SPANISH)}
        (refused,) = self.take(tmp_path, mine).refusals
        assert "several notebooks" in refused.reason

    def test_of_none_that_was_filled_in_the_english_one_counts(self, tmp_path):
        found = self.take(tmp_path, {})
        assert not found.refusals
        assert found.entries["ada"].submission.origin == f"ada/{self.ENGLISH}"

    def test_of_none_that_was_filled_in_one_counts_where_none_is_english(self, tmp_path):
        twins = {"": self.saved(self.SPANISH), "again/": course()[self.SPANISH]}
        files = {f"ada/{folder}{LAB}.ipynb": data for folder, data in twins.items()}
        found = take_in(in_folder(tmp_path / "in", files), RELEASES, LAB, tmp_path)
        assert found.entries["ada"].rebuilt.language == "es"
