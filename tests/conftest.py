"""What several rooms' tests share: a browser, and a jail that is lent a GPU."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests import needs

pytest_plugins = ["tests.quick", "tests.samples"]

# torch's threads spin while they wait for each other, and here several tests share the cores: one
# training took 32 seconds of processor time beside other tests, and 13 once its threads slept. It
# is read when torch is loaded, here and in every process that a test starts.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# A shell that starts a command in the background has it ignore Ctrl-C, and so all that it starts:
# what tests send one to would not hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test is about how long an example takes: on a shared machine that says nothing of the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")

# An empty profile that asks nobody for anything; no sandbox, because CI runs as root.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
]


# Tests that take long and share nothing with the others of their file.
ALONE = ("test_selftest.py::test_a_lab_is_clean",)
# Tests that read the site, or the notebooks that it ran: one worker builds it for all of them.
SITE = (
    "tests/book/site/",
    "test_notebooks.py::test_a_chapter_runs",
    "test_notebooks.py::test_the_solution_passes",
)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of a file go to one worker, which then makes once what they share; those of ALONE
    go to whichever worker is free; those of SITE to one, whatever their file."""

    def _split_scope(self, nodeid: str) -> str:
        if any(name in nodeid for name in SITE):
            return SITE[0]
        return nodeid if any(name in nodeid for name in ALONE) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    """For `--dist loadfile`; xdist's groups do not reach its scheduler under pytest 9.2."""
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # our own order: see `longest_first`
    return ByFile(config, log)


def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`: one more than there are cores. While a test waits for a jail, a browser or a
    kernel, another one can run."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        needs.mark_by_fixtures(item)
    if hasattr(config, "workerinput"):  # one of several workers: they divide what it lists
        longest_first(items)


def pytest_collection() -> None:
    """What is collected is no garbage, and neither is torch: to look it through again and again
    took a fifth of the processor time of tests that start no process."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def longest_first(items: list[pytest.Item]) -> None:
    """The file with the longest tests comes first, so that at the end no worker waits for another:
    the site, then whole labs and classes, then all that starts something."""
    from tests import quick  # a plugin of this file's: not before pytest has seen it

    marks: dict[str, set[str]] = {}
    for item in items:
        marks.setdefault(_file(item), set()).update(mark.name for mark in item.iter_markers())

    def rank(item: pytest.Item) -> tuple[bool, ...]:
        its = marks[_file(item)]
        is_site = any(name in item.nodeid for name in SITE)
        return not is_site, not its & {"whole_lab", "whole_class"}, not its & set(quick.LEFT_OUT)

    items.sort(key=rank)


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def pytest_runtest_setup(item: pytest.Item) -> None:
    needs.ask_for(item)


@pytest.fixture
def nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """`autograder grade` begins no jail while it reads: for tests in which nothing is graded."""
    from autograder.classroom.run import startup

    monkeypatch.setattr(startup, "begin_jail", lambda: None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=needs.program_of_the_browser(), args=FLAGS
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def gpu_jail() -> Iterator[Any]:
    """A jail that is lent a GPU, which the CPU plays."""
    from autograder.sandbox import Jail
    from tests.sandbox.simulated_gpu import SIMULATED

    with Jail(gpu=SIMULATED) as jail:
        yield jail
