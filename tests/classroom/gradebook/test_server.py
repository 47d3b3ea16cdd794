"""A gradebook on a PostgreSQL server: the same grades, nbgrader's own commands, and its faults."""

from __future__ import annotations

import csv
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from autograder.attacks.sample_class import NAME, ROOT, write
from autograder.classroom.commands.grade import grade
from autograder.classroom.commands.grading_run import Order
from autograder.classroom.errors import UserError
from autograder.classroom.gradebook import course
from tests.classroom.gradebook import one_postgres

HAND_INS = {"ada-all-right": 30.0, "cleo-nothing": 0.0}


@pytest.fixture
def server() -> Iterator[str]:
    with one_postgres.postgres() as url:
        yield url


def order(tmp_path: Path, url: str) -> Order:
    everyone = tmp_path / "everyone"
    write(everyone)
    (tmp_path / "few").mkdir()
    for name in HAND_INS:
        (everyone / name).rename(tmp_path / "few" / name)
    return Order(tmp_path / "few", tmp_path / "out", ROOT, gradebook=url)


def exported(folder: Path) -> dict[str, float]:
    """What nbgrader's own export finds, in a process of its own."""
    command = [sys.executable, "-m", "nbgrader", "export", "--to", "grades.csv"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with open(folder / "grades.csv", newline="") as file:
        return {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}


@pytest.mark.postgres
@pytest.mark.thorough
@pytest.mark.whole_class
@pytest.mark.jail
def test_the_grades_are_on_the_server_and_nbgrader_finds_them(tmp_path: Path, server: str) -> None:
    given = order(tmp_path, server)
    console = Console(file=open(os.devnull, "w"))  # noqa: SIM115
    grade(given, console)
    assert not (given.out / "gradebook.db").exists()
    assert exported(given.out) == HAND_INS
    pages = {path: path.stat().st_mtime_ns for path in given.out.glob("feedback/*/*/*.html")}
    assert len(pages) == len(HAND_INS)
    grade(Order(given.source, given.out, ROOT), console)  # the folder remembers its gradebook
    assert exported(given.out) == HAND_INS
    assert {path: path.stat().st_mtime_ns for path in pages} == pages
    kept = given.out / course.URL_FILE
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    console.file.close()


@pytest.mark.slow
def test_a_server_that_is_gone_costs_no_verdict_and_says_so(tmp_path: Path) -> None:
    url = f"postgresql+psycopg://ours:secret@/postgres?host={tmp_path}"
    given = order(tmp_path, url)
    with pytest.raises(UserError) as said, open(os.devnull, "w") as nowhere:
        grade(given, Console(file=nowhere))
    assert "does not answer" in str(said.value)
    assert "The verdicts are safe" in str(said.value)
    assert "secret" not in str(said.value)
    assert len(list((given.out / "journal" / NAME).glob("*.json"))) == len(HAND_INS)


@pytest.mark.parametrize("url", ["grades", "postgresql+psycopg:/x", "oracle+nodriver://h/x"])
def test_no_address_of_a_database(tmp_path: Path, url: str) -> None:
    with pytest.raises(UserError, match=r"no address of a database|needs a driver"):
        course.keep_gradebook_at(tmp_path, url)
    assert not (tmp_path / course.URL_FILE).exists()


def test_a_folder_keeps_the_gradebook_that_it_has(tmp_path: Path) -> None:
    first, second = (f"postgresql+psycopg://me:secret@host/{name}" for name in "ab")
    course.keep_gradebook_at(tmp_path, first)
    course.keep_gradebook_at(tmp_path, first)
    course.keep_gradebook_at(tmp_path, "")
    with pytest.raises(UserError, match=r"kept in .*host/a") as said:
        course.keep_gradebook_at(tmp_path, second)
    assert "secret" not in str(said.value)
    assert course.database(tmp_path) == first
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "gradebook.db").touch()
    with pytest.raises(UserError, match=r"gradebook\.db"):
        course.keep_gradebook_at(tmp_path / "file", second)
