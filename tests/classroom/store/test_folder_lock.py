"""Two who grade into one folder at a time: the second one reads who is there."""

from __future__ import annotations

import os

import pytest
from filelock import FileLock

from autograder.classroom.errors import UserError
from autograder.classroom.store import folder_lock
from autograder.classroom.store.folder_lock import HOLDER, alone


def test_the_second_one_is_told_who_is_at_work(tmp_path):
    with alone(tmp_path, "grade"):
        with pytest.raises(UserError) as caught, alone(tmp_path, "report"):
            pass
        said = str(caught.value)
    assert "`autograder grade` of " in said
    assert f"is at work in {tmp_path}, on " in said
    assert f"process {os.getpid()}. Wait until it is done." in said
    assert "\n" not in said
    with alone(tmp_path, "report"):
        assert b"autograder report" in (tmp_path / HOLDER).read_bytes()
    assert not (tmp_path / HOLDER).exists()


@pytest.mark.parametrize("left", [None, b"", b"[]", b"{}", b"\xff", b'{"user": 3}'])
def test_a_lock_that_does_not_say_whose_it_is_holds_all_the_same(tmp_path, left):
    if left is not None:
        (tmp_path / HOLDER).write_bytes(left)
    refused = pytest.raises(UserError, match="Another `autograder` is at work in")
    with FileLock(tmp_path / ".lock"), refused, alone(tmp_path, "grade"):
        pass


def test_what_a_kill_left_behind_locks_nobody_out(tmp_path):
    (tmp_path / HOLDER).write_text("{}")
    (tmp_path / ".lock").touch()
    with alone(tmp_path, "grade"):
        pass


def test_whom_no_name_belongs_to_and_a_full_disk(tmp_path, monkeypatch):
    def no_name():
        raise KeyError("uid not found")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder_lock.getpass, "getuser", no_name)
    with alone(tmp_path, "grade"):
        assert f"user {os.getuid()}" in (tmp_path / HOLDER).read_text()
    monkeypatch.setattr(folder_lock.atomic_write, "write", full)
    with alone(tmp_path, "grade"):
        pass
