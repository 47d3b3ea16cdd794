"""What comes of a hand-in: entries to be graded, sentences for the rest, and what is kept."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from autograder import atomic_write
from autograder.attacks.sample_class import NAME, ROOT, filled
from autograder.classroom.errors import UserError
from autograder.classroom.intake.enrolment import Person
from autograder.classroom.intake.rebuild import Ungradable, rebuild
from autograder.classroom.intake.release import releases
from autograder.classroom.intake.taking import Taken, take_again, take_in
from tests.classroom.intake.handed_in import in_folder

KNOWN = releases(ROOT)
ONE = {NAME: KNOWN[NAME]}
FILE = f"{NAME}.ipynb"
MINE = json.dumps(filled({"address": "def address(*a):\n    return 41\n"})).encode()


def spoilt() -> bytes:
    """The Spanish notebook with two cells that claim to be one answer."""
    made: dict[str, Any] = json.loads(KNOWN[NAME].twins["es"])
    (cell,) = (cell for cell in made["cells"] if cell["id"] == "address")
    made["cells"] += [{**cell, "source": f"def address(): return {n}"} for n in range(2)]
    return json.dumps(made).encode()


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Where bytes are kept: in the folder `received` of a grading folder."""
    return tmp_path / "grading" / "received"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "in"


def test_a_class_becomes_entries_and_refusals(source: Path, kept: Path) -> None:
    files = {"ada": MINE, "bob": spoilt(), "cy": b"{", "dan": MINE}
    in_folder(source, {f"{who}/{FILE}": data for who, data in files.items()})
    in_folder(source, {"eve/report.pdf": b"%PDF", "grades.csv": b"", "dan/.notes": b""})
    found = take_in(source, KNOWN, NAME, kept)
    assert found.release is KNOWN[NAME]
    assert found.ignored == {
        "beside the students' hand-ins": ["grades.csv"],
        "hidden, as tools leave them behind": ["dan/.notes"],
    }
    assert list(found.entries) == ["ada", "dan"]
    ada = found.entries["ada"]
    assert (ada.submission.origin, ada.submission.data) == (f"ada/{FILE}", b"")
    assert ada.rebuilt == rebuild(MINE, KNOWN[NAME])
    assert ada.sha256 == hashlib.sha256(MINE).hexdigest()
    refused = {one.submission.student: one for one in found.refusals}
    assert list(refused) == ["bob", "cy", "eve"]
    assert "2 different cells claim to be the answer 'address'" in refused["bob"].reason
    assert refused["bob"].note.startswith("address stands in cell")
    assert {name: one.language for name, one in refused.items()} == {
        "bob": "es",
        "cy": "en",
        "eve": "en",
    }
    assert (refused["cy"].note, refused["cy"].submission.data) == ("", b"")
    assert "There is no notebook" in refused["eve"].reason
    assert "There is no notebook" in refused["eve"].submission.ungradable


def test_the_bytes_of_every_notebook_that_was_read_are_kept_once(source: Path, kept: Path) -> None:
    """Also of one that is refused: its student may ask why."""
    data = {"ada": MINE, "bob": MINE, "cy": b"{"}
    in_folder(source, {f"{who}/{FILE}": one for who, one in data.items()})
    in_folder(source, {"dan/report.pdf": b"%PDF"})
    take_in(source, KNOWN, NAME, kept)
    by_name = {path.name: path for path in kept.iterdir()}
    assert {name: path.read_bytes() for name, path in by_name.items()} == {
        f"{hashlib.sha256(one).hexdigest()}.ipynb": one for one in (MINE, b"{")
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in by_name.values()} == {0o600}
    first = {name: path.stat().st_ino for name, path in by_name.items()}
    take_in(source, KNOWN, NAME, kept)
    assert {path.name: path.stat().st_ino for path in kept.iterdir()} == first


class TestWhichLab:
    def test_is_the_one_that_a_path_names(self, source: Path, kept: Path) -> None:
        in_folder(source, {f"ada/{FILE}": MINE, "bob/mine.ipynb": MINE})
        assert take_in(source, KNOWN, "", kept).release.name == NAME

    def test_is_the_only_one_that_the_course_has(self, source: Path, kept: Path) -> None:
        in_folder(source, {"ada/mine.ipynb": MINE, "ada/data.txt": b""})
        assert list(take_in(source, ONE, "", kept).entries) == ["ada"]

    def test_is_what_was_asked_whatever_the_paths_name(self, source: Path, kept: Path) -> None:
        in_folder(source, {"ada/02_dispatcher.ipynb": MINE, "ada/mine.ipynb": MINE})
        assert take_in(source, KNOWN, "1", kept).release.name == NAME

    @pytest.mark.parametrize("names", [["mine"], [NAME, "02_dispatcher"]])
    def test_is_not_guessed(self, source: Path, kept: Path, names: list[str]) -> None:
        in_folder(source, {f"ada/{name}.ipynb": MINE for name in names})
        with pytest.raises(UserError, match=f"--lab. The course has: .*, {NAME}, 02_dispatcher,"):
            take_in(source, KNOWN, "", kept)

    def test_is_none_of_a_course_that_has_none(self, source: Path, kept: Path) -> None:
        in_folder(source, {f"ada/{FILE}": MINE})
        with pytest.raises(UserError, match="The course has: none"):
            take_in(source, {}, "", kept)


@pytest.mark.parametrize("name", ["report.pdf", "._01_strides.ipynb"])
def test_a_folder_without_a_notebook_may_be_the_wrong_folder(
    source: Path, kept: Path, name: str
) -> None:
    """Whoever says which lab it is means it."""
    in_folder(source, {f"ada/{name}": b"{}"})
    with pytest.raises(UserError, match=r"no notebook in .*/in\. Name the folder of hand-ins"):
        take_in(source, ONE, "", kept)
    (refused,) = take_in(source, ONE, NAME, kept).refusals
    assert refused.submission.student == "ada"


def test_a_folder_that_holds_nothing_of_a_lab_is_named(source: Path, kept: Path) -> None:
    in_folder(source, {"ada/02_dispatcher/x.ipynb": b"{}"})
    with pytest.raises(UserError, match=r"no notebook of 01_strides in .*/in"):
        take_in(source, KNOWN, NAME, kept)


def test_who_is_enrolled_and_who_came_before_keep_their_ids(source: Path, kept: Path) -> None:
    in_folder(source, {f"{who}/{FILE}": MINE for who in ("Ada", "Bob", "Cy")})
    people = [Person("ada", folder_id="anon-1")]
    found = take_in(source, KNOWN, NAME, kept, people, {"Bob": "Bob-2"})
    assert set(found.entries) == {"anon-1", "Bob-2", "Cy"}


@pytest.mark.parametrize(("folder", "time"), [("collected", "2026-11-20 10:00:00"), ("copy", "")])
def test_a_time_is_believed_where_nbgrader_collected_it(
    kept: Path, monkeypatch: pytest.MonkeyPatch, folder: str, time: str
) -> None:
    """Whichever way the folder is named."""
    files = {f"ada/{NAME}/{FILE}": MINE, f"ada/{NAME}/timestamp.txt": b"2026-11-20 10:00:00 UTC"}
    in_folder(kept.parent / folder, files)
    monkeypatch.chdir(kept.parent)
    found = take_in(Path(folder), KNOWN, NAME, kept)
    assert found.entries["ada"].submission.submitted == time


class TestAgain:
    """What was taken in before is rebuilt from the bytes that are kept."""

    @pytest.fixture
    def taken(self, source: Path, kept: Path) -> Taken:
        return take_in(in_folder(source, {f"ada/{FILE}": MINE}), KNOWN, NAME, kept)

    def test_is_the_same_entry(self, taken: Taken, kept: Path) -> None:
        ada = taken.entries["ada"]
        assert take_again(ada.submission, KNOWN[NAME], kept) == ada

    def test_is_refused_where_the_bytes_are_gone_or_others(self, taken: Taken, kept: Path) -> None:
        submission = taken.entries["ada"].submission
        (path,) = kept.iterdir()
        path.write_bytes(MINE + b" ")
        with pytest.raises(UserError, match=rf"{path} is not the notebook .* Grade the class"):
            take_again(submission, KNOWN[NAME], kept)
        path.unlink()
        with pytest.raises(UserError, match=rf"{path} cannot be read: No such file.* Grade the"):
            take_again(submission, KNOWN[NAME], kept)

    def test_says_where_the_lab_has_become_another(self, taken: Taken, kept: Path) -> None:
        with pytest.raises(Ungradable, match="another lab's"):
            take_again(taken.entries["ada"].submission, KNOWN["02_dispatcher"], kept)


def test_a_disk_that_fails_for_one_stops_the_class(
    source: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is graded by bytes that are not there: the first and the last are waited for."""
    in_folder(
        source, {f"{who}/{FILE}": MINE + b"\n" * n for n, who in enumerate(["ada", "bob", "zoe"])}
    )

    def full(path: Path, data: bytes, *, mode: int) -> None:
        if data.endswith(b"\n\n"):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_write, "write", full)
    with pytest.raises(OSError, match="No space left"):
        take_in(source, KNOWN, NAME, kept)
