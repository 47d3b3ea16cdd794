"""The first page: the layer, a small model that lives in it, and its size."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import torch
from playwright.sync_api import Page

import onelayer
from book import unit
from tests.book.site.visit import CHAPTERS, PLAN, Visit

# The first test of the room builds the site.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_500)]


def test_the_front_page_has_the_layer_the_units_and_three_doors(site: Path, page: Page) -> None:
    Visit(page, site, Path("index.html"))
    assert page.get_by_role("img", name="The layer nn.Linear(64, 600)").is_visible()
    assert page.locator("article h2").all_inner_texts() == ["Read", "Do", "Teach"]
    asked = [len(one.worths) for one in unit.units(PLAN)]
    assert f"{min(asked)} to {max(asked)} questions" in page.locator("article").inner_text()
    page.locator("article").get_by_role("link", name="The units").click()
    page.wait_for_url("**/units.html")
    assert page.locator("article h2").count() == len(CHAPTERS)
    page.get_by_role("link", name="Read the chapter").first.click()
    assert page.url.endswith(CHAPTERS[0].as_posix())


def test_the_model_in_the_first_page_gives_torchs_scores(site: Path, page: Page) -> None:
    visit = Visit(page, site, Path("index.html"))
    box = page.get_by_label("The sentence so far")
    for sentence in ("<en> she has eaten <es> ella", "<es> ellas están durmiendo <en> they are"):
        box.fill(sentence)
        got = torch.tensor(page.evaluate("livingScores()"))
        want = onelayer.head()(onelayer.hidden(sentence))[-1].detach()
        torch.testing.assert_close(got, want, rtol=0, atol=1e-4)
        best = onelayer.next_words(want, 1)[0][0]
        assert page.locator(".living-top button").first.inner_text().startswith(best)
    assert not visit.said


def test_a_sentence_with_two_meanings_gets_no_nonsense(site: Path, page: Page) -> None:
    Visit(page, site, Path("index.html"))
    box, before = page.get_by_label("The sentence so far"), page.evaluate("livingScores()")
    box.fill("<es> nosotros hablamos <en>")
    told = page.locator(".living-said").inner_text()
    assert told.startswith('"nosotros hablamos" means "we speak" and "we spoke"')
    assert page.evaluate("livingScores()") == before
    box.fill("<en> we speak <es> nosotros hablamos")
    assert page.locator(".living-said").inner_text().startswith("Next: <end>")


def test_a_word_is_followed_down_and_a_strange_one_named(site: Path, page: Page) -> None:
    Visit(page, site, Path("index.html"))
    page.get_by_role("button", name="<es> yo canto <en>").click()
    second = page.locator(".living-top button").nth(1)
    word = second.locator("span").first.inner_text()
    second.click()
    assert f"The score of {word}:" in page.locator('[data-floor="kernel"]').inner_text()
    page.locator(".living-ranks input").fill("7")
    rows = page.locator('[data-floor="ranks"] td:nth-child(2)').all_inner_texts()
    assert [int(row) for row in rows] == [86] * 6 + [84]
    assert page.locator('[data-floor="ranks"] thead').is_visible()
    page.get_by_label("The sentence so far").fill("<en> she <script>")
    assert '"<script>" is not one of the 600 words' in page.locator(".living-said").inner_text()


def test_every_floor_is_a_door(site: Path) -> None:
    html = (site / "index.html").read_text("utf-8")
    doors = re.findall(r'<li data-floor="\w+"><div class="living-floor"><a href="([^"]+)"', html)
    assert len(doors) == 7
    assert all((site / door).is_file() for door in doors)


def test_the_first_page_is_sent_in_under_a_million_bytes(site: Path, page: Page) -> None:
    """As a server sends it: packed, which fonts and pictures are already."""
    sent: list[int] = []

    def asked(request: Any) -> None:
        name = unquote(request.url.removeprefix("file://").partition("?")[0].split("#")[0])
        sent.append(len(gzip.compress(Path(name).read_bytes(), 6)))

    page.on("request", asked)
    page.goto((site / "index.html").as_uri(), wait_until="load")
    page.get_by_text("Next: ha").wait_for()
    assert 600_000 < sum(sent) < 1_000_000  # the weights are among it


HEADS = """() => {
  const row = new Float32Array(64).fill(0.5), weight = new Float32Array(64 * 600).fill(0.25);
  let sum = 0;
  for (let head = 0; head < 1000; head++)
    for (let word = 0; word < 600; word++)
      for (let k = 0; k < 64; k++) sum += row[k] * weight[64 * word + k];
  return sum;
}"""
"""A thousand products of a row and the head's weight, as plainly as they can be written."""


def test_the_first_page_lives_after_the_work_of_some_thousand_heads(site: Path, page: Page) -> None:
    """What its thread works until the model has given its first scores: 3.8 times the loop's time
    when this was written. Seconds would measure the machine, and what else it does."""
    clock = page.context.new_cdp_session(page)
    clock.send("Performance.enable", {"timeDomain": "threadTicks"})

    def worked_s() -> float:
        told = clock.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in told if one["name"] == "TaskDuration"))

    page.goto((site / "index.html").as_uri(), wait_until="load")
    page.locator(".living-top button").first.wait_for()
    lives_s = worked_s()
    page.evaluate(HEADS)
    assert 0 < lives_s < 10 * (worked_s() - lives_s)
