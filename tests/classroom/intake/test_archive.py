"""What lies in an archive of hand-ins, also where somebody hostile packed it."""

from __future__ import annotations

import os
import stat
import zipfile

import pytest

from autograder.classroom.errors import UserError
from autograder.classroom.intake import files as in_files
from autograder.classroom.intake.submissions import files_in
from tests.classroom.intake.handed_in import in_zip, taken


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
