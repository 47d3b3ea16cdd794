"""`show_graph`: the graph behind a tensor, what each node saved, and the order in which they run.

Order, layout and drawing are in `graph_view.js`, so that the same view runs in a
notebook, where it is an anywidget, and on a page without a kernel.
"""

from collections.abc import Mapping
from dataclasses import asdict

import torch

from onelayer.drawing.played import Played
from onelayer.drawing.words import say

from .graph import Node, graph_of


class GraphView(Played):
    """What `show_graph` saw: `nodes`, the output's own first. It holds no tensor and no graph."""

    name = "graph"

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.nodes = nodes
        super().__init__({"nodes": [asdict(node) for node in nodes], "ran": 0, "picked": 0})

    @property
    def saved_bytes(self) -> int:
        """Bytes that live on for backward alone: those of storages that nothing named holds."""
        return sum(saved.nbytes for node in self.nodes for saved in node.saved if saved.fresh)

    def __repr__(self) -> str:
        told = say(
            "{n} nodes, {held:,} bytes held for backward alone",
            n=len(self.nodes),
            held=self.saved_bytes,
        )
        return "\n".join([told, *self._lines(0, 1, set())])

    def _lines(self, place: int, depth: int, seen: set[int]) -> list[str]:
        node, indent = self.nodes[place], "  " * depth
        title = f"{indent}{node.name} {node.leaf}".rstrip()
        if place in seen:
            return [title + say(" (see above)")]
        seen.add(place)
        lines = [title, *(indent + say("  saved {tensor}", tensor=saved) for saved in node.saved)]
        for after in node.next:
            lines += [f"{indent}  None"] if after is None else self._lines(after, depth + 1, seen)
        return lines


def show_graph(output: torch.Tensor, names: Mapping[str, torch.Tensor] | None = None) -> GraphView:
    """The backward graph of `output`, drawn from its grad_fn down to the leaves.

        show_graph(loss, names={"W": head.weight, "x": x})

    Click a node to see what it saved, and run the nodes one by one in the engine's order. Saved
    tensors that lie in the storage of a tensor in `names` are marked with its name: they cost
    nothing. Values are never read.

    Raises TypeError for what is not a tensor, ValueError without a graph or for over 100 nodes.
    """
    return GraphView(graph_of(output, names)).show()
