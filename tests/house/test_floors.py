"""Who may import whom: the contracts in pyproject.toml hold, and each catches a planted arrow."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
ROOMS = [
    "onelayer",
    *(f"onelayer/{room}" for room in ["drawing", "memory", "recordings", "strides"]),
    "setup_env",
    "autograder",
    *(f"autograder/{room}" for room in ["judge", "authoring", "checks", "sandbox", "classroom"]),
    *(f"autograder/sandbox/{room}" for room in ["host", "inside", "engines", "wire"]),
    *(f"autograder/classroom/{room}" for room in ["gradebook", "intake", "run", "store"]),
    *(f"autograder/{room}" for room in ["notebook", "attacks", "cli", "student_cli"]),
    "autograder/atomic_write",
    *(f"autograder/classroom/{room}" for room in ["commands", "reports", "gradebook", "run"]),
    *(f"autograder/classroom/{room}" for room in ["intake", "store", "errors"]),
    *(f"autograder/classroom/intake/{room}" for room in ["owners", "files"]),
]


def lint(house: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    return subprocess.run(command, cwd=house, capture_output=True, text=True)


@pytest.fixture
def empty_house(tmp_path: Path) -> Path:
    """Every room of the house with nothing in it, under the contracts of the real one."""
    for room in ROOMS:
        (tmp_path / room).mkdir(parents=True, exist_ok=True)
        (tmp_path / room / "__init__.py").touch()
    shutil.copy(REPO / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_course_keeps_its_own_contracts() -> None:
    kept = lint(REPO)
    assert kept.returncode == 0, kept.stdout


def test_an_empty_house_keeps_them(empty_house: Path) -> None:
    kept = lint(empty_house)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    assert "0 broken" in kept.stdout


@pytest.mark.parametrize(
    ("room", "imported"),
    [
        ("onelayer", "autograder.judge"),
        ("autograder/judge", "onelayer"),
        ("autograder/judge", "autograder.checks"),
        ("autograder/authoring", "autograder.judge"),
        ("autograder/sandbox", "autograder.checks"),
        ("autograder/checks", "autograder.sandbox"),
        ("autograder/checks", "autograder.notebook"),
        ("autograder/notebook", "autograder.classroom"),
        ("autograder/sandbox", "autograder.classroom"),
        ("autograder/classroom", "autograder.cli"),
        ("autograder/classroom", "autograder.attacks"),
        ("autograder/judge", "nbgrader"),
        ("autograder/notebook", "jupytext"),
        ("setup_env", "rich"),
        ("onelayer/drawing", "onelayer.strides"),
        ("onelayer/strides", "onelayer.memory"),
        ("onelayer/memory", "onelayer.recordings"),
        ("autograder/sandbox/wire", "autograder.sandbox.engines"),
        ("autograder/sandbox/engines", "autograder.sandbox.inside"),
        ("autograder/sandbox/inside", "autograder.sandbox.host"),
        ("autograder/atomic_write", "autograder.judge"),
        ("autograder/classroom/reports", "autograder.classroom.commands"),
        ("autograder/classroom/run", "autograder.classroom.gradebook"),
        ("autograder/classroom/store", "autograder.classroom.intake"),
        ("autograder/classroom/intake", "autograder.classroom.run"),
        ("autograder/classroom/intake/files", "autograder.classroom.intake.owners"),
        ("autograder/classroom/errors", "autograder.classroom.store"),
    ],
)
def test_an_arrow_that_runs_up_is_caught(empty_house: Path, room: str, imported: str) -> None:
    (empty_house / room / "planted.py").write_text(f"import {imported}\n")
    caught = lint(empty_house)
    assert caught.returncode == 1, caught.stdout + caught.stderr
    assert "planted" in caught.stdout


@pytest.mark.parametrize("room", ["onelayer/attic", "autograder/sandbox/attic"])
def test_a_room_on_no_floor_is_caught(empty_house: Path, room: str) -> None:
    (empty_house / room).mkdir()
    (empty_house / room / "__init__.py").touch()
    caught = lint(empty_house)
    assert caught.returncode == 1
    assert "attic" in caught.stdout + caught.stderr
