"""What a reader does with a page: turn a view, copy, search, open a solution."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.book.site.visit import CHAPTERS, FRONT, LABS, Visit

# The first test of the room builds the site.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_500)]


def test_a_view_answers_without_a_kernel(site: Path, page: Page) -> None:
    Visit(page, site, Path("notebooks/01_strides.html"))
    view = page.locator(".ol-strides").first
    before = view.inner_text()
    view.get_by_role("button", name=re.compile("apply")).click()
    assert view.inner_text() != before
    assert "contiguous" in view.inner_text()


def test_a_unit_remembers_what_its_reader_did(site: Path, page: Page) -> None:
    Visit(page, site, CHAPTERS[1])
    page.locator(".ol-choices button").first.click()
    page.goto((site / "units.html").as_uri())
    done = page.locator('.ol-done[data-unit="01"]')
    assert done.inner_text().startswith("1 of ")
    done.get_by_role("checkbox").check()
    page.reload()
    assert done.get_by_role("checkbox").is_checked()


def test_code_can_be_copied_without_its_button(site: Path, page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    Visit(page, site, CHAPTERS[1])
    block = page.locator(".cell_input div.highlight:visible").first
    block.hover()
    block.get_by_role("button", name="Copy").click()
    block.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("import torch\n")
    assert "Cop" not in copied


def test_the_search_finds_a_word_of_a_chapter(site: Path, page: Page) -> None:
    visit = Visit(page, site, Path("search.html"), query="?q=stride")
    page.locator("#search-results li").first.wait_for()
    assert "01 Strides" in page.locator("#search-results").inner_text()
    excerpt = page.locator("#search-results p.context").first
    excerpt.wait_for()
    assert "stride" in excerpt.inner_text().lower()
    assert visit.outside == []


def test_a_solution_is_behind_a_fold(site: Path, page: Page) -> None:
    Visit(page, site, LABS[0])
    fold = page.locator("details", has_text="Show the solution").first
    code = fold.locator("pre").first
    assert not code.is_visible()
    fold.locator("summary").click()
    assert code.is_visible()
    assert page.locator(".cell_output", has_text="pass").count() > 3


def test_the_side_bar_shows_where_one_is(site: Path, page: Page) -> None:
    """The theme keeps how far it was scrolled, and so the line of the next page out of sight."""
    for path in (FRONT[0], CHAPTERS[7], CHAPTERS[12], CHAPTERS[0], FRONT[-1]):
        Visit(page, site, path)
        here = page.locator(".bd-sidebar-primary li.current > a").last
        place = here.bounding_box()
        assert place
        assert 0 <= place["y"] <= 880, path
