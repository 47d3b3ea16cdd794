"""What lies in an archive of hand-ins, also where somebody hostile packed it."""

from __future__ import annotations

import io
import os
import stat
import tracemalloc
import zipfile

import pytest

from autograder.classroom.errors import UserError
from autograder.classroom.intake import archive as in_archive
from autograder.classroom.intake import files as in_files
from autograder.classroom.intake.submissions import files_in
from tests.classroom.intake.handed_in import FOLDER, in_zip, kinds, taken


def zipped(tmp_path, name, paths):
    """An archive of that name with these paths in it; those that end in / are folders."""
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        for path in paths:
            archive.writestr(path, b"")
    return tmp_path / name


MAC = {"__MACOSX/": ("__MACOSX", "hidden"), "__MACOSX/._class": None, "__MACOSX/class/._ada": None}


@pytest.mark.parametrize(
    ("name", "top", "beside", "shown"),
    [
        ("h.zip", "", {}, ""),
        ("class.zip", "class/", {}, ""),
        ("class.zip", "class/", MAC, ""),
        ("class.zip", "class/", {"x.txt": ("x.txt", "file")}, "class/"),
        ("other.zip", "class/", MAC, "class/"),
    ],
)
def test_what_an_archive_lists_as_a_folder_would(tmp_path, name, top, beside, shown):
    """A folder is found where it is empty, a hidden one once, and the folder that was zipped is
    nobody's where all lies in it."""
    expected = {shown + found[0]: found[1] for found in FOLDER.values() if found}
    expected |= dict(found for found in beside.values() if found)
    folders = [top] if top else []
    source = zipped(tmp_path, name, [*folders, *(top + path for path in FOLDER), *beside])
    assert kinds(source) == expected


def test_an_archive_without_a_file_has_none(tmp_path):
    assert kinds(zipped(tmp_path, "class.zip", [])) == {}


def test_one_file_too_many_spoils_once_and_the_rest_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(in_files, "MAX_FILES_EACH", 2)
    paths = [f"eve/{k}.ipynb" for k in range(5)] + ["zoe/1.ipynb", "zoe/2.ipynb"]
    source = zipped(tmp_path, "h.zip", paths)
    assert kinds(source) == {
        "eve/0.ipynb": "file",
        "eve/1.ipynb": "file",
        "eve/2.ipynb": "spoils",
        "zoe/1.ipynb": "file",
        "zoe/2.ipynb": "file",
    }
    (spoiling,) = (file for file in files_in(source) if file.spoils)
    assert "more than 2 files" in spoiling.spoils


@pytest.mark.parametrize(
    ("mode", "kind"),
    [(stat.S_IFLNK | 0o777, "no file"), (stat.S_IFREG | 0o644, "file"), (0, "file")],
)
def test_a_link_is_no_file(tmp_path, mode, kind):
    """It may have been meant as a notebook, whatever its name. Not every tool tells a mode."""
    with zipfile.ZipFile(tmp_path / "h.zip", "w") as archive:
        info = zipfile.ZipInfo("eve/notebook")
        info.external_attr = mode << 16
        archive.writestr(info, b"/etc/passwd")
    assert kinds(tmp_path / "h.zip") == {"eve/notebook": kind}


def test_a_deep_path_is_shown_by_its_beginning_and_its_name(tmp_path):
    as_deep_as_may_be, deeper = "eve/2/3/4/5/6/7/8.ipynb", "zoe/2/3/4/5/6/7/8/9/10.ipynb"
    source = zipped(tmp_path, "h.zip", [as_deep_as_may_be, deeper])
    assert kinds(source) == {as_deep_as_may_be: "file", "zoe/2/3/4/5/6/7/10.ipynb": "file"}
    fine, refused = files_in(source)
    assert fine.read() == b""
    with pytest.raises(in_files.Unreadable, match="in more than 7 folders"):
        refused.read()


def test_a_path_of_nothing_but_steps_is_shown_by_a_name(tmp_path):
    assert kinds(zipped(tmp_path, "h.zip", ["../.."])) == {"unnamed": "file"}


def test_steps_upwards_hide_nothing(tmp_path):
    source = zipped(tmp_path, "h.zip", ["../ada/01_strides.ipynb", "../ada/.git/../x"])
    assert kinds(source) == {"ada/01_strides.ipynb": "file", "ada/.git": "hidden"}


@pytest.mark.parametrize(("name", "is_read"), [("n" * 249, True), ("n" * 250, False)])
def test_a_name_may_be_as_long_as_a_file_systems(tmp_path, name, is_read):
    (one,) = taken(in_zip(tmp_path, {f"eve/{name}.ipynb": b"{}"})).values()
    assert (one.data == b"{}") is is_read


def test_what_deflates_as_notebooks_do_is_no_bomb(tmp_path):
    found = taken(in_zip(tmp_path, {"ada/01_strides.ipynb": bytes(range(256)) * 400}))
    assert len(found["ada"].data) == 102_400


@pytest.mark.parametrize(("most", "is_read"), [(1, True), (0, False)])
def test_a_ratio_that_is_just_allowed_is_no_bomb(tmp_path, monkeypatch, most, is_read):
    """What is stored as it is has a ratio of one."""
    monkeypatch.setattr(in_archive, "MAX_RATIO", most)
    with zipfile.ZipFile(tmp_path / "h.zip", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("ada/01_strides.ipynb", b"{}")
    assert bool(taken(tmp_path / "h.zip")["ada"].data) is is_read


@pytest.mark.parametrize("size", [1, 4_096, 8_192, 9_000])
def test_of_a_member_hardly_more_is_unpacked_than_is_asked_for(size):
    """Its header may lie about how much there is."""
    unpacked = in_archive._in_pieces(io.BytesIO(bytes(50_000)), size)
    assert size <= len(unpacked) < size + 4_096


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
            "eve/" + "n" * 300 + ".ipynb",
        ],
    )
    def test_a_name_that_leads_elsewhere(self, tmp_path, name):
        assert "leads out" in self.reason(tmp_path, name)

    def test_a_name_that_leads_deep(self, tmp_path):
        name = "eve/" + "d/" * 40 + "01_strides.ipynb"
        assert "in more than 7 folders" in self.reason(tmp_path, name)

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

    def test_two_people_whose_names_differ_in_capitals_are_no_twins(self, tmp_path):
        source = in_zip(tmp_path, {"li/01_strides.ipynb": b"{}", "Li/01_strides.ipynb": b"{}"})
        found = taken(source)
        assert len(found) == 2
        assert not any("twice" in one.ungradable for one in found.values())

    def test_a_header_that_lies_about_the_size(self, tmp_path):
        source = in_zip(tmp_path, {"eve/01_strides.ipynb": os.urandom(3_000)})
        data = source.read_bytes()
        assert data.count((3_000).to_bytes(4, "little")) >= 2
        source.write_bytes(data.replace((3_000).to_bytes(4, "little"), (17).to_bytes(4, "little")))
        assert "damaged" in taken(source)["eve"].ungradable

    def test_a_bomb_that_unpacks_at_once_and_lies_about_its_size(self, tmp_path):
        """Deflate stops where it is told to; LZMA gives all that is in what it was given."""
        source, size = tmp_path / "h.zip", 2**26
        with zipfile.ZipFile(source, "w", zipfile.ZIP_LZMA) as archive:
            archive.writestr("eve/01_strides.ipynb", bytes(size))
        told = size.to_bytes(4, "little")
        source.write_bytes(source.read_bytes().replace(told, (1_000).to_bytes(4, "little")))
        tracemalloc.start()
        try:
            reason = taken(source)["eve"].ungradable
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert "damaged" in reason
        assert most < 1.5 * size

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
        assert "protected by a password" in taken(source)["eve"].ungradable

    @pytest.mark.parametrize("data", [b"", b"not a zip", b"PK\x05\x06" + b"\xff" * 18])
    def test_what_is_no_archive_is_the_instructors_mistake(self, tmp_path, data):
        source = tmp_path / "h.zip"
        source.write_bytes(data)
        with pytest.raises(UserError, match="zip"):
            files_in(source)
