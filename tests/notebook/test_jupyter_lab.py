"""The course in JupyterLab, as a student meets it: to the first solved questions, and the views.

One server for all. What is counted here (clicks, keys) stands in the README.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

import onelayer
from autograder.attacks.sample_class import LAB, NAME, QUESTIONS, right_answers, wrong_source
from autograder.judge import content
from autograder.notebook.guess_lines import lines_for
from tests.notebook.jupyter_lab import ROOT, SCREENSHOTS, Notebook, Server, jupyter_lab

pytestmark = pytest.mark.kernel

FIRST, SECOND = QUESTIONS[:2]
HOME, LAB_01 = "notebooks/home.ipynb", f"labs/{NAME}/{NAME}.ipynb"
THEME = """async (name) => {
  const theme = `JupyterLab ${name}`;
  await window.jupyterapp.commands.execute("apputils:change-theme", { theme });
}"""
PATIENCE_MS = 120_000  # a machine that does much else


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("jupyter")
    for room in ("notebooks", "labs"):
        shutil.copytree(ROOT / room, place / "course" / room)
    with jupyter_lab(place / "course", place / "rooms") as started:
        yield started


@contextmanager
def opened(browser: Any, server: Server) -> Iterator[Any]:
    """A page that opened the address which `make lab` prints; whatever it complains of fails."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(PATIENCE_MS)
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda r: None if ours(r.url, server) else trouble.append(r.url))
    page.goto(server.address())
    yield page
    page.close()
    assert trouble == []


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    with opened(browser, server) as page:
        yield page


def ours(address: str, server: Server) -> bool:
    return address.startswith((server.url, "data:", "blob:", server.url.replace("http", "ws", 1)))


def shoot(page: Any, name: str) -> None:
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def theme(page: Any, name: str) -> None:
    """Turns JupyterLab "Light" or "Dark"."""
    page.evaluate(THEME, name)
    page.wait_for_function(
        "(light) => document.body.dataset.jpThemeLight === light",
        arg=str(name == "Light").lower(),
    )


def says(question: str, mistake: str) -> str:
    known = next(w for w in LAB.questions[question].wrong_answers if w.name == mistake)
    return known.sentence.replace("*", "").replace("`", "")


class Newcomer:
    """Somebody with a mouse and a keyboard, who counts."""

    def __init__(self, page: Any) -> None:
        self.page, self.clicks, self.keys = page, 0, 0

    def click(self, place: Any) -> None:
        place.click()
        self.clicks += 1

    def press(self, keys: str) -> None:
        self.page.keyboard.press(keys)
        self.keys += 1

    def run_down_to(self, lab: Notebook, cell: str) -> None:
        """Shift+Enter, cell by cell, until `cell` is the one that would run next."""
        while (here := lab.active()) != cell:
            self.press("Shift+Enter")
            lab.wait_while_active(here)

    def answer(self, lab: Notebook, question: str, source: str) -> Any:
        """Types an answer over what stands there, runs it and its check; the verdict's card."""
        check = f"{question}_check"
        before = lab.run_count(check)
        self.click(lab.cell(question).locator(".cm-content"))
        self.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(source)
        self.press("Shift+Enter")
        lab.wait_while_active(question)
        self.press("Shift+Enter")
        lab.wait_for_run(check, before)
        return lab.cell(check).locator(".ol-card")


@dataclass(frozen=True)
class Card:
    """What a check showed."""

    label: str | None
    text: str

    @classmethod
    def of(cls, shown: Any) -> Card:
        return cls(shown.get_attribute("aria-label"), shown.inner_text())


@dataclass(frozen=True)
class Walk:
    """From the page that `make lab` opens to nbgrader's Validate. clicks, keys: until the first
    answer, which is wrong; news: how often Jupyter's own lay over the page."""

    wrong: Card
    clicks: int
    keys: int
    right: Card
    news: int
    second: Card
    validated: str


@pytest.fixture(scope="module")
def walk(browser: Any, server: Server) -> Walk:
    with opened(browser, server) as page:
        return walked(page, Newcomer(page))


def walked(page: Any, me: Newcomer) -> Walk:
    Notebook(page, HOME)
    shoot(page, "home")
    me.click(page.get_by_role("link", name="lab 01"))
    lab = Notebook(page, LAB_01)
    me.run_down_to(lab, FIRST)
    answers = right_answers()
    mistake = next(w for w in LAB.questions[FIRST].wrong_answers if w.name == "column_major")
    wrong = Card.of(me.answer(lab, FIRST, wrong_source(FIRST, mistake)))
    shoot(page, "misconception")
    clicks, keys = me.clicks, me.keys
    right = Card.of(me.answer(lab, FIRST, answers[FIRST]))
    shoot(page, "pass")
    news = page.get_by_text("official Jupyter news").count()
    second = Card.of(me.answer(lab, SECOND, answers[SECOND]))
    return Walk(wrong, clicks, keys, right, news, second, validate(page))


def test_a_wrong_answer_is_told_its_misconception(walk: Walk) -> None:
    assert says(FIRST, "column_major") in walk.wrong.text
    assert walk.wrong.label == f"{FIRST}: fail, 0 of 2 points"


def test_right_answers_pass(walk: Walk) -> None:
    assert walk.right.label == f"{FIRST}: pass, 2 of 2 points"
    assert "pass" in walk.second.text


def test_the_readme_counts_the_clicks_and_keys_of_whoever_is_right_at_once(walk: Walk) -> None:
    assert (walk.clicks, walk.keys) == (in_readme("clicks"), in_readme("keys"))


def test_no_news_of_jupyters_lies_over_the_page(walk: Walk) -> None:
    assert walk.news == 0


def test_validate_names_what_is_not_answered_and_nothing_else(walk: Walk) -> None:
    named = [question for question in QUESTIONS if f'check("{question}")' in walk.validated]
    assert tuple(named) == QUESTIONS[2:]
    assert "is not answered yet" in walk.validated
    assert "You did not provide a response." not in walk.validated  # a text may stay open


def in_readme(what: str) -> int:
    """The number of clicks or keys that the README promises."""
    text = (ROOT / "README.md").read_text("utf-8")
    found = re.search(rf"<!-- newcomer -->[^<]*?(\d+) {what}[^<]*<!-- end", text, re.DOTALL)
    assert found, what
    return int(found[1])


def validate(page: Any) -> str:
    """What nbgrader's Validate says of the notebook in front."""
    page.get_by_role("button", name="Validate").click()
    dialog = page.locator(".jp-Dialog")
    dialog.get_by_text("Validation Results").wait_for()
    said: str = dialog.inner_text()
    shoot(page, "validate")
    dialog.get_by_role("button", name="Ok").click()
    dialog.wait_for(state="detached")
    return said


def test_who_is_there_already_sees_no_word_of_colab(page: Any) -> None:
    Notebook(page, HOME)
    page.get_by_role("link", name="lab 01").click()
    lab = Notebook(page, LAB_01)
    lab.shown("setup", ".jp-InputArea")  # cells are drawn one after the other
    lab.shown("title", "h1")
    title = lab.cell("title")
    link = title.locator("a", has_text="Open in Colab")
    assert link.count() == 1  # it is there, for Colab's own page and for the site
    assert not link.is_visible()
    assert not lab.cell("bring-the-course").is_visible()
    shoot(page, "title")


def test_the_home_notebook_tells_progress_and_machine_to_everybody(page: Any) -> None:
    home = Notebook(page, HOME)
    theme(page, "Light")
    home.run_all()
    machine = home.cell("doctor").locator(".ol-card")
    assert "every point can be earned on this CPU" in machine.inner_text()
    shoot(page, "home-machine")
    progress = home.cell("progress").locator(".ol-card")
    assert re.search(r"Total: \d+ of \d+ points", progress.inner_text())
    fold = progress.locator("details", has_text="02_dispatcher")
    assert not fold.locator("table").is_visible()
    fold.locator("summary").press("Enter")
    fold.locator("table").wait_for()
    shoot(page, "home-progress")
    assert axe(page) == []
    theme(page, "Dark")
    shoot(page, "home-dark")
    assert axe(page) == []
    page.set_viewport_size({"width": 400, "height": 800})
    page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
    progress.scroll_into_view_if_needed()
    shoot(page, "home-narrow")
    assert progress.evaluate("card => card.scrollWidth <= card.clientWidth")


def test_what_explains_a_guess_is_closed_and_a_late_click_is_answered(page: Any) -> None:
    page.goto(f"{page.url.partition('/lab')[0]}/lab/tree/notebooks/01_strides.ipynb")
    explained_after_its_guess(page, "notebooks/01_strides.ipynb", "153,600")


def explained_after_its_guess(page: Any, path: str, guess: str) -> str:
    """Runs a chapter's cells, with the choices untouched, then guesses wrong; what is told."""
    key, why = "transpose-moves-nothing", "transpose-moves-nothing-why"
    chapter = Notebook(page, path)
    for name in ("Dark", "Light"):
        theme(page, name)
        chapter.run_above("slices")
        fold = chapter.shown(why, "details")
        explanation = fold.locator("p")
        assert not explanation.is_visible()
        chapter.cell(why).scroll_into_view_if_needed()
        shoot(page, f"{path.partition('/')[0]}-closed-{name}")
    fold.locator("summary").click()
    explanation.wait_for()
    shoot(page, f"{path.partition('/')[0]}-opened")
    form = chapter.shown(f"{key}-guess", "form.ol-guess")
    form.get_by_text(guess, exact=True).click()
    line = content(lines_for("bytes_copied_by_T")[guess]).replace("`", "")
    said = form.locator(".ol-said", has_text=line)
    said.wait_for()
    shoot(page, f"{path.partition('/')[0]}-late")
    told: str = said.inner_text()
    return told


def axe(page: Any) -> list[Any]:
    """What axe finds against our cards. JupyterLab's own page is JupyterLab's."""
    found = Axe().run(page, context=".ol-card").response
    assert found["passes"]  # it looked at something
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]]


VIEWS = {
    "strides": ("onelayer.show_strides((3, 4))", "apply x.transpose(0, 1)"),
    "dispatch": ("onelayer.play_dispatch()", 'autocast("cpu")'),
    "graph": ("onelayer.show_graph((x @ w).sum(), names={'w': w})", "run the next node"),
    "checkpoints": ("onelayer.show_checkpoints([(1_000, 3_000)] * 6, every=3)", "keep everything"),
    "segments": ("onelayer.show_segments(history, at=0)", "next step"),
    "tiles": ("onelayer.show_tiles()", "next step"),
    "timeline": ("onelayer.show_timeline('ddp')", "GPipe"),
    "traces": ("onelayer.show_traces({'slow': trace, 'repaired': trace})", "zoom in"),
    "bits": ("onelayer.show_bits(13.13)", "next up"),
    "call": ("onelayer.show_call(x, head.weight, head.bias)", "next stop"),
    "explorable": ("onelayer.play_masks()", "1024"),
    "compile": (
        "onelayer.show_compile("
        "onelayer.compile_story(capped, x, head.weight, head.bias, backend='aot_eager'))",
        "next call",
    ),
}
STILL = {
    "storage": "onelayer.show_storage(small, small.T, names=['x', 'x.T'])",
    "bars": "onelayer.show_bars({'weight': 153_600, 'bias': 2_400}, unit='bytes')",
    "dispatch-picture": "onelayer.show_dispatch('aten::addmm', head.bias, x, head.weight.T)",
}
WIDGET = ".jp-OutputArea-output > .lm-Widget:not(.jp-RenderedHTMLCommon)"  # no page of ours
CHANGED = "([view, before]) => document.querySelector(view).innerHTML !== before"
SETUP = """import torch
import onelayer
x, w = torch.randn(3, 64), torch.randn(64, 2, requires_grad=True)
from onelayer.profiling.profiled import profiled
trace = profiled(lambda number: torch.relu(x), steps=1)
from onelayer.memory.allocator_history import AllocatorHistory, Request
grown = Request("run", "segment_alloc", 0, 2**21, 0, 0)
history = AllocatorHistory((grown, Request("run", "alloc", 0, 512, 0, 0)), (), ())
small, head, views = torch.arange(12.0).reshape(3, 4), onelayer.head(), {}


def capped(x, weight, bias):
    z = torch.nn.functional.linear(x, weight, bias)
    return z.clamp(-3, 3).sum()
"""


def test_every_view_is_asked() -> None:
    scripts = {path.stem for path in Path(onelayer.__file__).parent.glob("*/*.js")} - {"played"}
    assert {name.removesuffix("_view") for name in scripts} == set(VIEWS)


@pytest.fixture
def views(page: Any, server: Server) -> Notebook:
    """A notebook with every view, run in the same JupyterLab, in its own kernel."""
    cells = [("setup", SETUP)]
    cells += [(name, f"views[{name!r}] = {made[0]}") for name, made in VIEWS.items()]
    cells += [("before", "before = {name: dict(view.view) for name, view in views.items()}")]
    cells += [(f"{name}-still", code) for name, code in STILL.items()]
    Notebook(page, HOME)
    theme(page, "Light")
    made = Notebook.new(page, "views.ipynb", cells)
    made.run_all()
    return made


def test_every_view_lives_in_jupyterlab_and_in_what_it_exports(
    views: Notebook, page: Any, server: Server
) -> None:
    for name, (_, button) in VIEWS.items():
        view = views.shown(name, f"{WIDGET} > .ol-{name}")
        before = view.inner_html()
        use(view, name, button)
        page.wait_for_function(CHANGED, arg=[f".ol-{name}", before])
        shoot(page, f"view-{name}")
    theme(page, "Dark")
    for name in VIEWS:
        views.shown(name, f"{WIDGET} > .ol-{name}")
        shoot(page, f"view-{name}-dark")
    exported = Path(server.rooms, "views.html")
    exported.write_bytes(page.request.get(server.address("nbconvert/html/views.ipynb")).body())
    answered = "print(*(name for name in views if views[name].view != before[name]))"
    said = views.ask(answered).split()
    assert set(said) == set(VIEWS) - {"call"}  # its page remembers where the reader is
    for name in STILL:
        views.shown(f"{name}-still", ".jp-OutputArea-output :is(img, svg)")  # this theme's, of two
        shoot(page, f"view-{name}")
    live_without_a_kernel(page, exported)


END = """async () => {
  await window.panel.context.save();
  await window.panel.sessionContext.shutdown();
}"""
ICON = "(view) => getComputedStyle(view.parentElement, '::before').display"


def test_a_view_keeps_its_keys_and_outlives_its_kernel(page: Any, server: Server) -> None:
    Notebook(page, HOME)
    cells = [("view", "import onelayer\nview = onelayer.show_timeline('ddp')")]
    made = Notebook.new(page, "kept.ipynb", cells)
    made.run_all()
    slider = made.shown("view", f"{WIDGET} > .ol-timeline").get_by_role("slider")
    for key in ("ArrowRight", "ArrowRight", "b"):
        slider.press(key)
    assert slider.input_value() == "2"
    assert page.evaluate("window.panel.content.widgets.length") == 1
    before = made.run_count("view")
    slider.press("Shift+Enter")
    made.wait_for_run("view", before)
    page.evaluate(END)
    page.goto(server.address("lab/tree/kept.ipynb"))
    again = Notebook(page, "kept.ipynb").shown("view", f"{WIDGET} > .ol-timeline")
    again.get_by_role("button", name="GPipe").press("Enter")
    assert "bubble" in again.locator(".numbers").inner_text()
    assert again.locator("xpath=..").get_attribute("class").endswith("-disconnected")
    assert again.evaluate(ICON) == "none"
    shoot(page, "view-reopened")


def use(view: Any, name: str, button: str) -> None:
    role, key = ("checkbox", "Space") if name == "dispatch" else ("button", "Enter")
    view.get_by_role(role, name=button, exact=True).first.press(key)


def live_without_a_kernel(page: Any, exported: Path) -> None:
    """Opens what "Save and Export Notebook As HTML" gave, with the network off."""
    alone = page.context.browser.new_context(offline=True).new_page()
    alone.goto(exported.as_uri(), wait_until="domcontentloaded")
    for name, (_, button) in VIEWS.items():
        view = alone.locator(f".ol-{name}")
        before = view.inner_html()
        use(view, name, button)
        assert view.inner_html() != before, name
    alone.context.close()
