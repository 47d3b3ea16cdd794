"""The zip for Gradescope: what its documentation asks for is there, and nothing that is secret."""

from __future__ import annotations

import ast
import io
import subprocess
import zipfile

import pytest

from autograder.classroom.commands import gradescope_archive
from autograder.classroom.commands.gradescope_archive import ROOT, archive
from autograder.classroom.errors import UserError
from autograder.classroom.intake.release import releases
from autograder.classroom.store import seed_secret

RELEASE = releases(ROOT)["01_strides"]
SECRET = bytes(range(32))


@pytest.fixture(scope="module")
def made():
    with zipfile.ZipFile(io.BytesIO(archive(RELEASE, SECRET))) as opened:
        yield opened


def test_both_scripts_lie_at_its_root_are_executable_and_are_bash(made):
    for name in ("setup.sh", "run_autograder"):
        assert made.getinfo(name).external_attr >> 16 & 0o111 == 0o111
        assert made.read(name).startswith(b"#!/usr/bin/env bash\n")
        subprocess.run(["bash", "-n"], input=made.read(name), check=True, timeout=20)
    assert b"gradescope_run /autograder 01_strides" in made.read("run_autograder")


def test_the_lab_is_in_it_and_no_solution_test_or_grade(made):
    labs = [name for name in made.namelist() if name.endswith(".ipynb")]
    places = ("labs", *(f"{code}/labs" for code in RELEASE.twins))
    assert labs == [f"course/{place}/01_strides/01_strides.ipynb" for place in places]
    tops = {name.split("/")[1] for name in made.namelist() if name.startswith("course/")}
    assert tops == {
        *gradescope_archive.PACKAGES,
        *gradescope_archive.PROJECT,
        "labs",
        *RELEASE.twins,
    }
    assert not any("__pycache__" in name for name in made.namelist())


def test_each_module_of_the_two_packages_is_in_it(made):
    for package in gradescope_archive.PACKAGES:
        there = {str(path.relative_to(ROOT)) for path in (ROOT / package).rglob("*.py")}
        held = {name.removeprefix("course/") for name in made.namelist() if name.endswith(".py")}
        assert there
        assert there <= held
        ast.parse(made.read(f"course/{package}/__init__.py"))


def test_the_same_course_makes_the_same_bytes():
    assert archive(RELEASE, SECRET) == archive(RELEASE, SECRET)


def test_its_runs_draw_the_seeds_of_the_grading_folder(tmp_path):
    """So that whoever grades the same bytes in that folder gets the same verdicts."""
    from rich.console import Console

    said = Console(file=io.StringIO(), width=200)
    gradescope_archive.gradescope(tmp_path / "out", ROOT, "01", said)
    path = tmp_path / "out" / "gradescope" / "01_strides.zip"
    assert path.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(path) as opened:
        assert opened.read("seed") == seed_secret.secret(tmp_path / "out")
    assert str(path) in said.file.getvalue()


def test_without_the_repository_around_it_is_not_made(monkeypatch, tmp_path):
    monkeypatch.setattr(gradescope_archive, "ROOT", tmp_path)
    with pytest.raises(UserError, match=r"has no pyproject.toml: make the zip in a clone"):
        archive(RELEASE, SECRET)
