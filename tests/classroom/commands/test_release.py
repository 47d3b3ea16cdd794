"""`autograder release`: a folder that nbgrader's exchange can give a lab out from."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from filelock import FileLock

from autograder import cli
from autograder.attacks.sample_class import NAME, ROOT

GIVEN_OUT = (ROOT / "labs" / NAME / f"{NAME}.ipynb").read_bytes()


@pytest.fixture
def autograder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        command = [*map(str, arguments), "--course", str(ROOT)]
        return CliRunner().invoke(cli.main, command)

    return run


def test_nothing_in_the_folder_knows_an_answer(autograder):
    done = autograder("release", "01")
    assert done.exit_code == 0, done.output
    assert "nbgrader release_assignment 01_strides" in done.output
    notebooks = sorted(Path("grading").rglob("*.ipynb"))
    assert [path.parts[1] for path in notebooks] == ["release", "source"]
    assert {path.read_bytes() for path in notebooks} == {GIVEN_OUT}


def test_a_folder_of_an_earlier_version_loses_its_solutions(autograder):
    """It kept the instructor's notebook as the source."""
    source = Path("grading", "source", NAME, f"{NAME}.ipynb")
    source.parent.mkdir(parents=True)
    source.write_bytes((ROOT / "solutions" / NAME / f"{NAME}.ipynb").read_bytes())
    assert autograder("release", NAME).exit_code == 0
    assert source.read_bytes() == GIVEN_OUT


def test_what_can_be_put_right_is_one_line(autograder, tmp_path):
    assert "There is no lab '99'" in autograder("release", "99").output
    (tmp_path / "grading").mkdir()
    with FileLock(tmp_path / "grading" / ".lock"):
        assert "at work" in autograder("release", NAME).output
