"""Which pages the site has, and a visit to one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

from playwright.sync_api import Page

from autograder.authoring.plan import plan
from book import unit
from book.unit import ROOT

PLAN = plan(ROOT)
CHAPTERS = [Path(c.notebook).with_suffix(".html") for c in PLAN.chapters if c.notebook != unit.HOME]
LABS = [Path(lab.student).with_suffix(".html") for lab in PLAN.labs]
FRONT = [Path("index.html"), Path("units.html"), Path("teach.html")]
FRONT += [Path("docs/first-class.html"), Path("docs/wire.html")]  # for all that teach.html lists
ALL = [*FRONT, *CHAPTERS, *LABS]


class Visit:
    """A page that was opened from the disk, and what it asked for and complained of."""

    def __init__(self, page: Page, site: Path, path: Path, **parts: str) -> None:
        self.page, self.outside, self.said, self.bytes = page, [], [], 0
        page.on("request", self._asked)
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.goto((site / path).as_uri() + parts.get("query", ""), wait_until="load")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith("file:"):
            if not request.url.startswith(("data:", "blob:")):
                self.outside.append(request.url)
            return
        file = Path(unquote(request.url.removeprefix("file://").partition("?")[0].split("#")[0]))
        self.bytes += file.stat().st_size if file.is_file() else 0

    def _heard(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.said.append(text)
