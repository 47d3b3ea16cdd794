"""The journal: nothing finished is lost, nothing damaged is believed."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autograder import atomic_write
from autograder.classroom.errors import UserError
from autograder.classroom.store import seed_secret
from autograder.classroom.store.journal import CellReport, Journal, Record, digest, key_of
from autograder.judge import Cause, Verdict

KEY = key_of("bytes", "lab", "2.13.0", "seed", "bubblewrap")
VERDICTS = (
    Verdict("address", Cause.PASSED, 2.0, 2.0, 7, title="Lab 1.2", cost="a string\nof two lines"),
    Verdict("overlaps", Cause.WRONG, 0.0, 3.0, 8, got="é \x1b[31m \u2028 <b>", misconception="x"),
)
RECORD = Record("ada", "01_strides", KEY, "00ff", VERDICTS, (CellReport("setup", "", "hi"),), 1.5)


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "01_strides")


def only_file(journal):
    (path,) = journal.folder.iterdir()
    return path


def test_what_was_written_is_read(journal):
    journal.write(RECORD)
    assert journal.read("ada", KEY) == RECORD
    assert journal.read("bob", KEY) is None
    assert journal.read("ada", key_of("other")) is None


def test_writing_again_replaces(journal):
    journal.write(RECORD)
    journal.write(replace(RECORD, wall_s=9.0))
    assert journal.read("ada", KEY).wall_s == 9.0
    only_file(journal)


@pytest.mark.parametrize("part", range(5))
def test_everything_that_decides_a_verdict_is_in_the_key(part):
    parts = ["bytes", "lab", "2.13.0", "seed", "bubblewrap"]
    parts[part] += "!"
    assert key_of(*parts) != KEY


def test_a_key_and_a_form_that_older_folders_hold():
    """Another one would grade, and publish, every class of a running term again."""
    assert KEY == "03e9861590d734609a9ef819c4df6c6b5164a778bd765a76c353719e904fa4c4"
    small = Record("ada", "01_strides", "k", "00ff", (), (CellReport("setup", "", "é"),))
    assert small.to_json() == (
        '{"cells": [{"error": "", "name": "setup", "output": "é"}], "key": "k", '
        '"lab": "01_strides", "sha256": "00ff", "student": "ada", "verdicts": [], "wall_s": 0.0}'
    )


def test_parts_of_a_key_do_not_run_into_one_another():
    assert key_of("ab", "c") != key_of("a", "bc")


@pytest.mark.parametrize("kept", [0, 1, 64, 65, 200, -2])
def test_a_truncated_record_is_put_aside(journal, kept):
    journal.write(RECORD)
    path = only_file(journal)
    path.write_bytes(path.read_bytes()[:kept])
    assert journal.read("ada", KEY) is None
    assert only_file(journal).suffix == ".damaged"
    journal.write(RECORD)
    assert journal.read("ada", KEY) == RECORD


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b'"points": 0.0', b'"points": 3.0'),
        lambda data: data.replace(b"wrong", b"passed"),
        lambda data: b"\xff" + data,
        lambda data: b"",
        lambda data: os.urandom(500),
        lambda data: data[:65] + b"{}",
        lambda data: data[:65] + b"[" * 9_999,
    ],
)
def test_a_changed_record_is_not_believed(journal, change):
    journal.write(RECORD)
    path = only_file(journal)
    assert change(path.read_bytes()) != path.read_bytes()
    path.write_bytes(change(path.read_bytes()))
    assert journal.read("ada", KEY) is None


def test_another_students_record_under_this_ones_name_is_not_believed(journal):
    journal.write(RECORD)
    mine = only_file(journal)
    mine.rename(mine.with_name(mine.name.replace("ada", "eve")))
    assert journal.read("eve", KEY) is None


def test_a_record_of_an_older_form_is_graded_again(journal):
    journal.write(RECORD)
    body = json.loads(RECORD.to_json())
    body["verdicts"][0]["colour"] = "green"
    text = json.dumps(body, ensure_ascii=False, sort_keys=True)
    import hashlib

    digest = hashlib.sha256(text.encode()).hexdigest()
    only_file(journal).write_text(f"{digest}\n{text}\n", encoding="utf-8")
    assert journal.read("ada", KEY) is None


def test_a_record_with_an_open_question_is_not_final():
    assert RECORD.is_final
    open_question = replace(VERDICTS[0], cause=Cause.CHECK_FAULT)
    assert not replace(RECORD, verdicts=(open_question,)).is_final
    assert not replace(RECORD, verdicts=(*VERDICTS, open_question)).is_final


def test_the_digest_tells_two_findings_apart():
    fewer = replace(RECORD, verdicts=VERDICTS[:1])
    assert digest(RECORD.to_json()) != digest(fewer.to_json())


KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from autograder import atomic_write
real = os.{call}
def kill(*a, **k):
    os.kill(os.getpid(), signal.SIGKILL)
os.{call} = kill
atomic_write.write(Path(sys.argv[1]), b"new" * 100_000)
"""


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_kill_while_writing_leaves_the_old_file_whole(tmp_path, call):
    path = tmp_path / "record"
    atomic_write.write(path, b"old")
    program = KILLED_WHILE_WRITING.format(call=call)
    ended = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert ended.returncode == -9
    assert path.read_bytes() == b"old"


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        atomic_write.write(tmp_path / "record", b"x")
    assert list(tmp_path.iterdir()) == []


class TestSecret:
    def test_is_made_once_and_for_its_owner_alone(self, tmp_path):
        first = seed_secret.secret(tmp_path)
        assert seed_secret.secret(tmp_path) == first
        assert (tmp_path / "seed").stat().st_mode & 0o777 == 0o600
        assert seed_secret.secret(tmp_path / "other") != first

    def test_a_damaged_one_is_said(self, tmp_path):
        (tmp_path / "seed").write_bytes(b"short")
        with pytest.raises(UserError, match="damaged"):
            seed_secret.secret(tmp_path)

    def test_a_running_term_keeps_its_seeds(self):
        assert seed_secret.seed(bytes(32), "a", "x", "1") == 5068786170388525683
        name = "133772794a0e89917ef54564647781b87b4f06d532cc0628e3e82e93c5010c25"
        assert seed_secret.name_of(bytes(32)) == name

    def test_gives_each_question_its_own_seed_and_none_away(self):
        of = [(lab, q, sha) for lab in ("a", "b") for q in ("x", "y", "z") for sha in ("1", "2")]
        seeds = {seed_secret.seed(bytes(32), *one) for one in of}
        assert len(seeds) == 12
        assert all(0 <= seed < 2**63 for seed in seeds)
        assert seed_secret.seed(bytes(32), "a", "x", "") != seed_secret.seed(
            bytes([1] * 32), "a", "x", ""
        )
        assert bytes(32).hex() not in seed_secret.name_of(bytes(32))


class TestScore:
    """What nbgrader reads as a number: it gives full marks for anything that is none."""

    @pytest.mark.parametrize(
        ("points", "of", "want"),
        [
            (2.0, 2.0, 4.0),
            (1.0, 2.0, 2.0),
            (0.0, 2.0, 0.0),
            (-5.0, 2.0, 0.0),
            (99.0, 2.0, 4.0),
            (math.nan, 2.0, 0.0),
            (math.inf, 2.0, 0.0),
            (1.0, 0.0, 0.0),
        ],
    )
    def test_is_a_share_of_the_cells_points_whatever_the_verdict_says(self, points, of, want):
        from autograder.classroom.gradebook.recorded import score

        assert score(replace(VERDICTS[0], points=points, max_points=of), 4.0) == want


def test_a_student_never_reads_the_seed():
    from autograder.classroom.gradebook.recorded import shown

    secret = replace(VERDICTS[1], seed=123456789)
    assert "123456789" in str(secret)
    assert "123456789" not in shown(secret)


def test_paths_are_those_of_the_student_and_the_key(journal):
    journal.write(RECORD)
    assert only_file(journal).name == f"ada-{KEY[:16]}.json"
    assert isinstance(only_file(journal), Path)
    assert only_file(journal).stat().st_mode & 0o777 == 0o600


def test_what_a_kill_left_half_written_is_cleared_away(tmp_path):
    from autograder.classroom.commands.grading_run import open_folder

    out, places = (
        tmp_path / "out",
        ("", "received", "journal/01", "source/01", "release/01", "feedback/ada/01"),
    )
    for place in places:
        (out / place).mkdir(parents=True, exist_ok=True)
        (out / place / ".page.html.77.tmp").touch()
        (out / place / "page.html").touch()
    open_folder(out, tmp_path / "hand_in")
    assert not list(out.rglob("*.tmp"))
    assert len(list(out.rglob("page.html"))) == len(places)
