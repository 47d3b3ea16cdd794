"""`pytest --quick` runs the tests that start none of the slow things, and fails a test that starts
one without its mark.

A script that writes down its name and fails takes the place of each of their programs on the PATH,
where a test's own processes find it too.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs

SLOW = {
    "jail": ("bwrap",),
    "container": ("podman",),
    "browser": needs.BROWSERS,
    "compiler": ("g++", "c++", "clang++", "nvcc"),
}
"""What `--quick` leaves out by mark, and the programs by which one without its mark is known."""
OTHER = {"whole_lab", "whole_class", "slow", "kernel", "slurm", "sshd", "postgres", "gpu", "mock"}
LEFT_OUT = {*SLOW, *OTHER}
_folder = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="nothing that takes seconds")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        config.stash[_folder] = tempfile.TemporaryDirectory()
        folder = Path(config.stash[_folder].name)
        for name in (name for names in SLOW.values() for name in names):
            (folder / name).write_text(f'#!/bin/sh\necho {name} >> "{folder}/started"\nexit 127\n')
            (folder / name).chmod(0o755)
        os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


def pytest_unconfigure(config: pytest.Config) -> None:
    if _folder in config.stash:
        folder = config.stash[_folder]
        os.environ["PATH"] = os.environ["PATH"].removeprefix(f"{folder.name}{os.pathsep}")
        folder.cleanup()


@pytest.hookimpl(trylast=True)  # when fixtures have marked their tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        left_out = [
            item for item in items if LEFT_OUT & {mark.name for mark in item.iter_markers()}
        ]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(autouse=True)
def starts_nothing_slow(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a test of `--quick`: a failure where it started what it is not marked for."""
    yield
    if _folder in request.config.stash:
        log = Path(request.config.stash[_folder].name) / "started"
        if log.exists():
            started = set(log.read_text().split())
            log.unlink()
            pytest.fail(sentence(started), pytrace=False)


def sentence(started: set[str]) -> str:
    """What a test that started the programs `started` is told."""
    marks = sorted(mark for mark, names in SLOW.items() if started & set(names))
    wanted = " and ".join(f"`pytest.mark.{mark}`" for mark in marks)
    return f"this test starts {', '.join(sorted(started))}: give it {wanted}, or start less"
