"""The instructor's page and the student's feedback in a real browser: no network, no script, no
error, in light, in dark, on a phone and on paper."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from autograder.attacks.sample_class import NAME
from autograder.classroom.reports.leaderboard import Board, leaderboard_page, standings
from autograder.classroom.reports.page import Report, page
from autograder.judge import Spread, State
from tests.classroom.made_class import (
    RELEASE,
    SCRIPT,
    class_of,
    grading_folder,
    record,
    result,
    verdict,
)

FIRST = next(iter(RELEASE.lab.questions))


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """By name: an ordinary class, an empty one, a hostile student; a student's feedback, and a
    leaderboard."""
    place = tmp_path_factory.mktemp("pages")
    evil = verdict(FIRST, State.FAIL, got=SCRIPT, sentence=SCRIPT, misconception=SCRIPT)
    hostile = record("eve", **{FIRST: evil})
    classes = {"class": class_of(40), "empty": [], "hostile": [result(SCRIPT, hostile)]}
    for name, people in classes.items():
        made = Report(RELEASE, Path("grading"), people, None, datetime.now(UTC))
        (place / f"{name}.html").write_text(page(made), encoding="utf-8")
    raced = standings([(f"number {k}", Spread(k / 2, k / 2, k / 2)) for k in (1, 2, 3)])
    board = leaderboard_page(
        RELEASE.lab, [Board(FIRST, "Lab 1.1", "peer", raced, 0)], "one processor", datetime.now(UTC)
    )
    (place / "board.html").write_text(board, encoding="utf-8")
    folder = grading_folder(place / "grading", [hostile])
    return {name: place / f"{name}.html" for name in (*classes, "board")} | {
        "feedback": folder / "feedback" / "eve" / NAME / f"{NAME}.html"
    }


@pytest.fixture
def opened(browser, pages):
    """Opens a page; what it asked for and what the browser said are in `asked` and `said`."""
    contexts = []

    def opened(name, **how):
        context = browser.new_context(**how)
        contexts.append(context)
        shown = context.new_page()
        shown.asked, shown.said = [], []
        shown.on("request", lambda request: shown.asked.append(request.url))
        shown.on("console", lambda message: shown.said.append(message.text))
        shown.on("pageerror", lambda error: shown.said.append(str(error)))
        shown.goto(pages[name].as_uri())
        return shown

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", ["class", "empty", "hostile", "feedback"])
def test_a_page_asks_for_nothing_but_itself(opened, pages, name):
    shown = opened(name)
    assert shown.asked == [pages[name].as_uri()]
    assert shown.said == []
    assert shown.title() != "owned"


def test_what_a_student_wrote_is_text(opened):
    for name in ("hostile", "feedback"):
        shown = opened(name)
        assert shown.locator("script, img[src=x]").count() == 0
        assert "alert(1)" in shown.locator("body").inner_text()


def test_the_policy_would_stop_a_script_that_got_in(opened, pages, tmp_path):
    """The planted fault: the page's escaping fails, and the policy holds."""
    for name in ("class", "feedback"):
        text = pages[name].read_text(encoding="utf-8")
        planted = text.replace("</body>", "<script>document.title='owned'</script></body>")
        assert planted != text
        pages[f"{name}-planted"] = tmp_path / f"{name}.html"
        pages[f"{name}-planted"].write_text(planted, encoding="utf-8")
        shown = opened(f"{name}-planted")
        assert shown.title() != "owned"
        assert any("Content Security Policy" in said for said in shown.said)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_letters_stand_out_in_both_themes(opened, theme):
    shown = opened("class", color_scheme=theme)
    ink, ground = shown.evaluate(
        "[getComputedStyle(document.body).color, "
        "getComputedStyle(document.documentElement).backgroundColor]"
    )
    assert _contrast(_channels(ink), _channels(ground)) > 7
    bar = shown.locator("#scores-plot-patch_3 path").first
    fill = bar.evaluate("node => getComputedStyle(node).fill")
    assert _contrast(_channels(fill), _channels(ground)) > 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_fault_with_what_a_student_gets_back(browser, pages, theme):
    context = browser.new_context(color_scheme=theme, bypass_csp=True)
    shown = context.new_page()
    shown.goto(pages["feedback"].as_uri())
    found = Axe().run(shown).response["violations"]
    context.close()
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


def _channels(colour):
    inside = colour[colour.index("(") + 1 : colour.index(")")]
    return [float(part) / 255 for part in inside.split(",")[:3]]


def _contrast(one, other):
    """WCAG 2's contrast ratio."""

    def luminance(channels):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["class", "feedback", "board"])
@pytest.mark.parametrize("width", [360, 760, 1400])
def test_no_page_is_wider_than_its_window(opened, name, width):
    shown = opened(name, viewport={"width": width, "height": 800})
    assert shown.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", ["class", "board"])
def test_on_a_phone_every_number_has_the_name_of_its_column(opened, name):
    shown = opened(name, viewport={"width": 360, "height": 800})
    assert shown.locator(".wide thead").first.is_hidden()
    assert shown.locator(".wide td").count() > 5
    assert shown.locator(".wide td:not([data-head])").count() == 0


def test_a_bar_of_the_leaderboard_lies_in_the_middle_of_its_row(opened):
    shown = opened("board", viewport={"width": 1400, "height": 800})
    bar, row = (shown.locator(where).first.bounding_box() for where in (".race", "tbody tr"))
    off = bar["y"] + bar["height"] / 2 - row["y"] - row["height"] / 2
    assert abs(off) <= 1


def test_on_paper_it_is_dark_on_white_and_the_plots_fit(opened):
    shown = opened("class", color_scheme="dark", viewport={"width": 680, "height": 900})
    shown.emulate_media(media="print")
    ground = shown.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    widths = shown.locator("figure svg:visible").evaluate_all(
        "all => all.map(one => one.clientWidth)"
    )
    assert len(widths) == 3
    assert max(widths) <= 680


LETTERS = """all => all.map(text => [
    text.textContent.trim(),
    parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a,
    text.getBoundingClientRect().right - text.ownerSVGElement.getBoundingClientRect().right,
])"""


@pytest.mark.parametrize("width", [390, 700, 768, 1280])
def test_every_letter_of_a_plot_can_be_read_at_every_width(opened, width):
    shown = opened("class", viewport={"width": width, "height": 844})
    letters = shown.locator("figure svg:visible text").evaluate_all(LETTERS)
    assert {name for name, _, _ in letters} >= {"students", "discrimination", "time", "memory"}
    assert {name: size for name, size, _ in letters if size < 10.5} == {}
    assert {name: over for name, _, over in letters if over > 1} == {}
    assert (
        shown.locator("figure").evaluate_all(
            "all => all.filter(one => one.scrollWidth > one.clientWidth).length"
        )
        == 0
    )  # nothing to be found by scrolling sideways only


def test_a_reader_of_the_screen_is_told_the_plots_and_the_sections(opened):
    shown = opened("class")
    assert shown.get_by_role("img").count() == 3
    assert shown.get_by_role("heading", level=1).inner_text() == "Lab 1: Strides"
    for link in shown.locator("nav a").all():
        target = link.get_attribute("href").removeprefix("#")
        assert shown.locator(f"section[id='{target}']").count() == 1
