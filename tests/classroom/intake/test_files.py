"""What lies in a folder of hand-ins, also where somebody hostile put it there."""

from __future__ import annotations

import os
import stat
import zipfile

import pytest

from autograder.classroom.errors import UserError
from autograder.classroom.intake import files as in_files
from autograder.classroom.intake.submissions import files_in, submissions
from tests.classroom.intake.handed_in import KNOWN, LAB, in_folder, taken


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
        assert taken(source)["eve"].ungradable
        monkeypatch.setattr(in_files, "MAX_FILES", 3)
        in_folder(tmp_path, {f"ada/{n}.txt": b"" for n in range(4)})
        with pytest.raises(UserError, match="is it the right one"):
            files_in(source)
