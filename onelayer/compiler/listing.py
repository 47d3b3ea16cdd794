"""An FX graph as plain data, and back: a row for each node, in the order in which they run.

A row is `(name, op, args, kwargs)`. `op` is "input", "output", or an operator as `str(node.target)`
says it, as in "aten.mm.default". In `args` a string names an earlier row; all else stands for
itself. Plain data can be read, drawn, compared and sent where a graph cannot.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

Row = tuple[str, str, list[Any], dict[str, Any]]


def graph_of(rows: Sequence[Row]) -> fx.Graph:
    """The FX graph of these rows; its nodes have the rows' names.

        graph_of([("x", "input", [], {}),
                  ("y", "aten.relu.default", ["x"], {}),
                  ("out", "output", ["y"], {})])

    Raises KeyError for a name that no earlier row has, AttributeError for no operator of torch.
    """
    graph, made = fx.Graph(), dict[str, fx.Node]()
    for name, op, args, kwargs in rows:
        given = [made[arg] if isinstance(arg, str) else arg for arg in args]
        if op == "input":
            made[name] = graph.placeholder(name)
        elif op == "output":
            graph.output(tuple(given))
        else:
            target = operator(op)
            made[name] = graph.create_node("call_function", target, tuple(given), kwargs, name)
    return graph


def listing_of(graph: fx.Graph) -> list[Row]:
    """The rows of an FX graph whose arguments are nodes and plain data."""
    rows = []
    for node in graph.nodes:
        op = {"placeholder": "input", "output": "output"}.get(node.op) or str(node.target)
        given = [arg.name if isinstance(arg, fx.Node) else arg for arg in _arguments(node)]
        rows.append((node.name, op, given, dict(node.kwargs)))
    return rows


def operator(name: str) -> Any:
    """torch's object of an operator's name, as in "aten.mm.default". Raises AttributeError."""
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _arguments(node: fx.Node) -> Sequence[Any]:
    if node.op == "placeholder":
        return ()
    if node.op == "output":
        results = node.args[0]
        return results if isinstance(results, (tuple, list)) else (results,)
    return node.args
