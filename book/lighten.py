"""What the theme puts on every page and no page needs, taken off again."""

from __future__ import annotations

import re
from pathlib import Path

# The icons come twice: as fonts, through the theme's style sheet, and as 1.5 MB of JavaScript.
TWICE = re.compile(r"<script[^>]*scripts/fontawesome\.js[^>]*></script>\n?")
# For a search while one types, which is off: the words of all pages, on each of them.
INDEX = re.compile(r"<script[^>]*(searchtools|language_data|searchindex)\.js[^>]*></script>\s*")


def lighten(site: Path) -> None:
    """Takes the icons' script and the search's off every page of `site` that does without, and away
    what only a debugger reads."""
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        light = TWICE.sub("", text)
        if page.name != "search.html":
            light = INDEX.sub("", light)
        if light != text:
            page.write_text(light, "utf-8")
    static = site / "_static"
    for kind in ("**/fontawesome.js", "**/*.map", "*macros*"):
        for file in static.glob(kind):
            file.unlink()
