"""Every page: light, legible, whole at every width, with links that lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from autograder.authoring.address import BRANCH, REPOSITORY
from book import shared_link, unit
from book.unit import ROOT
from tests import samples
from tests.book.site.visit import ALL, CHAPTERS, FRONT, LABS, PLAN, Visit

# The first test of the room builds the site.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(1_500)]

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


LIMIT_BYTES = 3_000_000


@pytest.fixture(scope="module", params=ALL, ids=str)
def visit(request: pytest.FixtureRequest, browser: Browser, site: Path) -> Iterator[Visit]:
    """One page after the other, each opened once for all tests that look at it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    yield Visit(context.new_page(), site, request.param)
    context.close()


def test_a_page_needs_no_network_and_is_light(visit: Visit) -> None:
    visit.page.wait_for_timeout(300)  # for what scripts ask for once they run
    assert visit.outside == []
    assert visit.said == []
    assert visit.bytes < LIMIT_BYTES


def test_a_page_is_not_ugly(visit: Visit) -> None:
    assert visit.page.locator("article h1").count() == 1
    assert visit.page.evaluate(UGLY) == []


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


# A bar of a timeline is as long as its time, and cuts its label. Letters that draw keep their
# columns on a phone and a tablet, and scroll there.
CUT_OFF = """() => [...document.querySelectorAll('article *')].filter((e) => {
  const { overflowX, display } = getComputedStyle(e);
  const scrolls = overflowX !== 'visible' && display !== 'inline' && e.clientWidth > 0;
  const isMeant = e.matches('.visually-hidden, [style*="left:"][style*="width:"]')
    || (innerWidth <= 800 && e.matches('.ol-drawn'));
  return scrolls && e.scrollWidth - e.clientWidth > 1 && !isMeant;
}).map((e) => e.outerHTML.slice(0, 200))"""


OPEN = """() => {
  document.querySelectorAll('.ol-rest').forEach((e) => e.hidden = false);
  document.querySelectorAll('article details').forEach((e) => e.open = true);
}"""


WIDTHS = [390, 768, 1280, 1440, 1600]


FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def test_nothing_is_cut_off(visit: Visit) -> None:
    """Neither code, what it printed, a picture nor the page scrolls sideways."""
    page = visit.page
    page.add_style_tag(content="* { transition: none !important }")
    page.evaluate(OPEN)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(FRAMES)  # the right column comes and goes
        assert page.evaluate(CUT_OFF) == [], width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_is_too_wide_would_be_found(page: Page) -> None:
    page.set_content("<article><pre style='width: 50px; overflow: auto'>" + "x" * 99)
    assert len(page.evaluate(CUT_OFF)) == 1


PHONE = [*FRONT, CHAPTERS[1], LABS[0]]


@pytest.mark.parametrize("path", samples.sample(ALL, PHONE), ids=str)
def test_on_a_phone_the_page_does_not_scroll_sideways(
    site: Path, browser: Browser, path: Path
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True)
    page = context.new_page()
    Visit(page, site, path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


# What a lab shows in the dark, the other labs show with the same colours.
BY_THEME = [(path, "light") for path in ALL]
BY_THEME += [(path, "dark") for path in (*FRONT, *CHAPTERS, LABS[1])]
SEEN = [Path("index.html"), Path("units.html"), CHAPTERS[1], LABS[1]]
IN_THE_TEST = [(path, scheme) for path in SEEN for scheme in ("light", "dark")]


def violations(page: Page) -> Any:
    """What axe objects to. Thousands of elements that pass are not listed: that took a quarter of
    its time."""
    return Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]


@pytest.mark.parametrize(("path", "scheme"), samples.sample(BY_THEME, IN_THE_TEST), ids=str)
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
