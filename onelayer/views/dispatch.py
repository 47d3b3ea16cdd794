"""`play_dispatch`: change a tensor and a thread, and see the way of a call through a table.

The rules and the drawing are in `dispatch.js`, so that the same view runs in a notebook, where it
is an anywidget, and on a page without a kernel. The tables come from the torch that is installed.
"""

import json
import secrets
from functools import cache
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from onelayer.dispatch import MEANING, dispatch_table, ends_the_way, in_order
from onelayer.views.display import Shown

_HERE = Path(__file__).parent
OPERATORS = ("aten::linear", "aten::addmm", "aten::t", "aten::relu", "aten::add_.Tensor")
_KEYS = (
    *("PythonTLSSnapshot", "AutocastCPU", "AutogradCPU", "AutogradMeta", "ADInplaceOrView"),
    *("Negative", "Python", "BackendSelect", "SparseCPU", "SparseMeta", "Meta", "CPU"),
)
START = {
    "device": "cpu",
    "layout": "strided",
    "negative": False,
    "made": False,
    "needs": True,
    "autocast": False,
    "grad": "enabled",
    "mode": False,
}


class DispatchView(Shown):
    """The dispatch table to play with. `view` follows what the reader does with it."""

    def __init__(self, view: dict[str, Any]) -> None:
        self._view = view
        self.widget = _widget(view)

    @property
    def view(self) -> dict[str, Any]:
        return self._view if self.widget is None else dict(self.widget.view)

    def html(self) -> str:
        """The view as a piece of a page that needs no kernel, no network and no other file."""
        place = f"onelayer-dispatch-{secrets.token_hex(6)}"
        state = json.dumps(self.view).replace("<", "\\u003c")
        script = (
            f"{_source('dispatch.js')}\n"
            f'const place = document.getElementById("{place}");\n'
            f"if (place) {{ place.replaceChildren(); "
            f"render({{ model: standalone({state}), el: place }}); }}"
        )
        return (
            f"<style>{_source('dispatch.css')}</style>"
            f'<div id="{place}"><pre>{escape(repr(self))}</pre></div>'
            f'<script type="module">{script}</script>'
        )

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        table = self.view["tables"][self.view["op"]]
        lines = [f"  {key:18} {entry['kind']} ({entry['where']})" for key, entry in table.items()]
        return "\n".join([f"{self.view['op']}: some keys of its table", *lines])

    def bundle(self) -> dict[str, Any]:
        return {**_widget_bundle(self.widget), "text/html": self.html(), "text/plain": repr(self)}


def play_dispatch(op: str = OPERATORS[0]) -> DispatchView:
    """The dispatch table to play with: choose what the tensor is and what the thread is doing, and
    see which kernels of `op` run.

        play_dispatch("aten::addmm")

    In a notebook with anywidget the view answers to the kernel; elsewhere it is the same view as
    HTML. Raises RuntimeError for an operator that does not exist.
    """
    operators = dict.fromkeys([op, *OPERATORS])
    tables = {name: _rows(name) for name in operators}
    ends = [key for key in _KEYS if ends_the_way(key)]
    order = list(in_order(_KEYS))
    view = {"op": op, "tables": tables, "order": order, "ends": ends, "meaning": MEANING, **START}
    shown = DispatchView(view)
    shown.show()
    return shown


def _rows(op: str) -> dict[str, dict[str, Any]]:
    table = dispatch_table(op)
    return {
        key: {"kind": entry.kind, "where": entry.where, "falls": entry.falls_through}
        for key in in_order(_KEYS)
        if (entry := table.get(key))
    }


def _source(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _widget(view: dict[str, Any]) -> Any:
    try:
        return _widget_class()(view=view)
    except ImportError:
        return None


@cache
def _widget_class() -> Any:
    anywidget, traitlets = import_module("anywidget"), import_module("traitlets")
    members = {
        "_esm": _source("dispatch.js"),
        "_css": _source("dispatch.css"),
        "view": traitlets.Dict().tag(sync=True),
        "__module__": __name__,
    }
    return type("DispatchWidget", (anywidget.AnyWidget,), members)


def _widget_bundle(widget: Any) -> dict[str, Any]:
    bundle = None if widget is None else widget._repr_mimebundle_()
    return dict(bundle[0] if isinstance(bundle, tuple) else bundle or {})
