"""What the command does not begin, in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autograder.attacks.sample_class import PUPILS
from tests.classroom.commands.sample_grading import (
    LIMIT_S,
    records,
    run,
)

pytestmark = [pytest.mark.jail, pytest.mark.whole_class, pytest.mark.timeout(LIMIT_S + 60)]


def test_two_graders_on_one_folder_the_second_says_so(tmp_path):
    from filelock import FileLock

    (tmp_path / "hand_in" / "ada").mkdir(parents=True)
    PUPILS["cleo-nothing"].write(tmp_path / "hand_in" / "ada")
    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"):
        code, said = run(tmp_path / "hand_in", tmp_path / "out", scratch=tmp_path / "scratch")
    assert code == 1
    assert "Another `autograder` is at work" in said
    assert len(said.strip().splitlines()) == 1


def test_without_bubblewrap_it_refuses_until_students_are_trusted(tmp_path, monkeypatch):
    (tmp_path / "hand_in" / "ada").mkdir(parents=True)
    PUPILS["ada-all-right"].write(tmp_path / "hand_in" / "ada")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    where = (tmp_path / "hand_in", tmp_path / "out")
    code, said = run(*where, scratch=tmp_path / "scratch")
    assert code == 1
    assert "bubblewrap is not installed" in said
    assert len(said.strip().splitlines()) == 1
    code, said = run(*where, "--i-trust-students", scratch=tmp_path / "scratch")
    assert code == 0, said
    (record,) = records(tmp_path / "out").values()
    assert {v["tier"] for v in record["verdicts"]} == {"process"}
    assert {v["cause"] for v in record["verdicts"]} == {"passed"}
