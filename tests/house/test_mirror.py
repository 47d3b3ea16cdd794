"""Whoever changes a file finds the test that speaks of it: by its name in the folder that mirrors
the room, or by its line in mirror.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
TABLE = "tests/house/mirror.toml"
PACKAGES = ("autograder", "onelayer", "setup_env")
ASKED_TOGETHER = ("autograder/checks/lab*/*", "autograder/attacks/corpus/*")
"""Questions and attacks: one test asks all of them."""


def modules(repo: Path) -> list[str]:
    """The product's modules, as paths; what a package only hands on is none."""
    found = [path.relative_to(repo) for name in PACKAGES for path in repo.glob(f"{name}/**/*.py")]
    own = [p for p in found if not any(p.match(pattern) for pattern in ASKED_TOGETHER)]
    return sorted(path.as_posix() for path in own if path.name != "__init__.py")


def own_test(module: str) -> str:
    """Where the test of this name lies, if there is one."""
    path = Path(module.removeprefix("autograder/"))
    return Path("tests", path.parent, f"test_{path.name}").as_posix()


def faults(repo: Path, table: Mapping[str, list[str]]) -> Iterator[str]:
    """Modules of which nobody says who tests them, and rows that no longer hold."""
    listed = [module for rows in table.values() for module in rows]
    there = modules(repo)
    for module in there:
        if not (repo / own_test(module)).is_file() and module not in listed:
            yield f"{module}: add {own_test(module)}, or its line to {TABLE}"
    for module in listed:
        if module not in there:
            yield f"{TABLE} names {module}, which is not there"
        elif (repo / own_test(module)).is_file():
            yield f"{TABLE} names {module}, which has {own_test(module)}"
        elif listed.count(module) > 1:
            yield f"{TABLE} names {module} twice"
    yield from (f"{TABLE} names {test}, which is not there" for test in table
                if not (repo / test).is_file())  # fmt: skip


def test_every_module_has_a_test_that_speaks_of_it() -> None:
    table = tomllib.loads((REPO / TABLE).read_text("utf-8"))
    assert len(modules(REPO)) > 200
    assert list(faults(REPO, table)) == []


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A house of two modules: one with a test of its name, one with a line in the table."""
    for name in (
        "autograder/room/named.py",
        "autograder/room/listed.py",
        "autograder/room/__init__.py",
        "autograder/checks/lab01_x/question.py",
        "tests/room/test_named.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


ROWS = {"tests/room/test_named.py": ["autograder/room/listed.py"]}


def test_a_name_or_a_line_is_enough(small: Path) -> None:
    assert list(faults(small, ROWS)) == []


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({}, "autograder/room/listed.py: add tests/room/test_listed.py"),
        ({**ROWS, "tests/room/test_gone.py": []}, "test_gone.py, which is not there"),
        ({"tests/room/test_named.py": ["autograder/room/listed.py"] * 2}, "twice"),
        (
            {"tests/room/test_named.py": ["autograder/room/listed.py", "autograder/gone.py"]},
            "autograder/gone.py, which is not there",
        ),
        (
            {"tests/room/test_named.py": ["autograder/room/listed.py", "autograder/room/named.py"]},
            "named.py, which has tests/room/test_named.py",
        ),
    ],
)
def test_a_module_of_nobody_and_a_stale_row_are_found(
    small: Path, rows: dict[str, list[str]], says: str
) -> None:
    assert any(says in fault for fault in faults(small, rows))
