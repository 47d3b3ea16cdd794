"""An interactive view: an anywidget where there is one, and the same page as HTML elsewhere."""

import json
import secrets
from functools import cache
from html import escape
from importlib import import_module
from inspect import getfile
from pathlib import Path
from typing import Any, ClassVar

from .display import Shown
from .words import words_of


class Played(Shown):
    """A view to play with. Its script and style sheet lie beside the file of its class, under that
    file's name; `name` is that of its CSS class. `view`, what it shows, is plain JSON and follows
    what the reader does with it."""

    name: ClassVar[str]

    def __init__(self, view: dict[str, Any]) -> None:
        self._view = view
        self.widget = _widget(type(self), view)

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
            f"{script_of(type(self))}\n"
            f'const place = document.getElementById("{place}");\n'
            f"if (place) {{ place.replaceChildren(); "
            f"render({{ model: standalone({state}), el: place }}); }}"
        )
        return (
            f"<style>{style_of(type(self))}</style>"
            f'<div id="{place}"><pre>{escape(repr(self))}</pre></div>'
            f'<script type="module">{script}</script>'
        )

    def _repr_html_(self) -> str:
        return self.html()

    def bundle(self) -> dict[str, Any]:
        return {**_widget_bundle(self.widget), "text/html": self.html(), "text/plain": repr(self)}


def script_of(kind: type[Played]) -> str:
    """The JavaScript module of this kind of view: the words of the reader's language, its own
    source, then what all views share."""
    script = _beside(kind, ".js") + _beside(Played, ".js")
    return words_of(script) + script


def style_of(kind: type[Played]) -> str:
    """Its style sheet: what all views share, then its own."""
    return _beside(Played, ".css") + _beside(kind, ".css")


def _beside(kind: type[Played], suffix: str) -> str:
    return Path(getfile(kind)).with_suffix(suffix).read_text(encoding="utf-8")


def _widget(kind: type[Played], view: dict[str, Any]) -> Any:
    try:
        return _widget_class(kind.name, script_of(kind), style_of(kind))(view=view)
    except ImportError:
        return None


@cache
def _widget_class(name: str, script: str, style: str) -> Any:
    anywidget, traitlets = import_module("anywidget"), import_module("traitlets")
    members = {
        "_esm": script,
        "_css": style,
        "view": traitlets.Dict().tag(sync=True),
        "__module__": __name__,
    }
    return type(f"{name.title()}Widget", (anywidget.AnyWidget,), members)


def _widget_bundle(widget: Any) -> dict[str, Any]:
    bundle = None if widget is None else widget._repr_mimebundle_()
    return dict(bundle[0] if isinstance(bundle, tuple) else bundle or {})
