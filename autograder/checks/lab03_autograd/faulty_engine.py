"""An engine with a switch for each of the ways in which people get it wrong."""

from __future__ import annotations

from collections.abc import Callable

from .torchs_engine import Node, Nodes, Ran, reachable

Rank = Callable[[Node], float]


def by_number(node: Node) -> float:
    """torch's rank: the sequence number, and for a leaf the highest there is."""
    return float("inf") if node["sequence"] is None else float(node["sequence"])


def engine(
    nodes: Nodes,
    root: str,
    grad: dict[str, float],
    *,
    counted: str = "edges",
    rank: Rank = by_number,
    overwrite: bool = False,
    last_arrival: bool = False,
    silent_zero: bool = False,
    along: Callable[[float, float], float] = float.__mul__,
    kept: dict[str, float] | None = None,
    early: float = float("-inf"),
) -> Ran:
    """A right engine, and the switches that make it wrong in one way each. early: for how many more
    gradients a node may wait when it is called ready."""
    waiting = _waiting(nodes, root, counted)
    arrived, ready, order, after = {} if kept is None else kept, [root], list[str](), dict(grad)
    arrived[root] = 1.0
    while ready:
        name = max(ready, key=lambda k: rank(nodes[k]))
        ready.remove(name)
        order.append(name)
        if nodes[name]["sequence"] is None:
            after[name] = (0.0 if overwrite else after.get(name, 0.0)) + arrived[name]
        for child, factor in edges_of(nodes[name]):
            if silent_zero and not factor * arrived[name]:
                continue
            before = 0.0 if last_arrival else arrived.get(child, 0.0)
            arrived[child] = before + along(float(factor), arrived[name])
            waiting[child] -= 1
            ready += [child] if waiting[child] == 0 or waiting[child] <= early else []
    return order, after


def _waiting(nodes: Nodes, root: str, counted: str) -> dict[str, int]:
    """How many gradients each node waits for: one for each of the "edges" that the root reaches,
    for each of its "senders", or for each edge of the "whole" graph."""
    waiting = dict.fromkeys(nodes, 0)
    for name in nodes if counted == "whole" else reachable(nodes, root):
        children = [child for child, _ in edges_of(nodes[name])]
        for child in dict.fromkeys(children) if counted == "senders" else children:
            waiting[child] += 1
    return waiting


def edges_of(node: Node) -> list[tuple[str, float]]:
    """The node's edges, without those to nobody."""
    return [(child, factor) for child, factor in node["next"] if child is not None]
