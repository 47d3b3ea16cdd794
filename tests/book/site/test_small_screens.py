"""What a phone or a narrow window shows of tables, words and pictures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.book.site.visit import CHAPTERS, Visit

# The first test of the room builds the site.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_500)]


def test_no_table_is_cut_off(site: Path, page: Page) -> None:
    wide = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length"
    seen = 0
    for path in sorted(site.glob("docs/*.html")):
        Visit(page, site, path.relative_to(site))
        tables = page.locator(".pst-scrollable-table-container")
        for width in (390, 768, 1000):
            page.set_viewport_size({"width": width, "height": 844})
            # On a busy machine the page is drawn anew some time after it was made narrower.
            page.wait_for_function("width => window.innerWidth === width", arg=width)
            assert tables.evaluate_all(wide) == 0, (path.name, width)
        seen += tables.count()
    assert seen > 20


def test_a_head_without_a_word_is_not_shown(site: Path, page: Page) -> None:
    Visit(page, site, Path("docs/mock_cuda.html"))
    heads = page.locator("article thead")
    shown = [bool(heads.nth(n).text_content().strip()) for n in range(heads.count())]
    assert [heads.nth(n).is_visible() for n in range(heads.count())] == shown
    assert {True, False} == set(shown)


def test_a_table_of_numbers_keeps_its_columns_on_a_phone(site: Path, page: Page) -> None:
    """A cell printed it; with its lines wrapped nobody could tell which number stands where."""
    page.set_viewport_size({"width": 390, "height": 844})
    Visit(page, site, Path("notebooks/05_memory_and_time.html"))
    table = page.locator(".cell_output pre", has_text="microseconds, modelled")
    assert table.evaluate("e => getComputedStyle(e).whiteSpace") == "pre"
    text = page.locator(".cell_output pre", has_text="goes on y = x * 2")
    assert text.evaluate("e => getComputedStyle(e).whiteSpace") == "pre-wrap"


LINES = """all => all.map((one) => {
  const range = document.createRange();
  range.selectNodeContents(one);
  return new Set([...range.getClientRects()].map((box) => box.top)).size;
})"""


def test_the_doctors_words_are_whole_on_a_phone(site: Path, page: Page) -> None:
    """They were once broken letter by letter, to give the last column room."""
    page.set_viewport_size({"width": 390, "height": 844})
    Visit(page, site, Path("notebooks/00_open_the_hood.html"))
    words = page.locator(".ol-card caption ~ tbody :is(th, th + td)")
    assert words.count() > 5
    assert set(words.evaluate_all(LINES)) == {1}


def test_an_option_a_number_and_its_unit_are_whole_on_a_phone(site: Path, page: Page) -> None:
    """A line once ended with "--" and the next began with "lab", or "4" stood above "GB"."""
    page.set_viewport_size({"width": 390, "height": 844})
    Visit(page, site, Path("docs/machines.html"))
    options = page.locator(".ol-whole", has_text="--")
    assert "--lab" in options.all_text_contents()
    assert set(options.evaluate_all(LINES)) == {1}
    assert re.search("4\u00a0GB", (site / "docs/platforms.html").read_text("utf-8"))


def test_no_column_is_a_word_wide_on_a_phone(site: Path, page: Page) -> None:
    """What a question asks stood in a third of the table, and a file's purpose in a fifth."""
    page.set_viewport_size({"width": 390, "height": 844})
    Visit(page, site, Path("docs/conda.html"))
    table = page.locator("table.ol-rows", has_text="who brings torch")
    table.wait_for()
    rows = table.locator("tbody tr")
    share = "all => all.map((one) => one.cells[0].offsetWidth / one.offsetWidth)"
    assert rows.count() > 2
    assert min(rows.evaluate_all(share)) > 0.95


def test_a_picture_that_shrank_says_that_it_grows(site: Path, page: Page) -> None:
    Visit(page, site, Path("notebooks/01_strides.html"))
    assert page.locator(".onelayer-sketch.ol-shrunk").count() == 0
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator(".onelayer-sketch.ol-shrunk").first.wait_for(state="attached")
    large = page.locator(".onelayer-sketch:not(.ol-shrunk) img:visible")
    assert large.evaluate_all("all => all.every((one) => one.width <= 390)")


def test_a_wide_table_is_a_list_of_rows_on_a_phone_alone(site: Path, page: Page) -> None:
    Visit(page, site, Path("docs/coverage.html"))
    table = page.locator("article table").first
    assert table.locator("thead").is_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    table.locator("thead").wait_for(state="hidden")
    heads = (
        table.locator("tbody tr")
        .first.locator("td")
        .evaluate_all("all => all.map(one => getComputedStyle(one, '::before').content)")
    )
    assert heads == ['"topic"', '"unit"', '"sections"', '"questions"']


def test_the_right_column_is_folded_below_1440_pixels(site: Path, page: Page) -> None:
    Visit(page, site, CHAPTERS[1])
    assert not page.locator("#pst-secondary-sidebar").is_visible()
    page.locator("button.secondary-toggle").click()
    assert page.locator("dialog[open] nav.page-toc").is_visible()
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 1440, "height": 900})
    assert page.locator("#pst-secondary-sidebar nav.page-toc").is_visible()
