"""A guess on a page: asked for, answered and remembered without a kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.book.site.visit import Visit

# The first test of the room builds the site.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_500)]


def test_a_guess_is_asked_for_without_a_kernel(site: Path, page: Page) -> None:
    Visit(page, site, Path("notebooks/01_strides.html"))
    card = page.locator(".ol-card", has=page.locator(".ol-choices")).first
    answer = page.locator(".ol-answer").first
    told = answer.text_content() or ""
    assert told
    assert not answer.is_visible()
    explained = page.get_by_text("It copies no byte: the transpose moved nothing.")
    assert not explained.is_visible()
    choices = card.get_by_role("button")
    said = choices.first.inner_text()
    choices.first.press("Enter")
    assert card.get_by_role("status").inner_text() == f"You said {said}. The answer comes below."
    assert answer.inner_text() == f"You said {said}. {told}"
    assert explained.is_visible()  # and no line to open first, as a notebook has
    assert choices.first.is_disabled()  # the first guess counts
    assert "guess=" not in card.inner_text()
    assert page.locator(".cell_input", has_text="reveal(").count() == 0


def test_a_guess_outlives_the_page_and_some_never_guess(site: Path, page: Page) -> None:
    """The second card is asked to show its answer; a reload opens both and no third."""
    Visit(page, site, Path("notebooks/01_strides.html"))
    cards = page.locator(".ol-card", has=page.locator(".ol-choices"))
    cards.nth(0).get_by_role("button").first.click()
    said = cards.nth(0).get_by_role("status").inner_text()
    cards.nth(1).get_by_role("button", name="Show me").click()
    page.reload()
    assert cards.nth(0).get_by_role("status").inner_text() == said
    answers = page.locator(".ol-answer")
    assert [answers.nth(n).is_visible() for n in range(3)] == [True, True, False]
    assert "You said" in answers.nth(0).inner_text()
    assert "You said" not in answers.nth(1).inner_text()


def test_paper_keeps_closed_what_was_not_guessed_and_a_link_opens_it(
    site: Path, page: Page
) -> None:
    Visit(page, site, Path("notebooks/01_strides.html"))
    answers = page.locator(".ol-answer")
    assert "No guess yet" not in page.locator("article").inner_text()
    page.emulate_media(media="print")
    assert not answers.first.is_visible()
    page.emulate_media(media="screen")
    page.evaluate("document.querySelector('.ol-answer').id = 'there'; location.hash = '#there'")
    answers.first.wait_for(state="visible")
    page.get_by_role("button", name="Open every answer").click()
    page.emulate_media(media="print")
    assert all(answers.nth(n).is_visible() for n in range(answers.count()))


def test_a_tempting_wrong_guess_gets_its_own_line(site: Path, page: Page) -> None:
    Visit(page, site, Path("notebooks/01_strides.html"))
    lines = page.locator(".ol-card", has=page.locator(".ol-answer")).first.locator(".ol-line")
    assert lines.count() == 3
    page.get_by_role("button", name="153,600", exact=True).first.click()
    assert [lines.nth(n).is_visible() for n in range(3)].count(True) == 1
    assert page.locator('.ol-line[data-guess="153,600"]').first.is_visible()
