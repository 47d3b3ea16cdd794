"""What stands in an FX graph, as plain records: each node, its shape, and the line it came from."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from onelayer.drawing.words import say


@dataclass(frozen=True)
class FxNode:
    """One node of a graph.

    op: "placeholder", "call_function", "call_method", "call_module", "get_attr" or "output".
    target: what it calls, as in "linear", "log_softmax" or "aten.addmm.default". inputs: the nodes
    that it reads. shape is None for what is no tensor; a size that is not fixed is its symbol.
    nbytes: of the whole tensor, with the size that the example had where a size is a symbol.
    view: it computes an address and moves no float. line: of the user's file. side: "forward",
    "backward", or "" in a graph that knows no backward; in a forward graph a node of the backward
    side is one that the partitioner moved. origins: the nodes of the graph that Dynamo captured
    which this one was made for; a backward node's are those of the forward node that it undoes.
    """

    name: str
    op: str
    target: str
    inputs: tuple[str, ...]
    shape: tuple[int | str, ...] | None
    dtype: str
    nbytes: int
    view: bool
    line: int | None
    side: str
    origins: tuple[str, ...]
    sequence: int | None = field(default=None, repr=False)

    def __str__(self) -> str:
        what = self.dtype and f": {self.dtype}{list(self.shape or ())}".replace("'", "")
        call = "" if self.op == "placeholder" else f" = {self.target}({', '.join(self.inputs)})"
        return f"{self.name}{what}{call}"


@dataclass(frozen=True)
class FxGraph:
    """A graph: its nodes in the order in which they run, and torch's own print of it as code."""

    nodes: tuple[FxNode, ...]
    code: str = field(repr=False)

    def __getitem__(self, name: str) -> FxNode:
        found = [node for node in self.nodes if node.name == name]
        if not found:
            names = ", ".join(node.name for node in self.nodes)
            raise KeyError(say("no node {name!r}: the graph has {names}", name=name, names=names))
        return found[0]

    @property
    def inputs(self) -> tuple[FxNode, ...]:
        return tuple(node for node in self.nodes if node.op == "placeholder")

    @property
    def calls(self) -> tuple[FxNode, ...]:
        """The nodes that compute something or make a view."""
        return tuple(node for node in self.nodes if node.op.startswith("call_"))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the nodes that it returns, in order, without those entries that are None."""
        return next((node.inputs for node in self.nodes if node.op == "output"), ())

    def behind_views(self, name: str) -> FxNode:
        """The node whose storage `name` lies in: itself, unless it is a view of another."""
        node = self[name]
        while node.view:
            node = self[node.inputs[0]]
        return node

    def __str__(self) -> str:
        return "\n".join([*map(str, (*self.inputs, *self.calls)), f"return {list(self.outputs)}"])


def record_graph(
    graph: torch.fx.Graph,
    *,
    function: str = "",
    code: str = "",
    captured: FxGraph | None = None,
    joint: FxGraph | None = None,
) -> FxGraph:
    """The record of `graph`. `function` is the user's: of several frames its line counts.

    captured: the graph that Dynamo captured, None if `graph` is that graph itself; joint: the graph
    that this one was cut out of. Both say where a node comes from.
    """
    known = None if captured is None else frozenset(node.name for node in captured.nodes)
    nodes = tuple(_node(node, function, known) for node in graph.nodes)
    before = () if joint is None else joint.nodes
    # A backward node has the sequence number of the forward node that it undoes.
    undoes = {n.sequence: n.origins for n in (*before, *nodes) if n.origins}
    complete = (n if n.origins else replace(n, origins=undoes.get(n.sequence, ())) for n in nodes)
    return FxGraph(tuple(complete), code or str(graph))


def readable(module: torch.fx.GraphModule) -> str:
    """The module's code with shapes in the margin, as torch prints it; without a colour."""
    return str(module.print_readable(print_output=False))


def _node(node: torch.fx.Node, function: str, names: frozenset[str] | None) -> FxNode:
    value = node.meta.get("val", node.meta.get("example_value"))
    tensor = value if isinstance(value, torch.Tensor) else None
    given = tree_leaves((node.args, node.kwargs))
    return FxNode(
        name=node.name,
        op=node.op,
        target=_target(node),
        inputs=tuple(n.name for n in given if isinstance(n, torch.fx.Node)),
        shape=None if tensor is None else tuple(map(_size, tensor.shape)),
        dtype="" if tensor is None else str(tensor.dtype).removeprefix("torch."),
        nbytes=0 if tensor is None else _hint(tensor.numel()) * tensor.element_size(),
        view=_is_view(node.target),
        line=_line(str(node.meta.get("stack_trace") or ""), function),
        side=str(node.meta.get("partitioner_tag") or "").removeprefix("is_"),
        origins=(node.name,) if names is None else _origins(node, names),
        sequence=None if names is None else node.meta.get("seq_nr"),
    )


def _target(node: torch.fx.Node) -> str:
    named = isinstance(node.target, str | torch._ops.OpOverload)
    return str(node.target if named else getattr(node.target, "__name__", node.target))


def _size(size: Any) -> int | str:
    return size if isinstance(size, int) else str(size)


def _hint(number: Any) -> int:
    """The number that a symbol stood for in the example."""
    if isinstance(number, int):
        return number
    hint = number.node.hint
    return 0 if hint is None else int(hint)


def _is_view(target: Any) -> bool:
    """Whether the operator's schema says that its result lies in an argument, and nothing is
    written: `(a)` and not `(a!)`."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    marks = [argument.alias_info for argument in target._schema.arguments]
    return any(mark is not None for mark in marks) and not any(
        mark is not None and mark.is_write for mark in marks
    )


def _line(trace: str, function: str) -> int | None:
    """The line in `function`, else the innermost, of a trace as Python prints it."""
    found, best = None, None
    for row in trace.splitlines():
        if row.startswith('  File "') and ", line " in row:
            where = row.rpartition(", line ")[2]
            number, _, name = where.partition(", in ")
            found = int(number.rstrip(","))
            best = found if name.strip() == function else best
    return best if best is not None else found


def _origins(node: torch.fx.Node, names: frozenset[str]) -> tuple[str, ...]:
    """Dynamo's nodes among those that torch says this one was made from."""
    waiting, found = list(node.meta.get("from_node") or ()), []
    while waiting:
        source = waiting.pop(0)
        if source.name in names and source.name not in found:
            found.append(source.name)
        waiting += list(getattr(source, "from_node", None) or ())
    return tuple(found)
