"""`show_graph`: the graph behind a tensor, what each node saved, and the order in which they run.

Order, layout and drawing are in `graph.js`, so that the same view runs in a notebook, where it is
an anywidget, and on a page without a kernel.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onelayer.views.display import Shown

if TYPE_CHECKING:
    import torch

    from onelayer.graph import Node

_HERE = Path(__file__).parent


class GraphView(Shown):
    """What `show_graph` saw: `nodes`, the output's own first. It holds no tensor and no graph."""

    def __init__(self, nodes: "tuple[Node, ...]") -> None:
        self.nodes = nodes
        self.widget = _widget({"nodes": [asdict(node) for node in nodes], "ran": 0, "picked": 0})

    @property
    def saved_bytes(self) -> int:
        """Bytes that live on for backward alone: those of storages that nothing named holds."""
        return sum(saved.nbytes for node in self.nodes for saved in node.saved if saved.fresh)

    def html(self) -> str:
        """The view as a piece of a page that needs no kernel, no network and no other file."""
        place = f"onelayer-graph-{secrets.token_hex(6)}"
        state = {"nodes": [asdict(node) for node in self.nodes], "ran": 0, "picked": 0}
        script = (
            f"{_source('graph.js')}\n"
            f'const place = document.getElementById("{place}");\n'
            f"if (place) {{ place.replaceChildren(); "
            f"render({{ model: standalone({_json(state)}), el: place }}); }}"
        )
        return (
            f"<style>{_source('graph.css')}</style>"
            f'<div id="{place}"><pre>{escape(repr(self))}</pre></div>'
            f'<script type="module">{script}</script>'
        )

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        told = f"{len(self.nodes)} nodes, {self.saved_bytes:,} bytes held for backward alone"
        return "\n".join([told, *self._lines(0, 1, set())])

    def _lines(self, place: int, depth: int, seen: set[int]) -> list[str]:
        node, indent = self.nodes[place], "  " * depth
        title = f"{indent}{node.name} {node.leaf}".rstrip()
        if place in seen:
            return [f"{title} (see above)"]
        seen.add(place)
        lines = [title, *(f"{indent}  saved {saved}" for saved in node.saved)]
        for after in node.next:
            lines += [f"{indent}  None"] if after is None else self._lines(after, depth + 1, seen)
        return lines

    def bundle(self) -> dict[str, Any]:
        return {**_widget_bundle(self.widget), "text/html": self.html(), "text/plain": repr(self)}


def show_graph(
    output: "torch.Tensor", names: "Mapping[str, torch.Tensor] | None" = None
) -> GraphView:
    """The backward graph of `output`, drawn from its grad_fn down to the leaves.

        show_graph(loss, names={"W": head.weight, "x": x})

    Click a node to see what it saved, and run the nodes one by one in the engine's order. Saved
    tensors that lie in the storage of a tensor in `names` are marked with its name: they cost
    nothing. Values are never read.

    Raises TypeError for what is not a tensor, ValueError without a graph or for over 100 nodes.
    """
    from onelayer.graph import graph_of

    shown = GraphView(graph_of(output, names))
    shown.show()
    return shown


def _json(state: object) -> str:
    return json.dumps(state).replace("<", "\\u003c")


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
        "_esm": _source("graph.js"),
        "_css": _source("graph.css"),
        "view": traitlets.Dict().tag(sync=True),
        "__module__": __name__,
    }
    return type("GraphWidget", (anywidget.AnyWidget,), members)


def _widget_bundle(widget: Any) -> dict[str, Any]:
    bundle = None if widget is None else widget._repr_mimebundle_()
    return dict(bundle[0] if isinstance(bundle, tuple) else bundle or {})
