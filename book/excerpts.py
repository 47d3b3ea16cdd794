"""What the search shows of a page. It would fetch the page, which a browser refuses for a file: so
the prose of every page is a script beside it, asked for by the page `search` alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from html.parser import HTMLParser
from pathlib import Path

NAME = "excerpts.js"
PROSE = ("p", "li", "h1", "h2", "h3", "td", "dt", "dd")
GIVE = """
const fetched = window.fetch;
window.fetch = (address, ...rest) => {
  const here = new URL(".", location.href).href;
  const page = String(new URL(address, here)).replace(here, "").split("#")[0];
  const text = location.protocol === "file:" && EXCERPTS[page];
  return text ? Promise.resolve(new Response(text)) : fetched(address, ...rest);
};
"""


class Prose(HTMLParser):
    """The sections of an article with their ids and their prose, without code and pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.depth = self.output = 0  # of elements with prose, of divisions within an output
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "article":
            self.inside = True
        if self.inside and tag == "section":
            self.parts.append(f'<section id="{dict(attrs).get("id")}">')
        self.depth += self.inside and tag in PROSE
        self.output += tag == "div" and (self.output > 0 or "cell_output" in str(attrs))

    def handle_endtag(self, tag: str) -> None:
        self.output -= tag == "div" and self.output > 0
        if tag == "article":
            self.inside = False
        if self.inside and tag == "section":
            self.parts.append("</section>")
        if self.inside and tag in PROSE:
            self.depth -= 1
            self.parts.append(" ")

    def handle_data(self, data: str) -> None:
        if self.inside and self.depth > 0 and not self.output and data != "#":
            self.parts.append(escape(data, quote=False))


def write(site: Path, besides: Sequence[str] = ()) -> None:
    """Put the prose of the pages of `site` beside the scripts that search them. besides: folders
    with pages of another site."""
    pages = sorted(site.rglob("*.html"))
    texts = {
        page.relative_to(site).as_posix(): prose(page.read_text("utf-8"))
        for page in pages
        if page.relative_to(site).parts[0] not in ("_static", "_sources", *besides)
    }
    script = f"const EXCERPTS = {json.dumps(texts, ensure_ascii=False)};\n{GIVE}"
    (site / "_static" / NAME).write_text(script, "utf-8")


def prose(html: str) -> str:
    """What a page says, in sections that the search can find by their ids."""
    reader = Prose()
    reader.feed(html)
    return f'<main role="main">{" ".join("".join(reader.parts).split())}</main>'
