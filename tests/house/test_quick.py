"""`make quick`: what it leaves out, and what it says of a test that starts something slow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs, quick

REPO = Path(__file__).resolve().parents[2]
PLANTED = """
import shutil, subprocess
import pytest

def start(program):
    subprocess.run([shutil.which(program) or program, "--version"], check=False)

def test_light():
    pass
"""
ONE = """
def test_unmarked_{mark}():
    start({program!r})

def test_in_a_shell_{mark}():
    subprocess.run(["sh", "-c", "{program} --version"], check=False)

@pytest.mark.{mark}
def test_marked_{mark}():
    start({program!r})
"""


def ran(folder: Path, *options: str) -> str:
    """What pytest says of the planted tests, with the marks of this house and without its tests."""
    marks = [f"{mark}: of ours" for mark in sorted(quick.LEFT_OUT)]
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  " + "\n  ".join(marks))
    words = [sys.executable, "-m", "pytest", "-p", "tests.quick", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*words, "-rA", *options, folder],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_an_unmarked_test_that_starts_something_slow_fails(tmp_path: Path) -> None:
    programs = {mark: names[0] for mark, names in quick.SLOW.items()}
    planted = [ONE.format(mark=mark, program=name) for mark, name in programs.items()]
    (tmp_path / "test_planted.py").write_text(PLANTED + "".join(planted))
    said = ran(tmp_path, "--quick")
    for mark, program in programs.items():
        assert f"this test starts {program}: give it `pytest.mark.{mark}`" in said
        for name in (f"test_unmarked_{mark}", f"test_in_a_shell_{mark}"):
            assert f"ERROR test_planted.py::{name}" in said
        assert f"test_marked_{mark}" not in said
    assert "ERROR test_planted.py::test_light" not in said


def test_without_the_option_nothing_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "test_planted.py").write_text(PLANTED + ONE.format(program="true", mark="jail"))
    assert "4 passed" in ran(tmp_path)


def test_every_mark_is_declared_and_each_that_needs_a_tool_is_left_out(
    pytestconfig: pytest.Config,
) -> None:
    declared = {line.split(":")[0] for line in pytestconfig.getini("markers")}
    assert declared >= quick.LEFT_OUT
    assert set(needs.NEEDS) <= quick.LEFT_OUT
    assert set(needs.BY_FIXTURE.values()) <= quick.LEFT_OUT


class Marked:
    """A test that pytest collected."""

    def __init__(self, *marks: str) -> None:
        self.marks = [getattr(pytest.mark, mark).mark for mark in marks]

    def iter_markers(self) -> list[pytest.Mark]:
        return self.marks


@pytest.mark.parametrize(("ci", "outcome"), [("true", "Failed"), ("", "Skipped")])
def test_a_missing_tool_is_a_failure_in_ci_and_elsewhere_a_reason(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: str
) -> None:
    monkeypatch.setitem(needs.NEEDS, "compiler", lambda: "no g++ on this machine")
    monkeypatch.setenv("CI", ci)
    needs.ask_for(Marked("gpu"))  # type: ignore[arg-type]
    with pytest.raises(BaseException, match=r"no g\+\+ on this machine") as caught:
        needs.ask_for(Marked("compiler"))  # type: ignore[arg-type]
    assert type(caught.value).__name__ == outcome
