"""explorable: which scene is on, what is refused, its page, and its widget."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
from axe_playwright_python.sync_playwright import Axe

from onelayer.drawing.explorable import LOOKS, Explorable, Line, Part, Scene, explorable
from tests.onelayer.drawing.shown import (
    Script,
    expect_html_without_anywidget,
    expect_one_piece,
    shown,
)

CHOICES = {"size": ("1", "2", "größer"), "how": ("quick, or slow", 'with "quotes"')}


def scene(size: str, how: str) -> Scene:
    parts = [Part(len(size), "blue", size), Part(1, "red"), Part(1, "red")]
    return Scene([Line(how, parts, f"{len(size)} units")], f"{size} and {how}.")


def made() -> Explorable:
    return explorable("a test", CHOICES, scene, means={"blue": "full", "red": "empty"})


@pytest.fixture(scope="module")
def js() -> Script:
    return Script(Explorable)


def test_each_combination_has_its_scene_in_python_and_in_the_page(js: Script) -> None:
    view = dict(made().view)
    for size, how in itertools.product(*CHOICES.values()):
        at = {"size": size, "how": how}
        assert js("sceneOf", view | {"at": at})["says"] == f"{size} and {how}."
    assert len(view["scenes"]) == 6


def test_all_lines_share_a_scale(js: Script) -> None:
    assert js("longest", dict(made().view)) == len("größer") + 2


def test_a_line_is_said_in_words(js: Script) -> None:
    line = ["tiles", [[2, "blue", "3"], [1, "red", ""], [1, "red", ""], [0, "red", "no"]], "12 B"]
    means = {"blue": "full", "red": "empty"}
    assert js("lineInWords", line, means) == "tiles: 3: full, 2 x empty, 12 B"


def test_the_text_says_what_is_on() -> None:
    view = explorable(
        "a test", CHOICES, scene, means=dict.fromkeys(LOOKS, "x"), start={"size": "2"}
    )
    assert repr(view).splitlines()[0] == "a test (size: 2, how: quick, or slow)"
    assert repr(view).endswith("2 and quick, or slow.")


def test_what_cannot_be_shown_is_said() -> None:
    with pytest.raises(ValueError, match="mauve"):
        explorable("a test", CHOICES, scene, means={"mauve": "x"})
    with pytest.raises(ValueError, match=r"mean: \['red'\]"):
        explorable("a test", CHOICES, scene, means={"blue": "full"})
    many = {name: tuple("abcdefgh") for name in ("one", "two", "three")}
    with pytest.raises(ValueError, match="512"):
        explorable("a test", many, lambda *_: Scene([], ""), means={})


def test_it_is_one_piece_that_fetches_nothing() -> None:
    expect_one_piece(made().html(), text="1 and quick, or slow.")


def test_without_anywidget_it_is_the_html() -> None:
    expect_html_without_anywidget("view = onelayer.play_fusion()")


@pytest.mark.slow
def test_onelayer_is_imported_where_anywidget_is_not() -> None:
    code = "import sys; sys.modules['anywidget'] = None; import onelayer; onelayer.play_fusion()"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_made_by_the_keyboard_and_read_by_ear(browser, tmp_path, scheme) -> None:
    with shown(browser, tmp_path, f"<main><h1>a test</h1>{made().html()}</main>") as page:
        page.emulate_media(color_scheme=scheme)
        says = page.get_by_role("status")
        assert says.inner_text() == "1 and quick, or slow."
        button = page.get_by_role("group", name="size").get_by_role("button", name="größer")
        button.press("Enter")
        assert says.inner_text() == "größer and quick, or slow."
        assert button.get_attribute("aria-pressed") == "true"
        assert page.locator('[data-choice="size"][aria-pressed="true"]').count() == 1
        page.get_by_role("button", name="quotes").press("Space")
        assert says.inner_text() == 'größer and with "quotes".'
        line = page.get_by_role("img", name='with "quotes": größer: full, 2 x empty, 6 units')
        assert line.count() == 1
        page.evaluate("document.documentElement.lang = 'en'; document.title = 'a test'")
        found = Axe().run(page).response["violations"]
        assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
