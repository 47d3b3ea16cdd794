"""The site as a reader meets it: built whole, opened without a network, by eye and by ear."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

import onelayer
from autograder.authoring.address import BRANCH, REPOSITORY
from autograder.authoring.plan import plan
from book import map_of_units, pages, shared_link, under_title, unit
from book.__main__ import build
from book.pages import Audience
from book.unit import ROOT

# Whoever comes first builds the site.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_500)]

PLAN = plan(ROOT)
CHAPTERS = [Path(c.notebook).with_suffix(".html") for c in PLAN.chapters if c.notebook != unit.HOME]
LABS = [Path(lab.student).with_suffix(".html") for lab in PLAN.labs]
FRONT = [Path("index.html"), Path("units.html"), Path("teach.html")]
FRONT += [Path("docs/first-class.html"), Path("docs/wire.html")]  # for all that teach.html lists
ALL = [*FRONT, *CHAPTERS, *LABS]
LIMIT_BYTES = 3_000_000

# What a machine sees of an ugly page: Markdown that stayed Markdown, or made a list of a sentence
# whose line began with "1."; a function's repr below a cell; letters pressed into one another.
UGLY = r"""() => {
  const [article, found] = [document.querySelector('article'), []];
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  found.push(...ids.filter((id, n) => ids.indexOf(id) !== n).map((id) => ['an id twice', id]));
  for (const list of article.querySelectorAll('ol:not(.ol-view *)')) {
    if (list.children.length === 1) found.push(['a list of one', list.textContent]);
  }
  const walk = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const { data, parentElement } = walk.currentNode;
    if (parentElement.closest('pre, code, script, style, textarea')) continue;
    if (/`|\*\*[a-z]|\]\(|\$\$|^:::|\{(ref|doc)\}/i.test(data)) found.push(['raw', data]);
  }
  for (const output of article.querySelectorAll('.output.text_plain')) {
    if (/^\s*</.test(output.textContent)) found.push(['a repr', output.textContent]);
  }
  for (const text of article.querySelectorAll('svg text[textLength]')) {
    const length = text.getAttribute('textLength');
    text.removeAttribute('textLength');
    const share = length / text.getComputedTextLength();
    text.setAttribute('textLength', length);
    if (share < 0.7) found.push(['pressed', text.textContent]);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def site() -> Path:
    """The site, built by the command that the README names. A fault of any page fails here."""
    done = subprocess.run(
        [sys.executable, "-m", "book"], cwd=ROOT, capture_output=True, text=True, timeout=3000
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "WARNING" not in done.stderr, done.stderr[-4000:]
    return ROOT / "build" / "book" / "html"


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


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("path", ALL, ids=str)
def test_a_page_needs_no_network_and_is_light(site: Path, page: Page, path: Path) -> None:
    visit = Visit(page, site, path)
    page.wait_for_timeout(300)  # for what scripts ask for once they run
    assert visit.outside == []
    assert visit.said == []
    assert visit.bytes < LIMIT_BYTES
    assert page.locator("article h1").count() == 1
    assert page.evaluate(UGLY) == []


@pytest.mark.parametrize(
    ("kind", "html"),
    [
        ("an id twice", "<i id=a></i><i id=a></i>"),
        ("a list of one", "<p>with a momentum of</p><ol><li>On the simplest</li></ol>"),
        ("raw", "<p>by `python -m bench`</p>"),
        ("raw", "<p>it is **bold**</p>"),
        ("a repr", "<div class='output text_plain'><pre>&lt;function rmtree></pre></div>"),
        ("pressed", "<svg><text y=20 textLength=40 lengthAdjust=spacing>wwwwwwwwwwww</text></svg>"),
    ],
)
def test_an_ugly_page_would_be_found(page: Page, kind: str, html: str) -> None:
    page.set_content(f"<article><pre>`code`</pre>{html}")
    assert [found[0] for found in page.evaluate(UGLY)] == [kind]


# What a lab shows in the dark, the other labs show with the same colours.
BY_THEME = [(path, "light") for path in ALL]
BY_THEME += [(path, "dark") for path in (*FRONT, *CHAPTERS, LABS[1])]


def violations(page: Page) -> Any:
    """What axe objects to. Thousands of elements that pass are not listed: that took a quarter of
    its time."""
    return Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]


@pytest.mark.parametrize(("path", "scheme"), BY_THEME, ids=str)
def test_a_page_can_be_read_by_everybody(
    site: Path, browser: Browser, path: Path, scheme: Any
) -> None:
    """Alt texts, names, contrast, order of headings: axe's rules, in both themes."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    Visit(page, site, path)
    page.add_style_tag(content="* { transition: none !important; animation: none !important }")
    said = [(one["id"], one["nodes"][0]["html"][:200]) for one in violations(page)]
    context.close()
    assert said == []


def test_axe_would_say_so(page: Page) -> None:
    page.set_content("<html lang=en><title>t</title><main><h1>h</h1><img src=x></main>")
    assert "image-alt" in {one["id"] for one in violations(page)}


@pytest.mark.parametrize("path", ALL, ids=str)
def test_on_a_phone_the_page_does_not_scroll_sideways(
    site: Path, browser: Browser, path: Path
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True)
    page = context.new_page()
    Visit(page, site, path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


@pytest.mark.parametrize("width", [390, 768, 1000])
def test_no_table_is_cut_off(site: Path, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    wide = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length"
    seen = 0
    for path in sorted(site.glob("docs/*.html")):
        Visit(page, site, path.relative_to(site))
        tables = page.locator(".pst-scrollable-table-container")
        assert tables.evaluate_all(wide) == 0, path.name
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
    page.locator("table.ol-rows", has_text="who brings torch").wait_for()
    Visit(page, site, LABS[0])
    rows = page.locator(".ol-card details[open] tbody tr")
    share = "all => all.map((one) => one.cells[0].offsetWidth / one.offsetWidth)"
    assert rows.count() > 5
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


def test_every_link_of_ours_leads_somewhere(site: Path) -> None:
    found = 0
    for page in [page for page in site.rglob("*.html") if "_static" not in page.parts]:
        for link in re.findall(r'href="([^"#]+)[^"]*"', page.read_text("utf-8")):
            if not re.match(r"\w+:", link):
                target = page.parent / unquote(link.partition("?")[0])
                assert target.exists(), (page.relative_to(site), link)
                found += 1
    assert found > 100


@pytest.mark.parametrize("path", [*CHAPTERS, *LABS], ids=str)
def test_the_doors_of_a_page_lead_to_its_notebook(site: Path, path: Path) -> None:
    html = (site / path).read_text("utf-8")
    notebook = path.with_suffix(".ipynb").as_posix()
    place = REPOSITORY.removeprefix("https://github.com/")
    assert (ROOT / notebook).is_file()
    for link in (
        f"https://colab.research.google.com/github/{place}/blob/{BRANCH}/{notebook}",
        f"https://mybinder.org/v2/gh/{place}/{BRANCH}?urlpath=lab/tree/{notebook}",
        f"{REPOSITORY}/edit/{BRANCH}/{notebook}",
    ):
        assert f'href="{link}"' in html, link
    assert f'_sources/{notebook}"' in html
    assert (site / "_sources" / notebook).is_file()


@pytest.mark.parametrize("path", ALL, ids=str)
def test_a_shared_link_shows_the_page_and_a_picture(site: Path, path: Path) -> None:
    html = (site / path).read_text("utf-8")
    (title,) = re.findall(r'<meta property="og:title" content="([^"]+)" />', html)
    assert f"<title>{title} &#8212; One Layer Deep</title>" in html or "index" in path.name
    assert html.count(f'content="{shared_link.ADDRESS}"') == 1
    assert '<meta property="og:description" content="PyTorch from the inside' in html


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


def test_the_first_page_lives_within_a_second(site: Path, page: Page) -> None:
    """What its thread works until the model has given its first scores. The clock of the wall would
    measure what else the machine does."""
    clock = page.context.new_cdp_session(page)
    clock.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto((site / "index.html").as_uri(), wait_until="load")
    page.locator(".living-top button").first.wait_for()
    told = clock.send("Performance.getMetrics")["metrics"]
    took = {one["name"]: one["value"] for one in told}
    assert 0.01 < took["TaskDuration"] < 1


def test_a_view_answers_without_a_kernel(site: Path, page: Page) -> None:
    Visit(page, site, Path("notebooks/01_strides.html"))
    view = page.locator(".ol-strides").first
    before = view.inner_text()
    view.get_by_role("button", name=re.compile("apply")).click()
    assert view.inner_text() != before
    assert "contiguous" in view.inner_text()


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


# A bar of a timeline is as long as its time, and cuts its label. Letters that draw keep their
# columns on a phone, and scroll there.
CUT_OFF = """() => [...document.querySelectorAll('article *')].filter((e) => {
  const { overflowX, display } = getComputedStyle(e);
  const scrolls = overflowX !== 'visible' && display !== 'inline' && e.clientWidth > 0;
  const isMeant = e.matches('.visually-hidden, [style*="left:"][style*="width:"]')
    || (innerWidth <= 600 && e.matches('.ol-drawn'));
  return scrolls && e.scrollWidth - e.clientWidth > 1 && !isMeant;
}).map((e) => e.outerHTML.slice(0, 200))"""
OPEN = """() => {
  document.querySelectorAll('.ol-rest').forEach((e) => e.hidden = false);
  document.querySelectorAll('article details').forEach((e) => e.open = true);
}"""
WIDTHS = [(path, [390, 1280]) for path in ALL]
WIDTHS += [(path, [1440, 1600]) for path in (CHAPTERS[1], CHAPTERS[4], LABS[0])]


@pytest.mark.parametrize(("path", "widths"), WIDTHS, ids=str)
def test_nothing_is_cut_off(site: Path, page: Page, path: Path, widths: list[int]) -> None:
    """Neither code nor what it printed, nor a picture, scrolls sideways in its box."""
    Visit(page, site, path)
    page.evaluate(OPEN)
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(CUT_OFF) == [], width


def test_what_is_too_wide_would_be_found(page: Page) -> None:
    page.set_content("<article><pre style='width: 50px; overflow: auto'>" + "x" * 99)
    assert len(page.evaluate(CUT_OFF)) == 1


def test_the_right_column_is_folded_below_1440_pixels(site: Path, page: Page) -> None:
    Visit(page, site, CHAPTERS[1])
    assert not page.locator("#pst-secondary-sidebar").is_visible()
    page.locator("button.secondary-toggle").click()
    assert page.locator("dialog[open] nav.page-toc").is_visible()
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 1440, "height": 900})
    assert page.locator("#pst-secondary-sidebar nav.page-toc").is_visible()


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


def test_the_readme_shows_the_units_as_they_are() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert map_of_units.in_readme(text, PLAN) == text, "python -m book.map_of_units"
    assert all(one.title.partition(": ")[2] in text for one in unit.units(PLAN))


def test_after_a_chapter_comes_its_lab(site: Path) -> None:
    for one in unit.units(PLAN):
        if one.lab is None:
            continue
        html = (site / Path(one.chapter).with_suffix(".html")).read_text("utf-8")
        (following,) = re.findall(r'<a class="right-next"\s+href="([^"]+)"', html)
        assert following == "../" + Path(one.lab).with_suffix(".html").as_posix()
        assert re.search(rf'href="{following}"><span[^>]*>Lab {one.number}</span>', html), (
            one.number
        )


def test_a_line_that_a_cell_prints_slowly_stays_a_line(tmp_path: Path) -> None:
    """A kernel would send it in two pieces, and each piece would begin a line."""
    staged, site = tmp_path / "pages", tmp_path / "html"
    staged.mkdir()
    code = "import time\nprint('one,', end=' ')\ntime.sleep(1)\nprint('two')"
    cells = [nbformat.v4.new_markdown_cell("# A page"), nbformat.v4.new_code_cell(code)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), staged / "index.ipynb")
    assert build(staged, site, trees=tmp_path / "trees", cache=tmp_path / "cache") == 0
    assert "one, two\n" in (site / "index.html").read_text("utf-8")


def test_no_mark_of_the_build_is_on_a_page() -> None:
    for lab in PLAN.labs:
        source = (ROOT / lab.notebook).read_text("utf-8")
        page = json.dumps(pages.lab_page(lab, Audience.PUBLIC))
        assert "BEGIN SOLUTION" in source
        assert "BEGIN SOLUTION" not in page
        assert "END SOLUTION" not in page


def test_a_class_gets_no_solution(tmp_path: Path) -> None:
    """Its lab pages are the notebooks that a student gets, cell by cell."""
    pages.stage(PLAN, Audience.CLASS, tmp_path)
    assert PLAN.labs
    for lab in PLAN.labs:
        page = json.loads((tmp_path / lab.student).read_text("utf-8"))
        student = json.loads((ROOT / lab.student).read_text("utf-8"))
        title, *cells = [c for c in student["cells"] if c["id"] != "bring-the-course"]
        shown, *others = page["cells"]
        assert others == cells
        line = under_title.lines(unit.units(PLAN))[lab.student]
        assert shown["source"] == under_title.placed("".join(title["source"]), line)
    assert not (tmp_path / "solutions").exists()


def test_what_has_not_changed_is_not_written_again(tmp_path: Path) -> None:
    """Sphinx would run it again."""
    (tmp_path / "old.md").write_text("# A page of an earlier course\n")
    for _ in range(2):
        pages.stage(PLAN, Audience.PUBLIC, tmp_path)
        map_of_units.write(PLAN, tmp_path)
        written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
        if _ == 0:
            first = written
    assert written == first
    assert tmp_path / "old.md" not in written
    assert len(written) > len(ALL)


def test_a_link_to_what_is_no_page_leads_to_the_repository() -> None:
    text = "[a](../CONTRIBUTING.md#the-matrix) [b](matrix.md) [c](https://pytorch.org/x)"
    assert pages._outward(text, "docs/one.md") == (
        f"[a]({REPOSITORY}/blob/{BRANCH}/CONTRIBUTING.md#the-matrix) [b](matrix.md) "
        "[c](https://pytorch.org/x)"
    )
