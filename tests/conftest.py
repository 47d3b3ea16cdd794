"""What several rooms' tests share: a browser, and a jail that is lent a GPU."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real Chromium. Without one these tests are skipped, except in CI, where they fail."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        missing = "no chromium on this machine: apt-get install chromium"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def gpu_jail() -> Iterator[Any]:
    """A jail that is lent a GPU, which the CPU plays."""
    from autograder.sandbox import Jail
    from tests.sandbox.simulated_gpu import SIMULATED

    with Jail(gpu=SIMULATED) as jail:
        yield jail
