"""What lies in a folder of hand-ins, also where somebody hostile put it there."""

from __future__ import annotations

import os
import stat
import zipfile

import pytest

from autograder.classroom.errors import UserError
from autograder.classroom.intake import files as in_files
from autograder.classroom.intake.owners import whose
from autograder.classroom.intake.submissions import files_in, submissions
from tests.classroom.intake.handed_in import FOLDER, KNOWN, LAB, in_folder, kinds, taken


def test_what_lies_in_a_folder(tmp_path):
    """A folder is found where it is empty, and a hidden one once, whatever is in it."""
    for path in [*FOLDER, "__MACOSX/ada/._x"]:
        place = tmp_path / path
        (place if path.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
        if not path.endswith("/"):
            place.touch()
    expected = dict(found for found in FOLDER.values() if found) | {"__MACOSX": "hidden"}
    assert kinds(tmp_path) == expected


def test_one_file_too_many_spoils_once_and_the_rest_is_left_out(tmp_path, monkeypatch):
    """Their folder counts too."""
    monkeypatch.setattr(in_files, "MAX_FILES_EACH", 4)
    files = {f"eve/{k}.ipynb": b"" for k in range(5)} | {f"zoe/{k}.ipynb": b"" for k in range(3)}
    assert kinds(in_folder(tmp_path, files)) == {
        **{f"eve/{k}.ipynb": "file" for k in range(3)},
        "eve/3.ipynb": "spoils",
        **{f"zoe/{k}.ipynb": "file" for k in range(3)},
    }


def test_a_folder_in_which_there_is_nothing_has_no_file(tmp_path):
    """It is the class's, and nobody's empty hand-in."""
    assert kinds(tmp_path) == {}


def test_what_cannot_be_listed_is_the_instructors_mistake(tmp_path):
    file, gone = tmp_path / "file", tmp_path / "gone"
    file.touch()
    for root in (file, gone):
        with pytest.raises(UserError, match=f"Cannot read {root}"):
            list(in_files.in_folder(root, in_files.Quota(root, whose)))


def test_no_file_is_left_open(tmp_path):
    in_folder(tmp_path, {"ada/deep/01_strides.ipynb": b"{}", "bob/01_strides.ipynb": b"{}"})
    before = os.listdir("/dev/fd")
    assert [file.read() for file in files_in(tmp_path)] == [b"{}", b"{}"]
    assert os.listdir("/dev/fd") == before


class TestQuota:
    """Files are counted by owner, here by the first part of a path, and all together."""

    @pytest.fixture
    def quota(self, tmp_path, monkeypatch):
        monkeypatch.setattr(in_files, "MAX_FILES_EACH", 2)
        monkeypatch.setattr(in_files, "MAX_FILES", 3)
        return in_files.Quota(tmp_path, lambda path: path[0])

    def test_an_owner_has_so_many(self, quota):
        assert [quota.take(("eve", str(k))) for k in range(4)] == [True, True, False, False]
        assert quota.take(("zoe", "0"))

    def test_the_class_has_so_many_and_what_was_left_out_does_not_count(self, quota):
        assert [quota.take(path) for path in [("eve",)] * 9] == [True, True] + [False] * 7
        assert quota.take(("zoe",))
        with pytest.raises(UserError, match=f"{quota.source} holds more than 3 files"):
            quota.take(("zoe",))

    def test_each_owner_is_refused_once(self, quota):
        assert "more than 2 files" in quota.refusal(("eve", "a"))
        assert quota.refusal(("eve", "b")) == ""
        assert "more than 2 files" in quota.refusal(("zoe", "a"))

    def test_of_a_folder_one_name_more_is_read_than_may_be_in_it(self, quota):
        """So that it is known to be too full, and a million names cost no more."""
        assert quota.room(("eve",)) == 3
        assert quota.room(()) == 4, "a folder of several owners"


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
        large = b" " * (10 * 2**20 + 1)
        assert "larger than 10 MB" in self.reason(tmp_path, lambda path: path.write_bytes(large))
        (tmp_path / "eve" / "01_strides.ipynb").write_bytes(large[1:])
        assert taken(tmp_path)["eve"].data == large[1:]

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

    def test_a_folder_that_becomes_a_link_on_the_way_is_not_entered(self, tmp_path):
        (tmp_path / "secret").mkdir()
        folder = in_folder(tmp_path / "class", {"ada/01_strides.ipynb": b"", "eve/x.ipynb": b""})
        found = in_files.in_folder(folder, in_files.Quota(folder, whose))
        assert next(found).path == ("ada", "01_strides.ipynb")
        (folder / "eve" / "x.ipynb").unlink()
        (folder / "eve").rmdir()
        (folder / "eve").symlink_to(tmp_path / "secret")
        (eve,) = found
        assert (eve.path, eve.is_file) == (("eve",), False)
        with pytest.raises(in_files.Unreadable, match="folder cannot be read"):
            eve.read()

    def test_what_goes_while_it_is_listed_was_never_there(self, tmp_path, monkeypatch):
        in_folder(tmp_path, {"ada/01_strides.ipynb": b"", "ada/a.txt": b"", "eve/e.txt": b""})
        going = {"a.txt": tmp_path / "ada" / "a.txt", "e.txt": tmp_path / "eve" / "e.txt"}
        mode = in_files._mode

        def late(entry):
            if entry.name in going:
                going[entry.name].unlink()
            return mode(entry)

        monkeypatch.setattr(in_files, "_mode", late)
        assert kinds(tmp_path) == {"ada/01_strides.ipynb": "file", "eve": "empty"}

    def test_a_folder_that_lies_too_deep_is_named_and_not_entered(self, tmp_path):
        as_deep_as_may_be, deeper = "eve/2/3/4/5/6/7/8.ipynb", "zoe/2/3/4/5/6/7/8"
        in_folder(tmp_path, {as_deep_as_may_be: b"{}", f"{deeper}/9.ipynb": b"{}"})
        assert kinds(tmp_path) == {as_deep_as_may_be: "file", deeper: "file"}
        fine, refused = files_in(tmp_path)
        assert fine.read() == b"{}"
        with pytest.raises(in_files.Unreadable, match="in more than 7 folders"):
            refused.read()

    def test_depth_and_number_of_files_are_limited(self, tmp_path, monkeypatch):
        deep = "/".join(["d"] * 60)
        source = in_folder(tmp_path, {f"eve/{deep}/01_strides.ipynb": b"", "ada/a.ipynb": b""})
        assert taken(source)["eve"].ungradable
        monkeypatch.setattr(in_files, "MAX_FILES", 3)
        in_folder(tmp_path, {f"ada/{n}.txt": b"" for n in range(4)})
        with pytest.raises(UserError, match="is it the right one"):
            files_in(source)
