"""`show_call`: the way of one call from Python to the kernel, to walk along.

What each stop says was asked of the installed torch; `call.js` only shows it, so that the same
view runs in a notebook, where it is an anywidget, and on a page without a kernel.
"""

import json
import secrets
from dataclasses import asdict
from functools import cache
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onelayer.views.display import Shown

if TYPE_CHECKING:
    import torch

_HERE = Path(__file__).parent


class CallView(Shown):
    """The path of one `F.linear` call. `routes` holds its stops as "device, mode" -> list."""

    def __init__(self, view: dict[str, Any]) -> None:
        self._view = view
        self.widget = _widget(view)

    @property
    def routes(self) -> dict[str, list[dict[str, Any]]]:
        return dict(self._view["routes"])

    def html(self) -> str:
        """The view as a piece of a page that needs no kernel, no network and no other file.

        Put as many on one page as you like. Where scripts may not run, its text is left.
        """
        place = f"onelayer-call-{secrets.token_hex(6)}"
        state = json.dumps(self._view).replace("<", "\\u003c")
        script = (
            f"{_source('call.js')}\n"
            f'const place = document.getElementById("{place}");\n'
            f"if (place) {{ place.replaceChildren(); "
            f"render({{ model: standalone({state}), el: place }}); }}"
        )
        return (
            f"<style>{_source('call.css')}</style>"
            f'<div id="{place}"><pre>{escape(repr(self))}</pre></div>'
            f'<script type="module">{script}</script>'
        )

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        """The first route: one line per stop."""
        route = next(iter(self.routes.values()))
        stops = (f"{s['layer']:<11} {s['name']:<18} {s['file']}" for s in route)
        return "\n".join([self._view["call"], *(f"  {line}" for line in stops)])

    def bundle(self) -> dict[str, Any]:
        return {**_widget_bundle(self.widget), "text/html": self.html(), "text/plain": repr(self)}


def show_call(
    x: "torch.Tensor", weight: "torch.Tensor", bias: "torch.Tensor | None" = None
) -> CallView:
    """The way of `F.linear(x, weight, bias)` from Python to the kernel and back, stop by stop.

        show_call(h, head.weight, head.bias)

    x (N, in), weight (out, in), bias (out,). The call is made with gradients recorded, under
    no_grad and under inference_mode, on the CPU, on the meta device, and on a GPU where there is
    one; the page switches between them. Nothing of it is written down beforehand: keys, tables and
    files are what this torch reports.

    Raises ValueError for an x that is not a matrix.
    """
    if x.dim() != 2:
        raise ValueError(f"show_call follows a matrix x (N, in), got {tuple(x.shape)}")
    import torch

    from onelayer.call_path import MODES, path_of_linear

    devices = ["cpu", "meta", *(["cuda"] if torch.cuda.is_available() else [])]
    given = [t for t in (x, weight, bias) if t is not None]
    routes = {}
    for device in devices:
        moved = [t.detach().to(device).requires_grad_(t.requires_grad) for t in given]
        for mode in MODES:
            routes[f"{device}, {mode}"] = [asdict(s) for s in path_of_linear(*moved, mode=mode)]
    shapes = ", ".join(str(tuple(t.shape)) for t in given)
    # Through JSON, so that a tuple here is the list that the page sees.
    view = {"call": f"F.linear of {shapes}", "devices": devices, "modes": list(MODES)}
    shown = CallView(json.loads(json.dumps(view | {"routes": routes})))
    shown.show()
    return shown


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
        "_esm": _source("call.js"),
        "_css": _source("call.css"),
        "view": traitlets.Dict().tag(sync=True),
        "__module__": __name__,
    }
    return type("CallWidget", (anywidget.AnyWidget,), members)


def _widget_bundle(widget: Any) -> dict[str, Any]:
    bundle = None if widget is None else widget._repr_mimebundle_()
    return dict(bundle[0] if isinstance(bundle, tuple) else bundle or {})
