"""conda's and Binder's files ask for what pyproject.toml asks for, and repo2docker reads them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.setup_env.conda_files import BINDER, FILES, REPO, disagreements, read

ASKED = [*FILES, "binder/postBuild", "pyproject.toml", "constraints.txt"]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that say what is installed, to be spoilt."""
    for file in ASKED:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(REPO / file, tmp_path / file)
    return tmp_path


def test_they_agree(copy: Path) -> None:
    assert list(disagreements(REPO)) == []
    assert list(disagreements(copy)) == []


@pytest.mark.parametrize(
    ("file", "was", "planted", "said"),
    [
        ("environment.yml", ">=3.11,<3.14", ">=3.10", "environment.yml: python >=3.10"),
        ("environment-gpu.yml", ">=3.11,<3.14", "=3.12", "environment-gpu.yml: python =3.12"),
        (BINDER, "=3.13", ">=3.11,<3.14", "not one version"),
        (BINDER, "=3.13", "=3.10", "python =3.10"),
        (BINDER, "<2.16", "<2.15", "torch >=2.11,<2.15, not <2.16,>=2.11"),
        ("environment-gpu.yml", ">=2.11", ">=2.10", "torch >=2.10"),
        ("environment.yml", "--constraint constraints.txt", "-v", "nothing says which torch"),
        ("constraints.txt", "torch==2.13.0", "torch==2.16.0", "promised"),
        ("environment-gpu.yml", ".[lab]", ".[labs]", "is not our package"),
        ("environment.yml", "--editable .[lab]", "onelayer", "is not our package"),
        (BINDER, "  - filelock >=3.13\n", "", "filelock is missing"),
        (BINDER, "anywidget >=0.9.18", "anywidget >=0.8", "anywidget >=0.8"),
        (BINDER, "setuptools", "wheel", "setuptools is missing"),
        ("binder/postBuild", "--no-deps ", "", "postBuild"),
        ("pyproject.toml", '"rich>=13"', '"rich>=14"', "rich >=13, not >=14"),
        ("pyproject.toml", '"click>=8.1",', '"click>=8.1", "new>=1",', "new is missing"),
        (BINDER, "  - conda-forge\n", "  - defaults\n", "channels"),
    ],
)  # fmt: skip
def test_a_disagreement_is_named(copy: Path, file: str, was: str, planted: str, said: str) -> None:
    text = (copy / file).read_text("utf-8")
    assert was in text
    (copy / file).write_text(text.replace(was, planted))
    assert any(said in line for line in disagreements(copy)), list(disagreements(copy))


def repo2docker(repo: Path) -> str:
    """What `repo2docker --no-build` says of a repository. It needs no Docker and no network."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "repo2docker", "--no-build", str(repo)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_repo2docker_takes_the_python_that_the_file_names(copy: Path) -> None:
    named = read(copy, BINDER).packages["python"].removeprefix("=")
    said = repo2docker(copy)
    assert f"Building conda environment for python={named}" in said
    assert re.search(r"env update .* --file \"binder/environment\.yml\"", said)
    assert "RUN ./binder/postBuild" in said


def test_a_range_would_have_been_no_version_at_all(copy: Path) -> None:
    text = (copy / BINDER).read_text("utf-8")
    (copy / BINDER).write_text(text.replace("=3.13", ">=3.11,<3.14"))
    assert "Python version unspecified" in repo2docker(copy)
