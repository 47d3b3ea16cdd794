"""What a test needs beside Python, by its mark: where it is missing the test is skipped, and says
why; in CI, where .ci/run installs everything, it fails."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Callable

import pytest

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The lightest first."""

BY_FIXTURE = {"browser": "browser", "gpu_jail": "jail", "mocked": "mock"}
"""The mark that a test has because of a fixture that it uses."""


def program_of_the_browser() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@functools.cache
def jail() -> str:
    """Why no jail starts here; "" where one does."""
    if sys.platform != "linux":
        return "the jail needs Linux"
    from autograder.sandbox import probe

    return "" if probe().safe else f"no jail here: {probe().reason}"


@functools.cache
def container() -> str:
    """Why podman starts no jail here; "" where it does."""
    if shutil.which("podman") is None:
        return "podman is not installed: apt-get install podman runc"
    from autograder.sandbox import Limits
    from autograder.sandbox.engines import choice
    from autograder.sandbox.host import trial

    failure = trial.failure(Limits(), start=choice.by_container)
    return failure and f"no container here: {failure}"


def browser() -> str:
    missing = "no chromium on this machine: apt-get install chromium-headless-shell"
    return "" if program_of_the_browser() else missing


def compiler() -> str:
    return "" if shutil.which("g++") else "no g++ on this machine: apt-get install g++"


def slurm() -> str:
    from tests.classroom.run import one_node_slurm

    return "" if one_node_slurm.is_here() else one_node_slurm.ABSENT


def sshd() -> str:
    from tests.classroom.run import loopback_sshd

    return "" if loopback_sshd.is_here() else loopback_sshd.ABSENT


def postgres() -> str:
    from tests.classroom.gradebook import one_postgres

    return "" if one_postgres.is_here() else one_postgres.ABSENT


NEEDS: dict[str, Callable[[], str]] = {
    need.__name__: need for need in (jail, container, browser, compiler, slurm, sshd, postgres)
}


def ask_for(item: pytest.Item) -> None:
    """Ends a test whose need is missing: skipped, or in CI failed."""
    for mark in {mark.name for mark in item.iter_markers()} & set(NEEDS):
        if missing := NEEDS[mark]():
            pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)


def mark_by_fixtures(item: pytest.Item) -> None:
    for fixture, mark in BY_FIXTURE.items():
        if fixture in getattr(item, "fixturenames", ()):
            item.add_marker(mark)
