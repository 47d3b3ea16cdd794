"""Graphs as plain data, and what torch's own engine makes of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograder.judge import Draw

Node = dict[str, Any]
Nodes = dict[str, Node]
Ran = tuple[list[str], dict[str, float]]


def fixed_graph() -> tuple[Nodes, str, dict[str, float]]:
    """Everything that goes wrong in one small graph: a leaf that is used by two nodes, twice by one
    of them, and holds a gradient; one that holds none; one that the root cannot see; a node used
    twice by one other, an edge to nobody, a branch the root cannot see, a leaf that only this
    branch reads, and a node made first of all, which is no leaf.
    """
    nodes: Nodes = {
        "w": {"sequence": None, "next": []},
        "b": {"sequence": None, "next": []},
        "far": {"sequence": None, "next": []},
        "c": {"sequence": None, "next": []},
        "Neg": {"sequence": 0, "next": [("b", 1.0)]},
        "Exp": {"sequence": 1, "next": [("w", 2.0)]},
        "Sin": {"sequence": 2, "next": [(None, 3.0), ("Exp", 0.5), (None, 2.0)]},
        "Log": {"sequence": 3, "next": [("w", -1.0), ("w", 0.5)]},
        "Aside": {"sequence": 4, "next": [("Sin", 1.0), ("far", 1.0), ("c", 1.0)]},
        "Add": {"sequence": 5, "next": [("Sin", 3.0), ("b", 4.0)]},
        "Mul": {
            "sequence": 6,
            "next": [("Exp", 2.0), ("Exp", 1.0), ("Add", 2.0), ("Log", -2.0), ("Neg", 1.0)],
        },
    }
    return nodes, "Mul", {"w": 0.5, "far": 3.0}


def cancelled_graph() -> tuple[Nodes, str, dict[str, float]]:
    """A number of 0.0 on an edge, and two gradients whose sum is 0.0: both are gradients, and who
    waits for them runs, a leaf that nothing else arrives at too. So is the 0.0 that a leaf holds
    which nobody reads."""
    nodes: Nodes = {
        "w": {"sequence": None, "next": []},
        "b": {"sequence": None, "next": []},
        "c": {"sequence": None, "next": []},
        "d": {"sequence": None, "next": []},
        "Exp": {"sequence": 0, "next": [("w", 2.0)]},
        "Sin": {"sequence": 1, "next": [("Exp", 3.0), ("b", 1.0)]},
        "Mul": {"sequence": 2, "next": [("Exp", 0.0), ("Sin", 1.0), ("Sin", -1.0)]},
        "Add": {"sequence": 3, "next": [("Mul", 4.0), ("b", 0.5), ("d", 0.0)]},
    }
    return nodes, "Add", {"b": -2.0, "c": 0.0}


def ended_graph() -> tuple[Nodes, str, dict[str, float]]:
    """Two nodes whose gradients nobody needs: no way leads on from them, and they are no leaves."""
    nodes: Nodes = {
        "w": {"sequence": None, "next": []},
        "Exp": {"sequence": 0, "next": [("w", 2.0)]},
        "Sin": {"sequence": 1, "next": [(None, 3.0)]},
        "Log": {"sequence": 2, "next": [(None, 1.0), (None, 2.0)]},
        "Mul": {"sequence": 3, "next": [("Log", 0.5), ("Exp", 2.0), ("Sin", -1.0)]},
    }
    return nodes, "Mul", {"w": 1.0}


def told_backwards(
    graph: tuple[Nodes, str, dict[str, float]],
) -> tuple[Nodes, str, dict[str, float]]:
    """The same graph, its last node first and with gaps between the numbers: neither the place of a
    node nor its name says when it was made."""
    nodes, root, grad = graph
    made = {
        name: {**node, "sequence": None if node["sequence"] is None else 7 * node["sequence"] + 30}
        for name, node in reversed(nodes.items())
    }
    return made, root, grad


def drawn_graph(draw: Draw) -> tuple[Nodes, str, dict[str, float]]:
    """Some leaves, then nodes made one after the other, each over what is there already."""
    names = draw.shuffled(["w", "b", "x"])[: draw.integer(1, 3)]
    nodes: Nodes = {name: {"sequence": None, "next": []} for name in names}
    count = draw.integer(4, 8)
    for sequence in range(count):
        wide = draw.integer(1, 3)
        first = draw.choice(list(nodes))
        rest = [draw.choice([*nodes, None]) for _ in range(wide - 1)]
        edges = [(child, draw.choice((-2.0, -1.0, 0.5, 1.0, 2.0))) for child in (first, *rest)]
        nodes[f"n{sequence}"] = {"sequence": sequence, "next": edges}
    root = f"n{draw.integer(count - 2, count - 1)}"
    return nodes, root, {names[0]: 1.0} if draw.integer(0, 1) else {}


class _Weighted(torch.autograd.Function):
    """A node of torch's own graph that is a weighted sum, and says when its backward runs."""

    @staticmethod
    def forward(ctx: Any, ran: Any, factors: Any, *inputs: Any) -> Any:
        ctx.ran, ctx.factors = ran, factors
        return torch.stack([f * x for f, x in zip(factors, inputs, strict=True)]).sum()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.ran()
        return (None, None, *[f * grads[0] for f in ctx.factors])


def torchs_run(nodes: Nodes, root: str, grad: dict[str, float]) -> Ran:
    """The same graph built of torch's nodes, and run by torch's engine."""
    order: list[str] = []
    made: dict[str | None, Tensor] = {None: torch.ones((), dtype=torch.float64)}
    leaves = [name for name, node in nodes.items() if node["sequence"] is None]
    for name in leaves:
        made[name] = leaf = torch.ones((), dtype=torch.float64, requires_grad=True)
        leaf.grad = torch.tensor(grad[name], dtype=torch.float64) if name in grad else None
        leaf.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
            lambda _, name=name: order.append(name)
        )
    inner = [name for name, node in nodes.items() if node["sequence"] is not None]
    for name in sorted(inner, key=lambda name: int(nodes[name]["sequence"])):
        edges = nodes[name]["next"]
        inputs = [made[child] for child, _ in edges]
        if not any(t.requires_grad for t in inputs):  # torch makes no node where nobody learns
            inputs[0] = inputs[0].clone().requires_grad_()
        report = partial(order.append, name)
        made[name] = _Weighted.apply(report, [f for _, f in edges], *inputs)  # type: ignore[no-untyped-call]
    made[root].backward()  # type: ignore[no-untyped-call]
    held = {name: made[name].grad for name in leaves}
    return order, {name: float(g) for name, g in held.items() if g is not None}


def settled(order: Any, nodes: Nodes) -> Any:
    """The order as far as torch fixes it: leaves that are ready at the same moment may run either
    way round."""
    if not isinstance(order, (list, tuple)):
        return order
    settled: list[Any] = []
    leaves: list[Any] = []
    for name in order:
        if isinstance(name, str) and name in nodes and nodes[name]["sequence"] is None:
            leaves.append(name)
        else:
            settled += [*sorted(leaves), name]
            leaves = []
    return settled + sorted(leaves)


def reachable(nodes: Nodes, root: str) -> list[str]:
    found = [root]
    for name in found:
        found += [c for c, _ in nodes[name]["next"] if c is not None and c not in found]
    return list(dict.fromkeys(found))
