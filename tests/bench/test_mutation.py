"""`python -m bench.mutation`: a mutant that a test notices, one that none does, and tests that
would let everything pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import pytest

from autograder.mutants import mutants
from bench import mutation, mutation_page
from bench.mutation_tests import is_noticed, reach

T = TypeVar("T")
MODULE = """
def larger(a: int, b: int) -> int:
    return a if a > b else b


def unasked(a: int) -> int:
    return a + 1
"""
TEST = """
from planted_room import larger


def test_larger():
    assert larger(1, 2) == 2 and larger(2, 1) == 2
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[str]]:
    """A module, and its test, in a folder of their own."""
    module, test = tmp_path / "planted_room.py", tmp_path / "test_planted_room.py"
    module.write_text(MODULE)
    test.write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return module, [str(test)]


def apart(function: Callable[..., T], *arguments: Any) -> T:
    """What `function` returns or raises in a process of its own: a mutant is tried in a fork, and a
    fork of this one would hang on what threads of earlier tests hold."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(function, *arguments).result()


def asked_in(module: Path, tests: list[str]) -> mutation.Asked:
    mutation.ROOT = Path(tests[0]).parent
    return mutation.ask(module, tests, workers=1)


def test_what_a_test_reaches_is_known(room: tuple[Path, list[str]]) -> None:
    (found,) = apart(reach, "planted_room", *room)
    assert found.functions == {"larger"}
    assert found.test.endswith("test_planted_room.py::test_larger")


@pytest.mark.slow
def test_the_tests_of_this_house_can_be_asked() -> None:
    """With its own conftest.py, and whatever plugins that needs."""
    name, test = (
        "autograder.classroom.store.shown_names",
        "tests/classroom/store/test_shown_names.py",
    )
    module = mutation.ROOT / f"{name.replace('.', '/')}.py"
    assert any(one.functions for one in apart(reach, name, module, [str(mutation.ROOT / test)]))


@pytest.mark.slow
def test_what_a_package_does_when_it_is_imported_is_asked_too(
    room: tuple[Path, list[str]], tmp_path: Path
) -> None:
    package, test = tmp_path / "planted", tmp_path / "test_planted.py"
    package.mkdir()
    (package / "__init__.py").write_text("SIZE = 3 + 4\n")
    test.write_text("from planted import SIZE\n\n\ndef test_size():\n    assert SIZE == 7\n")
    asked = apart(asked_in, package / "__init__.py", [str(test)])
    assert asked.module == "planted"
    assert asked.mutants > 0
    assert asked.survivors == ()
    test.write_text("import planted\n\n\ndef test_size():\n    assert planted\n")
    asked = apart(asked_in, package / "__init__.py", [str(test)])
    assert len(asked.survivors) == asked.mutants


@pytest.mark.slow
def test_a_mutant_is_noticed_and_what_no_test_reaches_survives(
    room: tuple[Path, list[str]],
) -> None:
    asked = apart(asked_in, *room)
    left = {mutant.name for mutant in asked.survivors}
    assert asked.mutants == len(list(mutants(MODULE)))
    assert any(name.startswith("unasked: ") for name in left)
    # Where both are equal, either is the larger: nobody can notice this one.
    assert {name for name in left if name.startswith("larger")} == {"larger: a > b compares by GtE"}


@pytest.mark.slow
def test_a_mutant_that_never_ends_is_noticed(room: tuple[Path, list[str]]) -> None:
    found = apart(reach, "planted_room", *room)
    broken = MODULE.replace("return a if", "return 0 if")
    assert apart(is_noticed, "planted_room", broken, found)
    assert not apart(is_noticed, "planted_room", MODULE, found)


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("def test_nothing(): pass\n", "reaches it"),
        ("def test_red(): assert False\n", "fail unchanged"),
    ],
)
def test_tests_that_would_tell_nothing_are_refused(
    room: tuple[Path, list[str]], test: str, says: str
) -> None:
    Path(room[1][0]).write_text(test)
    with pytest.raises(RuntimeError, match=says):
        apart(reach, "planted_room", *room)


def test_a_survivor_with_a_reason_is_explained_as_often_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, *_ = mutants("x = 1\n")
    monkeypatch.setattr(mutation, "EXPLAINED", tmp_path / "explained.toml")
    line = f"[[room]]\nmutant = {one.name!r}\nbecause = 'why'\n"
    mutation.EXPLAINED.write_text(line)
    assert mutation.unexplained_of(mutation.Asked("room", 2, (one,))) == []
    assert mutation.unexplained_of(mutation.Asked("room", 2, (one, one))) == [one]
    assert mutation.unexplained_of(mutation.Asked("other", 2, (one,))) == [one]


def test_the_page_keeps_what_was_asked_before_and_names_what_was_not(tmp_path: Path) -> None:
    page, today = tmp_path / "mutation.md", time.strftime("%Y-%m-%d", time.gmtime())
    mutation_page.write(page, "a", ("a.x", 10, 7, 2), ["a.x", "a.gone", "a.z"])
    mutation_page.write(page, "a", ("a.gone", 9, 9, 0), ["a.x", "a.gone", "a.z"])
    mutation_page.write(page, "b", ("b.y", 5, 5, 0))
    mutation_page.write(page, "a", ("a.x", 10, 8, 2), ["a.x", "a.y", "a.z"])
    text = page.read_text()
    assert f"| a.x | {today} | 10 | 8 | 2 | 0 |" in text
    assert "Not asked yet: a.y, a.z." in text
    assert "a.gone" not in text
    assert "| **all** |  | 5 | 5 | 0 | 0 |" in text
