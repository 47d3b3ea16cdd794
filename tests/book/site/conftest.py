"""The site, built once for all tests of this room, and a page to visit it with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from book.unit import ROOT


@pytest.fixture(scope="session")
def site() -> Path:
    """The site, built by the command that the README names. A fault of any page fails here."""
    done = subprocess.run(
        [sys.executable, "-m", "book"], cwd=ROOT, capture_output=True, text=True, timeout=3000
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "WARNING" not in done.stderr, done.stderr[-4000:]
    return ROOT / "build" / "book" / "html"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    yield context.new_page()
    context.close()
