"""What the tests of the views share: a view's functions without a browser, and its page in one."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from py_mini_racer import MiniRacer

import onelayer
from onelayer.drawing import played
from onelayer.drawing.played import Played, script_of

_FETCHES = r"https?:|//cdn|@import|url\(|\bimport\b[^\n]*\bfrom\b|fetch\("
_WIDTH = "document.documentElement.scrollWidth"
_NAME_OF_SVG = "http://www.w3.org/2000/svg"


class Script:
    """The JavaScript of a view: calls its functions by name."""

    def __init__(self, kind: type[Played]) -> None:
        source = re.sub(r"^export (default \{.*)?", "", script_of(kind), flags=re.MULTILINE)
        self._racer = MiniRacer()
        self._racer.eval(source)

    def __call__(self, function: str, *arguments: Any) -> Any:
        """What it returns for these arguments; an Error that it throws, as {"error": message}."""
        given = ", ".join(json.dumps(argument) for argument in arguments)
        return self.value_of(f"{function}({given})")

    def value_of(self, code: str) -> Any:
        """The same for any expression."""
        answer = self._racer.eval(
            f"(() => {{ try {{ return JSON.stringify({code}); }}"
            "catch (e) { return JSON.stringify({ error: e.message }); } })()"
        )
        return json.loads(str(answer))


@contextmanager
def shown(browser: Any, folder: Path, html: str) -> Iterator[Any]:
    """`html` on a page of its own, 360 px wide; fails on any error or request of the page, and
    where it is wider than that, before or after."""
    file, trouble = folder / "page.html", []
    file.write_text(f"<!doctype html><meta charset=utf-8><body>{html}", encoding="utf-8")
    page = browser.new_page(viewport={"width": 360, "height": 700})
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda r: None if r.url == file.as_uri() else trouble.append(r.url))
    page.goto(file.as_uri())
    try:
        assert page.evaluate(_WIDTH) == 360
        yield page
        assert page.evaluate(_WIDTH) == 360
    finally:
        page.close()
    assert trouble == []


def expect_one_piece(html: str, *, text: str) -> None:
    """One script, nothing fetched, and `text` for whoever runs no scripts."""
    assert not re.search(_FETCHES, html.replace(_NAME_OF_SVG, ""))
    assert html.count("<script") == html.count("</script>") == 1
    assert text in html.split("<pre>")[1].split("</pre>")[0]


def expect_html_without_anywidget(*lines: str) -> None:
    """These lines make a `view` where anywidget is not installed: it has no widget, and shows."""
    names: dict[str, Any] = {"onelayer": onelayer, "torch": torch}
    played._widget_class.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "anywidget", None)
        exec("\n".join(lines), names)
    view = names["view"]
    assert view.widget is None
    assert "standalone(" in view.html()
    assert sorted(view.bundle()) == ["text/html", "text/plain"]
