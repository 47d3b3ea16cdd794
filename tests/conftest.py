"""What several rooms' tests share: a browser, and a jail that is lent a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import needs

pytest_plugins = ["tests.quick"]

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


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in a hook of its own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        needs.mark_by_fixtures(item)
        keep_together(item)


def keep_together(item: pytest.Item) -> None:
    """The tests of a file go to one worker, which then makes once what they share; those that are
    marked `alone` share nothing, and take minutes: whichever worker is free takes the next."""
    if item.get_closest_marker("alone") is None:
        item.add_marker(pytest.mark.xdist_group(str(item.path)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    needs.ask_for(item)


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
