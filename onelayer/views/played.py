"""An interactive view: an anywidget where there is one, and the same page as HTML elsewhere."""

import json
import secrets
from functools import cache
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from onelayer.views.display import Shown

_HERE = Path(__file__).parent


class Played(Shown):
    """A view to play with. `name` is that of its `.js` and `.css` beside this file; `view`, what it
    shows, is plain JSON and follows what the reader does with it."""

    name: ClassVar[str]

    def __init__(self, view: dict[str, Any]) -> None:
        self._view = view
        self.widget = _widget(self.name, view)

    @property
    def view(self) -> dict[str, Any]:
        return self._view if self.widget is None else dict(self.widget.view)

    def html(self) -> str:
        """The view as a piece of a page that needs no kernel, no network and no other file.

        Put as many on one page as you like. Where scripts may not run, its text is left.
        """
        place = f"onelayer-{self.name}-{secrets.token_hex(6)}"
        state = json.dumps(self.view).replace("<", "\\u003c")
        script = (
            f"{script_of(self.name)}\n"
            f'const place = document.getElementById("{place}");\n'
            f"if (place) {{ place.replaceChildren(); "
            f"render({{ model: standalone({state}), el: place }}); }}"
        )
        return (
            f"<style>{style_of(self.name)}</style>"
            f'<div id="{place}"><pre>{escape(repr(self))}</pre></div>'
            f'<script type="module">{script}</script>'
        )

    def _repr_html_(self) -> str:
        return self.html()

    def bundle(self) -> dict[str, Any]:
        return {**_widget_bundle(self.widget), "text/html": self.html(), "text/plain": repr(self)}


def script_of(name: str) -> str:
    """The JavaScript module of the view `name`: its own source, then what all views share."""
    return _source(f"{name}.js") + _source("played.js")


def style_of(name: str) -> str:
    """Its style sheet: what all views share, then its own."""
    return _source("played.css") + _source(f"{name}.css")


def _source(file: str) -> str:
    return (_HERE / file).read_text(encoding="utf-8")


def _widget(name: str, view: dict[str, Any]) -> Any:
    try:
        return _widget_class(name)(view=view)
    except ImportError:
        return None


@cache
def _widget_class(name: str) -> Any:
    anywidget, traitlets = import_module("anywidget"), import_module("traitlets")
    members = {
        "_esm": script_of(name),
        "_css": style_of(name),
        "view": traitlets.Dict().tag(sync=True),
        "__module__": __name__,
    }
    return type(f"{name.title()}Widget", (anywidget.AnyWidget,), members)


def _widget_bundle(widget: Any) -> dict[str, Any]:
    bundle = None if widget is None else widget._repr_mimebundle_()
    return dict(bundle[0] if isinstance(bundle, tuple) else bundle or {})
