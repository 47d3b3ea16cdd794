"""The site in another language: every chapter and lab of it, and the doors between the twins."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from autograder.authoring.language import ENGLISH, others
from autograder.authoring.plan import plan
from book import __main__ as main
from book import edition, excerpts, living, pages
from book.__main__ import build
from book.lighten import lighten
from book.pages import Audience
from book.unit import HOME, ROOT

PLAN = plan(ROOT)
LANGUAGES = others(ROOT)
(SPANISH,) = (one for one in LANGUAGES if one.code == "es")
NOTEBOOKS = [c.notebook for c in PLAN.chapters if c.notebook != HOME]
NOTEBOOKS += [lab.student for lab in PLAN.labs]
SHEETS = ["docs/diagnosis.md", "docs/glossary.md"]


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("es")
    pages.stage_in(SPANISH, PLAN, Audience.PUBLIC, folder)
    return folder


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda one: one.code)
def test_a_language_says_every_word_of_the_site(language: Any) -> None:
    words = dataclasses.asdict(edition.words(language))
    english = dataclasses.asdict(edition.Words())
    for name, said in words.items():
        assert said != english[name], name
        assert said.count("{}") == english[name].count("{}"), name


def test_a_word_too_few_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "es").mkdir()
    (tmp_path / "es" / "site.toml").write_text('show = "x"\nmore = "y"\n')
    monkeypatch.setattr(edition, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"lacks or has too much: .*'more'"):
        edition.words(SPANISH)


def test_every_chapter_and_lab_has_a_page(staged: Path) -> None:
    found = {path.relative_to(staged).as_posix() for path in staged.rglob("*.ipynb")}
    assert found == set(NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_no_block_of_a_page_is_in_english(staged: Path, path: str) -> None:
    """No prose of the Spanish page is a block of the English one, but code, links and names."""

    def blocks(folder: Path) -> set[str]:
        cells = json.loads((folder / path).read_text("utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        parts = {block.strip() for text in texts for block in re.split(r"\n\s*\n", text)}
        bare = (re.sub(r"`[^`]*`|\]\([^)]*\)|https?://\S+", "", part) for part in parts)
        return {part for part in bare if len(re.findall(r"[A-Za-z]{3,}", part)) > 5}

    assert blocks(staged) & blocks(ROOT) == set()


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_a_door_leads_to_the_same_page_and_back(path: str) -> None:
    html = Path(path).with_suffix(".html")
    there = re.search(r'href="(.*?)"', edition.door(path, ENGLISH, SPANISH))
    back = re.search(r'href="(.*?)"', edition.door(path, SPANISH, ENGLISH))
    assert there
    assert back
    site = Path("/site")
    assert (site / html.parent / there[1]).resolve() == site / "es" / html
    assert (site / "es" / html.parent / back[1]).resolve() == site / html


def test_the_sheets_for_students_have_a_twin(staged: Path) -> None:
    assert set(SHEETS) == {path.relative_to(staged).as_posix() for path in staged.glob("docs/*")}
    for name in SHEETS:
        text = (staged / name).read_text("utf-8")
        assert len(text.splitlines()) > 30
        assert f"]({name})" in (staged / "index.md").read_text("utf-8")
        for link in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (staged / name).parent.joinpath(link).is_file(), link


def test_a_row_of_the_sheet_leads_to_the_units_of_the_english_one() -> None:
    def rows(folder: Path) -> list[tuple[list[str], str]]:
        lines = (folder / "docs" / "diagnosis.md").read_text("utf-8").split("\n| ")[2:]
        cells = [line.strip(" |\n").split(" | ") for line in lines]
        return [(re.findall(r"`[^`]*`", symptom), unit) for symptom, _, unit in cells]

    assert len(rows(ROOT)) > 20
    assert rows(ROOT / "es") == rows(ROOT)


def test_a_spanish_chapter_leads_to_the_spanish_sheets(staged: Path) -> None:
    texts = {path.name: path.read_text("utf-8") for path in staged.glob("notebooks/*.ipynb")}
    assert "](../docs/diagnosis.md)" in texts["12_ship_it.ipynb"]
    assert [name for name, text in texts.items() if "](../docs/glossary.md#" not in text] == []
    assert not [name for name, text in texts.items() if re.search(r"\.\./docs/\w+\.html", text)]


def test_every_english_page_has_a_door_to_a_page_that_is_there(
    staged: Path, tmp_path: Path
) -> None:
    for doors in (LANGUAGES, ()):
        pages.stage(PLAN, Audience.PUBLIC, tmp_path, doors)
        texts = {
            path.relative_to(tmp_path): path.read_text("utf-8")
            for path in tmp_path.rglob("*.*")
            if path.suffix in (".md", ".ipynb") and path.parent.name != "front"
        }
        assert len(texts) > 50
        for path, text in texts.items():
            ways = re.findall(r'class=\\?"ol-door\\?" hreflang.*?href=\\?"([^"\\]*)', text)
            assert len(ways) == len(doors), path
            to = path if (staged / path).exists() else Path("index.md")
            site = Path("/site")
            spanish = site / SPANISH.code / to.with_suffix(".html")
            led = [(site / path.parent / way).resolve() for way in ways]
            assert spanish in led or not doors, path


def test_a_class_sees_no_solution_in_spanish_either(tmp_path: Path) -> None:
    pages.stage_in(SPANISH, PLAN, Audience.CLASS, tmp_path)
    for lab in PLAN.labs:
        text = (tmp_path / lab.student).read_text("utf-8")
        assert edition.words(SPANISH).solution not in text
        assert "-shown" not in text


@pytest.fixture(scope="module")
def site(staged: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Spanish site, its cells not run: that takes minutes, and is `make book IN=es`."""
    place = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOOK_EXECUTION", "off")
        code = build(staged, place / "es", trees=place / "trees", cache=place, language="es")
    assert code == 0
    (place / "es" / "_static" / "words.js").write_text(edition.script(SPANISH), "utf-8")
    living.write(place / "es")
    lighten(place / "es")
    excerpts.write(place / "es")
    return place / "es"


@pytest.mark.parametrize("language", ["en", "es"])
def test_the_cells_of_a_page_speak_its_language(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, str]] = []
    monkeypatch.setattr(main.subprocess, "call", lambda _, env: seen.append(env) or 0)
    trees = tmp_path / "trees"
    assert build(tmp_path, tmp_path, trees=trees, cache=tmp_path, language=language) == 0
    assert seen[0]["ONELAYER_LANGUAGE"] == seen[0]["BOOK_LANGUAGE"] == language


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    yield context.new_page()
    context.close()


def test_a_page_is_in_its_language_with_all_that_stands_around_it(site: Path, page: Page) -> None:
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.goto((site / "notebooks" / "01_strides.html").as_uri())
    assert page.locator("html").get_attribute("lang") == "es"
    assert "Saltar al contenido principal" in page.locator("body").inner_text()
    assert page.locator("meta[name=description]").get_attribute("content").startswith("PyTorch por")
    way = page.locator("article .ol-door")
    assert way.inner_text() == "English"
    parted = "one => getComputedStyle(one).hyphens"
    prose = page.locator("article section > p:has(code)").first
    assert prose.evaluate(parted) == "auto"
    assert prose.locator("code").first.evaluate(parted) == "manual"
    page.evaluate("document.querySelectorAll('article section')[5].scrollIntoView()")
    page.wait_for_timeout(300)
    way.evaluate("way => { way.addEventListener('click', (e) => e.preventDefault()); way.click() }")
    place = re.search(r"notebooks/01_strides.html#section-(\d+)$", str(way.evaluate("w => w.href")))
    assert place
    page.goto((site / "notebooks" / "01_strides.html").as_uri() + f"#section-{place[1]}")
    top = (
        f"[...document.querySelectorAll('article section')][{place[1]}].getBoundingClientRect().top"
    )
    assert abs(page.evaluate(top)) < 200
    page.evaluate("document.documentElement.lang = 'en'")
    for width, parts in ((1280, "manual"), (500, "auto")):
        page.set_viewport_size({"width": width, "height": 900})
        assert prose.evaluate(parted) == parts
    assert trouble == []


def test_the_model_of_the_front_page_speaks_its_language(site: Path, page: Page) -> None:
    """No text of the English page's is seen or read aloud, and each floor is a door that opens."""
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.goto((site / "index.html").as_uri())
    page.locator(".living-top button").first.wait_for()
    told = [str(page.evaluate("document.querySelector('article').innerText"))]
    box = page.get_by_label("La frase hasta ahora")
    for sentence in ("<es> yo canto <script>", "", " ".join(["<es>"] * 17)):
        box.fill(sentence)
        told.append(page.locator(".living-said").inner_text())
    assert len(set(told)) == 4
    told += page.evaluate(
        "[...document.querySelectorAll('article [aria-label], article title, article desc')]"
        ".map((one) => one.getAttribute('aria-label') ?? one.textContent)"
    )
    english = living.sentences(ENGLISH)
    said = [*english.values(), *english["sentences"].values()]
    parts = [part for one in said for form in ([one] if isinstance(one, str) else list(one))
             for part in re.split(r"\{\w+\}|<code>.*?</code>|\(.*?\)", form)]  # fmt: skip
    sentences = [part.strip() for part in parts if len(re.findall(r"[a-z]{2,}", part)) > 1]
    assert len(sentences) > 40
    assert [one for one in sentences if one in "\n".join(told)] == []
    doors = [door.get_attribute("href") for door in page.locator(".living-floor a").all()]
    assert len(doors) == 7
    assert all((site / str(door)).is_file() for door in doors)
    assert trouble == []


def test_the_twins_of_docs_are_read_in_spanish_and_the_sheet_is_one_page(
    site: Path, page: Page
) -> None:
    for name in SHEETS:
        page.goto((site / name).with_suffix(".html").as_uri())
        links = page.locator("article a[href]").evaluate_all("all => all.map((one) => one.href)")
        local = [link.partition("#")[0] for link in links if link.startswith("file:")]
        there = [link.removeprefix("file://") for link in local if "/es/" in link]
        assert all(Path(link).is_file() for link in there)
        assert page.locator("article .ol-door").get_attribute("href") == f"../../{name[:-3]}.html"
    page.goto((site / "docs" / "diagnosis.html").as_uri())
    for paper in ("A4", "Letter"):
        printed = page.pdf(format=paper)
        assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1, paper
    assert page.locator("article tbody tr").count() > 20


def test_the_search_finds_a_spanish_word(site: Path, page: Page) -> None:
    page.goto((site / "search.html").as_uri() + "?q=almacenamiento")
    page.locator("#search-results li a").first.wait_for()
    assert page.locator("#search-results li").count() > 3


@pytest.mark.parametrize(("locale", "goes"), [("es-CO", True), ("en-GB", False)])
def test_a_browser_in_spanish_comes_to_the_spanish_front_page_once(
    site: Path, browser: Browser, locale: str, goes: bool, tmp_path: Path
) -> None:
    """On a front page with a door, as the English one has it."""
    text = (site / "index.html").read_text("utf-8")
    text = text.replace('hreflang="en"', 'hreflang="es"').replace("../index.html", "es.html")
    text = text.replace('<html lang="es"', '<html lang="en"')
    front = site / "other_index.html"
    front.write_text(text, "utf-8")
    (site / "es.html").write_text("<title>es</title>", "utf-8")
    context = browser.new_context(locale=locale, offline=True)
    page = context.new_page()
    page.goto(front.as_uri())
    page.wait_for_timeout(500)
    assert page.url.endswith("es.html") is goes
    page.goto(front.as_uri())
    page.wait_for_timeout(500)
    assert page.url.endswith("other_index.html")
    context.close()
