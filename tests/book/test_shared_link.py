"""What is shown of a link to a page that somebody sends."""

from __future__ import annotations

from html.parser import HTMLParser

from PIL import Image

from autograder.authoring.address import REPOSITORY
from book import shared_link
from book.unit import ROOT

MOST_BYTES = 300_000


class Metas(HTMLParser):
    """The properties that a head tells, by name."""

    def __init__(self, head: str) -> None:
        super().__init__()
        self.told: dict[str, str | None] = {}
        self.feed(head)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "meta":
            self.told[str(found.get("property") or found.get("name"))] = found.get("content")


def test_a_title_with_code_and_a_description_with_quotes_arrive_whole() -> None:
    head = shared_link.tags('02 <code class="x">a &lt; b</code>', 'say "hi" & go', "es", "<alt>")
    told = Metas(head).told
    assert told["og:title"] == "02 a < b"
    assert told["og:description"] == 'say "hi" & go'
    assert told["og:image:alt"] == "<alt>"
    assert told["og:locale"] == "es"
    assert told["twitter:card"] == "summary_large_image"


def test_the_picture_is_there_as_large_as_it_is_called_and_light() -> None:
    told = Metas(shared_link.tags("t", "d", "en", "a")).told
    address = str(told["og:image"])
    assert address.startswith(f"{REPOSITORY}/raw/")
    file = ROOT / address.removeprefix(f"{REPOSITORY}/raw/").partition("/")[2]
    assert file.stat().st_size < MOST_BYTES
    with Image.open(file) as picture:
        assert picture.size == (int(str(told["og:image:width"])), int(str(told["og:image:height"])))
        assert picture.size == (1200, 630)


def test_the_picture_shows_all_scores_and_one_that_is_the_highest() -> None:
    page = shared_link.page()
    assert page.count("<rect") == 600
    assert page.count('fill="#ffb000"') == 1
