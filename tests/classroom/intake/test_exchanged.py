"""What nbgrader's exchange lays beside a notebook, and what a student lays there instead."""

from __future__ import annotations

import pytest

from autograder.classroom.intake.submissions import files_in, submissions
from tests.classroom.intake.handed_in import KNOWN, LAB, in_folder, taken

SECRET = "5f" * 64
TIME = "2026-11-20 10:00:00.123456 UTC"


def handed_in(secret=SECRET, time=TIME):
    """Ada's folder as `nbgrader collect` leaves it."""
    notebook, beside = f"ada/{LAB}/{LAB}.ipynb", {"submission_secret": secret, "timestamp": time}
    return {notebook: b"{}"} | {f"ada/{LAB}/{n}.txt": t.encode() for n, t in beside.items()}


def collected(source):
    (one,) = submissions(files_in(source), LAB, KNOWN, collected=True)
    return one


def test_what_nbgrader_collected_tells_its_time_and_its_secret(tmp_path):
    one = collected(in_folder(tmp_path, handed_in()))
    assert (one.submitted, one.secret) == ("2026-11-20 10:00:00.123456", SECRET)
    assert one.note == ""


def test_from_elsewhere_a_time_is_the_students_own_word(tmp_path):
    """An upload as a folder could bring any."""
    one = taken(in_folder(tmp_path, handed_in()))["ada"]
    assert (one.submitted, one.secret) == ("", SECRET)


@pytest.mark.parametrize(
    "written", ["", "yesterday", "../../etc/passwd", "5F" * 64, "\0", "0" * 100_000, "é"]
)
def test_what_is_neither_is_not_believed(tmp_path, written):
    one = collected(in_folder(tmp_path, handed_in(secret=written, time=written)))
    assert (one.submitted, one.secret, one.ungradable) == ("", "", "")


def as_bytes(path):
    path.write_bytes(b"\xff" * 64)


def as_a_link(path):
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize("lay", [as_bytes, as_a_link])
def test_what_cannot_be_read_as_text_is_not_believed(tmp_path, lay):
    source = in_folder(tmp_path, {f"ada/{LAB}/{LAB}.ipynb": b"{}"})
    for name in ("submission_secret.txt", "timestamp.txt"):
        lay(source / "ada" / LAB / name)
    one = collected(source)
    assert (one.submitted, one.secret, one.ungradable) == ("", "", "")


def test_a_neighbours_secret_is_not_ones_own(tmp_path):
    files = handed_in()
    files[f"ben/{LAB}/{LAB}.ipynb"] = b"{}"
    files[f"ada/other/{LAB}.txt"] = b""
    found = taken(in_folder(tmp_path, files))
    assert (found["ada"].secret, found["ben"].secret) == (SECRET, "")
